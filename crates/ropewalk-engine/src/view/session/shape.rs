//! Every draft in its place.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use ropewalk_core::hierarchy::{Aliases, MessageKind, Record, branches, call_index, place};

use super::Node;
use super::draft::Draft;

/// The forest of all drafts: parents first, siblings by time.
pub(super) fn shaped(drafts: Vec<Draft>, elsewhere: &HashSet<String>) -> Vec<Node> {
    let mut drafts = once_each(drafts);
    attach(&mut drafts);
    let records: Vec<Record> = drafts.iter().map(|draft| draft.record.clone()).collect();
    let places = place(&records, &Aliases::new(), |uuid| elsewhere.contains(uuid));
    let positions = branches(&records, &places);
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, place) in places.iter().enumerate() {
        children.entry(place.parent()).or_default().push(at);
    }
    let in_order = |mut family: Vec<usize>| {
        family.sort_by(|a, b| order(&records[*a]).cmp(&order(&records[*b])));
        family
    };
    // Last in, first out, so each family waits in reverse.
    let roots = in_order(children.remove(&None).unwrap_or_default());
    let mut waiting: Vec<(usize, Option<usize>)> = roots.into_iter().rev().map(|root| (root, None)).collect();
    let mut drafts: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
    let mut nodes: Vec<Node> = Vec::with_capacity(drafts.len());
    while let Some((at, parent)) = waiting.pop() {
        let Some(draft) = drafts[at].take() else { continue };
        let here = nodes.len();
        nodes.push(Node {
            draft,
            place: places[at],
            parent,
            branch: positions[at],
        });
        let family = in_order(children.remove(&Some(at)).unwrap_or_default());
        waiting.extend(family.into_iter().rev().map(|child| (child, Some(here))));
    }
    nodes
}

/// By time; a call before what was said next, and calls in their own order.
fn order(record: &Record) -> (Option<Timestamp>, bool, Option<usize>, &str) {
    let is_tool = record.kind.is_tool();
    let index = is_tool.then(|| call_index(&record.uuid)).flatten();
    (record.at, !is_tool, index, &record.uuid)
}

/// The first of each name stays.
fn once_each(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut met: HashSet<String> = HashSet::with_capacity(drafts.len());
    let mut kept = drafts;
    kept.retain(|draft| met.insert(draft.record.uuid.clone()));
    kept
}

/// Hangs the first message of each subagent below the call that started it.
fn attach(drafts: &mut [Draft]) {
    let mut calls: HashMap<&str, &str> = HashMap::new();
    for draft in drafts.iter().filter(|draft| draft.record.kind == MessageKind::ToolUse) {
        if let Some(id) = &draft.tool_use {
            calls.entry(id).or_insert(&draft.record.uuid);
        }
    }
    let found = drafts.iter().enumerate().filter_map(|(at, draft)| {
        let call = draft
            .spawned_by
            .as_deref()
            .filter(|_| draft.record.parent_uuid.is_none())?;
        Some((at, (*calls.get(call)?).to_owned()))
    });
    let found: Vec<(usize, String)> = found.collect();
    for (at, call) in found {
        drafts[at].record.parent_uuid = Some(call);
    }
}
