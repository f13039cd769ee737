//! How an import goes, and how it went.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::Job;
use crate::changes::Became;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};

/// Problems that are told one by one.
const PROBLEMS_TOLD: usize = 20;

/// Kinds of lines that are counted by name. Those of a hostile file have as many as it likes.
const KINDS_TOLD: usize = 100;

/// What became of the files.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    v: u32,
    pub(super) files: u64,
    /// Files to which nothing happened since they were read.
    pub(super) unchanged: u64,
    /// Calls that were told of, and lines that could not be read.
    pub(super) read: u64,
    pub(super) new: u64,
    completed: u64,
    known: u64,
    /// Calls that are known better now.
    replaced: u64,
    conflicts: u64,
    /// Calls that were forgotten, and stay so.
    #[serde(skip_serializing_if = "is_zero")]
    forgotten: u64,
    /// Lines and files that could not be read.
    pub(super) skipped: u64,
    /// Lines that are no part of a conversation, by kind.
    passed_over: BTreeMap<String, u64>,
    pub(super) linked: u64,
    pub(super) moved: u64,
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    file: String,
    line: u64,
    message: String,
}

impl Default for Summary {
    fn default() -> Self {
        Summary::new()
    }
}

impl Summary {
    pub(super) fn new() -> Self {
        Summary {
            v: 1,
            files: 0,
            unchanged: 0,
            read: 0,
            new: 0,
            completed: 0,
            known: 0,
            replaced: 0,
            conflicts: 0,
            forgotten: 0,
            skipped: 0,
            passed_over: BTreeMap::new(),
            linked: 0,
            moved: 0,
            problems: Vec::new(),
        }
    }

    /// Something that could not be read; line 0 is the file as a whole.
    pub(super) fn problem(&mut self, file: &str, line: u64, message: String) {
        self.skipped += 1;
        if self.problems.len() < PROBLEMS_TOLD {
            self.problems.push(Problem {
                file: file.to_owned(),
                line,
                message,
            });
        }
    }

    pub(super) fn pass_over(&mut self, kinds: BTreeMap<String, u64>) {
        for (kind, count) in kinds {
            if self.passed_over.len() < KINDS_TOLD || self.passed_over.contains_key(&kind) {
                *self.passed_over.entry(kind).or_default() += count;
            }
        }
    }

    pub(super) fn count(&mut self, became: Became) {
        match became {
            Became::New => self.new += 1,
            Became::Completed => self.completed += 1,
            Became::Known => self.known += 1,
            Became::Conflict => self.conflicts += 1,
            Became::Replaced => self.replaced += 1,
            Became::Forgotten => self.forgotten += 1,
        }
    }

    /// Says how it went; fails where something could not be read.
    pub(super) fn report(&mut self, context: &Context) -> Result<(), Failure> {
        let found_nothing =
            self.skipped > 0 && self.new + self.known + self.completed + self.replaced + self.unchanged == 0;
        if let Some(problem) = self.problems.first().filter(|_| found_nothing) {
            let message = format!("nothing could be imported: {}: {}", problem.place(), problem.message);
            return Err(Failure::new(Kind::NotFound, message)
                .hint("a line of the exchange format begins with {\"v\":1,\"id\":…}; other formats are named in `import --help`"));
        }
        self.tell(context)?;
        match self.skipped {
            0 => Ok(()),
            _ => Err(Failure::of_command(Kind::NotFound as u8)),
        }
    }

    pub(super) fn tell(&mut self, context: &Context) -> Result<(), Failure> {
        let mut out = Out::new();
        if context.json {
            out.json(self)?;
            return out.finish();
        }
        for problem in &self.problems {
            say(&format!("skipped {}: {}", problem.place(), problem.message));
        }
        let untold = self.skipped.saturating_sub(self.problems.len() as u64);
        if untold > 0 {
            say(&format!("skipped {untold} more"));
        }
        if !self.passed_over.is_empty() {
            let kinds = self.passed_over.iter().map(|(kind, count)| format!("{count} {kind}"));
            say(&format!(
                "no part of a conversation: {}",
                kinds.collect::<Vec<_>>().join(", ")
            ));
        }
        let mut line = format!(
            "{} read, {} new, {} completed, {} known, {} conflicts, {} skipped",
            self.read, self.new, self.completed, self.known, self.conflicts, self.skipped
        );
        for (count, what) in [
            (self.replaced, "replaced"),
            (self.forgotten, "forgotten"),
            (self.unchanged, "files unchanged"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        out.line(&line)?;
        out.finish()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Problem {
    fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }
}

/// A bar where somebody looks on.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(jobs: &[Job]) -> Self {
        if !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()));
        }
        let bar = ProgressBar::new(jobs.iter().map(|job| job.size).sum());
        let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}");
        Progress(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    pub(super) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    pub(super) fn say(&self, what: &'static str) {
        self.0.set_message(what);
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
