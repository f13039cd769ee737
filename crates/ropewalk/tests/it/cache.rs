//! `explain --cache` and `stats --cache`: what people and programs are told about prompt caches.

use serde_json::{Value, json};

use crate::store::TestStore;
use crate::{stderr, stdout};

/// A system prompt that is long enough to be kept.
pub(crate) fn system(day: &str) -> String {
    let rules = "Answer in one sentence. Say when you do not know. ".repeat(120);
    format!("You are careful. Today is {day}. {rules}")
}

/// Tokens: neither read nor written, read, written.
type Counted = (u64, u64, u64);

/// A turn of a conversation about a rope, that asks to keep everything.
pub(crate) fn turn(number: u32, minute: u32, system: &str, counted: Counted) -> Value {
    let time = |second: u32| format!("2026-03-01T10:{minute:02}:{second:02}.000000Z");
    let mut messages = Vec::new();
    for before in 1..number {
        messages.push(json!({"role": "user", "content": format!("Question {before}: how long is a rope?")}));
        messages.push(json!({"role": "assistant", "content": format!("Answer {before}: as long as its walk.")}));
    }
    let mark = json!({"type": "ephemeral"});
    let question = format!("Question {number}: how long is a rope?");
    messages.push(json!({"role": "user", "content": [{"type": "text", "text": question, "cache_control": mark}]}));
    let (input, read, written) = counted;
    json!({
        "v": 1, "id": format!("rope-{number}"), "at": time(0), "ended_at": time(1), "method": "POST", "path": "/v1/messages",
        "request": {
            "headers": {"content-type": "application/json", "user-agent": "claude-cli/2.1.197 (external, cli)"},
            "body": {
                "model": "claude-sonnet-4-5", "max_tokens": 64,
                "tools": [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}],
                "system": [{"type": "text", "text": system, "cache_control": mark}], "messages": messages,
            },
        },
        "response": {
            "status": 200, "headers": {"content-type": "application/json"}, "cut_off": false,
            "body": {
                "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": format!("Answer {number}: as long as its walk.")}],
                "stop_reason": "end_turn",
                "usage": {
                    "input_tokens": input, "output_tokens": 10,
                    "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
                },
            },
        },
    })
}

/// Four turns. The third has another system prompt, the fourth comes too late.
pub(crate) fn rope(day: &str) -> Vec<Value> {
    vec![
        turn(1, 0, &system("Monday"), (0, 0, 1_600)),
        turn(2, 1, &system("Monday"), (0, 1_600, 30)),
        turn(3, 2, &system(day), (0, 0, 1_665)),
        turn(4, 30, &system(day), (0, 0, 1_695)),
    ]
}

/// What a terminal must not be told.
pub(crate) const HOSTILE: &str = "\u{1b}[31m\u{202e}Tuesday";

/// Another answer that says nothing of a cache.
fn silent() -> Value {
    let mut line = turn(1, 50, "Be kind.", (10, 0, 0));
    line["id"] = json!("silent");
    line["response"]["body"]["id"] = json!("msg_silent");
    line["response"]["body"]["usage"] = json!({"input_tokens": 10, "output_tokens": 5});
    line
}

