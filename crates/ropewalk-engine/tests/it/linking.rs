//! Recorded traffic of real clients, linked with their hints and without: the same conversations and agents.

use std::collections::{BTreeMap, HashMap};

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::link::decision::Linked;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::derived::Links;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::Selection;
use ropewalk_store::{Micros, Store};
use ropewalk_testkit::captures::{captures, workspace_root};
use ropewalk_wire::hints::{HINT_HEADERS, HINT_MEMBERS};
use serde::Deserialize;

use crate::recorded::raw;

#[derive(Debug, Clone, Deserialize)]
struct Truth {
    agent: Option<String>,
    conversation: Option<String>,
    kind: String,
}

fn truth() -> HashMap<String, Truth> {
    let path = workspace_root().join("../shared/captures/truth.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The request without anything that names a session, a thread or an agent.
fn without_hints(mut raw: RawExchange) -> RawExchange {
    raw.request_headers.retain(|(name, _)| !HINT_HEADERS.contains(&&**name));
    if let Ok(serde_json::Value::Object(mut body)) = serde_json::from_slice(&raw.request_body) {
        for member in HINT_MEMBERS {
            body.remove(member);
        }
        raw.request_body = serde_json::to_vec(&body).unwrap().into();
    }
    raw
}

/// An exchange with where it was put, by ids rather than by numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) conversation: String,
    pub(crate) branch: String,
    pub(crate) agent: String,
    pub(crate) parent: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) method: &'static str,
}

/// Where exchanges are that were recorded in this order, each linked before the next came.
pub(crate) async fn placed_one_by_one<'r>(
    order: impl IntoIterator<Item = &'r RawExchange>,
) -> BTreeMap<String, Placed> {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for raw in order {
        recorder.record(std::slice::from_ref(raw)).await.unwrap();
        recorder.link().await.unwrap();
    }
    placed(&store, "me").await
}

