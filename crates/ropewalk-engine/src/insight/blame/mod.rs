//! Who brought each system block and each tool, since when, and what it has cost.
//!
//! [`View::blame`] is about what is in force at one exchange, [`View::timeline`] about everything that changed on the way there, or among
//! all turns of an agent type, a project or a client's version. `steps` finds the exchanges, by links and keys alone; `parts` compares
//! what stands in front of them, `cost` prices it.
//!
//! Invariants: nothing is scanned: a conversation's own exchanges are walked, others are looked up by one key; bodies are read once for
//! all exchanges with the same hashes. Tokens and money of a part are estimates, from its bytes and its place in the prompt.

mod cost;
mod parts;
mod steps;

use std::collections::HashSet;
use std::sync::Arc;

use ropewalk_core::hash::sha256;
use ropewalk_store::Store;
use ropewalk_store::facts::{Key, KeyKind};
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use crate::detail::Kept;
use crate::insight::cache::{Prices, excerpt};
use crate::keys::{client_key, id_key};
use crate::view::{Result, View, usd, utc};
use cost::Costs;
pub use parts::PartKind;
use parts::{ContextPart, changes};
use steps::{Contexts, Run, runs};

/// Changes of one answer, the newest of them.
const CHANGES_MAX: usize = 1_000;

/// What is in force at one exchange.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Blame {
    pub v: u32,
    pub exchange_id: String,
    pub at: String,
    /// Turns of its agent up to here.
    pub turns: u64,
    /// In the order of the prompt.
    pub parts: Vec<BlamedPart>,
    /// There is more than was looked at: what seems to come from the first turn may come from another.
    pub is_cut: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BlamedPart {
    pub kind: PartKind,
    /// A tool's name, a system block's number.
    pub name: String,
    pub exchange_id: String,
    pub since: String,
    /// The client that sent it first, where it says.
    pub client: Option<String>,
    /// Turns that it was sent in since.
    pub turns: u64,
    pub tokens_estimate: u64,
    /// In all of those turns.
    pub cost_usd_estimate: Option<f64>,
    /// How it begins.
    pub text: String,
    /// What stood in its place.
    pub replaced: Option<Replaced>,
}

/// Both texts around the first character that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Replaced {
    pub before: String,
    pub after: String,
    pub tokens_estimate: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ChangeKind)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Added,
    Changed,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Timeline {
    pub v: u32,
    /// Turns that were looked at.
    pub turns: u64,
    /// Oldest first.
    pub changes: Vec<Change>,
    /// There is more than was looked at: older turns, or more changes.
    pub is_cut: bool,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            v: 1,
            turns: 0,
            changes: Vec::new(),
            is_cut: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = TimelineChange)]
pub struct Change {
    pub at: String,
    pub exchange_id: String,
    pub client: Option<String>,
    pub what: What,
    pub kind: PartKind,
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
    pub tokens_added_estimate: i64,
    /// Turns that it was sent in since, as it is from here on.
    pub turns: u64,
    pub cost_usd_estimate: Option<f64>,
}

