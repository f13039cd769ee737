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
        // Too little to be written with four digits, and not nothing.
        amount if amount > 0.0 && amount < 0.000_05 => "<$0.0001".to_owned(),
        amount if amount < 0.01 => format!("${amount:.4}"),
        amount => format!("${amount:.2}"),
    }
}

/// With `~` in front of what is an estimate.
pub(crate) fn estimated(amount: f64, is_estimate: bool) -> String {
    let shown = dollars(amount);
    match is_estimate && !shown.starts_with('<') {
        true => format!("~{shown}"),
        false => shown,
    }
}

/// `1 turn`, `2 turns`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{} {many}", short(count)),
    }
}

/// A part of the whole as a bar of at most so many columns, in eighths of one. What is there at all is seen.
pub(crate) fn bar(part: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    // Nothing of nothing is no number.
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (part * columns as f64 * 8.0).round() as usize;
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_something_does_not_look_like_nothing() {
        let shown = [0.0, 0.000_01, 0.000_05, 0.009_9, 0.01, 12.345].map(dollars);
        assert_eq!(shown, ["$0", "<$0.0001", "$0.0001", "$0.0099", "$0.01", "$12.35"]);
        assert_eq!(
            [0.000_01, 0.5].map(|amount| estimated(amount, true)),
            ["<$0.0001", "~$0.50"]
        );
    }

    #[test]
    fn a_bar_is_as_long_as_its_part() {
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(0.5, 3), "█▌");
        assert_eq!(bar(0.001, 4), "▏");
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(f64::NAN, 4), "");
        assert_eq!(bar(7.0, 2), "██");
    }
}
