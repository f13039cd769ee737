//! `match` and `show --answers`: what is known of messages, and all answers to one input.

use serde_json::{Value, json};

use crate::store::{TestStore, talk, turn};
use crate::{stderr, stdout};

/// A request of user and assistant in turns, as the recorded ones are.
fn request(said: &[&str]) -> String {
    // A turn ends with an answer, which is no part of what is asked.
    let mut with_answer = said.to_vec();
    with_answer.push("?");
    turn("asked", 0, &with_answer)["request"]["body"].to_string()
}

fn matched(store: &TestStore, said: &[&str], arguments: &[&str]) -> (Option<i32>, String) {
    let file = store.file("request.json", &request(said));
    let mut all = vec!["match", file.to_str().unwrap()];
    all.extend(arguments);
    let output = store.run(&all);
    assert_eq!(stderr(&output), "");
    (output.status.code(), stdout(&output))
}

/// Times are local, and so another text elsewhere, but as long as here.
pub(crate) fn without_times(text: &str) -> String {
    const SHAPE: &[u8] = b"0000-00-00 00:00:00";
    let mut out = text.as_bytes().to_vec();
    for at in 0..out.len().saturating_sub(SHAPE.len() - 1) {
        let place = &mut out[at..at + SHAPE.len()];
        let fits = |(byte, shape): (&u8, &u8)| {
            if *shape == b'0' {
                byte.is_ascii_digit()
            } else {
                byte == shape
            }
        };
        if place.iter().zip(SHAPE).all(fits) {
            place.copy_from_slice(SHAPE);
        }
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn messages_are_known_answered_or_new() {
    let store = TestStore::with(&talk());
    let (code, text) = matched(&store, &["How long is a rope?"], &[]);
    assert_eq!(code, Some(0));
    insta::assert_snapshot!(without_times(&text), @r"
    known, and answered  1 of 1 blocks
      node            v1:8f55807e4c721d5281f347f153227fdc7db0c602c2ef97ffe203c242c708a278
      first seen in   talk-1, 0000-00-00 00:00:00
      path hash       2268d0359697f03f7f48689f0cb57ec90f09acd3ff8bbe3819be65df42f9c827

    stranger                                                     talk-1
    claude-sonnet-4-5 · 5 out · $0.0001                          claude-sonnet-4-5 · 5 out · $0.0001
    0000-00-00 00:00:00                                          0000-00-00 00:00:00
    max_tokens=64                                                max_tokens=64
    ────────────────────────                                     ────────────────────────
    That depends.                                                As long as its walk.
    ");
    let (code, text) = matched(
        &store,
        &["How long is a rope?", "As long as its walk.", "How thick?"],
        &[],
    );
    assert_eq!(code, Some(1));
    insta::assert_snapshot!(without_times(&text), @r"
    known in part  2 of 3 blocks
      node            v1:fbb3a0e560e0b7c48b3ab3314fa0885f3b4f9934fad01ef75559a00770f527a2
      first seen in   talk-1, 0000-00-00 00:00:00
      goes on from    talk-1
      path hash       56b4579596097d2be9a9b00301a8a55f1602370bbe54f70cdebb1110d0fa172e
      parts with      message 3, user: How thick?
    ");
    let (code, text) = matched(&store, &["How long is a rope?", "Very.", "Really?"], &[]);
    assert_eq!(code, Some(1));
    let facts: Vec<&str> = text.lines().collect();
    assert_eq!(facts[0], "known in part  1 of 3 blocks");
    assert_eq!(facts[4], "  parts with      message 2, assistant: Very.");
    assert!(text.contains("As long as its walk."), "what is known instead: {text}");
    let (code, text) = matched(&store, &["What is a rope?"], &[]);
    assert_eq!(code, Some(1));
    let facts: Vec<&str> = text.lines().collect();
    assert_eq!((facts[0], facts.len()), ("new  0 of 1 blocks", 3));
    assert_eq!(facts[2], "  parts with      message 1, user: What is a rope?");
}

#[test]
fn a_match_is_data_with_json() {
    let store = TestStore::with(&talk());
    let (code, text) = matched(
        &store,
        &["How long is a rope?", "As long as its walk.", "Why?"],
        &["--json"],
    );
    assert_eq!(code, Some(0));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&found["v"], &found["outcome"], &found["depth"]),
        (&json!(1), &json!("exact"), &json!(3))
    );
    assert_eq!(found["answers"][0]["exchange_id"], "talk-2b");
    assert_eq!(found["answers"][0]["content"], "It is twisted in one piece.");
    assert_eq!(found["diverges"], Value::Null);
    let row = &store.json(&["log", "--exchanges"])[2];
    assert_eq!(
        (&found["input_node"], &found["path_hash"]),
        (&row["input_node"], &row["path_hash"])
    );
}

#[test]
fn a_match_looks_back_in_time_and_at_one_model() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log", "--exchanges"]);
    let second = rows[1]["at"].as_str().unwrap();
    let said = ["How long is a rope?", "As long as its walk.", "Why?"];
    let (code, text) = matched(&store, &said, &["--json", "--as-of", second]);
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &found["outcome"], &found["depth"]),
        (Some(1), &json!("partial"), &json!(2))
    );
    assert_eq!(found["continues_exchange_id"], "talk-1");
    let model = rows[2]["model"].as_str().unwrap();
    assert_eq!(matched(&store, &said, &["--model", model]).0, Some(0));
    assert_eq!(matched(&store, &said, &["--model", "another"]).0, Some(1));
}

