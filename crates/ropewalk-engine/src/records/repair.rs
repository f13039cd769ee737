//! Puts right what the rows and the recorded answers still tell. What only the log knows is read from it again, by whoever has it.

use std::collections::HashSet;

use ropewalk_core::hierarchy::{Place, assistant_of_call, call_name, call_of_result};
use ropewalk_store::log::{RecordKind, RecordRow};

use super::rules::{Calls, by_uuid, missing_calls, places};
use super::{Answers, Rule};

/// One thing that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    pub rule: Rule,
    pub uuid: String,
    pub what: String,
}

/// What else is known of a session.
#[derive(Debug)]
pub(super) struct Known<'k> {
    /// Parents that other sessions have.
    pub(super) elsewhere: &'k HashSet<String>,
    /// The rows were just read from the log: what a record says about its parent is what the log says.
    pub(super) is_from_log: bool,
}

/// Changes the rows of one session.
pub(super) fn repair(rows: &mut Vec<RecordRow>, answers: &Answers, known: &Known<'_>) -> Vec<Repair> {
    let mut repairs = Vec::new();
    calls_as_messages(rows, answers, &mut repairs);
    results_as_messages(rows, &mut repairs);
    tool_parents(rows, &mut repairs);
    aliases(rows, &mut repairs);
    times_of_tools(rows, &mut repairs);
    if !known.is_from_log {
        answers_to_something(rows, &mut repairs);
        roots(rows, known.elsewhere, &mut repairs);
    }
    cut_cycles(rows, &mut repairs);
    rows.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    repairs
}

fn done(rule: Rule, row: &RecordRow, what: impl Into<String>) -> Repair {
    Repair {
        rule,
        uuid: row.uuid.clone(),
        what: what.into(),
    }
}

fn calls_as_messages(rows: &mut Vec<RecordRow>, answers: &Answers, repairs: &mut Vec<Repair>) {
    for (holder, i, call) in missing_calls(rows, answers) {
        let holder = &rows[holder];
        let (uuid, parent) = (call_name(&holder.uuid, i), Some(holder.uuid.clone()));
        let mut row = holder.tool_operation(RecordKind::ToolUse, uuid, parent, call.id);
        row.node = Some(call.node);
        match rows.iter().position(|known| known.uuid == row.uuid) {
            Some(known) => rows[known] = row.clone(),
            None => rows.push(row.clone()),
        }
        repairs.push(done(Rule::ToolChildren, &row, "taken out of its answer again"));
    }
}

/// An absorbed record knows the result that took its place.
fn results_as_messages(rows: &mut Vec<RecordRow>, repairs: &mut Vec<Repair>) {
    let index = by_uuid(rows);
    let mut lost = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RecordKind::Absorbed) {
        let Some(name) = row.stands_for.as_deref().filter(|name| !index.contains_key(name)) else {
            continue;
        };
        let call = call_of_result(name).and_then(|call| index.get(&*call).copied());
        if let Some(call) = call.map(|at| &rows[at]) {
            let (parent, id) = (Some(call.uuid.clone()), call.tool_use.clone());
            lost.push(row.tool_operation(RecordKind::ToolResult, name.to_owned(), parent, id));
        }
    }
    for row in lost {
        repairs.push(done(Rule::Alias, &row, "taken out of its record again"));
        rows.push(row);
    }
}

fn tool_parents(rows: &mut [RecordRow], repairs: &mut Vec<Repair>) {
    let (index, calls) = (by_uuid(rows), Calls::of(rows));
    let mut parents: Vec<(usize, String, Rule)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let parent = match row.kind {
            RecordKind::ToolUse => assistant_of_call(&row.uuid)
                .filter(|assistant| index.contains_key(assistant))
                .map(|assistant| (assistant.to_owned(), Rule::ToolUseParent)),
            RecordKind::ToolResult => {
                let call = calls.of_result(row);
                call.map(|call| (rows[call].uuid.clone(), Rule::ToolResultParent))
            }
            _ => None,
        };
        if let Some((parent, rule)) = parent.filter(|(parent, _)| row.parent.as_ref() != Some(parent)) {
            parents.push((at, parent, rule));
        }
    }
    for (at, parent, rule) in parents {
        repairs.push(done(rule, &rows[at], format!("now below {parent}")));
        rows[at].parent = Some(parent);
    }
    for row in rows.iter_mut().filter(|row| row.kind.is_tool() && !row.is_sidechain) {
        row.is_sidechain = true;
        repairs.push(done(Rule::ToolFlag, row, "marked as a sidechain"));
    }
}

