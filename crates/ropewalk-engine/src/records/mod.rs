//! Whether the records of logs are what they must be (seed 004), and how to make them so again.
//!
//! Records are derived rows, so nothing here touches an exchange or a part. `rules` finds what is wrong with one session's rows, `repair`
//! puts right what the rows themselves and the recorded answers still tell; the rest only the log knows.
//! [`View::check_records`] goes over all sessions of an owner, one at a time in memory.
//!
//! Invariant: a repaired session has no errors left, and repairing it again changes nothing.

mod repair;
mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::Block;
use ropewalk_store::facts::KeyKind;
use ropewalk_store::log::{LogChanges, RecordKind, RecordRow, Records};
use ropewalk_store::store::{Asked, PAGE_MAX, Questions, Severity};
use ropewalk_store::{Micros, Store};

use crate::keys::id_key;
use crate::view::session::RECORDS_MAX;
use crate::view::{Result, View};

use repair::Known;
pub use repair::Repair;
pub use rules::{Fault, Rule};

/// Examples that are given of each rule.
const EXAMPLES_MAX: usize = 3;

/// Missing parents that are looked for in other sessions; more are told as orphans.
const LOOKED_FOR_MAX: usize = 1_000_000;

/// What a rule found, in all sessions together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub rule: Rule,
    pub severity: Severity,
    pub count: u64,
    /// Records, as `session/uuid` and what is the matter with them.
    pub examples: Vec<String>,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    pub records: u64,
    pub found: Vec<Found>,
    /// Sessions with something that may be put right.
    pub damaged: BTreeSet<String>,
}

impl Checked {
    fn add(&mut self, session: &str, fault: &Fault) {
        let severity = fault.severity;
        if severity > Severity::Note || fault.rule == Rule::Orphan {
            self.damaged.insert(session.to_owned());
        }
        let same = |found: &&mut Found| found.rule == fault.rule && found.severity == severity;
        let example = format!("{session}/{}: {}", fault.uuid, fault.what);
        match self.found.iter_mut().find(same) {
            Some(found) => {
                found.count += 1;
                if found.examples.len() < EXAMPLES_MAX {
                    found.examples.push(example);
                }
            }
            None => self.found.push(Found {
                rule: fault.rule,
                severity,
                count: 1,
                examples: vec![example],
            }),
        }
    }
}

/// A call of a recorded answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    id: Option<String>,
    /// Behind its block.
    node: NodeHash,
}

/// What the recorded answers say about the records of one session: the calls of each message id, with all nodes in order.
#[derive(Debug, Default)]
struct Answers(HashMap<String, (Vec<Call>, Vec<NodeHash>)>);

