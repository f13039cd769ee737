//! `blame`: who brought each system block and each tool, as people and programs are told.

use serde_json::{Value, json};

use crate::cache::{HOSTILE, rope};
use crate::matching::without_times;
use crate::stderr;
use crate::store::TestStore;

/// The rope's conversation in a project, with a tool that comes, changes and goes.
fn worked(day: &str) -> Vec<Value> {
    let mut lines = rope(day);
    let write = |text: &str| json!({"name": "Write", "description": text, "input_schema": {"type": "object"}});
    let tools = |line: &mut Value, tool: Value| line["request"]["body"]["tools"].as_array_mut().unwrap().push(tool);
    tools(&mut lines[1], write("Writes a file."));
    tools(&mut lines[2], write("Writes a file, and makes its folder."));
    for line in &mut lines {
        line["path"] = json!("/p/site/anthropic/v1/messages");
    }
    lines
}

#[test]
fn what_is_in_force_is_told_with_who_brought_it() {
    let store = TestStore::with(&worked(HOSTILE));
    let text = store.ok(&["blame", "rope-3"]);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    insta::assert_snapshot!(without_times(&text), @r##"
    rope-3 was sent with 1 system block and 2 tools, about 1.6k tokens
      tool Read  since rope-1, 0000-00-00 00:00:00, by claude-code/2.1.197
        about 19 tokens in 3 turns: ~$0.0001
        + {"description":"Reads a file.","input_schema":{"type":"object"},"name":"Read"}
      tool Write  since rope-3, 0000-00-00 00:00:00, by claude-code/2.1.197
        about 26 tokens in 1 turn: under $0.0001
        - {"description":"Writes a file.","input_schema":{"type":"object"},"name":"Write"}
        + {"description":"Writes a file, and makes its folder.","input_schema":{"type":"object"},"name":"Write"}
      system block 1  since rope-3, 0000-00-00 00:00:00, by claude-code/2.1.197
        about 1.5k tokens in 1 turn: ~$0.0058
        - {"text":"You are careful. Today is Monday. Answer in one sentence. Say when you do not know. Answer in one senten…
        + {"text":"You are careful. Today is \u001b[31m\u{202e}Tuesday. Answer in one sentence. Say when you do not know. A…
    "##);
}

#[test]
fn every_change_is_on_the_timeline() {
    let store = TestStore::with(&worked("Tuesday"));
    insta::assert_snapshot!(without_times(&store.ok(&["blame", "rope-4", "--timeline"])), @r##"
    4 changes of system blocks and tools in 4 turns
      0000-00-00 00:00:00  tool Write new with rope-2, by claude-code/2.1.197
        about +21 tokens a turn, 1 turn since: under $0.0001
        + {"description":"Writes a file.","input_schema":{"type":"object"},"name":"Write"}
      0000-00-00 00:00:00  system block 1 changed with rope-3, by claude-code/2.1.197
        about +1 tokens a turn, 2 turns since: ~$0.01
        - {"text":"You are careful. Today is Monday. Answer in one sentence. Say when you do not know. Answer in one senten…
        + {"text":"You are careful. Today is Tuesday. Answer in one sentence. Say when you do not know. Answer in one sente…
      0000-00-00 00:00:00  tool Write changed with rope-3, by claude-code/2.1.197
        about +5 tokens a turn, 1 turn since: under $0.0001
        - {"description":"Writes a file.","input_schema":{"type":"object"},"name":"Write"}
        + {"description":"Writes a file, and makes its folder.","input_schema":{"type":"object"},"name":"Write"}
      0000-00-00 00:00:00  tool Write gone with rope-4, by claude-code/2.1.197
        about -26 tokens a turn
        - {"description":"Writes a file, and makes its folder.","input_schema":{"type":"ob…
    "##);
    insta::assert_snapshot!(store.ok(&["blame", "rope-1", "--timeline"]), @"0 changes of system blocks and tools in 1 turn");
}

#[test]
fn changes_are_found_by_project_client_and_agent_type() {
    let store = TestStore::with(&worked("Tuesday"));
    let names = |arguments: &[&str]| -> Vec<String> {
        let timeline = store.json(arguments).remove(0);
        let changes = timeline["changes"].as_array().unwrap().clone();
        let name = |change: &Value| {
            format!(
                "{} {}",
                change["what"].as_str().unwrap(),
                change["name"].as_str().unwrap()
            )
        };
        changes.iter().map(name).collect()
    };
    let new = ["added Write", "changed 1", "changed Write"];
    assert_eq!(names(&["blame", "--project", "site"]), new);
    assert_eq!(names(&["blame", "--client", "claude-code/2.1.197"]), new);
    assert_eq!(names(&["blame", "--project", "nobodys"]), [""; 0]);
    assert_eq!(names(&["blame", "--client", "claude-code/2.1.198"]), [""; 0]);
    let hash = &store.json(&["log", "--exchanges"])[0]["agent"]["type_hash"];
    let of_type = store.json(&["blame", "--agent-type", hash.as_str().unwrap()]).remove(0);
    assert_eq!(
        of_type["turns"], 1,
        "only the first turn was sent with just these tools: {of_type}"
    );
    let other = store.run(&["--owner", "nobody", "blame", "--project", "site"]);
    assert_eq!(other.status.code(), Some(1));
    for bad in [
        &["blame"][..],
        &["blame", "--agent-type", "xyz"],
        &["blame", "rope-1", "--project", "site"],
    ] {
        let output = store.run(bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {}", stderr(&output));
    }
}

#[test]
fn blame_is_data_with_json() {
    let store = TestStore::with(&worked("Tuesday"));
    let blame = &store.json(&["blame", "rope-3"])[0];
    insta::assert_snapshot!(serde_json::to_string_pretty(blame).unwrap(), @r##"
    {
      "at": "2026-03-01T10:02:00.000000Z",
      "exchange_id": "rope-3",
      "is_cut": false,
      "parts": [
        {
          "client": "claude-code/2.1.197",
          "cost_usd_estimate": 0.0001482,
          "exchange_id": "rope-1",
          "kind": "tool",
          "name": "Read",
          "replaced": null,
          "since": "2026-03-01T10:00:00.000000Z",
          "text": "{\"description\":\"Reads a file.\",\"input_schema\":{\"type\":\"object\"},\"name\":\"Read\"}",
          "tokens_estimate": 19,
          "turns": 3
        },
        {
          "client": "claude-code/2.1.197",
          "cost_usd_estimate": 0.0000975,
          "exchange_id": "rope-3",
          "kind": "tool",
          "name": "Write",
          "replaced": {
            "after": "{\"description\":\"Writes a file, and makes its folder.\",\"input_schema\":{\"type\":\"object\"},\"name\":\"Write\"}",
            "before": "{\"description\":\"Writes a file.\",\"input_schema\":{\"type\":\"object\"},\"name\":\"Write\"}",
            "tokens_estimate": 21
          },
          "since": "2026-03-01T10:02:00.000000Z",
          "text": "{\"description\":\"Writes a file, and makes its folder.\",\"input_schema\":{\"type\":\"ob…",
          "tokens_estimate": 26,
          "turns": 1
        },
        {
          "client": "claude-code/2.1.197",
          "cost_usd_estimate": 0.005805,
          "exchange_id": "rope-3",
          "kind": "system",
          "name": "1",
          "replaced": {
            "after": "{\"text\":\"You are careful. Today is Tuesday. Answer in one sentence. Say when you do not know. Answer in one sentenc…",
            "before": "{\"text\":\"You are careful. Today is Monday. Answer in one sentence. Say when you do not know. Answer in one sentence…",
            "tokens_estimate": 1547
          },
          "since": "2026-03-01T10:02:00.000000Z",
          "text": "{\"text\":\"You are careful. Today is Tuesday. Answer in one sentence. Say when you…",
          "tokens_estimate": 1548,
          "turns": 1
        }
      ],
      "turns": 3,
      "v": 1
    }
    "##);
    let timeline = &store.json(&["blame", "rope-2", "--timeline"])[0];
    insta::assert_snapshot!(serde_json::to_string_pretty(timeline).unwrap(), @r##"
    {
      "changes": [
        {
          "after": "{\"description\":\"Writes a file.\",\"input_schema\":{\"type\":\"object\"},\"name\":\"Write\"}",
          "at": "2026-03-01T10:01:00.000000Z",
          "before": null,
          "client": "claude-code/2.1.197",
          "cost_usd_estimate": 6.3e-6,
          "exchange_id": "rope-2",
          "kind": "tool",
          "name": "Write",
          "tokens_added_estimate": 21,
          "turns": 1,
          "what": "added"
        }
      ],
      "is_cut": false,
      "turns": 2,
      "v": 1
    }
    "##);
}