/// Whose changes.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'s> {
    /// Of the agent that made this exchange, up to it.
    Path(&'s ExchangeRow),
    /// Digits of a hash, whole.
    AgentType(&'s [u8]),
    Project(&'s str),
    /// As in `claude-code/2.1.197`.
    Client(&'s str),
}

impl<S: Store> View<'_, S> {
    /// Which exchange brought each system block and tool that an exchange was sent with.
    pub async fn blame(&self, row: &ExchangeRow, prices: Prices<'_>) -> Result<Blame> {
        let (steps, mut is_cut) = self.steps_to(row).await?;
        let runs = runs(&steps);
        let mut contexts = Contexts::default();
        let mut costs = Costs::new(prices);
        // Of a run all stand behind the same parts, and the body of the first is the shortest.
        let at = runs.last().map_or(row, |run| &steps[run.first]);
        let earlier = runs.iter().rev().skip(1).map(|run| &steps[run.first]);
        let in_force = contexts.of(self, at, earlier).await?;
        // The step that brought each part, going back as long as it was there.
        let mut brought: Vec<(usize, Option<Replaced>)> = vec![(0, None); in_force.len()];
        let mut open: Vec<usize> = (0..in_force.len()).collect();
        for (at, pair) in runs.windows(2).enumerate().rev() {
            if open.is_empty() {
                break;
            }
            let row = &steps[pair[0].first];
            if !contexts.has_room_for(row) {
                is_cut = true;
                break;
            }
            let earlier = runs[..at].iter().rev().map(|run| &steps[run.first]);
            let (before, first) = (contexts.of(self, row, earlier).await?, pair[1].first);
            let changed = changes(&before, &in_force);
            open.retain(|index| {
                let part = &in_force[*index];
                let is_there = before.iter().any(|other| other.is(part));
                if !is_there {
                    let was = changed.iter().find(|(_, now)| now.is_some_and(|now| now.is(part)));
                    let was = was.and_then(|(before, _)| *before);
                    brought[*index] = (first, was.map(|was| replaced(was, part)));
                }
                is_there
            });
        }
        let parts = in_force.iter().zip(brought).map(|(part, (first, replaced))| {
            let since = &steps[first];
            BlamedPart {
                kind: part.kind,
                name: part.name.clone(),
                exchange_id: since.id.clone(),
                since: utc(since.at),
                client: client(since),
                turns: (steps.len() - first) as u64,
                tokens_estimate: part.tokens,
                cost_usd_estimate: cost(&mut costs, part, &steps[first..]),
                text: excerpt(&part.text, 0),
                replaced,
            }
        });
        Ok(Blame {
            v: 1,
            exchange_id: row.id.clone(),
            at: utc(row.at),
            turns: steps.len() as u64,
            parts: parts.collect(),
            is_cut,
        })
    }

    /// Every change of a system block or a tool.
    pub async fn timeline(&self, scope: Scope<'_>, prices: Prices<'_>) -> Result<Timeline> {
        let (lanes, is_cut) = match scope {
            Scope::Path(row) => {
                let (steps, is_cut) = self.steps_to(row).await?;
                (vec![steps], is_cut)
            }
            Scope::AgentType(hash) => self.lanes_of(Key::of_hash(hash)).await?,
            Scope::Project(name) => self.lanes_of(id_key(KeyKind::Project, name)).await?,
            Scope::Client(name) => self.lanes_of(client_key(name)).await?,
        };
        let mut timeline = Timeline {
            turns: lanes.iter().map(|lane| lane.len() as u64).sum(),
            is_cut,
            ..Timeline::default()
        };
        let mut contexts = Contexts::default();
        let mut costs = Costs::new(prices);
        for steps in &lanes {
            // One conversation tells of everything, also of what comes back; where many run side by side, what is new is told once.
            let is_path = matches!(scope, Scope::Path(_));
            self.add_changes(steps, is_path, &mut contexts, &mut costs, &mut timeline)
                .await?;
        }
        timeline.changes.sort_by(|one, other| one.at.cmp(&other.at));
        let surplus = timeline.changes.len().saturating_sub(CHANGES_MAX);
        timeline.changes.drain(..surplus);
        timeline.is_cut |= surplus > 0;
        Ok(timeline)
    }

    async fn add_changes(
        &self,
        steps: &[ExchangeRow],
        is_path: bool,
        contexts: &mut Contexts,
        costs: &mut Costs<'_>,
        timeline: &mut Timeline,
    ) -> Result<()> {
        let runs = runs(steps);
        let mut in_force = Vec::with_capacity(runs.len());
        for (at, run) in runs.iter().enumerate() {
            let row = &steps[run.first];
            if !contexts.has_room_for(row) {
                timeline.is_cut = true;
                break;
            }
            let later = runs[at + 1..].iter().map(|run| &steps[run.first]);
            in_force.push((*run, contexts.of(self, row, later).await?));
        }
        let mut seen: HashSet<[u8; 32]> = HashSet::new();
        if let Some((_, first)) = in_force.first() {
            seen.extend(first.iter().map(digest));
        }
        for (at, pair) in in_force.windows(2).enumerate() {
            let ((_, before), (run, now)) = (&pair[0], &pair[1]);
            for (was, is) in changes(before, now) {
                let is_told = match is {
                    Some(part) => is_path || seen.insert(digest(part)),
                    None => is_path,
                };
                if !is_told {
                    continue;
                }
                let sent = is.map_or(Vec::new(), |part| sent_in(part, &in_force[at + 1..], is_path));
                let rows = sent.iter().flat_map(|run| &steps[run.first..=run.last]);
                let turns = rows.clone().count() as u64;
                let cost_usd_estimate = is.and_then(|part| cost(costs, part, rows));
                timeline
                    .changes
                    .push(change(&steps[run.first], (was, is), turns, cost_usd_estimate));
            }
        }
        Ok(())
    }
}

/// The runs that a part was sent in: on one path until it is replaced, among many conversations all of them.
fn sent_in(part: &ContextPart, rest: &[(Run, Arc<[ContextPart]>)], is_path: bool) -> Vec<Run> {
    let is_there = |(_, parts): &&(Run, Arc<[ContextPart]>)| parts.iter().any(|other| other.is(part));
    let runs: Vec<_> = match is_path {
        true => rest.iter().take_while(is_there).collect(),
        false => rest.iter().filter(is_there).collect(),
    };
    runs.into_iter().map(|(run, _)| *run).collect()
}

fn change(
    row: &ExchangeRow,
    (was, is): (Option<&ContextPart>, Option<&ContextPart>),
    turns: u64,
    cost_usd_estimate: Option<f64>,
) -> Change {
    let (what, part) = match (was, is) {
        (None, Some(part)) => (What::Added, Some(part)),
        (Some(part), None) => (What::Removed, Some(part)),
        (_, part) => (What::Changed, part),
    };
    let tokens = |part: Option<&ContextPart>| part.map_or(0, |part| part.tokens as i64);
    let (before, after) = match (was, is) {
        (Some(was), Some(is)) => {
            let replaced = replaced(was, is);
            (Some(replaced.before), Some(replaced.after))
        }
        (was, is) => (
            was.map(|part| excerpt(&part.text, 0)),
            is.map(|part| excerpt(&part.text, 0)),
        ),
    };
    Change {
        at: utc(row.at),
        exchange_id: row.id.clone(),
        client: client(row),
        what,
        kind: part.map_or(PartKind::System, |part| part.kind),
        name: part.map(|part| part.name.clone()).unwrap_or_default(),
        before,
        after,
        tokens_added_estimate: tokens(is) - tokens(was),
        turns,
        cost_usd_estimate,
    }
}

fn replaced(was: &ContextPart, is: &ContextPart) -> Replaced {
    let same = was
        .text
        .chars()
        .zip(is.text.chars())
        .take_while(|(a, b)| a == b)
        .count();
    Replaced {
        before: excerpt(&was.text, same),
        after: excerpt(&is.text, same),
        tokens_estimate: was.tokens,
    }
}

/// In all of these exchanges; `None` where no price of any of them is known.
fn cost<'r>(costs: &mut Costs<'_>, part: &ContextPart, rows: impl IntoIterator<Item = &'r ExchangeRow>) -> Option<f64> {
    let known: Vec<f64> = rows.into_iter().filter_map(|row| costs.of(part, row)).collect();
    let sum: f64 = known.iter().sum();
    (!known.is_empty()).then(|| usd(sum.round() as u64))
}

/// The client that sent an exchange, with its version.
fn client(row: &ExchangeRow) -> Option<String> {
    let hints = Kept::of(row).hints;
    let name = hints.get("client")?;
    Some(match hints.get("client_version") {
        Some(version) => format!("{name}/{version}"),
        None => name.clone(),
    })
}

fn digest(part: &ContextPart) -> [u8; 32] {
    let name = match part.kind {
        PartKind::Tool => &part.name,
        PartKind::System => "",
    };
    sha256(format!("{:?}:{}:{name}{}", part.kind, name.len(), part.text).as_bytes())
}
