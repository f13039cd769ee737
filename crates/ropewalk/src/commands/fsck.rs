//! `ropewalk fsck`: damage, if there is any, and its repair.
//!
//! The store looks at its own rows, the engine at the tree of messages that logs told of (seed 004). A repair touches records only: those
//! of a damaged session are read from its logs again where these are still there, and what is wrong then, or where they are gone, is put
//! right from the records themselves and the recorded answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ropewalk_engine::records::Checked;
use ropewalk_engine::view::View;
use ropewalk_engine::view::session::RECORDS_MAX;
use ropewalk_store::Store as _;
use ropewalk_store::store::{Depth, Severity};

use super::import;
use crate::any_store::AnyStore;
use crate::audit;
use crate::changes::Repaired;
use crate::changes::client::{Changer, Way};
use crate::cli::Fsck;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::number::counted;
use crate::print::out::{Out, say};
use crate::print::text::one_line;

/// Repairs of one rule that are told one by one.
const EXAMPLES_MAX: usize = 3;

pub(crate) async fn run(context: &Context, arguments: &Fsck) -> Result<(), Failure> {
    let store = context.read().await?;
    let Some(view) = context.view(&store).await? else {
        return Ok(());
    };
    let mut out = Out::new();
    let mut checked = view.check_records().await?;
    if arguments.repair && !checked.damaged.is_empty() {
        let before = checked.damaged.clone();
        if arguments.dry_run {
            let plan = plan(&view, &before).await?;
            told(context, &plan, true, &mut out)?;
        } else {
            let done = repair(context, &view.owner_name, &before).await?;
            told(context, &done, false, &mut out)?;
            let detail = serde_json::json!({"read_again": done.read_again.len(), "repaired": done.repaired.len()});
            audit::note(&context.config, "fsck --repair", Some(&view.owner_name), None, detail);
            checked = view.check_records().await?;
        }
    }
    let depth = match arguments.read_data {
        true => Depth::Data,
        false => Depth::Structure,
    };
    let findings = view.store.check(view.owner, depth).await?;
    for finding in &findings {
        let told = Told {
            severity: finding.severity,
            rule: finding.rule,
            message: finding.what.clone(),
            counted: None,
        };
        told.print(context, &mut out)?;
    }
    print_checked(context, &checked, &mut out)?;
    out.finish()?;
    let in_store = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count() as u64;
    let in_records = checked.found.iter().filter(|found| found.severity == Severity::Error);
    let errors = in_store + in_records.map(|found| found.count).sum::<u64>();
    if errors > 0 {
        let failure = Failure::new(
            Kind::NotFound,
            format!("{errors} errors in the data of {}", view.owner_name),
        );
        return Err(match errors > in_store {
            true => failure.hint("`ropewalk fsck --repair` puts the tree of messages right"),
            false => failure
                .hint("`ropewalk restore` makes a store out of a backup; `ropewalk export` saves what can be read"),
        });
    }
    if !context.json {
        say(&format!("no errors in the data of {}", view.owner_name));
    }
    Ok(())
}

/// One line about something that was found.
struct Told {
    severity: Severity,
    rule: &'static str,
    message: String,
    /// How many there are, and some of them.
    counted: Option<(u64, Vec<String>)>,
}

impl Told {
    fn print(&self, context: &Context, out: &mut Out) -> Result<(), Failure> {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        if context.json {
            let mut line = serde_json::json!({
                "v": 1, "severity": severity, "rule": self.rule, "message": self.message,
            });
            if let Some((count, examples)) = &self.counted {
                line["count"] = (*count).into();
                line["examples"] = examples.clone().into();
            }
            return out.json(&line);
        }
        let shown = match self.severity {
            Severity::Error => out.alarm(severity),
            Severity::Warning | Severity::Note => severity.to_owned(),
        };
        out.line(&format!("{shown}: {} ({})", one_line(&self.message), self.rule))?;
        for example in self.counted.iter().flat_map(|(_, examples)| examples) {
            let example = out.faint(&format!("  {}", one_line(example)));
            out.line(&example)?;
        }
        Ok(())
    }
}

