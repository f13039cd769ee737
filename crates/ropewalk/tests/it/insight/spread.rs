//! `spread`.

use serde_json::{Value, json};

use super::{assistant, call, exchange, result, text, user};
use crate::stderr;
use crate::store::{TestStore, jsonl};

const SECRET: &str = "the launch code is heron-7731";

/// A secret that a tool brings in the second turn, with what came of it: a third turn, an edit before it, an edit behind it, another
/// conversation that it is pasted into, and one that has its words in another order.
fn leaked() -> Vec<Value> {
    let ask = user("Read the notes.");
    let read = assistant(&[call("t1", "Read", &json!({"file_path": "notes.md"}))]);
    let notes = result("t1", &format!("Friday.\n{SECRET}\n"));
    let summary = assistant(&[text("It is all about Friday.")]);
    let blocks = |message: &Value| message["content"].as_array().unwrap().clone();
    let there = [ask.clone(), read.clone(), notes, summary.clone()];
    let then = |question: &str| [&there[..], &[user(question)]].concat();
    let mut pasted = exchange(
        "paste",
        60,
        &[user(&format!("Is this safe: {SECRET}?"))],
        &[text("No.")],
    );
    pasted["request"]["body"]["model"] = json!("claude-opus-4-5");
    vec![
        exchange("leak-1", 0, &there[..1], &blocks(&read)),
        exchange("leak-2", 10, &there[..3], &blocks(&summary)),
        exchange("leak-3", 20, &then("And who comes?"), &[text("Everybody.")]),
        exchange("leak-3b", 30, &then("Who is away?"), &[text("Nobody.")]),
        exchange(
            "before",
            40,
            &[user("Read the other notes.")],
            &[text("There are none.")],
        ),
        exchange(
            "leak-2b",
            50,
            &[ask, read, result("t1", "Nothing is in it.")],
            &[text("It is empty.")],
        ),
        pasted,
        exchange("words", 70, &[user("heron-7731 is the launch code")], &[text("So?")]),
    ]
}

fn ids(spread: &Value) -> Vec<&str> {
    let exchanges = spread["exchanges"].as_array().unwrap();
    exchanges
        .iter()
        .map(|row| row["exchange_id"].as_str().unwrap())
        .collect()
}

