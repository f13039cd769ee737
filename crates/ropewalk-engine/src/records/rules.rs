//! What is wrong with the records of one session.

use std::collections::{HashMap, HashSet};

use ropewalk_core::hierarchy::{Aliases, MessageKind, Place, Record, assistant_of_call, call_of_result, place};
use ropewalk_store::log::{RecordKind, RecordRow};
use ropewalk_store::store::Severity;

use super::Answers;
use crate::link::fact::SKEW;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Every message but the first ones has a parent.
    Parent,
    /// A parent exists.
    Orphan,
    /// A parent is of the same session.
    Fork,
    /// A tool operation is beside the main flow.
    ToolFlag,
    /// A call hangs below the assistant that made it.
    ToolUseParent,
    /// A result hangs below its call.
    ToolResultParent,
    /// Every call of an assistant is a message.
    ToolChildren,
    /// A call has a result.
    ToolPair,
    /// An absorbed record stands for something that is there.
    Alias,
    /// Parents never lead in a circle.
    Cycle,
    /// Nobody is earlier than its parent.
    Order,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Rule::Parent => "record-parent",
            Rule::Orphan => "record-orphan",
            Rule::Fork => "record-fork",
            Rule::ToolFlag => "tool-flag",
            Rule::ToolUseParent => "tool-use-parent",
            Rule::ToolResultParent => "tool-result-parent",
            Rule::ToolChildren => "tool-children",
            Rule::ToolPair => "tool-pair",
            Rule::Alias => "record-alias",
            Rule::Cycle => "record-cycle",
            Rule::Order => "record-order",
        }
    }

    /// What a number of findings means, for people.
    pub fn explained(self) -> &'static str {
        match self {
            Rule::Parent => "messages that have no parent and begin nothing",
            Rule::Orphan => "messages whose parent is not recorded, shown as roots",
            Rule::Fork => "messages that go on from another session",
            Rule::ToolFlag => "tool messages that are not marked as a sidechain",
            Rule::ToolUseParent => "tool calls that do not hang below their assistant's message",
            Rule::ToolResultParent => "tool results that do not hang below their call",
            Rule::ToolChildren => "tool calls of an answer that are no messages",
            Rule::ToolPair => "tool calls without a result: still running, or interrupted",
            Rule::Alias => "absorbed records that stand for nothing",
            Rule::Cycle => "messages whose parents lead back to themselves",
            Rule::Order => "messages that are earlier than their parent",
        }
    }
}

/// One record that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub rule: Rule,
    pub severity: Severity,
    pub uuid: String,
    pub what: String,
    /// The parent that it names.
    pub parent: Option<String>,
}

impl Fault {
    fn new(rule: Rule, severity: Severity, row: &RecordRow, what: impl Into<String>) -> Self {
        Fault {
            rule,
            severity,
            uuid: row.uuid.clone(),
            what: what.into(),
            parent: row.parent.clone(),
        }
    }

    /// Its parent was found in another session.
    pub(super) fn into_fork(mut self, session: &str) -> Self {
        self.what = format!(
            "its parent {} is of session {session}",
            self.parent.as_deref().unwrap_or_default()
        );
        (self.rule, self.severity) = (Rule::Fork, Severity::Note);
        self
    }
}

pub(super) fn by_uuid(rows: &[RecordRow]) -> HashMap<&str, usize> {
    let rows = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.kind != RecordKind::Summary);
    rows.map(|(at, row)| (&*row.uuid, at)).collect()
}

/// The calls of a session, by what their results know of them.
pub(super) struct Calls<'r> {
    rows: &'r [RecordRow],
    by_name: HashMap<&'r str, usize>,
    by_id: HashMap<&'r str, usize>,
}

impl<'r> Calls<'r> {
    pub(super) fn of(rows: &'r [RecordRow]) -> Self {
        let mut calls = Calls {
            rows,
            by_name: HashMap::new(),
            by_id: HashMap::new(),
        };
        let all = rows.iter().enumerate();
        for (at, row) in all.filter(|(_, row)| row.kind == RecordKind::ToolUse) {
            calls.by_name.insert(&row.uuid, at);
            if let Some(id) = row.tool_use.as_deref() {
                calls.by_id.entry(id).or_insert(at);
            }
        }
        calls
    }

    /// The call that a result belongs to, by the result's name, else by the id of the call.
    pub(super) fn of_result(&self, result: &RecordRow) -> Option<usize> {
        let id = result.tool_use.as_deref();
        let named = call_of_result(&result.uuid).and_then(|name| self.by_name.get(&*name).copied());
        let is_same = |at: &usize| id.is_none() || self.rows[*at].tool_use.as_deref() == id;
        named
            .filter(is_same)
            .or_else(|| id.and_then(|id| self.by_id.get(id).copied()))
    }
}

/// As the tree is laid out, for finding circles.
pub(super) fn places(rows: &[RecordRow]) -> Vec<Place> {
    let records: Vec<Record> = rows
        .iter()
        .map(|row| Record {
            uuid: row.uuid.clone(),
            parent_uuid: row.parent.clone(),
            kind: match row.kind {
                RecordKind::Summary => MessageKind::Summary,
                _ => MessageKind::Other,
            },
            flagged_sidechain: false,
            in_subagent: false,
            at: row.at.and_then(|at| jiff::Timestamp::from_microsecond(at.0).ok()),
        })
        .collect();
    place(&records, &Aliases::new(), |_| false)
}

