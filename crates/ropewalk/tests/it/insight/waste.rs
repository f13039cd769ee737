//! `stats --waste`.

use serde_json::{Value, json};

use super::{assistant, call, exchange, result, text, user};
use crate::store::TestStore;

/// An agent that reads the same file four times.
pub(crate) fn stuck() -> Vec<Value> {
    let source = "fn parse(input: &str) -> Vec<Token> { scan(input) }\n".repeat(12);
    let mut messages = vec![user("Why is the parser slow?")];
    let mut lines = Vec::new();
    for turn in 0..5_u32 {
        let id = format!("t{turn}");
        let answer = match turn {
            4 => vec![text("I do not know.")],
            _ => vec![call(&id, "Read", &json!({"file_path": "src/parser.rs"}))],
        };
        let mut line = exchange(&format!("stuck-{turn}"), turn * 10, &messages, &answer);
        line["response"]["body"]["usage"]["input_tokens"] = json!(100 + turn * 200);
        lines.push(line);
        messages.push(assistant(&answer));
        messages.push(result(&id, &source));
    }
    lines
}

#[test]
fn what_was_sent_again_is_listed_with_what_it_took() {
    insta::assert_snapshot!(TestStore::with(&stuck()).ok(&["stats", "--waste"]), @r##"
    5 exchanges in 1 conversation: 2.5k tokens in, ~$0.0075
    the same result again
      ~$0.0030  ~998 tokens, brought 4 times, sent 10 times  Read src/parser.rs
          fn parse(input: &str) -> Vec<Token> { scan(input) } fn parse(input: &str) -> Vec<Token> { scan(input) } fn parse(…
    the same file again
      ~$0.0030  ~998 tokens, brought 4 times, sent 10 times  Read src/parser.rs
          fn parse(input: &str) -> Vec<Token> { scan(input) } fn parse(input: &str) -> Vec<Token> { scan(input) } fn parse(…
    the largest, by tokens and times sent
      ~$0.0051  ~1.7k tokens, brought 4 times, sent 10 times  Read src/parser.rs
          fn parse(input: &str) -> Vec<Token> { scan(input) } fn parse(input: &str) -> Vec<Token> { scan(input) } fn parse(…
    agents that only repeat themselves
      $0.0079  c431098d main: 3 of 4 calls made before, most of all Read src/parser.rs
    "##);
}

#[test]
fn a_block_that_two_branches_repeat_was_brought_once() {
    let mut lines = stuck();
    lines.truncate(2);
    let mut other = lines[1].clone();
    other["id"] = json!("other");
    other["at"] = json!("2026-03-01T10:05:00Z");
    other["ended_at"] = json!("2026-03-01T10:05:01Z");
    let added = other["request"]["body"]["messages"].as_array_mut().unwrap();
    added.extend([assistant(&[text("Wait.")]), user("Go on.")]);
    lines.push(other);
    let waste = &TestStore::with(&lines).json(&["stats", "--waste"])[0];
    assert_eq!(waste["exchanges"], 3);
    assert_eq!(waste["results"], json!([]));
    assert_eq!(waste["files"], json!([]));
    assert_eq!(waste["largest"][0]["brought"], 1);
    assert_eq!(waste["largest"][0]["sent"], 2);
}

#[test]
fn shares_never_exceed_the_whole() {
    let waste = &TestStore::with(&stuck()).json(&["stats", "--waste"])[0];
    let sum: u64 = waste["largest"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["tokens"].as_u64().unwrap())
        .sum();
    let sent = waste["tokens_sent"].as_u64().unwrap();
    assert_eq!(sent, 100 + 300 + 500 + 700 + 900);
    assert!(sum <= sent, "{sum} of {sent}");
}

#[test]
fn the_json_has_every_list() {
    let mut waste = TestStore::with(&stuck()).json(&["stats", "--waste"]).remove(0);
    waste["agents"][0]["conversation_id"] = json!("…");
    insta::assert_json_snapshot!(waste, @r##"
    {
      "agents": [
        {
          "argument": "src/parser.rs",
          "branch_id": "main",
          "calls": 4,
          "conversation_id": "…",
          "cost_usd": 0.007875,
          "exchanges": 5,
          "name": null,
          "repeated_calls": 3,
          "tool": "Read"
        }
      ],
      "conversations": 1,
      "exchanges": 5,
      "files": [
        {
          "argument": "src/parser.rs",
          "brought": 4,
          "conversations": 1,
          "cost_usd": 0.002996547,
          "excerpt": "fn parse(input: &str) -> Vec<Token> { scan(input) }\nfn parse(input: &str) -> Vec<Token> { scan(input) }\nfn parse(input: ",
          "kind": "tool_result",
          "sent": 10,
          "sha256": "c0f741ccb0d2ce20fab559a7bb7009461b5d3743241038808b61d5605cb1fa42",
          "tokens": 998,
          "tool": "Read"
        }
      ],
      "is_all": true,
      "largest": [
        {
          "argument": "src/parser.rs",
          "brought": 4,
          "conversations": 1,
          "cost_usd": 0.005108495,
          "excerpt": "fn parse(input: &str) -> Vec<Token> { scan(input) }\nfn parse(input: &str) -> Vec<Token> { scan(input) }\nfn parse(input: ",
          "kind": "tool_result",
          "sent": 10,
          "sha256": "c0f741ccb0d2ce20fab559a7bb7009461b5d3743241038808b61d5605cb1fa42",
          "tokens": 1702,
          "tool": "Read"
        }
      ],
      "owner": "local",
      "results": [
        {
          "argument": "src/parser.rs",
          "brought": 4,
          "conversations": 1,
          "cost_usd": 0.002996547,
          "excerpt": "fn parse(input: &str) -> Vec<Token> { scan(input) }\nfn parse(input: &str) -> Vec<Token> { scan(input) }\nfn parse(input: ",
          "kind": "tool_result",
          "sent": 10,
          "sha256": "c0f741ccb0d2ce20fab559a7bb7009461b5d3743241038808b61d5605cb1fa42",
          "tokens": 998,
          "tool": "Read"
        }
      ],
      "sent_usd": 0.0075,
      "tokens_sent": 2500,
      "v": 1
    }
    "##);
}

#[test]
fn a_store_without_repetitions_has_no_waste() {
    let store = TestStore::with(&[exchange("one", 0, &[user("Hello")], &[text("Hi.")])]);
    insta::assert_snapshot!(store.ok(&["stats", "--waste"]), @r##"
    1 exchange in 1 conversation: 10 tokens in, <$0.0001
    "##);
}
