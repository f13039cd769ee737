//! How the server is, what a check of the store found, and what imports brought.
//!
//! A check looks at all rows of an owner and takes its time, so it runs beside what is asked, one at a time, when somebody wants it. What
//! the last one found is kept until the server stops: counts by rule, with a few examples.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ropewalk_core::hash::RULES_VERSION;
use ropewalk_engine::view::utc;
use ropewalk_store::log::Files;
use ropewalk_store::store::{Depth, Severity};
use ropewalk_store::{Micros, Store};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use crate::bounds::cut;
use crate::problem::Problem;
use crate::source::{Health, Import, Owned, Source, Whose};

const FILES: usize = 50;
const FILES_MAX: usize = 500;

/// Examples that are given of each rule, and characters of each.
const EXAMPLES_MAX: usize = 3;
const EXAMPLE_CHARS_MAX: usize = 300;

/// Owners whose last check is kept.
const OWNERS_MAX: usize = 256;

#[derive(Debug, Serialize, ToSchema)]
pub struct HealthReport {
    pub v: u32,
    /// Whose data this caller sees.
    pub owner: String,
    /// Of the server that records; nothing where the store is only read.
    pub server: Option<Health>,
    /// By which conversations are told apart.
    pub rules_version: u32,
    /// Of the owner's data.
    pub check: Check,
    /// Imports that this server writes or wrote for commands, the oldest first.
    pub imports: Vec<Import>,
}

/// A check of one owner's data, as `ropewalk fsck` makes it without reading every byte.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Check {
    /// Whether it was made, is under way, or failed.
    pub state: CheckState,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    /// Why it failed.
    pub problem: Option<String>,
    /// Something is lost or wrong.
    pub errors: u64,
    /// Something may be wrong.
    pub warnings: u64,
    /// Something is odd, and may stay so.
    pub notes: u64,
    /// The worst first.
    pub findings: Vec<RuleFindings>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// Not since the server started.
    #[default]
    Never,
    Running,
    Done,
    Failed,
}

/// What one rule found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RuleFindings {
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// Its name, as `ropewalk fsck` has it.
    pub rule: &'static str,
    /// How often.
    pub count: u64,
    /// Some of them.
    pub examples: Vec<String>,
}

/// The last check of each owner.
#[derive(Debug)]
pub struct Checks {
    by_owner: Mutex<HashMap<Arc<str>, Check>>,
    turn: Semaphore,
}

impl Default for Checks {
    fn default() -> Self {
        Checks {
            by_owner: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }
}

impl Checks {
    fn by_owner(&self) -> MutexGuard<'_, HashMap<Arc<str>, Check>> {
        self.by_owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, owner: &str) -> Check {
        self.by_owner().get(owner).cloned().unwrap_or_default()
    }

    /// Notes that a check begins; `false` where one is under way.
    fn begin(&self, owner: &Arc<str>) -> bool {
        let mut checks = self.by_owner();
        if checks
            .get(owner)
            .is_some_and(|check| check.state == CheckState::Running)
        {
            return false;
        }
        if checks.len() >= OWNERS_MAX && !checks.contains_key(owner) {
            checks.retain(|_, check| check.state == CheckState::Running);
        }
        let begun = Check {
            state: CheckState::Running,
            started_at: Some(now()),
            ..Check::default()
        };
        checks.insert(Arc::clone(owner), begun);
        true
    }

    fn end(&self, owner: &Arc<str>, found: Result<Vec<RuleFindings>, Problem>) {
        let mut checks = self.by_owner();
        let Some(check) = checks.get_mut(owner) else { return };
        check.ended_at = Some(now());
        match found {
            Ok(findings) => {
                let count = |severity: &str| {
                    let same = findings.iter().filter(|found| found.severity == severity);
                    same.map(|found| found.count).sum()
                };
                (check.errors, check.warnings, check.notes) = (count("error"), count("warning"), count("note"));
                check.findings = findings;
                check.state = CheckState::Done;
            }
            Err(problem) => {
                check.problem = Some(problem.message);
                check.state = CheckState::Failed;
            }
        }
    }
}

fn now() -> String {
    utc(Micros(Timestamp::now().as_microsecond()))
}

pub fn report<S: Source>(whose: &Whose<S>, checks: &Checks) -> HealthReport {
    HealthReport {
        v: 1,
        owner: whose.name().to_string(),
        server: whose.health(),
        rules_version: RULES_VERSION,
        check: checks.of(whose.name()),
        imports: whose.imports(),
    }
}

