//! What must hold for every exchange that we have: the hand-made ones, and the recorded ones where they are.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::hash::PartHash;
use ropewalk_core::recipe::join;
use ropewalk_engine::{RawExchange, Witness, prepare};
use ropewalk_store::Micros;
use ropewalk_store::NewExchange;
use ropewalk_store::facts::{Body, Status};
use ropewalk_testkit::captures::{CaptureFile, CapturedExchange, captures, fixtures, workspace_root};

fn files() -> Vec<CaptureFile> {
    let mut files = fixtures().unwrap();
    files.extend(captures().unwrap().unwrap_or_default());
    files
}

pub(crate) fn raw(captured: &CapturedExchange) -> RawExchange {
    let micros = |text: &String| Micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond());
    let pairs = |headers: &BTreeMap<String, String>| headers.clone().into_iter().collect();
    let has_response = captured.status.is_some() || !captured.response_body.is_empty();
    RawExchange {
        id: captured.id.clone(),
        at: micros(&captured.at),
        ended_at: captured.ended_at.as_ref().map(micros),
        spawned_at: Vec::new(),
        method: captured.method.clone(),
        path: captured.path.clone(),
        request_headers: pairs(&captured.request_headers),
        request_body: Bytes::from(captured.request_body.clone()),
        sent_body: None,
        names: Default::default(),
        status: captured.status,
        response_headers: pairs(&captured.response_headers),
        response_body: has_response.then(|| Bytes::from(captured.response_body.clone())),
        cut_off: captured.cut_off,
        witness: Witness::default(),
        provenance: None,
    }
}

fn joined(body: &Body, parts: &mut HashMap<PartHash, Vec<u8>>) -> Vec<u8> {
    parts.extend(body.recipe.parts().map(|part| (part.hash, part.as_bytes().to_vec())));
    join(body.recipe.pieces(), parts).unwrap()
}

/// Everything but the parts that a memo leaves out.
fn shown(exchange: &NewExchange) -> String {
    let pieces = |body: &Body| format!("{:?}", body.recipe.pieces().collect::<Vec<_>>());
    let bodies = (pieces(&exchange.request), exchange.response.as_ref().map(pieces));
    let lengths = (exchange.request.sha256, exchange.request.length);
    let mut rest = exchange.clone();
    rest.request.recipe = std::sync::Arc::new(ropewalk_engine::SplitRecipe(ropewalk_wire::Split::default()));
    rest.response = None;
    format!("{bodies:?} {lengths:?} {rest:?}")
}

#[test]
fn bodies_join_back_to_their_bytes() {
    for captured in files().iter().flat_map(|file| &file.exchanges) {
        let raw = raw(captured);
        let exchange = prepare(&raw, None, &BundledPrices).exchange;
        let mut parts = HashMap::new();
        assert_eq!(
            joined(&exchange.request, &mut parts),
            captured.request_body,
            "{}",
            raw.id
        );
        assert_eq!(exchange.request.length, captured.request_body.len() as u64);
        if let Some(response) = &exchange.response {
            assert_eq!(joined(response, &mut parts), captured.response_body, "{}", raw.id);
        }
    }
}

#[test]
fn a_memo_changes_nothing_but_the_parts_that_are_stored_already() {
    let mut saved = 0;
    for file in files() {
        let (mut memo, mut parts) = (None, HashMap::new());
        for captured in &file.exchanges {
            let raw = raw(captured);
            let plain = prepare(&raw, None, &BundledPrices);
            let with_memo = prepare(&raw, memo.as_ref(), &BundledPrices);
            assert_eq!(shown(&plain.exchange), shown(&with_memo.exchange), "{}", raw.id);
            let names = |body: &Body| body.recipe.parts().map(|part| part.hash).collect::<HashSet<_>>();
            let (all, new) = (names(&plain.exchange.request), names(&with_memo.exchange.request));
            assert!(new.is_subset(&all), "{}", raw.id);
            saved += all.len() - new.len();
            assert_eq!(joined(&with_memo.exchange.request, &mut parts), captured.request_body);
            memo = with_memo.memo.or(memo);
        }
    }
    assert!(saved > 0, "no memo was of any use");
}