fn print_checked(context: &Context, checked: &Checked, out: &mut Out) -> Result<(), Failure> {
    for found in &checked.found {
        let told = Told {
            severity: found.severity,
            rule: found.rule.name(),
            message: format!("{} {}", found.count, found.rule.explained()),
            counted: Some((found.count, found.examples.clone())),
        };
        told.print(context, out)?;
    }
    Ok(())
}

/// What was, or would be, done.
#[derive(Default)]
struct Done {
    /// Sessions whose logs were read again.
    read_again: Vec<String>,
    repaired: Vec<Repaired>,
}

async fn plan(view: &View<'_, AnyStore>, damaged: &BTreeSet<String>) -> Result<Done, Failure> {
    let mut done = Done::default();
    for session in damaged {
        let has_log = !logs_of(view, session).await?.is_empty();
        if has_log {
            done.read_again.push(session.clone());
        }
        let repairs = view.repair_records(session, has_log, true).await?;
        done.repaired.extend(repairs.into_iter().map(Repaired::from));
    }
    Ok(done)
}

async fn repair(context: &Context, owner: &str, damaged: &BTreeSet<String>) -> Result<Done, Failure> {
    let mut done = Done::default();
    let mut way = Way::open(context).await?;
    for session in damaged {
        let mut is_from_log = false;
        // A server keeps the store to itself, so it repairs from what is recorded.
        if let Way::Own(store) = &way
            && let Some(id) = store.find_owner(owner).await?
        {
            let files = logs_of(&View::new(store, id, owner), session).await?;
            is_from_log = !files.is_empty() && import::read_again(context, store, owner, session, files).await?;
        }
        if is_from_log {
            done.read_again.push(session.clone());
        }
        let mut changer = Changer::new(context, &mut way);
        done.repaired
            .extend(changer.repair_session(owner, session, is_from_log).await?);
    }
    Ok(done)
}

/// The files that a session's records are from; none if one of them is gone.
async fn logs_of(view: &View<'_, AnyStore>, session: &str) -> Result<Vec<PathBuf>, Failure> {
    let records = view.records(session, RECORDS_MAX).await?;
    let files: BTreeSet<PathBuf> = records.into_iter().map(|record| PathBuf::from(record.file)).collect();
    let all_are_there = files.iter().all(|file| file.is_file());
    Ok(files.into_iter().filter(|_| all_are_there).collect())
}

fn told(context: &Context, done: &Done, is_dry: bool, out: &mut Out) -> Result<(), Failure> {
    let mut by_rule: BTreeMap<&str, Vec<&Repaired>> = BTreeMap::new();
    for repaired in &done.repaired {
        by_rule.entry(&repaired.rule).or_default().push(repaired);
    }
    if context.json {
        let repaired: Vec<_> = done
            .repaired
            .iter()
            .map(|repaired| serde_json::json!({"rule": repaired.rule, "uuid": repaired.uuid, "done": repaired.what}))
            .collect();
        return out.json(&serde_json::json!({
            "v": 1, "dry_run": is_dry, "read_again": done.read_again, "repaired": repaired,
        }));
    }
    let would = if is_dry { "would be " } else { "" };
    if !done.read_again.is_empty() {
        let sessions = counted(done.read_again.len() as u64, "session", "sessions");
        out.line(&format!("{sessions} {would}read from their logs again"))?;
    }
    for (rule, repairs) in by_rule {
        let records = counted(repairs.len() as u64, "record", "records");
        out.line(&format!("{records} {would}put right ({rule})"))?;
        for repaired in repairs.iter().take(EXAMPLES_MAX) {
            let line = format!("  {}: {}", one_line(&repaired.uuid), one_line(&repaired.what));
            let line = out.faint(&line);
            out.line(&line)?;
        }
    }
    Ok(())
}
