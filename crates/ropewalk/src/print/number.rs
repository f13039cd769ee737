//! Numbers in few characters.

/// 1234 → `1.2k`.
pub(crate) fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}k", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", number as f64 / 1e6),
        _ => format!("{:.1}G", number as f64 / 1e9),
    }
}

pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1_024 => format!("{number} B"),
        1_024..1_048_576 => format!("{:.1} KiB", number as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", number as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", number as f64 / 1_073_741_824.0),
    }
}

pub(crate) fn dollars(amount: f64) -> String {
    match amount {
        0.0 => "$0".to_owned(),
        amount if amount < 0.01 => format!("${amount:.4}"),
        amount => format!("${amount:.2}"),
    }
}

/// `1 turn`, `2 turns`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{} {many}", short(count)),
    }
}
