//! Errors as a person meets them: what happened, what to do, and an exit code scripts can rely on.

use std::process::ExitCode;

/// Who can mend it. The numbers are the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not found, or a finding.
    NotFound = 1,
    Usage = 2,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::NotFound => "not_found",
            Kind::Usage => "usage",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Writes the error to stderr and gives its exit code.
    #[expect(clippy::print_stderr, reason = "this is the one place where errors reach people")]
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        let code = self.kind as u8;
        if as_json {
            let error = serde_json::json!({"error": {
                "code": code, "kind": self.kind.name(), "message": self.message, "hint": self.hint,
            }});
            eprintln!("{error}");
        } else {
            eprintln!("error: {}", self.message);
            if let Some(hint) = &self.hint {
                eprintln!("hint: {hint}");
            }
        }
        ExitCode::from(code)
    }
}
