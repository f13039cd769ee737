//! Made-up logs of Claude Code.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::store::{TestStore, jsonl};

/// The lines of one session.
pub(crate) struct Log {
    pub(crate) session: &'static str,
    pub(crate) lines: Vec<Value>,
}

pub(crate) fn time(second: u32) -> String {
    let (hour, minute) = (10 + second / 3_600, second / 60 % 60);
    format!("2026-03-01T{hour:02}:{minute:02}:{:02}.000Z", second % 60)
}

/// An answer as a line has it, or the piece of one.
pub(crate) fn answer(id: &str, blocks: &[Value], output_tokens: usize) -> Value {
    json!({
        "id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": blocks,
        "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": output_tokens},
    })
}

/// What brings back the result of a call.
pub(crate) fn brings(call: &str, text: &str) -> Value {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": text});
    json!({"role": "user", "content": [block]})
}

pub(crate) fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

pub(crate) fn read(id: &str, path: &str) -> Value {
    call(id, "Read", &json!({"file_path": path}))
}

pub(crate) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

impl Log {
    pub(crate) fn new(session: &'static str) -> Self {
        Log {
            session,
            lines: Vec::new(),
        }
    }

    /// A line, one second after the one before it.
    pub(crate) fn line(&mut self, uuid: &str, parent: Option<&str>, kind: &str, message: &Value) -> &mut Value {
        let second = self.lines.len() as u32;
        self.lines.push(json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/site", "sessionId": self.session,
            "version": "2.1.0", "type": kind, "message": message, "uuid": uuid, "timestamp": time(second),
        }));
        self.lines.last_mut().unwrap()
    }

    pub(crate) fn user(&mut self, uuid: &str, parent: Option<&str>, text: &str) -> &mut Value {
        self.line(uuid, parent, "user", &json!({"role": "user", "content": text}))
    }

    pub(crate) fn result(&mut self, uuid: &str, parent: &str, call: &str, text: &str) -> &mut Value {
        self.line(uuid, Some(parent), "user", &brings(call, text))
    }

    /// An answer, or a line of one.
    pub(crate) fn answer(&mut self, uuid: &str, parent: Option<&str>, message: &str, blocks: &[Value]) -> &mut Value {
        let line = self.line(uuid, parent, "assistant", &answer(message, blocks, 5));
        line["requestId"] = json!(format!("req_{message}"));
        line
    }

    pub(crate) fn write(&self, store: &TestStore) -> PathBuf {
        store.file(&format!("{}.jsonl", self.session), &jsonl(&self.lines))
    }

    pub(crate) fn import(&self, store: &TestStore) -> PathBuf {
        let path = self.write(store);
        store.ok(&["import", path.to_str().unwrap()]);
        path
    }
}

/// A store with one log.
pub(crate) fn imported(log: &Log) -> TestStore {
    let store = TestStore::new();
    log.import(&store);
    store
}

/// Two calls in one answer that is spread over three lines, their results, and what came of it.
pub(crate) fn working() -> Log {
    let mut log = Log::new("working");
    log.user("u1", None, "Compare the two.");
    log.answer("a1", Some("u1"), "msg_1", &[text("I'll read both.")]);
    log.answer("a2", Some("a1"), "msg_1", &[read("toolu_1", "config.json")]);
    log.answer("a3", Some("a2"), "msg_1", &[read("toolu_2", "package.json")]);
    log.result("r1", "a2", "toolu_1", "{\"port\": 1}");
    log.result("r2", "a3", "toolu_2", "{\"name\": \"x\"}");
    log.answer("a4", Some("r2"), "msg_2", &[text("They differ.")]);
    log.user("u2", Some("a4"), "Thanks!");
    log.answer("a5", Some("u2"), "msg_3", &[text("Any time.")]);
    log
}