/// What took the place of an absorbed record stands in the same line.
fn aliases(rows: &mut [RecordRow], repairs: &mut Vec<Repair>) {
    let index = by_uuid(rows);
    let mut found: Vec<(usize, Option<String>)> = Vec::new();
    for (at, row) in rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.kind == RecordKind::Absorbed)
    {
        let stands_for = row.stands_for.as_deref().and_then(|uuid| index.get(uuid));
        if stands_for.is_some_and(|at| rows[*at].kind == RecordKind::ToolResult) {
            continue;
        }
        let beside = rows
            .iter()
            .filter(|other| other.kind == RecordKind::ToolResult && (&other.file, other.line) == (&row.file, row.line));
        found.push((at, beside.map(|other| other.uuid.clone()).min()));
    }
    for (at, stands_for) in found {
        match stands_for {
            Some(uuid) => {
                repairs.push(done(Rule::Alias, &rows[at], format!("stands for {uuid} again")));
                rows[at].stands_for = Some(uuid);
            }
            None => {
                repairs.push(done(
                    Rule::Alias,
                    &rows[at],
                    "nothing took its place, so it is a message",
                ));
                (rows[at].kind, rows[at].stands_for) = (RecordKind::User, None);
            }
        }
    }
}

/// A tool operation has the time of the record that it was taken out of.
fn times_of_tools(rows: &mut [RecordRow], repairs: &mut Vec<Repair>) {
    let own: std::collections::HashMap<(String, u64), Option<ropewalk_store::Micros>> = rows
        .iter()
        .filter(|row| {
            matches!(
                row.kind,
                RecordKind::Assistant | RecordKind::Absorbed | RecordKind::User
            )
        })
        .map(|row| ((row.file.clone(), row.line), row.at))
        .collect();
    for row in rows.iter_mut().filter(|row| row.kind.is_tool()) {
        if let Some(at) = own.get(&(row.file.clone(), row.line)).filter(|at| **at != row.at) {
            row.at = *at;
            repairs.push(done(Rule::Order, row, "has the time of its record again"));
        }
    }
}

/// An answer in the middle of a file follows the record before it.
fn answers_to_something(rows: &mut [RecordRow], repairs: &mut Vec<Repair>) {
    let is_lost =
        |row: &RecordRow| row.kind == RecordKind::Assistant && row.parent.is_none() && row.stands_for.is_none();
    if !rows.iter().any(is_lost) {
        return;
    }
    let mut in_order: Vec<usize> = (0..rows.len())
        .filter(|at| rows[*at].kind != RecordKind::Summary && !rows[*at].kind.is_tool())
        .collect();
    in_order.sort_by(|a, b| place_in_file(&rows[*a]).cmp(&place_in_file(&rows[*b])));
    for pair in in_order.windows(2) {
        let (before, row) = (pair[0], pair[1]);
        let is_same_file = rows[before].file == rows[row].file && rows[before].agent == rows[row].agent;
        if is_lost(&rows[row]) && is_same_file {
            let parent = rows[before].uuid.clone();
            repairs.push(done(
                Rule::Parent,
                &rows[row],
                format!("now below {parent}, the record before it"),
            ));
            rows[row].parent = Some(parent);
        }
    }
}

fn place_in_file(row: &RecordRow) -> (&str, Option<&str>, u64) {
    (&row.file, row.agent.as_deref(), row.line)
}

/// A message whose parent is nowhere begins something; the parent that it named is kept.
fn roots(rows: &mut [RecordRow], elsewhere: &HashSet<String>, repairs: &mut Vec<Repair>) {
    let here: HashSet<String> = rows.iter().map(|row| row.uuid.clone()).collect();
    for row in rows
        .iter_mut()
        .filter(|row| row.kind != RecordKind::Summary && !row.kind.is_tool())
    {
        let lost = row
            .parent
            .as_ref()
            .filter(|parent| !here.contains(*parent) && !elsewhere.contains(*parent));
        if let Some(lost) = lost.cloned() {
            mark_root(row, lost);
            repairs.push(done(Rule::Orphan, row, "marked as a root"));
        }
    }
}

fn mark_root(row: &mut RecordRow, lost: String) {
    row.parent = None;
    // An absorbed record's other name has its own use.
    if row.stands_for.is_none() {
        row.stands_for = Some(lost);
    }
}

fn cut_cycles(rows: &mut [RecordRow], repairs: &mut Vec<Repair>) {
    let cut: Vec<usize> = places(rows)
        .iter()
        .enumerate()
        .filter(|(_, place)| **place == Place::CutCycle)
        .map(|(at, _)| at)
        .collect();
    for at in cut {
        if let Some(lost) = rows[at].parent.clone() {
            mark_root(&mut rows[at], lost);
            repairs.push(done(Rule::Cycle, &rows[at], "the circle is cut here"));
        }
    }
}