/// Begins a check, unless one is under way.
pub fn begin_check<S: Source>(whose: Whose<S>, checks: &Arc<Checks>) -> Check {
    let owner = Arc::clone(whose.name());
    if checks.begin(&owner) {
        let checks = Arc::clone(checks);
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _turn = checks.turn.acquire().await;
            let found = match whose.now().await {
                Ok(owned) => findings(&owned).await,
                Err(problem) => Err(problem),
            };
            checks.end(whose.name(), found);
        });
    }
    checks.of(&owner)
}

async fn findings<S: Store>(owned: &Owned<S>) -> Result<Vec<RuleFindings>, Problem> {
    let Some(view) = owned.view() else {
        return Ok(Vec::new());
    };
    let mut found: Vec<(Severity, RuleFindings)> = Vec::new();
    let mut add = |severity: Severity, rule: &'static str, count: u64, examples: &[String]| {
        let same = |(known, of): &&mut (Severity, RuleFindings)| *known == severity && of.rule == rule;
        let place = match found.iter_mut().find(same) {
            Some((_, known)) => known,
            None => {
                let new = RuleFindings {
                    severity: severity_name(severity),
                    rule,
                    count: 0,
                    examples: Vec::new(),
                };
                found.push((severity, new));
                let Some((_, new)) = found.last_mut() else { return };
                new
            }
        };
        place.count += count;
        let room = EXAMPLES_MAX.saturating_sub(place.examples.len());
        let examples = examples.iter().take(room);
        place
            .examples
            .extend(examples.map(|example| cut(example, 0, EXAMPLE_CHARS_MAX).0));
    };
    for finding in view.store.check(view.owner, Depth::Structure).await? {
        add(finding.severity, finding.rule, 1, &[finding.what]);
    }
    for finding in view.check_records().await?.found {
        add(finding.severity, finding.rule.name(), finding.count, &finding.examples);
    }
    found.sort_by_key(|(severity, of)| (std::cmp::Reverse(*severity), std::cmp::Reverse(of.count), of.rule));
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListFiles {
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ListedFiles {
    /// In the order of their paths.
    pub files: Vec<LogFile>,
    pub next_cursor: Option<String>,
}

/// A log that was read, by whichever process.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogFile {
    pub path: String,
    /// That it had when it was read last.
    pub bytes: u64,
    /// Whole lines of them that were read; 0 of a file that is read as one document.
    pub bytes_read: u64,
    /// Lines that could not be read.
    pub problems: u64,
    /// When it was changed last, as far as was seen.
    pub modified_at: String,
}

pub async fn imported_files<S: Store>(owned: &Owned<S>, asked: &ListFiles) -> Result<ListedFiles, Problem> {
    let limit = bounded(asked.limit, FILES, FILES_MAX);
    let Some(view) = owned.view() else {
        return Ok(ListedFiles::default());
    };
    let which = Files::All {
        after: asked.cursor.clone(),
        limit: limit + 1,
    };
    let mut files = view.store.imported_files(view.owner, which).await?;
    let is_more = files.len() > limit;
    files.truncate(limit);
    Ok(ListedFiles {
        next_cursor: files.last().filter(|_| is_more).map(|last| last.path.clone()),
        files: files
            .into_iter()
            .map(|file| LogFile {
                path: file.path,
                bytes: file.size,
                bytes_read: file.offset,
                problems: file.problems,
                modified_at: utc(Micros(file.modified / 1_000)),
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_check_runs_at_a_time_and_the_last_is_kept() {
        let checks = Checks::default();
        let owner: Arc<str> = Arc::from("ann");
        assert_eq!(checks.of("ann").state, CheckState::Never);
        assert!(checks.begin(&owner));
        assert!(!checks.begin(&owner), "one is under way");
        let found = |severity, count| RuleFindings {
            severity,
            rule: "part-hash",
            count,
            examples: Vec::new(),
        };
        checks.end(&owner, Ok(vec![found("error", 3), found("note", 2)]));
        let check = checks.of("ann");
        assert_eq!(
            (check.state, check.errors, check.warnings, check.notes),
            (CheckState::Done, 3, 0, 2)
        );
        assert!(check.ended_at.is_some());
        assert_eq!(
            checks.of("bob").state,
            CheckState::Never,
            "what was found is the owner's"
        );
        assert!(checks.begin(&owner), "and again");
        assert!(checks.of("ann").findings.is_empty());
    }
}