pub(crate) async fn placed<S: Store>(store: &S, owner: &str) -> BTreeMap<String, Placed> {
    let owner = store.owner(owner).await.unwrap();
    let mut rows = Vec::new();
    loop {
        let after = rows
            .last()
            .map(|row: &ropewalk_store::store::ExchangeRow| (row.at, row.number));
        let selection = Selection::Since { after, limit: 1_000 };
        let page = store.exchanges(owner, selection, Micros::MAX).await.unwrap();
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    let ids: HashMap<_, _> = rows.iter().map(|row| (row.number, row.id.clone())).collect();
    let numbers: Vec<_> = rows.iter().map(|row| row.number).collect();
    let mut placed = BTreeMap::new();
    for page in numbers.chunks(1_000) {
        for row in store.links(owner, Links::Of(page.to_vec())).await.unwrap() {
            let linked = Linked::read(&row).unwrap();
            let shown = Placed {
                conversation: ids[&linked.conversation].clone(),
                branch: ids[&linked.branch].clone(),
                agent: ids[&linked.agent].clone(),
                parent: linked.decision.parent.map(|parent| ids[&parent].clone()),
                kind: linked.kind().name(),
                method: linked.decision.method.name(),
            };
            placed.insert(ids[&linked.exchange].clone(), shown);
        }
    }
    assert_eq!(placed.len(), rows.len(), "every exchange has a link");
    placed
}

pub(crate) async fn link(exchanges: &[RawExchange]) -> BTreeMap<String, Placed> {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    for batch in exchanges.chunks(16) {
        recorder.record(batch).await.unwrap();
        recorder.link().await.unwrap();
    }
    placed(&store, "me").await
}

/// A fork has a session of its own and is the same conversation.
const FORKS: [(&str, &str); 1] = [(
    "ce58ae77-67df-4e5e-b96a-90c1d444c5bb",
    "aaaaaaaa-0000-4000-8000-000000000001",
)];

/// Scenarios in which content alone cannot tell: the text of the continuation is not in the capture; the child of a Codex
/// thread inherits its parent's whole history; two children have one prompt.
const CONVERSATION_UNDECIDED: [&str; 1] = ["cc-compact"];
const AGENTS_UNDECIDED: [&str; 3] = ["cc-compact", "codex-sub", "cc-dup"];

/// What is found together must belong together, and the other way round.
fn compare(truth: &HashMap<String, Truth>, found: &BTreeMap<String, Placed>, has_hints: bool) {
    let scenario = |id: &str| id.rsplit_once('-').unwrap().0.to_owned();
    let label = |id: &str| {
        let session = truth[id].conversation.clone()?;
        let forked = FORKS.iter().find(|(fork, _)| *fork == session);
        Some(forked.map_or(session, |(_, from)| (*from).to_owned()))
    };
    let mut conversation_of = HashMap::new();
    let mut pieces_of = HashMap::new();
    let mut agent_of = HashMap::new();
    let mut branch_of_agent = HashMap::new();
    for (id, placed) in found {
        let is_auxiliary = truth[id].kind == "auxiliary";
        assert_eq!(placed.kind == "auxiliary", is_auxiliary, "{id}: {placed:?}");
        // Clients without ids: at least nothing of another run may be with them.
        let label = label(id).unwrap_or_else(|| scenario(id));
        let with = conversation_of
            .entry(&placed.conversation)
            .or_insert_with(|| label.clone());
        assert_eq!(*with, label, "{id} is with strangers: {placed:?}");
        let may_be_apart = !has_hints && (is_auxiliary || CONVERSATION_UNDECIDED.contains(&&*scenario(id)));
        if truth[id].conversation.is_none() || may_be_apart {
            continue;
        }
        let piece = pieces_of
            .entry(label.clone())
            .or_insert_with(|| placed.conversation.clone());
        assert_eq!(*piece, placed.conversation, "{id} is apart: {placed:?}");
        if is_auxiliary || (!has_hints && AGENTS_UNDECIDED.contains(&&*scenario(id))) {
            continue;
        }
        let agent = (label, truth[id].agent.clone());
        let same = agent_of.entry(agent.clone()).or_insert_with(|| placed.agent.clone());
        assert_eq!(*same, placed.agent, "{id} has another agent: {placed:?}");
        let only = branch_of_agent.entry(&placed.agent).or_insert_with(|| agent.clone());
        assert_eq!(*only, agent, "{id} shares an agent: {placed:?}");
    }
}

/// Says only what differs.
pub(crate) fn assert_same(found: &BTreeMap<String, Placed>, expected: &BTreeMap<String, Placed>, what: &str) {
    let mut differences = String::new();
    for (id, expected) in expected {
        let found = found.get(id);
        if found != Some(expected) {
            differences += &format!("\n{id}\n  found    {found:?}\n  expected {expected:?}");
        }
    }
    assert!(
        differences.is_empty() && found.len() == expected.len(),
        "{what}{differences}"
    );
}

fn read(has_hints: bool) -> Option<Vec<Vec<RawExchange>>> {
    let files = captures().unwrap()?;
    let files = files.iter().map(|file| {
        let exchanges = file.exchanges.iter().map(raw);
        match has_hints {
            true => exchanges.collect(),
            false => exchanges.map(without_hints).collect(),
        }
    });
    Some(files.collect())
}

#[tokio::test]
async fn every_scenario_links_as_its_client_says_with_hints_and_without() {
    for has_hints in [true, false] {
        let Some(files) = read(has_hints) else { return };
        for exchanges in files {
            compare(&truth(), &link(&exchanges).await, has_hints);
        }
    }
}

#[tokio::test]
async fn all_scenarios_in_one_stream_link_as_each_alone() {
    for has_hints in [true, false] {
        let Some(files) = read(has_hints) else { return };
        let mut all = files.concat();
        all.sort_by_key(|raw| raw.at);
        compare(&truth(), &link(&all).await, has_hints);
    }
}

#[tokio::test]
async fn the_order_of_arrival_changes_nothing() {
    for has_hints in [true, false] {
        let Some(files) = read(has_hints) else { return };
        let mut all = files.concat();
        all.sort_by_key(|raw| raw.at);
        let expected = link(&all).await;
        all.reverse();
        assert_same(&link(&all).await, &expected, &format!("backwards, hints: {has_hints}"));
        for stride in [7, 31] {
            let mut mixed: Vec<_> = (0..stride)
                .flat_map(|from| all.iter().skip(from).step_by(stride).cloned())
                .collect();
            assert_same(
                &link(&mixed).await,
                &expected,
                &format!("stride {stride}, hints: {has_hints}"),
            );
            mixed.rotate_left(stride);
            assert_same(
                &link(&mixed).await,
                &expected,
                &format!("rotated by {stride}, hints: {has_hints}"),
            );
        }
    }
}
