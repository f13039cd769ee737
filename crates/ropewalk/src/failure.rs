//! Errors as a person meets them: what happened, what to do, and an exit code scripts can rely on.

use std::error::Error;
use std::process::ExitCode;

use ropewalk_engine::LinkError;
use ropewalk_engine::replay::ReplayError;
use ropewalk_engine::view::ViewError;
use ropewalk_store::StoreError;

use crate::print::text::{json, one_line};

/// Who can mend it. The numbers are the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whoever read our output has had enough. No error at all.
    Closed = 0,
    /// Not found, or a finding.
    NotFound = 1,
    Usage = 2,
    Configuration = 3,
    /// A provider could not be asked, or gave no answer.
    Upstream = 4,
    Internal = 5,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Closed => "closed",
            Kind::NotFound => "not_found",
            Kind::Usage => "usage",
            Kind::Configuration => "configuration",
            Kind::Upstream => "upstream",
            Kind::Internal => "internal",
        }
    }

    /// What to do where nobody knows anything better.
    fn hint(self) -> &'static str {
        match self {
            Kind::Closed | Kind::NotFound => "`ropewalk log` lists what there is",
            Kind::Usage => "`--help` has examples",
            Kind::Configuration => {
                "`ropewalk config` shows every setting and who says so; `ropewalk doctor` checks them"
            }
            Kind::Upstream => "`ropewalk doctor --upstreams` says whether providers can be reached",
            Kind::Internal => "`ropewalk doctor` checks the set-up, `ropewalk fsck` the store",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
    /// Of a command that was run: its exit code is ours, and it has said itself what went wrong.
    command_code: Option<u8>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            message: message.into(),
            hint: None,
            command_code: None,
        }
    }

    /// The exit code of a command that was run.
    pub(crate) fn of_command(code: u8) -> Self {
        Failure {
            command_code: Some(code),
            ..Failure::new(Kind::Closed, "")
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// An error of a library, with everything that caused it.
    pub(crate) fn from_error(kind: Kind, error: &dyn Error) -> Self {
        Failure::new(kind, with_causes(error))
    }

    /// What happened.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Writes the error to stderr and gives its exit code.
    #[expect(clippy::print_stderr, reason = "this is the one place where errors reach people")]
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        if let Some(code) = self.command_code {
            return ExitCode::from(code);
        }
        let code = self.kind as u8;
        if self.kind == Kind::Closed {
            return ExitCode::SUCCESS;
        }
        let hint = self.hint.as_deref().unwrap_or(self.kind.hint());
        if as_json {
            let error = serde_json::json!({"error": {
                "code": code, "kind": self.kind.name(), "message": self.message, "hint": hint,
            }});
            eprintln!("{}", json(&error.to_string()));
        } else {
            // What went wrong may quote what a model said.
            eprintln!("error: {}", one_line(&self.message));
            eprintln!("hint: {}", one_line(hint));
        }
        ExitCode::from(code)
    }
}

/// An error with everything that caused it.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let (kind, hint) = match &error {
            StoreError::TooNew { .. } => (
                Kind::Configuration,
                Some("update ropewalk; `ropewalk store status` says who may still read it"),
            ),
            StoreError::TooOld { .. } => (
                Kind::Configuration,
                Some("`ropewalk store migrate` does that; servers of an older version may have to be updated first"),
            ),
            StoreError::NoCitus => (
                Kind::Configuration,
                Some(
                    "on every node: CREATE EXTENSION citus; then citus_add_node on the coordinator, which --store names",
                ),
            ),
            StoreError::SqliteTooOld { .. } => (Kind::Configuration, None),
            StoreError::ReadOnly => (Kind::Configuration, Some("check who may write to the data folder")),
            StoreError::Locked => (
                Kind::Configuration,
                Some("another command or a server is writing there; wait for it, or stop it"),
            ),
            StoreError::Full => (Kind::Internal, Some("make room; nothing that was committed is lost")),
            StoreError::Damaged(_) => (Kind::Internal, Some("`ropewalk fsck --read-data` says what is damaged")),
            _ => (Kind::Internal, None),
        };
        let failure = Failure::new(kind, with_causes(&error));
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Store(error) => error.into(),
            other => Failure::new(Kind::Internal, with_causes(&other)),
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        let message = with_causes(&error);
        match error {
            ReplayError::View(error) => error.into(),
            ReplayError::NoRequest { .. } => Failure::new(Kind::NotFound, message)
                .hint("a turn can be sent again; `ropewalk log --exchanges` says which exchanges are turns"),
            ReplayError::NoModel { .. } => Failure::new(Kind::Usage, message).hint("--model claude-opus-4-5"),
            ReplayError::NoOption { .. } => Failure::new(Kind::Usage, message)
                .hint("--set temperature=0, --set generationConfig.topK=1, --unset thinking"),
        }
    }
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        let message = with_causes(&error);
        match error {
            ViewError::Store(error) => error.into(),
            ViewError::Link(_) | ViewError::Record(_) => {
                Failure::new(Kind::Internal, message).hint("`ropewalk rebuild` links everything again")
            }
            ViewError::Forgotten { .. } => Failure::new(Kind::NotFound, message)
                .hint("that cannot be undone; `ropewalk audit` says what was asked for"),
            ViewError::NotFound { .. } => Failure::new(Kind::NotFound, message).hint(
                "a name is an exchange's id, a conversation's id, or the first four or more digits of any hash; \
                 `ropewalk log` lists conversations",
            ),
            ViewError::Ambiguous { .. } => Failure::new(Kind::NotFound, message)
                .hint("give more digits; `ropewalk log --exchanges --hashes` shows them"),
            ViewError::TooFarBack { .. } => {
                Failure::new(Kind::NotFound, message).hint("~1 is one turn back; `ropewalk log --graph` draws them all")
            }
            ViewError::NotLinked { .. } => {
                Failure::new(Kind::NotFound, message).hint("`ropewalk rebuild` links everything that was recorded")
            }
        }
    }
}