/// The calls of recorded answers that no row stands for: the record that holds each, which of its calls it is, the id and the node.
pub(super) fn missing_calls(rows: &[RecordRow], answers: &Answers) -> Vec<(usize, usize, super::Call)> {
    let mut pieces: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, row) in rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.kind == RecordKind::Assistant)
    {
        if let Some(message) = row.message.as_deref() {
            pieces.entry(message).or_default().push(at);
        }
    }
    let known: HashSet<&str> = rows
        .iter()
        .filter(|row| row.kind == RecordKind::ToolUse)
        .filter_map(|row| row.tool_use.as_deref())
        .collect();
    let mut missing = Vec::new();
    for (message, mut records) in pieces {
        let Some((calls, nodes)) = answers.0.get(message) else {
            continue;
        };
        records.sort_by_key(|at| (rows[*at].line, &rows[*at].uuid));
        let position = |node| nodes.iter().position(|known| Some(*known) == node);
        let mut index_in: HashMap<usize, usize> = HashMap::new();
        for call in calls {
            let here = position(Some(call.node));
            // The first record that ends there or later holds the call; the last one holds what none of them ends behind.
            let holder = records
                .iter()
                .copied()
                .find(|at| position(rows[*at].node) >= here && here.is_some());
            let Some(holder) = holder else { continue };
            let index = index_in.entry(holder).or_default();
            if call.id.as_deref().is_some_and(|id| !known.contains(id)) {
                missing.push((holder, *index, call.clone()));
            }
            *index += 1;
        }
    }
    missing.sort_by_key(|(holder, index, _)| (*holder, *index));
    missing
}

/// Everything that is wrong with a session.
pub(super) fn faults(rows: &[RecordRow], answers: &Answers) -> Vec<Fault> {
    let index = by_uuid(rows);
    let parent_of = |row: &RecordRow| row.parent.as_deref().and_then(|parent| index.get(parent).copied());
    let first_lines = first_lines(rows);
    let calls = Calls::of(rows);
    let mut faults = Vec::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for row in rows.iter().filter(|row| row.kind == RecordKind::ToolResult) {
        answered.extend(row.parent.as_deref());
    }
    for row in rows.iter().filter(|row| row.kind != RecordKind::Summary) {
        let mut add = |rule, severity, what: &str| faults.push(Fault::new(rule, severity, row, what));
        let parent = parent_of(row);
        if row.kind.is_tool() && !row.is_sidechain {
            add(Rule::ToolFlag, Severity::Error, "a tool message outside the sidechain");
        }
        match row.kind {
            RecordKind::ToolUse => {
                let holder = assistant_of_call(&row.uuid);
                if row.parent.is_none() {
                    add(Rule::Parent, Severity::Error, "a call without a parent");
                } else if row.parent.as_deref() != holder
                    || parent.is_none_or(|at| rows[at].kind != RecordKind::Assistant)
                {
                    add(
                        Rule::ToolUseParent,
                        Severity::Error,
                        "a call below something else than its assistant",
                    );
                }
                if !answered.contains(&*row.uuid) {
                    add(Rule::ToolPair, Severity::Note, "no result");
                }
            }
            RecordKind::ToolResult => {
                let call = calls.of_result(row);
                // Where the call is in no log, its result is a known orphan.
                let severity = if call.is_some() {
                    Severity::Error
                } else {
                    Severity::Note
                };
                if row.parent.is_none() {
                    add(Rule::Parent, Severity::Error, "a result without a parent");
                } else if call.is_none() || parent != call {
                    add(Rule::ToolResultParent, severity, "a result that is not below its call");
                }
            }
            RecordKind::Absorbed => {
                let stands_for = row.stands_for.as_deref().and_then(|uuid| index.get(uuid));
                if stands_for.is_none_or(|at| rows[*at].kind != RecordKind::ToolResult) {
                    add(Rule::Alias, Severity::Error, "what took its place is not there");
                }
            }
            RecordKind::Assistant if row.parent.is_none() && row.stands_for.is_none() => {
                let is_first = first_lines.get(&(&*row.file, row.agent.as_deref())) == Some(&row.line);
                if !is_first {
                    add(Rule::Parent, Severity::Warning, "an answer to nothing");
                }
            }
            RecordKind::User | RecordKind::Assistant | RecordKind::Other | RecordKind::Summary => {}
        }
        if !row.kind.is_tool() && row.parent.is_some() && parent.is_none() {
            let missing = row.parent.as_deref().unwrap_or_default();
            add(
                Rule::Orphan,
                Severity::Note,
                &format!("its parent {missing} is not recorded"),
            );
        }
        let before = parent.and_then(|at| rows[at].at);
        // Clocks differ, and parallel lines are written as they come.
        if let (Some(at), Some(before)) = (row.at, before)
            && at.0.saturating_add(SKEW) < before.0
        {
            add(Rule::Order, Severity::Warning, "earlier than its parent");
        }
    }
    for (holder, i, call) in missing_calls(rows, answers) {
        let what = format!(
            "its call {i} ({}) is no message",
            call.id.as_deref().unwrap_or_default()
        );
        faults.push(Fault::new(Rule::ToolChildren, Severity::Error, &rows[holder], what));
    }
    for (row, place) in rows.iter().zip(places(rows)) {
        if place == Place::CutCycle {
            faults.push(Fault::new(
                Rule::Cycle,
                Severity::Error,
                row,
                "its parents lead back to it",
            ));
        }
    }
    faults
}

/// Where each file begins, for each agent in it.
fn first_lines(rows: &[RecordRow]) -> HashMap<(&str, Option<&str>), u64> {
    let mut first = HashMap::new();
    for row in rows.iter().filter(|row| row.kind != RecordKind::Summary) {
        let line = first.entry((&*row.file, row.agent.as_deref())).or_insert(row.line);
        *line = row.line.min(*line);
    }
    first
}
