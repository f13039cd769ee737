//! A store of one test, and exchanges to fill it with.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{ropewalk, stderr, stdout};

/// A data folder that ends with the test.
pub(crate) struct TestStore {
    folder: TempDir,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        TestStore {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// With these exchanges imported.
    pub(crate) fn with(lines: &[Value]) -> Self {
        let store = TestStore::new();
        let file = store.file("traffic.exchanges.jsonl", &jsonl(lines));
        store.ok(&["import", file.to_str().unwrap()]);
        store
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where a test may put files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let data = self.data();
        let mut all = vec!["--data", data.to_str().unwrap()];
        all.extend(arguments);
        ropewalk(&all)
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// JSON lines of a command that succeeds.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let mut all = vec!["--json"];
        all.extend(arguments);
        let text = self.ok(&all);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn import(&self, path: &Path) -> Value {
        let mut summary = self.json(&["import", path.to_str().unwrap()]);
        assert_eq!(summary.len(), 1);
        summary.remove(0)
    }
}

pub(crate) fn jsonl(lines: &[Value]) -> String {
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}").unwrap();
    }
    text
}

/// An exchange at a second of a day. What was said alternates between user and assistant; the last is the answer.
pub(crate) fn turn(id: &str, second: u32, said: &[&str]) -> Value {
    let (answer, said) = said.split_last().unwrap();
    let roles = ["user", "assistant"].iter().cycle();
    let messages: Vec<Value> = said
        .iter()
        .zip(roles)
        .map(|(text, role)| json!({"role": role, "content": text}))
        .collect();
    let time = |second: u32| format!("2026-03-01T10:{:02}:{:02}.000000Z", second / 60, second % 60);
    json!({
        "v": 1, "id": id, "at": time(second), "ended_at": time(second + 1), "method": "POST", "path": "/v1/messages",
        "request": {
            "headers": {"content-type": "application/json"},
            "body": {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": messages},
        },
        "response": {
            "status": 200, "headers": {"content-type": "application/json"}, "cut_off": false,
            "body": {
                "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 5},
            },
        },
    })
}

/// Two turns, another second turn, and a stranger that begins alike.
pub(crate) fn talk() -> Vec<Value> {
    vec![
        turn("talk-1", 0, &["How long is a rope?", "As long as its walk."]),
        turn(
            "talk-2",
            10,
            &[
                "How long is a rope?",
                "As long as its walk.",
                "And the walk?",
                "A quarter mile.",
            ],
        ),
        turn(
            "talk-2b",
            20,
            &[
                "How long is a rope?",
                "As long as its walk.",
                "Why?",
                "It is twisted in one piece.",
            ],
        ),
        turn("stranger", 30, &["How long is a rope?", "That depends."]),
    ]
}