#[test]
fn what_is_no_request_is_an_error_with_a_hint() {
    let store = TestStore::with(&talk());
    for (text, what) in [
        ("no json", "no request we know"),
        ("{\"a\": 1}", "no request we know"),
        ("{\"messages\": []}", "says nothing"),
    ] {
        let file = store.file("bad.json", text);
        let output = store.run(&["match", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            stderr(&output).contains(what) && stderr(&output).contains("hint: "),
            "{}",
            stderr(&output)
        );
    }
    let missing = store.run(&["match", "nowhere.json"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn nothing_is_known_where_nothing_is_recorded() {
    let store = TestStore::new();
    let file = store.file("request.json", &request(&["Hello"]));
    let output = store.run(&["match", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert!(stderr(&output).contains("nothing recorded yet"));
}

#[test]
fn answers_to_one_input_stand_side_by_side() {
    let hostile =
        "It turns\u{1b}[31m\u{202e} red, and goes on for longer than one line of its column can hold, in words";
    let mut other = turn("other", 40, &["How long is a rope?", hostile]);
    other["request"]["body"]["temperature"] = json!(0);
    other["request"]["body"]["model"] = json!("another-model");
    let mut lines = talk();
    lines.push(other);
    let store = TestStore::with(&lines);
    let text = store.ok(&["show", "talk-1", "--answers"]);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    insta::assert_snapshot!(without_times(&text), @r"
    stranger                                talk-1                                  other
    claude-sonnet-4-5 · 5 out · $0.0001     claude-sonnet-4-5 · 5 out · $0.0001     another-model · 5 out · $0.0001
    0000-00-00 00:00:00                     0000-00-00 00:00:00                     0000-00-00 00:00:00
    max_tokens=64                           max_tokens=64                           max_tokens=64 temperature=0
    ────────────────────────                ────────────────────────                asked with other options
    That depends.                           As long as its walk.                    ────────────────────────
                                                                                    It turns\u{1b}[31m\u{202e} red, and
                                                                                    goes on for longer than one line of
                                                                                    its column can hold, in words
    ");
    let answers = store.json(&["show", "talk-1", "--answers"]);
    let ids: Vec<&str> = answers
        .iter()
        .map(|answer| answer["exchange_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["stranger", "talk-1", "other"]);
    assert_eq!(answers[2]["differs"], json!(["options"]));
}
