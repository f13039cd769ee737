//! Answers that come back, in `log --graph`.

use serde_json::{Value, json};

use super::{assistant, call, exchange, result, text, user};
use crate::store::{TestStore, talk};

const REPORT: &str = "I looked at every caller of the parser and found three that pass unbounded input: the importer, the proxy and \
    the search. The first two check the length before, the third does not, and that is where the time goes.";
const REGENERATED: &str = "Ropes are laid from three strands, each of which is twisted against the lay of the rope, so that the \
    forces hold each other in place and the rope does not come apart under load.";

/// An agent that starts another and gets its report; and a user who pastes what another branch said.
pub(crate) fn merging() -> Vec<Value> {
    let blocks = |message: &Value| message["content"].as_array().unwrap().clone();
    let asked = user("Why is the search slow? Let somebody look at it.");
    let spawn = assistant(&[call(
        "t1",
        "Task",
        &json!({"subagent_type": "reviewer", "description": "look", "prompt": "Find out who calls the parser."}),
    )]);
    let report = result("t1", &format!("{REPORT}\nagentId: a1"));
    let mut lines = vec![
        exchange("parent-1", 0, std::slice::from_ref(&asked), &blocks(&spawn)),
        exchange("child-1", 5, &[user("Find out who calls the parser.")], &[text(REPORT)]),
        exchange(
            "parent-2",
            10,
            &[asked, spawn, report],
            &[text("It is the search itself.")],
        ),
    ];
    let rope = user("How is a rope made?");
    let first = assistant(&[text("By twisting.")]);
    let why = user("Why does it hold?");
    let there = [rope, first.clone(), why];
    lines.push(exchange("rope-1", 100, &there[..1], &blocks(&first)));
    lines.push(exchange("rope-2", 110, &there, &[text("It just does.")]));
    lines.push(exchange("rope-2b", 120, &there, &[text(REGENERATED)]));
    let pasted = user(&format!("Elsewhere you said: {REGENERATED} Is that so?"));
    let went_on = [&there[..], &[assistant(&[text("It just does.")]), pasted]].concat();
    lines.push(exchange("rope-3", 130, &went_on, &[text("Yes.")]));
    lines
}

#[test]
fn what_was_quoted_is_an_edge() {
    let store = TestStore::with(&merging());
    let drawn = store.ok(&["log", "--graph"]);
    // The age of a conversation is another test's.
    let lines: Vec<&str> = drawn
        .lines()
        .filter(|line| line.contains(['o', '│', '╯', '╮', '─']) && !line.contains(" ago"))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r##"
    aedd0d77  How is a rope made?                                                       2026-03-01
              rope_6izd · 4 turns · 2 branches · 40 tokens in, 20 out · $0.0004
    o    rope-3  main · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · quotes rope-2b · 2026-03-01
    ├─╮
    │ o  rope-2b  branch_20260301100200 · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · 2026-03-01
    o │  rope-2  main · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · 2026-03-01
    ├─╯
    o  rope-1  main · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · 2026-03-01
    dd07ccb7  Why is the search slow? Let somebody look at it.                          2026-03-01
              search_slow_se57 · 3 turns · 2 branches · 2 agents · 30 tokens in, 15 out · $0.0003
    o    parent-2  main · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · quotes child-1 · 2026-03-01
    ├─╮
    │ o  child-1  subtask_1 · agent reviewer · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · 2026-03-01
    ├─╯
    o  parent-1  main · claude-sonnet-4-5 · 10 in, 5 out · $0.0001 · 2026-03-01
    "##);
}

#[test]
fn merges_are_in_the_json_of_the_graph_and_only_there() {
    let store = TestStore::with(&merging());
    let conversations = store.json(&["log", "--graph"]);
    let merges: Vec<&Value> = conversations
        .iter()
        .map(|conversation| &conversation["merges"])
        .collect();
    insta::assert_json_snapshot!(merges, @r##"
    [
      [
        {
          "brought_by": "user",
          "from_exchange_id": "rope-2b",
          "into_exchange_id": "rope-3",
          "kind": "branch",
          "quoted_words": 35,
          "share": 1.0
        }
      ],
      [
        {
          "brought_by": "tool_result",
          "from_exchange_id": "child-1",
          "into_exchange_id": "parent-2",
          "kind": "subagent",
          "quoted_words": 40,
          "share": 1.0
        }
      ]
    ]
    "##);
    assert!(
        store
            .json(&["log"])
            .iter()
            .all(|conversation| conversation.get("merges").is_none())
    );
}

#[test]
fn ones_own_history_is_no_merge() {
    let store = TestStore::with(&talk());
    for conversation in store.json(&["log", "--graph"]) {
        assert_eq!(conversation["merges"], json!([]));
    }
}