#[test]
fn a_turn_that_read_less_than_it_could_is_explained() {
    let store = TestStore::with(&rope(HOSTILE));
    let text = store.ok(&["explain", "--cache", "rope-3"]);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    insta::assert_snapshot!(text, @r##"
    rope-3 read 0 of 1.6k tokens that the provider had kept: the system prompt changed
      compared with rope-2, the turn before
      1.7k tokens in the prompt: 0 read, 1.7k written, 0 neither
      the system prompt changed: system block 1 differs
        before  system block 1
                {"text":"You are careful. Today is Monday. Answer in one sentence. Say when you do not know. Answer in one …
        after   system block 1
                {"text":"You are careful. Today is \u001b[31m\u{202e}Tuesday. Answer in one sentence. Say when you do not k…
      both prompts begin with about 20 tokens (estimated from bytes)
      cost $0.0064, and would have cost $0.0008: $0.0056 lost on 1.6k tokens
    "##);
    insta::assert_snapshot!(store.ok(&["explain", "--cache", "rope-4"]), @r"
    rope-4 read 0 of 1.7k tokens that the provider had kept: expired
      compared with rope-3, the turn before
      1.7k tokens in the prompt: 0 read, 1.7k written, 0 neither
      expired: asked 28 min after the turn before; it is kept for 5 min
      both prompts begin with about 1.7k tokens (estimated from bytes)
      cost $0.0065, and would have cost $0.0008: $0.0057 lost on 1.7k tokens
    ");
}

#[test]
fn a_turn_that_read_everything_says_so() {
    let store = TestStore::with(&rope("Tuesday"));
    insta::assert_snapshot!(store.ok(&["explain", "--cache", "rope-2"]), @r"
    rope-2 read all 1.6k tokens that the provider had kept
      compared with rope-1, the turn before
      1.6k tokens in the prompt: 1.6k read, 30 written, 0 neither
      cost $0.0007
    ");
    insta::assert_snapshot!(store.ok(&["explain", "--cache", "rope-1"]), @r"
    rope-1 had nothing to read: the first turn
      1.6k tokens in the prompt: 0 read, 1.6k written, 0 neither
    ");
}

#[test]
fn where_there_are_no_figures_there_is_nothing_to_explain() {
    let store = TestStore::with(&[silent()]);
    insta::assert_snapshot!(store.ok(&["explain", "--cache", "silent"]), @"silent has nothing to explain: the provider says nothing of a cache");
    insta::assert_snapshot!(store.ok(&["stats", "--cache"]), @r"
    local
      nothing to explain: no turn could have read anything from a cache
      0 exchanges had nothing to read, 1 said nothing of a cache
    ");
}

#[test]
fn a_report_is_data_with_json() {
    let store = TestStore::with(&rope("Tuesday"));
    let report = &store.json(&["explain", "--cache", "rope-3"])[0];
    insta::assert_snapshot!(serde_json::to_string_pretty(report).unwrap(), @r##"
    {
      "also": [],
      "at": "2026-03-01T10:02:00.000000Z",
      "cause": {
        "explained": "system block 1 differs",
        "kind": "system"
      },
      "compared_with": "rope-2",
      "cost_is_estimate": false,
      "cost_usd": 0.00639375,
      "difference": {
        "after": "{\"text\":\"You are careful. Today is Tuesday. Answer in one sentence. Say when you do not know. Answer in one sentenc…",
        "at_char": 35,
        "before": "{\"text\":\"You are careful. Today is Monday. Answer in one sentence. Say when you do not know. Answer in one sentence…",
        "place_after": "system block 1",
        "place_before": "system block 1"
      },
      "exchange_id": "rope-3",
      "input_tokens": 0,
      "lost_tokens": 1630,
      "lost_usd": 0.0056235,
      "minimum_tokens": 1024,
      "model": "claude-sonnet-4-5",
      "outcome": "miss",
      "prompt_tokens": 1665,
      "provider": "anthropic",
      "read_tokens": 0,
      "readable_tokens": 1630,
      "reason": null,
      "shared_tokens_estimate": 20,
      "v": 1,
      "would_have_cost_usd": 0.00077025,
      "written_tokens": 1665
    }
    "##);
    let stats = &store.json(&["stats", "--cache"])[0];
    insta::assert_snapshot!(serde_json::to_string_pretty(stats).unwrap(), @r##"
    {
      "causes": [
        {
          "cause": "expired",
          "example": "rope-4",
          "lost_tokens": 1665,
          "lost_usd": 0.00574425,
          "turns": 1
        },
        {
          "cause": "system",
          "example": "rope-3",
          "lost_tokens": 1630,
          "lost_usd": 0.0056235,
          "turns": 1
        }
      ],
      "hits": 1,
      "is_cut": false,
      "lost_is_estimate": false,
      "lost_tokens": 3295,
      "lost_usd": 0.01136775,
      "nothing_to_explain": 0,
      "nothing_to_read": 1,
      "owner": "local",
      "read_share": 0.3268641470888662,
      "read_tokens": 1600,
      "readable_tokens": 4895,
      "turns": 3,
      "v": 1,
      "without_price": 0
    }
    "##);
}

#[test]
fn causes_are_ranked_by_what_they_cost() {
    let store = TestStore::with(&rope("Tuesday"));
    insta::assert_snapshot!(store.ok(&["stats", "--cache"]), @r"
    local
      33 % read of what could have been: 1.6k of 4.9k tokens, in 3 turns, 1 of them whole
      1 exchange had nothing to read, 0 said nothing of a cache
      $0.01 lost
        expired                         $0.0057    1.7k tokens     1 turn      rope-4
        the system prompt changed       $0.0056    1.6k tokens     1 turn      rope-3
    ");
    let early = store.json(&["stats", "--cache", "--until", "2026-03-01T10:02:30Z"]);
    assert_eq!(early[0]["causes"].as_array().unwrap().len(), 1);
    let late = store.json(&["stats", "--cache", "--since", "2026-03-01T10:02:30Z"]);
    assert_eq!(late[0]["causes"][0]["cause"], "expired");
}

#[test]
fn an_alarm_is_an_exit_code_once_there_are_enough_turns_to_tell() {
    let few = TestStore::with(&rope("Tuesday"));
    assert_eq!(few.run(&["stats", "--cache", "--alarm", "0.9"]).status.code(), Some(0));
    let lines: Vec<Value> = (1..=12)
        .map(|number| turn(number, number, &system(&format!("day {number}")), (0, 0, 1_600)))
        .collect();
    let store = TestStore::with(&lines);
    let output = store.run(&["stats", "--cache", "--alarm", "0.9"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("warning: reads fell below 90 %"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).contains("only 0 % of what could have been read"),
        "{}",
        stderr(&output)
    );
    assert_eq!(store.run(&["stats", "--cache", "--alarm", "0"]).status.code(), Some(0));
    for bad in [&["stats", "--cache", "--alarm", "2"][..], &["stats", "--since", "2h"]] {
        assert_eq!(store.run(bad).status.code(), Some(2), "{bad:?}");
    }
}