impl<S: Store> View<'_, S> {
    /// Goes over the records of every session.
    pub async fn check_records(&self) -> Result<Checked> {
        let mut checked = Checked::default();
        let mut missing: BTreeMap<String, Vec<(String, Fault)>> = BTreeMap::new();
        let mut waiting = 0;
        let mut after: Option<(String, String)> = None;
        let mut rows: Vec<RecordRow> = Vec::new();
        loop {
            let page = Records::All {
                after: after.clone(),
                limit: PAGE_MAX,
            };
            let page = self.store.records(self.owner, page).await?;
            let is_end = page.is_empty();
            after = page.last().map(|row| (row.session.clone(), row.uuid.clone()));
            checked.records += page.len() as u64;
            for row in page {
                if rows.last().is_some_and(|last| last.session != row.session) {
                    self.check_session(std::mem::take(&mut rows), &mut checked, &mut missing, &mut waiting)
                        .await?;
                }
                if rows.len() < RECORDS_MAX {
                    rows.push(row);
                }
            }
            if is_end {
                self.check_session(rows, &mut checked, &mut missing, &mut waiting)
                    .await?;
                break;
            }
        }
        self.look_elsewhere(missing, &mut checked).await?;
        checked
            .found
            .sort_by_key(|found| (std::cmp::Reverse(found.severity), found.rule));
        Ok(checked)
    }

    async fn check_session(
        &self,
        rows: Vec<RecordRow>,
        checked: &mut Checked,
        missing: &mut BTreeMap<String, Vec<(String, Fault)>>,
        waiting: &mut usize,
    ) -> Result<()> {
        let Some(session) = rows.first().map(|row| row.session.clone()) else {
            return Ok(());
        };
        let answers = self.answers_of(&rows).await?;
        for fault in rules::faults(&rows, &answers) {
            match &fault.parent {
                // Another session may have it, and then it is a fork.
                Some(parent) if fault.rule == Rule::Orphan && *waiting < LOOKED_FOR_MAX => {
                    *waiting += 1;
                    missing
                        .entry(parent.clone())
                        .or_default()
                        .push((session.clone(), fault));
                }
                _ => checked.add(&session, &fault),
            }
        }
        Ok(())
    }

    /// Parents may be in any session, which only another look at all names tells.
    async fn look_elsewhere(
        &self,
        mut missing: BTreeMap<String, Vec<(String, Fault)>>,
        checked: &mut Checked,
    ) -> Result<()> {
        let mut after: Option<(String, String)> = None;
        while !missing.is_empty() {
            let page = Records::All { after, limit: PAGE_MAX };
            let page = self.store.records(self.owner, page).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.session.clone(), last.uuid.clone()));
            for row in page.iter().filter(|row| row.kind != RecordKind::Summary) {
                for (session, fault) in missing.remove(&row.uuid).unwrap_or_default() {
                    checked.add(&session, &fault.into_fork(&row.session));
                }
            }
        }
        for (session, fault) in missing.into_values().flatten() {
            checked.add(&session, &fault);
        }
        Ok(())
    }

    /// Puts the records of one session right, as far as they and the recorded answers tell how. `is_from_log` says that they were just
    /// read from the log; with `is_dry` nothing is changed.
    pub async fn repair_records(&self, session: &str, is_from_log: bool, is_dry: bool) -> Result<Vec<Repair>> {
        let mut rows = self.records(session, RECORDS_MAX).await?;
        let answers = self.answers_of(&rows).await?;
        let elsewhere = self.parents_elsewhere(&rows).await?;
        let known = Known {
            elsewhere: &elsewhere,
            is_from_log,
        };
        let repairs = repair::repair(&mut rows, &answers, &known);
        if !is_dry && !repairs.is_empty() {
            let changes = LogChanges {
                replaced: vec![session.to_owned()],
                records: rows,
                ..LogChanges::default()
            };
            self.store.save_log(self.owner, changes).await?;
        }
        Ok(repairs)
    }

    /// Missing parents that other sessions have.
    async fn parents_elsewhere(&self, rows: &[RecordRow]) -> Result<HashSet<String>> {
        let here: HashSet<&str> = rows.iter().map(|row| &*row.uuid).collect();
        let missing = rows.iter().filter_map(|row| row.parent.as_deref());
        let missing: HashSet<&str> = missing.filter(|parent| !here.contains(parent)).collect();
        let mut found = HashSet::new();
        let mut after: Option<(String, String)> = None;
        while found.len() < missing.len() {
            let page = Records::All { after, limit: PAGE_MAX };
            let page = self.store.records(self.owner, page).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.session.clone(), last.uuid.clone()));
            found.extend(
                page.into_iter()
                    .map(|row| row.uuid)
                    .filter(|uuid| missing.contains(&**uuid)),
            );
        }
        Ok(found)
    }

    /// The calls in the answers that a session's records are pieces of.
    async fn answers_of(&self, rows: &[RecordRow]) -> Result<Answers> {
        let messages = rows.iter().filter(|row| row.kind == RecordKind::Assistant);
        let messages: BTreeSet<&str> = messages.filter_map(|row| row.message.as_deref()).collect();
        let messages: Vec<&str> = messages.into_iter().collect();
        let mut answers = HashMap::new();
        for page in messages.chunks(PAGE_MAX) {
            let questions = Questions {
                keys: page.iter().map(|id| Asked::of(id_key(KeyKind::Item, id))).collect(),
                limit: 2,
                ..Questions::default()
            };
            let found = self.store.look_up(self.owner, questions, Micros::MAX).await?.exchanges;
            let numbers = found.iter().flatten().copied().collect();
            let known = self.rows(numbers).await?;
            for (message, numbers) in page.iter().zip(found) {
                // A name that several answers have says nothing about any of them.
                let [number] = numbers[..] else { continue };
                let Some(row) = known.iter().find(|row| row.number == number) else {
                    continue;
                };
                let Some(answer) = self.read_answer(row).await? else {
                    continue;
                };
                let message_of = crate::view::message::answer_message(answer);
                let (mut calls, mut nodes) = (Vec::new(), Vec::new());
                let mut last = row.input_node;
                for block in &message_of.blocks {
                    if let Some(value) = chain::value(message_of.role, block, &|_| None) {
                        last = chain::node(last, value);
                        nodes.push(last);
                    }
                    if let Block::ToolUse(call) = block {
                        let id = call.id.as_deref().map(str::to_owned);
                        calls.push(Call { id, node: last });
                    }
                }
                answers.insert((*message).to_owned(), (calls, nodes));
            }
        }
        Ok(Answers(answers))
    }
}
