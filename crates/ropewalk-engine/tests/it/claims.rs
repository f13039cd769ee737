//! Claims (seed 001) among recorded exchanges: an agent that calls for a child by name is expected to have one soon. Every case is
//! recorded in several orders of arrival, which must not matter.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::arrival::{block_on, run, shuffled};
use crate::hard_cases::{are_apart, are_together, link, recorded};
use crate::linking::{assert_same, placed_one_by_one};
use crate::said::{Said, answer, call, result, said, second, user};

/// A call for a child by name whose words the child may be told otherwise.
fn claim(id: &str, name: &str) -> Value {
    let input = json!({"agentName": name, "prompt": format!("the task of {id}, before it was put into other words")});
    call(id, "runSubagent", &input)
}

fn parent(id: &str, at: f64, name: &str) -> Said {
    said(id, at, &[user(&format!("begin {id}"))]).answered(&claim(&format!("call-{id}"), name))
}

/// A newcomer of some kind of agent, that may say its name.
fn newcomer(id: &str, at: f64, kind: &str, name: Option<&str>) -> Said {
    let said = said(id, at, &[user(&format!("the words of {id}"))])
        .kind(kind, &["Read"])
        .answered(&answer(&format!("done by {id}")));
    match name {
        Some(name) => said.header("x-claude-code-agent-type", name),
        None => said,
    }
}

#[tokio::test]
async fn a_child_is_known_by_its_name_whoever_is_recorded_first() {
    let placed = link(&[
        parent("top", 0.0, "recon"),
        parent("other", 1.0, "exec"),
        newcomer("child", 3.0, "You look.", Some("recon")),
        newcomer("stranger", 4.0, "You dance.", Some("dancer")),
    ])
    .await;
    are_together(&placed, &["top", "child"]);
    assert_eq!(placed["child"].method, "claim_name");
    assert_eq!(placed["child"].agent, "child");
    are_apart(&placed, "other", "stranger");
    are_apart(&placed, "top", "stranger");
}

#[tokio::test]
async fn a_child_may_be_named_by_its_system_prompt() {
    let placed = link(&[
        parent("top", 0.0, "recon"),
        newcomer("stranger", 2.0, "You are the writer agent.", None),
        newcomer("child", 3.0, "You are the recon agent.", None),
    ])
    .await;
    are_together(&placed, &["top", "child"]);
    assert_eq!(placed["child"].method, "claim_name");
    are_apart(&placed, "top", "stranger");
}

#[tokio::test]
async fn a_claim_is_over_after_its_window() {
    let placed = link(&[
        parent("top", 0.0, "recon"),
        newcomer("late", 30.5, "You look.", Some("recon")),
        parent("again", 60.0, "recon"),
        newcomer("in_time", 90.4, "You look.", Some("recon")),
    ])
    .await;
    are_apart(&placed, "top", "late");
    are_together(&placed, &["again", "in_time"]);
}

#[tokio::test]
async fn claims_of_one_name_are_served_in_their_order_and_each_once() {
    let placed = link(&[
        parent("first", 0.0, "recon"),
        parent("second", 0.1, "recon"),
        newcomer("a", 2.0, "You look.", Some("recon")),
        newcomer("b", 2.5, "You look.", Some("recon")),
        newcomer("c", 3.0, "You look.", Some("recon")),
    ])
    .await;
    are_together(&placed, &["first", "a"]);
    are_together(&placed, &["second", "b"]);
    assert_eq!(placed["c"].method, "new");
}

#[tokio::test]
async fn the_type_last_linked_for_a_name_is_expected_by_whoever_asks_for_it_next() {
    let placed = link(&[
        parent("top", 0.0, "recon"),
        newcomer("known", 2.0, "You look.", Some("recon")),
        // Another conversation asks for that name; the child says another one, but is of the type.
        parent("other", 100.0, "recon"),
        newcomer("renamed", 102.0, "You look.", Some("lookout")),
        // The type that was linked last is another one by now.
        parent("third", 200.0, "recon"),
        newcomer("changed", 202.0, "You search.", Some("recon")),
        parent("fourth", 300.0, "recon"),
        newcomer("outdated", 302.0, "You look.", Some("lookout")),
        newcomer("current", 303.0, "You search.", Some("seeker")),
    ])
    .await;
    are_together(&placed, &["other", "renamed"]);
    assert_eq!(placed["renamed"].method, "claim_type");
    assert_eq!(placed["changed"].method, "claim_name");
    assert_eq!(placed["outdated"].method, "new");
    are_together(&placed, &["fourth", "current"]);
    assert_eq!(placed["current"].method, "claim_type");
}

#[tokio::test]
async fn a_nameless_newcomer_of_the_expected_type_and_other_words_is_a_child_within_its_session_only() {
    let session = "x-claude-code-session-id";
    let placed = link(&[
        parent("top", 0.0, "recon"),
        newcomer("known", 2.0, "You look.", Some("recon")),
        // Somebody else's agent, whose own parent was not recorded.
        parent("other", 100.0, "recon"),
        newcomer("stray", 101.0, "You look.", None),
        said(
            "own",
            105.0,
            &[user("the task of call-other, before it was put into other words")],
        )
        .kind("You look.", &["Read"])
        .answered(&answer("done by own")),
        parent("third", 200.0, "recon").header(session, "s3"),
        newcomer("nameless", 202.0, "You look.", None).header(session, "s3"),
    ])
    .await;
    are_apart(&placed, "other", "stray");
    are_together(&placed, &["other", "own"]);
    assert_eq!(placed["own"].method, "spawn_prompt");
    are_together(&placed, &["third", "nameless"]);
}

