//! Lines of Claude Code's log.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::claude_log::{answer, brings, call, text as said, time};

/// A session that is written line by line.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: String,
    agent: Option<String>,
    last: Option<String>,
    second: u32,
    records: u32,
    pub(crate) lines: Vec<Value>,
}

impl Session {
    pub(crate) fn new(id: &str) -> Self {
        Session {
            id: id.to_owned(),
            agent: None,
            last: None,
            second: 0,
            records: 0,
            lines: Vec::new(),
        }
    }

    pub(crate) fn agent(&self, agent: &str) -> Self {
        Session {
            agent: Some(agent.to_owned()),
            second: self.second,
            ..Session::new(&self.id)
        }
    }

    pub(crate) fn at_second(mut self, second: u32) -> Self {
        self.second = second;
        self
    }

    pub(crate) fn user(&mut self, text: &str) -> &mut Self {
        self.record("user", &json!({"message": {"role": "user", "content": text}}))
    }

    /// An answer of one line for each block.
    pub(crate) fn answer(&mut self, name: &str, blocks: &[Value]) -> &mut Self {
        for (index, block) in blocks.iter().enumerate() {
            let message = answer(&format!("msg_{name}"), std::slice::from_ref(block), 5 + index);
            self.record(
                "assistant",
                &json!({"message": message, "requestId": format!("req_{name}")}),
            );
        }
        self
    }

    pub(crate) fn says(&mut self, name: &str, text: &str) -> &mut Self {
        self.answer(name, &[said(text)])
    }

    pub(crate) fn result(&mut self, call: &str, text: &str) -> &mut Self {
        self.record("user", &json!({"message": brings(call, text)}))
    }

    /// A record behind the last one.
    pub(crate) fn record(&mut self, kind: &str, members: &Value) -> &mut Self {
        self.records += 1;
        self.second += 1;
        let owner = self.agent.as_deref().unwrap_or(&self.id);
        let uuid = format!("{owner}-{}", self.records);
        let mut line = json!({
            "type": kind, "uuid": uuid, "parentUuid": self.last, "sessionId": self.id, "isSidechain": self.agent.is_some(),
            "timestamp": time(self.second), "cwd": "/srv/rope",
        });
        if let Some(agent) = &self.agent {
            line["agentId"] = json!(agent);
        }
        for (name, value) in members.as_object().unwrap() {
            line[name] = value.clone();
        }
        self.last = Some(uuid);
        self.lines.push(line);
        self
    }

    /// Goes on behind another record.
    pub(crate) fn behind(&mut self, uuid: Option<&str>) -> &mut Self {
        self.last = uuid.map(str::to_owned);
        self
    }

    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Writes the file where Claude Code would.
    pub(crate) fn save(&self, projects: &Path) -> PathBuf {
        let folder = projects.join("-srv-rope");
        let path = match &self.agent {
            None => folder.join(format!("{}.jsonl", self.id)),
            Some(agent) => folder
                .join(&self.id)
                .join("subagents")
                .join(format!("agent-{agent}.jsonl")),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, self.text()).unwrap();
        path
    }
}

/// Two turns with a tool between.
pub(crate) fn talk(id: &str) -> Session {
    talk_at(id, 0)
}

/// The same at another time.
pub(crate) fn talk_at(id: &str, second: u32) -> Session {
    let mut session = Session::new(id).at_second(second);
    session
        .user("How long is the rope in the cellar?")
        .answer(
            &format!("{id}_1"),
            &[
                json!({"type": "thinking", "thinking": "I have to look.", "signature": "x"}),
                said("I will look."),
                call(
                    &format!("toolu_{id}"),
                    "Read",
                    &json!({"file_path": "/cellar/rope.txt"}),
                ),
            ],
        )
        .result(&format!("toolu_{id}"), "a rope of a quarter mile")
        .says(&format!("{id}_2"), "A quarter mile.");
    session
}
