//! `ropewalk hash`, against a second implementation in Python and as a person uses it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ropewalk_testkit::captures::{CaptureFile, captures, fixtures, workspace_root};
use serde_json::Value;

use crate::{ropewalk, stderr, stdout};

/// What both implementations compute from a whole exchange.
const PROJECTIONS: [&str; 13] = [
    "message_hash",
    "current_message_hash",
    "parent_message_hash",
    "system_hash",
    "system_raw_hash",
    "toolset_hash",
    "agent_type_hash",
    "first_user_hash",
    "first_response_hash",
    "conversation_hash",
    "prompt_hash",
    "response_hash",
    "path_hash",
];

fn lines_by_id(text: &str) -> BTreeMap<String, Value> {
    let values = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values
        .map(|value| (value["id"].as_str().unwrap().to_owned(), value))
        .collect()
}

fn reference(path: &Path) -> BTreeMap<String, Value> {
    let script = workspace_root().join("fixtures/reference/hashes.py");
    let output = Command::new("python3").arg(script).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    lines_by_id(&stdout(&output))
}

/// Fixtures that are no requests at all: `hash` refuses them, the reference gives nulls.
fn is_readable(file: &CaptureFile, id: &str) -> bool {
    let exchange = file.exchanges.iter().find(|exchange| exchange.id == id).unwrap();
    exchange.request_body.starts_with(b"{") && std::str::from_utf8(&exchange.request_body).is_ok()
}

fn compare(file: &CaptureFile) -> usize {
    let expected = reference(&file.path);
    let mut compared = 0;
    for (id, expected) in expected.iter().filter(|(id, _)| is_readable(file, id)) {
        let output = hash_one(file, id);
        for name in PROJECTIONS {
            assert_eq!(output[name], expected[name], "{id}: {name}");
            compared += 1;
        }
    }
    compared
}

/// Hashes one exchange of a file, as a file of its own.
fn hash_one(file: &CaptureFile, id: &str) -> Value {
    let text = std::fs::read_to_string(&file.path).unwrap();
    let marker = format!("{id:?}");
    let line = text.lines().find(|line| line.contains(&marker)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.exchanges.jsonl");
    std::fs::write(&path, line).unwrap();
    let output = ropewalk(&["hash", path.to_str().unwrap()]);
    assert!(output.status.success(), "{id}: {}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn projections_of_our_own_exchanges_equal_the_reference() {
    let compared: usize = fixtures().unwrap().iter().map(compare).sum();
    println!("{compared} hashes equal");
    assert!(compared > 500);
}

#[test]
fn projections_of_every_captured_exchange_equal_the_reference() {
    let Some(files) = captures().unwrap() else { return };
    let compared: usize = files.iter().map(compare).sum();
    println!("{compared} hashes equal");
    assert!(compared > 1_000);
}

/// A folder with a request and two answers to it.
fn folder() -> (tempfile::TempDir, impl Fn(&str) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let root: PathBuf = folder.path().to_owned();
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    write(
        "request.json",
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}"#,
    );
    write(
        "answer.json",
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi!"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#,
    );
    write("notes.txt", "no JSON");
    let path = move |name: &str| root.join(name).to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn prints_every_hash_of_a_request_with_its_response() {
    let (_folder, path) = folder();
    let output = ropewalk(&[
        "hash",
        &path("request.json"),
        "--response",
        &path("answer.json"),
        "--chain",
    ]);
    let hashes: Value = serde_json::from_str(&stdout(&output)).unwrap();
    insta::assert_json_snapshot!(hashes, @r#"
    {
      "agent_type_hash": "4056ed77a2620d7f",
      "chain": [
        {
          "kind": "text",
          "node": "v1:81821591675843ba8bb32671ebf6007c8a99497957efc3cd12db7e18409f7ceb",
          "role": "user",
          "value": "v1:86a44c8f7d671cc28095578d773f09ce6e29bcdabd518e96f32212c020fe7452"
        },
        {
          "kind": "text",
          "node": "v1:94b00a5da4997b87260accfe4a61f84d8f02758a8ba21763867838adef3dbdb1",
          "role": "assistant",
          "value": "v1:e0198d6749a8e8d08085129520cc1339426770413921834a73b0e13b8bb7c548"
        }
      ],
      "conversation_hash": "c2a74abb2b17e843",
      "current_message_hash": "ebdeb188f7a2cac009a02cfc5d4edaacf0ea635cef72cd31e1fe86b15787c3a7",
      "first_response_hash": "ca51ce1fb15acc6d",
      "first_user_hash": "185f8db32271fe25",
      "input_node": "v1:81821591675843ba8bb32671ebf6007c8a99497957efc3cd12db7e18409f7ceb",
      "message_hash": "d642823e082386e1a4c90a7f559c33b528282c8cd579d828e7597c0d8c7df812",
      "model": "m",
      "output_node": "v1:94b00a5da4997b87260accfe4a61f84d8f02758a8ba21763867838adef3dbdb1",
      "parent_message_hash": null,
      "path_hash": "4bdf661c0d6a0065606989ec497124d33f79484e782683bb49b534149c2ff975",
      "prompt_hash": "4bdf661c0d6a0065606989ec497124d33f79484e782683bb49b534149c2ff975",
      "provider": "anthropic",
      "request_sha256": "a99848b68c09b279d66583c15bb652704a71ec57b2f6c9a0250fb2a75349e26d",
      "response_hash": "ca51ce1fb15acc6d69b8a5700256172fcc507e02073e6f19592e341bd6508ab8",
      "response_sha256": "faf705556f2511c732d9a44b5f6a6c315948769ec6e9c2b3f7cc82b73b68f60d",
      "rules_version": 1,
      "system_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "system_raw_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "tools_hash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "toolset_hash": "e3b0c44298fc1c14",
      "v": 1
    }
    "#);
}

#[test]
fn hashes_that_need_an_answer_are_null_without_one() {
    let (_folder, path) = folder();
    let hashes: Value = serde_json::from_str(&stdout(&ropewalk(&["hash", &path("request.json")]))).unwrap();
    for name in [
        "output_node",
        "first_response_hash",
        "conversation_hash",
        "response_hash",
        "response_sha256",
    ] {
        assert_eq!(hashes[name], Value::Null, "{name}");
    }
}

#[test]
fn says_what_is_wrong_and_what_to_do() {
    let (_folder, path) = folder();
    let output = ropewalk(&["hash", &path("notes.txt")]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output).replace(&path("notes.txt"), "notes.txt");
    insta::assert_snapshot!(said, @r#"
    error: notes.txt is no request we know
    hint: a request has `messages`, `input` or `contents`; `--format` says which kind it is
    "#);

    let output = ropewalk(&["--json", "hash", &path("missing.json")]);
    assert_eq!(output.status.code(), Some(1));
    let error: Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(error["error"]["kind"], "not_found");
}