#[tokio::test]
async fn name_and_type_go_before_the_name_alone() {
    let placed = link(&[
        // Nobody had come for that name when this call was made.
        parent("early", 0.0, "recon"),
        parent("teacher", 0.5, "recon"),
        newcomer("taught", 2.0, "You look.", Some("recon")),
        parent("late", 10.0, "recon"),
        newcomer("child", 12.0, "You look.", Some("recon")),
    ])
    .await;
    are_together(&placed, &["early", "taught"]);
    are_together(&placed, &["late", "child"]);
    assert_eq!(placed["child"].method, "claim_name_and_type");
}

#[tokio::test]
async fn a_newcomer_of_the_parents_own_type_is_nobodys_child_by_type() {
    let main = "You are an agent.";
    let tools = ["Read", "Task"];
    let opening = |id: &str, at| said(id, at, &[user(&format!("hello from {id}"))]).kind(main, &tools);
    let placed = link(&[
        parent("top", 0.0, "worker"),
        opening("child", 2.0)
            .header("x-claude-code-agent-type", "worker")
            .answered(&answer("done")),
        parent("next", 60.0, "worker"),
        opening("stranger", 62.0).answered(&answer("hello")),
    ])
    .await;
    are_together(&placed, &["top", "child"]);
    are_apart(&placed, "next", "stranger");
}

#[tokio::test]
async fn a_result_closes_a_claim() {
    let closing = [
        user("begin top"),
        claim("call-top", "recon"),
        result("call-top", "refused"),
    ];
    let placed = link(&[
        parent("top", 0.0, "recon"),
        said("closing", 2.0, &closing).answered(&answer("as you like")),
        newcomer("stranger", 12.0, "You look.", Some("recon")),
    ])
    .await;
    are_together(&placed, &["top", "closing"]);
    are_apart(&placed, "top", "stranger");
}

/// An import may say any time of a call. Nothing is to be looked up for each moment until then.
#[tokio::test]
async fn a_call_of_another_age_is_no_work() {
    let mut top = parent("top", 0.0, "recon").raw();
    top.spawned_at = vec![("call-top".to_owned(), second(9e9))];
    let words = "the task of call-top, before it was put into other words";
    let child = said("child", 5.0, &[user(words)]).answered(&answer("done")).raw();
    let late = said("late", 3.0, &[user("hello")]).answered(&answer("hi")).raw();
    for order in [[&top, &child, &late], [&late, &child, &top]] {
        let placed = placed_one_by_one(order).await;
        are_together(&placed, &["top", "child"]);
        are_apart(&placed, "top", "late");
    }
}

/// What may happen at a moment: somebody calls for a child, a call gets its result, somebody begins.
#[derive(Debug, Clone)]
enum Event {
    Call { name: usize },
    Result { of: usize },
    Begin { kind: usize, name: Option<usize> },
}

fn events() -> impl Strategy<Value = Vec<(u32, Event)>> {
    let name = 0..3_usize;
    let event = prop_oneof![
        3 => name.clone().prop_map(|name| Event::Call { name }),
        1 => (0..4_usize).prop_map(|of| Event::Result { of }),
        4 => (0..3_usize, prop::option::of(name)).prop_map(|(kind, name)| Event::Begin { kind, name }),
    ];
    // Closer than a claim's window, and further apart than clocks may be.
    prop::collection::vec((0..20_000_u32, event), 2..14)
}

const NAMES: [&str; 3] = ["recon", "exec", "plan"];
const KINDS: [&str; 3] = ["You look.", "You run.", "You are an agent."];

fn exchanges(events: &[(u32, Event)]) -> Vec<Said> {
    let mut at = 0.0;
    let mut calls = Vec::new();
    let mut all = Vec::new();
    for (index, (pause, event)) in events.iter().enumerate() {
        at += f64::from(*pause) / 1_000.0;
        let id = format!("e{index:02}");
        match event {
            Event::Call { name } => {
                all.push(parent(&id, at, NAMES[*name]));
                calls.push((id, NAMES[*name]));
            }
            Event::Result { of } => {
                if let Some((asker, name)) = calls.get(*of) {
                    let call = format!("call-{asker}");
                    let history = [
                        user(&format!("begin {asker}")),
                        claim(&call, name),
                        result(&call, &format!("told at {at}")),
                    ];
                    all.push(said(&id, at, &history).answered(&answer(&format!("heard by {id}"))));
                }
            }
            Event::Begin { kind, name } => all.push(newcomer(&id, at, KINDS[*kind], name.map(|name| NAMES[name]))),
        }
    }
    all
}

#[test]
fn claims_do_not_depend_on_the_order_of_arrival() {
    run(150, (events(), any::<u64>(), 1_usize..6), |(events, order, at_once)| {
        let exchanges = exchanges(&events);
        if exchanges.is_empty() {
            return;
        }
        block_on(async {
            let expected = recorded(&exchanges, exchanges.len()).await;
            let found = recorded(&shuffled(&exchanges, order), at_once).await;
            assert_same(
                &found,
                &expected,
                &format!("{events:?}, order {order}, {at_once} at once"),
            );
        });
    });
}
