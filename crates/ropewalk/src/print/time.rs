//! Times: UTC in data, local for people.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use ropewalk_store::Micros;

use crate::failure::{Failure, Kind};

/// A moment of the data in the reader's own time.
pub(crate) fn local(utc: &str) -> String {
    match utc.parse::<Timestamp>() {
        Ok(time) => time
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => utc.to_owned(),
    }
}

/// How long ago a moment was.
pub(crate) fn age(utc: &str, now: Timestamp) -> String {
    let Ok(time) = utc.parse::<Timestamp>() else {
        return utc.to_owned();
    };
    let seconds = now.duration_since(time).as_secs().max(0);
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d").to_string(),
    }
}

/// A moment as people type it: RFC 3339, a day, or how long ago (`90m`, `2h`, `3d`, `1w`).
pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Micros, Failure> {
    let time = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| day(text))
        .or_else(|| ago(text, now));
    time.map(|time| Micros(time.as_microsecond())).ok_or_else(|| {
        Failure::new(Kind::Usage, format!("`{text}` is no time"))
            .hint("2026-03-01, 2026-03-01T09:00:00Z, or how long ago: 90m, 2h, 3d, 1w")
    })
}

fn day(text: &str) -> Option<Timestamp> {
    let date: Date = text.parse().ok()?;
    Some(date.to_zoned(TimeZone::system()).ok()?.timestamp())
}

fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let unit = text.chars().next_back()?;
    let count: i64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    let back = SignedDuration::from_secs(count.checked_mul(seconds)?);
    now.checked_sub(back).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_typed_in_three_ways() {
        let now: Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
        let at = |text: &str| parse(text, now).ok().map(|at| at.0);
        assert_eq!(at("1970-01-01T00:00:01Z"), Some(1_000_000));
        assert_eq!(at("2h"), Some(now.as_microsecond() - 7_200_000_000));
        assert!(at("2026-03-01").is_some());
        for bad in ["", "h", "yesterday", "2x", "-"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }
}
