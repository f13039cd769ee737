//! The tree of messages (seed 004): who hangs below whom, what is a branch, what is a sidechain.
//!
//! Records come from logs and from recorded answers, in any order and with any damage. Nothing is
//! rejected: what cannot be placed is placed at the root and says so. Read [`tools`](self) for the
//! messages that are taken out of an assistant's record, then [`place`] for the tree over all of them.
//!
//! Invariants: [`place`] gives a forest, whatever the parents say; the result does not depend on the order
//! of the records.

mod names;
mod tools;

use std::collections::HashMap;

use jiff::Timestamp;

pub use names::{assistant_of_call, call_index, call_name, call_of_result, result_name};
pub use tools::{Extracted, Part, ToolCall, ToolMessage, ToolOutput, extract, tool_argument, tool_summary};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    User,
    Assistant,
    ToolUse,
    ToolResult,
    /// A title of the session, never a node of the tree.
    Summary,
    /// Context and notices of the client.
    Other,
}

impl MessageKind {
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::User => "user",
            MessageKind::Assistant => "assistant",
            MessageKind::ToolUse => "tool_use",
            MessageKind::ToolResult => "tool_result",
            MessageKind::Summary => "summary",
            MessageKind::Other => "other",
        }
    }

    pub fn is_tool(self) -> bool {
        matches!(self, MessageKind::ToolUse | MessageKind::ToolResult)
    }
}

/// What the tree needs to know of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub uuid: String,
    pub parent_uuid: Option<String>,
    pub kind: MessageKind,
    /// The client marked it as beside the main flow.
    pub flagged_sidechain: bool,
    /// It belongs to a subagent.
    pub in_subagent: bool,
    pub at: Option<Timestamp>,
}

impl Record {
    /// Beside the main flow: marked so, a tool operation, or a subagent's. An assistant message that
    /// contains tool calls is not.
    pub fn is_sidechain(&self) -> bool {
        self.flagged_sidechain || self.in_subagent || self.kind.is_tool()
    }

    /// Order that no file order can change; records without a time come first.
    fn order(&self) -> (Option<Timestamp>, &str) {
        (self.at, &self.uuid)
    }
}

/// Where a record hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It names no parent.
    Root,
    /// Below the record of that position.
    Below(usize),
    /// Its parent is known, but not among these records: a fork of another session.
    Elsewhere,
    /// Its parent is nowhere; shown as a root.
    Orphan,
    /// Its parents led back to itself; here the circle was cut, and it is shown as a root.
    CutCycle,
}

impl Place {
    pub fn parent(self) -> Option<usize> {
        match self {
            Place::Below(parent) => Some(parent),
            _ => None,
        }
    }
}

/// Absorbed ids and the records that stand for them, so that a parent named by a raw record is found.
pub type Aliases = HashMap<String, String>;

/// Places every record. `is_elsewhere` says whether an id that is not among the records is known at all.
pub fn place(records: &[Record], aliases: &Aliases, is_elsewhere: impl Fn(&str) -> bool) -> Vec<Place> {
    let index = index_by_uuid(records);
    let mut places: Vec<Place> = records
        .iter()
        .map(|record| match record.parent_uuid.as_deref() {
            None => Place::Root,
            Some(parent) => match index.get(resolve_alias(parent, &index, aliases)) {
                Some(&at) => Place::Below(at),
                None if is_elsewhere(parent) => Place::Elsewhere,
                None => Place::Orphan,
            },
        })
        .collect();
    for at in cycle_cuts(records, &places) {
        places[at] = Place::CutCycle;
    }
    places
}

/// Where an id occurs twice (a fork copies lines), the earliest stands for it.
fn index_by_uuid(records: &[Record]) -> HashMap<&str, usize> {
    let mut index = HashMap::new();
    for (at, record) in records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.kind != MessageKind::Summary)
    {
        let place = index.entry(&*record.uuid).or_insert(at);
        let standing: &Record = &records[*place];
        if (record.at, &record.parent_uuid) < (standing.at, &standing.parent_uuid) {
            *place = at;
        }
    }
    index
}

/// Longest chain of aliases that is followed: real ones have one or two steps, and a circle has to end.
const ALIAS_STEPS_MAX: usize = 1_000;

/// Follows aliases until a record is reached.
fn resolve_alias<'a>(uuid: &'a str, index: &HashMap<&str, usize>, aliases: &'a Aliases) -> &'a str {
    let mut current = uuid;
    for _ in 0..aliases.len().min(ALIAS_STEPS_MAX) {
        if index.contains_key(current) {
            break;
        }
        match aliases.get(current) {
            Some(next) => current = next,
            None => break,
        }
    }
    current
}

/// For every circle the member that loses its parent: the first by time, then by id.
fn cycle_cuts(records: &[Record], places: &[Place]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let mut seen_in_walk = vec![UNSEEN; records.len()];
    let mut cuts = Vec::new();
    for start in 0..records.len() {
        let mut at = start;
        while seen_in_walk[at] == UNSEEN {
            seen_in_walk[at] = start;
            match places[at].parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        // Only a walk that comes back to itself has found a circle; one that meets an older walk has not.
        if seen_in_walk[at] == start && places[at].parent().is_some() {
            let circle = std::iter::successors(Some(at), |member| places[*member].parent());
            let members = std::iter::once(at).chain(circle.skip(1).take_while(|member| *member != at));
            cuts.extend(members.min_by_key(|member| records[*member].order()));
        }
    }
    cuts
}

/// "Branch `index` of `of`".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchPosition {
    /// Counted from 1.
    pub index: usize,
    pub of: usize,
}

/// Counts every message among its siblings. Tool messages and summaries are no branches of anything, and
/// roots are none of each other: they stand alone.
pub fn branches(records: &[Record], places: &[Place]) -> Vec<Option<BranchPosition>> {
    let counts = |record: &Record| !record.kind.is_tool() && record.kind != MessageKind::Summary;
    let mut siblings: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, (record, place)) in records.iter().zip(places).enumerate() {
        if let Some(parent) = place.parent().filter(|_| counts(record)) {
            siblings.entry(parent).or_default().push(at);
        }
    }
    let alone = BranchPosition { index: 1, of: 1 };
    let mut positions: Vec<Option<BranchPosition>> =
        records.iter().map(|record| counts(record).then_some(alone)).collect();
    for mut family in siblings.into_values() {
        family.sort_by_key(|member| records[*member].order());
        for (i, member) in family.iter().enumerate() {
            positions[*member] = Some(BranchPosition {
                index: i + 1,
                of: family.len(),
            });
        }
    }
    positions
}
