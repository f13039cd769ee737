//! What was found, how bad it is, and what to do.

use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use crate::failure::Failure;
use crate::print::out::Out;
use crate::print::text::{one_line, padded};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    /// Good to know.
    Note,
    /// May bite.
    Warning,
    /// Does not work like this.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    v: u32,
    /// What was looked at.
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) message: String,
    /// What to do.
    pub(super) hint: Option<String>,
    /// The file that says it, and where in it.
    pub(super) file: Option<String>,
    pub(super) key: Option<String>,
}

/// Longest text of a finding: it may quote what somebody else wrote.
const TEXT_CHARS_MAX: usize = 400;

impl Finding {
    fn new(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        Finding {
            v: 1,
            check,
            level,
            message: message.into().chars().take(TEXT_CHARS_MAX).collect(),
            hint: None,
            file: None,
            key: None,
        }
    }

    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Finding::new(check, Level::Ok, message)
    }

    pub(super) fn note(check: &'static str, message: impl Into<String>) -> Self {
        Finding::new(check, Level::Note, message)
    }

    pub(super) fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Finding::new(check, Level::Warning, message)
    }

    pub(super) fn error(check: &'static str, message: impl Into<String>) -> Self {
        Finding::new(check, Level::Error, message)
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn of(mut self, file: impl Into<String>, key: &str) -> Self {
        self.file = Some(file.into());
        self.key = Some(key.to_owned());
        self
    }

    pub(super) fn print(&self, out: &mut Out) -> Result<(), Failure> {
        const LEVEL_COLUMNS: usize = 8;
        const CHECK_COLUMNS: usize = 10;
        let level = padded(self.level.name(), LEVEL_COLUMNS);
        let level = match self.level {
            Level::Ok => out.faint(&level),
            Level::Note => level,
            Level::Warning => out.strong(&level),
            Level::Error => out.alarm(&level),
        };
        let place = match (&self.file, &self.key) {
            (Some(file), Some(key)) => format!("{file}: {key} "),
            _ => String::new(),
        };
        let text = one_line(&format!("{place}{}", self.message));
        out.line(&format!("{level} {} {text}", padded(self.check, CHECK_COLUMNS)))?;
        if let Some(hint) = &self.hint {
            let indent = " ".repeat(LEVEL_COLUMNS + CHECK_COLUMNS + 2);
            for line in wrapped(
                &format!("hint: {}", one_line(hint)),
                out.width.saturating_sub(indent.len()),
            ) {
                out.line(&format!("{indent}{line}"))?;
            }
        }
        Ok(())
    }
}

/// Lines of at most so many columns, broken between words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
