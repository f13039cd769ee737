//! What a server drops by itself, once a day. Nothing, unless a rule says so.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use crate::cli::{DropWhat, size};
use crate::commands::retain::Wanted;
use crate::print::time::parse;

const EVERY_HOURS: u32 = 24;

/// As it stands in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Retention {
    pub(crate) rules: Vec<RetainRule>,
    every_h: Option<u32>,
}

impl Retention {
    pub(crate) fn every(&self) -> Duration {
        let hours = self.every_h.unwrap_or(EVERY_HOURS).max(1);
        Duration::from_secs(u64::from(hours) * 3_600)
    }
}

/// Conversations that go, as the flags of `ropewalk retain` say it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenRule")]
pub(crate) struct RetainRule {
    /// Whose; everybody's where it is not said.
    pub(crate) owner: Option<String>,
    project: Option<String>,
    older_than: Option<String>,
    max_size: Option<u64>,
    pub(crate) drop: DropWhat,
    keep_titled: bool,
    keep: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenRule {
    owner: Option<String>,
    project: Option<String>,
    older_than: Option<String>,
    max_size: Option<String>,
    drop: DropWhat,
    keep_titled: bool,
    keep: Vec<String>,
}

impl TryFrom<WrittenRule> for RetainRule {
    type Error = String;

    fn try_from(written: WrittenRule) -> Result<Self, String> {
        if written.older_than.is_none() && written.max_size.is_none() {
            return Err("a rule of retention says `older_than`, `max_size`, or both".to_owned());
        }
        if let Some(age) = &written.older_than {
            parse(age, Timestamp::now()).map_err(|failure| failure.message().to_owned())?;
        }
        let max_size = written.max_size.as_deref().map(size).transpose();
        Ok(RetainRule {
            owner: written.owner,
            project: written.project,
            older_than: written.older_than,
            max_size: max_size.map_err(|problem| format!("`max_size`: {problem}"))?,
            drop: written.drop,
            keep_titled: written.keep_titled,
            keep: written.keep,
        })
    }
}

impl RetainRule {
    /// What it comes to now.
    pub(crate) fn wanted(&self) -> Wanted<'_> {
        let age = self.older_than.as_deref();
        Wanted {
            // It was a time when it was read.
            before: age.and_then(|age| parse(age, Timestamp::now()).ok()),
            max_size: self.max_size,
            project: self.project.as_deref(),
            keep_titled: self.keep_titled,
            keep: &self.keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Retention, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn nothing_is_dropped_unless_a_rule_says_what() {
        let none = read("").unwrap();
        assert!(none.rules.is_empty());
        assert_eq!(none.every(), Duration::from_secs(24 * 3_600));
        let some = read(
            "every_h = 1\n[[rules]]\nolder_than = '90d'\nproject = 'demo'\n[[rules]]\nmax_size = '10GB'\ndrop = 'all'",
        )
        .unwrap();
        assert_eq!(some.every(), Duration::from_secs(3_600));
        assert_eq!(
            (some.rules[0].drop, some.rules[1].drop),
            (DropWhat::Bodies, DropWhat::All)
        );
        assert_eq!(some.rules[1].wanted().max_size, Some(10 << 30));
        for bad in [
            "[[rules]]\nproject = 'demo'",
            "[[rules]]\nolder_than = 'old'",
            "[[rules]]\nmax_size = 'big'",
            "[[rules]]\nolder_than = '1d'\ndrop = 'some'",
            "[[rules]]\nolder_then = '1d'",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
