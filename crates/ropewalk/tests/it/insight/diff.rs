//! `diff`.

use serde_json::{Value, json};

use super::{assistant, call, exchange, result, text, user};
use crate::stderr;
use crate::store::{TestStore, talk};

/// One question, worked on in two ways.
fn two_ways() -> TestStore {
    let asked = user("Make the parser faster.");
    let read = assistant(&[
        text("I read it first."),
        call("t1", "Read", &json!({"file_path": "src/parser.rs"})),
    ]);
    let source = result("t1", "fn parse() {}");
    let edit = call(
        "t2",
        "Edit",
        &json!({"file_path": "src/parser.rs", "old_string": "a", "new_string": "b"}),
    );
    let patch = "*** Begin Patch\n*** Add File: benches/parser.rs\n+x\n*** End Patch";
    let measure = call("t3", "apply_patch", &json!({"input": patch}));
    let blocks = |message: &Value| message["content"].as_array().unwrap().clone();
    let begun = [asked.clone()];
    let mut there = vec![asked, read.clone(), source];
    let first = exchange("way-1", 0, &begun, &blocks(&read));
    let second = exchange("way-2", 10, &there, &[text("Now I change it."), edit.clone()]);
    let mut other = exchange(
        "way-2b",
        20,
        &there,
        &[text("I measure before I change anything."), measure],
    );
    other["request"]["body"]["model"] = json!("claude-opus-4-5");
    other["response"]["body"]["model"] = json!("claude-opus-4-5");
    there.extend([assistant(&[text("Now I change it."), edit]), result("t2", "done")]);
    let third = exchange("way-3", 30, &there, &[text("The parser is twice as fast.")]);
    TestStore::with(&[first, second, other, third])
}