#[test]
fn a_secret_is_followed_to_everybody_who_was_sent_it() {
    let store = TestStore::with(&leaked());
    insta::assert_snapshot!(store.ok(&["spread", SECRET]), @r##"
    4 exchanges in 2 conversations
    first said
      2026-03-01 10:00:10  leak-2 by tool_result
      2026-03-01 10:01:00  paste by user
    conversations
      fe05ea42  Read the notes.  3 exchanges, last 2026-03-01 10:00:30
      700c0a8c  Is this safe: the launch code is heron-7731?  1 exchange, last 2026-03-01 10:01:00
    destinations
      anthropic  4 exchanges, last 2026-03-01 10:01:00
    models
      claude-opus-4-5  1 exchange, last 2026-03-01 10:01:00
      claude-sonnet-4-5  3 exchanges, last 2026-03-01 10:00:30
    exchanges
      2026-03-01 10:00:10  leak-2  anthropic · claude-sonnet-4-5 · request
      2026-03-01 10:00:20  leak-3  anthropic · claude-sonnet-4-5 · request
      2026-03-01 10:00:30  leak-3b  anthropic · claude-sonnet-4-5 · request
      2026-03-01 10:01:00  paste  anthropic · claude-opus-4-5 · request
    "##);
}

#[test]
fn only_requests_that_hold_the_bytes_are_listed() {
    let store = TestStore::with(&leaked());
    let spread = &store.json(&["spread", SECRET])[0];
    assert_eq!(ids(spread), ["leak-2", "leak-3", "leak-3b", "paste"]);
    for row in spread["exchanges"].as_array().unwrap() {
        let raw = store.ok(&["show", "--raw", "request", row["exchange_id"].as_str().unwrap()]);
        assert!(raw.contains(SECRET), "{row}");
        assert_eq!(row["is_certain"], true);
    }
    for other in ["leak-1", "leak-2b", "before", "words"] {
        assert!(
            !store.ok(&["show", "--raw", "request", other]).contains(SECRET),
            "{other}"
        );
    }
}

#[test]
fn a_part_is_followed_by_its_name() {
    let store = TestStore::with(&leaked());
    let spread = &store.json(&["spread", SECRET])[0];
    let parts = spread["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2, "the tool's result and the pasted prompt");
    let found: Vec<Vec<String>> = parts
        .iter()
        .map(|part| {
            let spread = &store.json(&["spread", "--part", part.as_str().unwrap()])[0];
            ids(spread).into_iter().map(str::to_owned).collect()
        })
        .collect();
    assert!(found.contains(&vec!["paste".to_owned()]), "{found:?}");
    assert!(
        found.contains(&["leak-2", "leak-3", "leak-3b"].map(str::to_owned).to_vec()),
        "{found:?}"
    );
    assert_eq!(spread["nodes"].as_array().unwrap().len(), 2);
}

#[test]
fn what_a_model_said_is_in_the_requests_that_repeat_it() {
    let store = TestStore::with(&leaked());
    let spread = &store.json(&["spread", "It is all about Friday."])[0];
    assert_eq!(ids(spread), ["leak-2", "leak-3", "leak-3b"]);
    let halves: Vec<&Value> = spread["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["half"])
        .collect();
    assert_eq!(halves, ["response", "request", "request"]);
    assert_eq!(spread["first_said"][0]["said_by"], "assistant");
}

#[test]
fn a_text_comes_from_a_file_or_from_standard_input() {
    let store = TestStore::with(&leaked());
    let file = store.file("secret.txt", &format!("{SECRET}\n"));
    let spread = &store.json(&["spread", "--file", file.to_str().unwrap()])[0];
    assert_eq!(ids(spread).len(), 4);
}

#[test]
fn nothing_is_found_of_what_nobody_said_or_another_owner_did() {
    let store = TestStore::with(&leaked());
    let other = store.file(
        "other.jsonl",
        &jsonl(&[exchange("theirs", 0, &[user("Good morning, heron.")], &[text("Hi.")])]),
    );
    store.ok(&["--owner", "bob", "import", other.to_str().unwrap()]);
    for arguments in [
        &["--owner", "bob", "spread", SECRET][..],
        &["--owner", "local", "spread", "launch code is heron-7732"],
        &["--owner", "local", "spread", "Good morning, heron."],
    ] {
        let output = store.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("nobody was sent that"), "{}", stderr(&output));
    }
    let no_words = store.run(&["--owner", "local", "spread", "--", "---"]);
    assert_eq!(no_words.status.code(), Some(2));
    let no_hash = store.run(&["--owner", "local", "spread", "--part", "abc"]);
    assert_eq!(no_hash.status.code(), Some(2));
}

#[test]
fn the_json_names_conversations_models_and_destinations() {
    let store = TestStore::with(&leaked());
    let mut spread = store.json(&["spread", SECRET]).remove(0);
    for row in spread["exchanges"].as_array_mut().unwrap() {
        row["conversation_id"] = json!("…");
    }
    for row in spread["conversations"].as_array_mut().unwrap() {
        row["conversation_id"] = json!("…");
        row["friendly_id"] = json!("…");
    }
    for row in spread["first_said"].as_array_mut().unwrap() {
        row["node"] = json!("…");
    }
    spread["nodes"] = json!("…");
    spread["parts"] = json!("…");
    insta::assert_json_snapshot!(spread, @r##"
    {
      "conversations": [
        {
          "conversation_id": "…",
          "exchanges": 3,
          "first_at": "2026-03-01T10:00:10.000000Z",
          "friendly_id": "…",
          "last_at": "2026-03-01T10:00:30.000000Z",
          "title": "Read the notes."
        },
        {
          "conversation_id": "…",
          "exchanges": 1,
          "first_at": "2026-03-01T10:01:00.000000Z",
          "friendly_id": "…",
          "last_at": "2026-03-01T10:01:00.000000Z",
          "title": "Is this safe: the launch code is heron-7731?"
        }
      ],
      "destinations": [
        {
          "exchanges": 4,
          "first_at": "2026-03-01T10:00:10.000000Z",
          "last_at": "2026-03-01T10:01:00.000000Z",
          "name": "anthropic"
        }
      ],
      "exchanges": [
        {
          "at": "2026-03-01T10:00:10.000000Z",
          "conversation_id": "…",
          "exchange_id": "leak-2",
          "half": "request",
          "is_certain": true,
          "model": "claude-sonnet-4-5",
          "provider": "anthropic",
          "session": null
        },
        {
          "at": "2026-03-01T10:00:20.000000Z",
          "conversation_id": "…",
          "exchange_id": "leak-3",
          "half": "request",
          "is_certain": true,
          "model": "claude-sonnet-4-5",
          "provider": "anthropic",
          "session": null
        },
        {
          "at": "2026-03-01T10:00:30.000000Z",
          "conversation_id": "…",
          "exchange_id": "leak-3b",
          "half": "request",
          "is_certain": true,
          "model": "claude-sonnet-4-5",
          "provider": "anthropic",
          "session": null
        },
        {
          "at": "2026-03-01T10:01:00.000000Z",
          "conversation_id": "…",
          "exchange_id": "paste",
          "half": "request",
          "is_certain": true,
          "model": "claude-opus-4-5",
          "provider": "anthropic",
          "session": null
        }
      ],
      "exchanges_left_out": 0,
      "first_said": [
        {
          "at": "2026-03-01T10:00:10.000000Z",
          "exchange_id": "leak-2",
          "node": "…",
          "said_by": "tool_result"
        },
        {
          "at": "2026-03-01T10:01:00.000000Z",
          "exchange_id": "paste",
          "node": "…",
          "said_by": "user"
        }
      ],
      "is_complete": true,
      "models": [
        {
          "exchanges": 1,
          "first_at": "2026-03-01T10:01:00.000000Z",
          "last_at": "2026-03-01T10:01:00.000000Z",
          "name": "claude-opus-4-5"
        },
        {
          "exchanges": 3,
          "first_at": "2026-03-01T10:00:10.000000Z",
          "last_at": "2026-03-01T10:00:30.000000Z",
          "name": "claude-sonnet-4-5"
        }
      ],
      "nodes": "…",
      "parts": "…",
      "v": 1
    }
    "##);
}