#[test]
fn no_secret_survives() {
    const SECRETS: [(&str, &str); 8] = [
        ("Authorization", "Bearer hidden-1"),
        ("x-api-key", "hidden-2"),
        ("x-goog-api-key", "hidden-3"),
        ("Cookie", "hidden-4"),
        ("proxy-authorization", "hidden-5"),
        ("x-ropewalk-token", "hidden-6"),
        ("api-key", "hidden-7"),
        ("chatgpt-account-id", "hidden-8"),
    ];
    for captured in files().iter().flat_map(|file| &file.exchanges) {
        let mut raw = raw(captured);
        let secrets = SECRETS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        raw.request_headers.extend(secrets);
        raw.response_headers
            .push(("Set-Cookie".to_owned(), "hidden-9".to_owned()));
        raw.path = format!("/t/hidden-10{}", raw.path);
        raw.path += if raw.path.contains('?') {
            "&key=hidden-11"
        } else {
            "?key=hidden-11"
        };
        let exchange = prepare(&raw, None, &BundledPrices).exchange;
        let outside_bodies = format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            exchange.detail, exchange.session, exchange.agent, exchange.project, exchange.model, exchange.texts
        );
        assert!(!outside_bodies.contains("hidden-"), "{}: {outside_bodies}", raw.id);
        assert_eq!(
            exchange.kind,
            prepare(&self::raw(captured), None, &BundledPrices).exchange.kind
        );
    }
}

#[test]
fn kinds_are_those_of_the_clients() {
    let Some(captures) = captures().unwrap() else { return };
    let truth = std::fs::read(workspace_root().join("../shared/captures/truth.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
    let mut checked = 0;
    for captured in captures.iter().flat_map(|file| &file.exchanges) {
        let Some(said) = truth.get(&captured.id).and_then(|entry| entry["kind"].as_str()) else {
            continue;
        };
        let exchange = prepare(&raw(captured), None, &BundledPrices).exchange;
        let is_turn = matches!(&*exchange.kind, "turn" | "compaction");
        assert_eq!(is_turn, said == "turn", "{} is {}", captured.id, exchange.kind);
        checked += 1;
    }
    assert!(checked > 100, "{checked} kinds were checked");
}

#[test]
fn sessions_and_agents_are_those_of_the_clients() {
    let Some(captures) = captures().unwrap() else { return };
    let truth = std::fs::read(workspace_root().join("../shared/captures/truth.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
    for captured in captures.iter().flat_map(|file| &file.exchanges) {
        let is_coded = captured.id.starts_with("cc-") || captured.id.starts_with("codex-");
        let Some(said) = truth.get(&captured.id).filter(|_| is_coded) else {
            continue;
        };
        let exchange = prepare(&raw(captured), None, &BundledPrices).exchange;
        assert_eq!(
            exchange.session.as_deref(),
            said["conversation"].as_str(),
            "{}",
            captured.id
        );
        assert_eq!(
            exchange.agent.as_deref().unwrap_or("main"),
            said["agent"].as_str().unwrap(),
            "{}",
            captured.id
        );
    }
}

#[test]
fn a_beginning_has_the_chain_of_the_whole_and_no_answer() {
    for captured in files().iter().flat_map(|file| &file.exchanges) {
        let whole = prepare(&raw(captured), None, &BundledPrices).exchange;
        let mut begun = raw(captured);
        (begun.response_body, begun.status, begun.ended_at) = (None, None, None);
        let begun = prepare(&begun, None, &BundledPrices).exchange;
        assert_eq!(
            (begun.status, begun.start),
            (Status::Pending, whole.start),
            "{}",
            whole.id
        );
        assert_eq!(begun.request_chain, whole.request_chain);
        assert!(begun.answer_chain.is_empty() && begun.usage.is_none() && begun.cost_nano_usd.is_none());
        assert!(begun.keys.iter().all(|key| whole.keys.contains(key)), "{}", whole.id);
        assert!(begun.keys.iter().all(|key| !key.kind.is_of_answer()));
        assert!(begun.texts.iter().all(|text| !text.source.is_of_answer()));
        assert_eq!(whole.texts[..begun.texts.len()], begun.texts[..]);
    }
}