#[test]
fn two_ways_part_where_the_answers_do() {
    let store = two_ways();
    insta::assert_snapshot!(store.ok(&["diff", "way-3", "way-2b"]), @r##"
    --- way-3 · 5690d1a8 · main · claude-sonnet-4-5
    +++ way-2b · 5690d1a8 · branch_20260301100020 · claude-opus-4-5
      3 messages and 1 exchange in common, up to "fn parse() {}"
      asked with another model
    - assistant: Now I change it. ✏️ Editing file: src/parser.rs
    - tool_result: done
    - assistant: The parser is twice as fast.
    + assistant: I measure before I change anything. 🔧 Using tool: apply_patch
    tool calls
    - Edit src/parser.rs
    + apply_patch *** Begin Patch *** Add File: benches/parser.rs +x *** End Patch
    files
    + benches/parser.rs (written)
    - src/parser.rs (written)
                A             B
    exchanges   2             1
    tokens in   20            10
    cached      0             0
    tokens out  10            5
    cost        $0.0002       $0.0002
    latency     2.0 s         1.0 s
    "##);
}

#[test]
fn strangers_that_begin_alike_share_words_and_no_exchange() {
    let store = TestStore::with(&talk());
    insta::assert_snapshot!(store.ok(&["diff", "talk-2", "stranger"]), @r##"
    --- talk-2 · 019dad0c · main · claude-sonnet-4-5
    +++ stranger · abbe74b0 · main · claude-sonnet-4-5
      1 message and 0 exchanges in common, up to "How long is a rope?"
    - assistant: As long as its walk.
    - user: And the walk?
    - assistant: A quarter mile.
    + assistant: That depends.
                A             B
    exchanges   2             1
    tokens in   20            10
    cached      0             0
    tokens out  10            5
    cost        $0.0002       $0.0001
    latency     2.0 s         1.0 s
    "##);
}

#[test]
fn a_turn_and_its_history_differ_by_what_came_since() {
    let store = TestStore::with(&talk());
    insta::assert_snapshot!(store.ok(&["diff", "talk-2~1", "talk-2"]), @r##"
    --- talk-1 · 019dad0c · main · claude-sonnet-4-5
    +++ talk-2 · 019dad0c · main · claude-sonnet-4-5
      2 messages and 1 exchange in common, up to "As long as its walk."
    + user: And the walk?
    + assistant: A quarter mile.
                A             B
    exchanges   0             1
    tokens in   0             10
    cached      0             0
    tokens out  0             5
    cost        $0            $0.0001
    latency     0.0 s         1.0 s
    "##);
    let same = &store.json(&["diff", "talk-2", "talk-2"])[0];
    assert_eq!(same["a"]["messages"], json!([]));
    assert_eq!(same["b"]["messages"], json!([]));
    assert_eq!(same["common"]["messages"], 4);
}

#[test]
fn a_branch_is_named_behind_its_conversation() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log", "--exchanges"]);
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let conversation = text(&row("talk-2b")["conversation_id"]);
    let branch = text(&row("talk-2b")["branch_id"]);
    let by_name = store.json(&[
        "diff",
        &format!("{conversation}/main"),
        &format!("{conversation}/{branch}"),
    ]);
    assert_eq!(by_name[0]["a"]["exchange_id"], "talk-2");
    assert_eq!(by_name[0]["b"]["exchange_id"], "talk-2b");
    let key = text(&row("talk-2b")["branch_key"]);
    let by_key = store.json(&["diff", "talk-2", &format!("{}/{key}", &conversation[..8])]);
    assert_eq!(by_key[0]["b"]["branch_id"], json!(branch));
    let unknown = store.run(&["diff", "talk-2", &format!("{conversation}/nowhere")]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("nothing is named"), "{}", stderr(&unknown));
}

#[test]
fn the_json_has_every_figure() {
    let store = two_ways();
    let mut diff = store.json(&["diff", "way-3", "way-2b"]).remove(0);
    // Names that are hashes are their own tests.
    for side in ["a", "b"] {
        for message in diff[side]["messages"].as_array_mut().unwrap() {
            message["uuid"] = json!("…");
            message["node"] = json!("…");
        }
        diff[side]["conversation_id"] = json!("…");
        diff[side]["friendly_id"] = json!("…");
    }
    diff["common"]["node"] = json!("…");
    diff["common"]["last"]["uuid"] = json!("…");
    diff["common"]["last"]["node"] = json!("…");
    insta::assert_json_snapshot!(diff, @r##"
    {
      "a": {
        "branch_id": "main",
        "conversation_id": "…",
        "exchange_id": "way-3",
        "friendly_id": "…",
        "messages": [
          {
            "content": "Now I change it.\n✏️ Editing file: src/parser.rs",
            "content_left_out": 0,
            "exchange_id": "way-2",
            "node": "…",
            "type": "assistant",
            "uuid": "…"
          },
          {
            "content": "done",
            "content_left_out": 0,
            "exchange_id": "way-3",
            "node": "…",
            "type": "tool_result",
            "uuid": "…"
          },
          {
            "content": "The parser is twice as fast.",
            "content_left_out": 0,
            "exchange_id": "way-3",
            "node": "…",
            "type": "assistant",
            "uuid": "…"
          }
        ],
        "messages_left_out": 0,
        "model": "claude-sonnet-4-5",
        "sums": {
          "cache_read_tokens": 0,
          "cache_write_tokens": 0,
          "cost_is_estimate": false,
          "cost_usd": 0.00021,
          "exchanges": 2,
          "input_tokens": 20,
          "latency_ms": 2000,
          "output_tokens": 10
        },
        "tool_calls": [
          {
            "argument": "src/parser.rs",
            "is_in_both": false,
            "name": "Edit"
          }
        ]
      },
      "b": {
        "branch_id": "branch_20260301100020",
        "conversation_id": "…",
        "exchange_id": "way-2b",
        "friendly_id": "…",
        "messages": [
          {
            "content": "I measure before I change anything.\n🔧 Using tool: apply_patch",
            "content_left_out": 0,
            "exchange_id": "way-2b",
            "node": "…",
            "type": "assistant",
            "uuid": "…"
          }
        ],
        "messages_left_out": 0,
        "model": "claude-opus-4-5",
        "sums": {
          "cache_read_tokens": 0,
          "cache_write_tokens": 0,
          "cost_is_estimate": false,
          "cost_usd": 0.000175,
          "exchanges": 1,
          "input_tokens": 10,
          "latency_ms": 1000,
          "output_tokens": 5
        },
        "tool_calls": [
          {
            "argument": "*** Begin Patch\n*** Add File: benches/parser.rs\n+x\n*** End Patch",
            "is_in_both": false,
            "name": "apply_patch"
          }
        ]
      },
      "common": {
        "exchanges": 1,
        "last": {
          "content": "fn parse() {}",
          "content_left_out": 0,
          "exchange_id": "way-2",
          "node": "…",
          "type": "tool_result",
          "uuid": "…"
        },
        "messages": 3,
        "node": "…"
      },
      "context_differs": [
        "model"
      ],
      "files": [
        {
          "a": null,
          "b": "written",
          "path": "benches/parser.rs"
        },
        {
          "a": "written",
          "b": null,
          "path": "src/parser.rs"
        }
      ],
      "v": 1
    }
    "##);
}
