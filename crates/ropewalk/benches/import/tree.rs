//! A tree of Claude Code's logs, as large as asked for.
//!
//! Sessions of different lengths, with what their lines really have: a record for each block with the usage repeated, results of
//! tools twice (once for the model, once for the client), attachments, notices, subagents in files of their own, forks that copy
//! their beginning. The texts are this workspace's own sources and documents.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use ropewalk_testkit::source_text::SourceText;
use serde_json::{Value, json};

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

pub(crate) struct Tree {
    dice: Dice,
    text: SourceText,
    names: u64,
    clock: i64,
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    pub(crate) files: u64,
}

/// A session that is being written.
struct Session {
    id: String,
    agent: Option<String>,
    folder: String,
    parent: Option<String>,
    lines: Vec<String>,
}

impl Tree {
    pub(crate) fn write(root: &Path, bytes: u64) -> Self {
        let mut tree = Tree {
            dice: Dice(7),
            text: SourceText::new(7),
            names: 0,
            clock: 1_780_000_000_000,
            bytes: 0,
            calls: 0,
            files: 0,
        };
        while tree.bytes < bytes {
            tree.session(root);
        }
        tree
    }

    fn session(&mut self, root: &Path) {
        let folder = format!("-srv-project-{}", self.dice.roll(20));
        let mut session = self.begin(&folder, None);
        // Most sessions are short; a few are very long.
        let turns = match self.dice.roll(10) {
            0..5 => 5 + self.dice.roll(40),
            5..9 => 40 + self.dice.roll(160),
            _ => 200 + self.dice.roll(600),
        };
        let mut agents = Vec::new();
        for turn in 0..turns {
            if turn % 12 == 0 {
                self.prompt(&mut session);
            }
            let spawns = self.dice.roll(40) == 0;
            if let Some(agent) = self.call(&mut session, spawns) {
                agents.push(agent);
            }
        }
        let path = root.join(&folder).join(format!("{}.jsonl", session.id));
        if self.dice.roll(20) == 0 {
            self.fork(root, &session);
        }
        self.save(&path, &session.lines);
        for (agent, prompt) in agents {
            self.agent(root, &session, &agent, &prompt);
        }
    }

    fn begin(&mut self, folder: &str, agent: Option<(&str, &str)>) -> Session {
        Session {
            id: agent.map_or_else(|| self.uuid(), |(session, _)| session.to_owned()),
            agent: agent.map(|(_, agent)| agent.to_owned()),
            folder: folder.to_owned(),
            parent: None,
            lines: Vec::new(),
        }
    }

    fn agent(&mut self, root: &Path, parent: &Session, agent: &str, prompt: &str) {
        let mut session = self.begin(&parent.folder, Some((&parent.id, agent)));
        self.user(&mut session, &json!(prompt), None);
        for _ in 0..3 + self.dice.roll(20) {
            self.call(&mut session, false);
        }
        let folder = root.join(&parent.folder).join(&parent.id).join("subagents");
        self.save(&folder.join(format!("agent-{agent}.jsonl")), &session.lines);
    }

    /// A fork has a new session and copies of the lines up to somewhere.
    fn fork(&mut self, root: &Path, from: &Session) {
        let mut fork = self.begin(&from.folder, None);
        let upto = from.lines.len() / 2;
        fork.lines = from.lines[..upto]
            .iter()
            .map(|line| line.replace(&from.id, &fork.id))
            .collect();
        let last: Value = serde_json::from_str(fork.lines.last().unwrap()).unwrap();
        fork.parent = last["uuid"].as_str().map(str::to_owned);
        self.prompt(&mut fork);
        self.call(&mut fork, false);
        let path = root.join(&from.folder).join(format!("{}.jsonl", fork.id));
        self.save(&path, &fork.lines);
    }

    fn prompt(&mut self, session: &mut Session) {
        let length = 40 + self.dice.roll(400) as usize;
        let text = self.text.prose(length);
        let at = self.now();
        session.lines.push(json!({"type":"queue-operation","operation":"enqueue","timestamp":at,"sessionId":session.id,"content":text}).to_string());
        self.user(session, &json!(text), None);
        let attachment = json!({"type":"skill_listing","content":self.text.prose(600)});
        self.record(session, "attachment", &json!({"attachment":attachment}));
    }

    /// One call of the model, with the result of its tool. The agent and its prompt, if it started one.
    fn call(&mut self, session: &mut Session, spawns: bool) -> Option<(String, String)> {
        self.calls += 1;
        let (message, request, tool) = (self.name("msg_"), self.name("req_"), self.name("toolu_"));
        let usage = json!({
            "input_tokens": 3, "cache_creation_input_tokens": 200 + self.dice.roll(3_000),
            "cache_read_input_tokens": 20_000 + self.dice.roll(80_000), "output_tokens": 50 + self.dice.roll(900),
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 200}, "service_tier": "standard",
        });
        let path = format!(
            "/srv/project/src/module_{}/file_{}.rs",
            self.dice.roll(30),
            self.dice.roll(200)
        );
        let prompt = self.text.prose(300);
        let call = match spawns {
            true => {
                json!({"type":"tool_use","id":tool,"name":"Agent","input":{"description":"look","subagent_type":"general-purpose","prompt":prompt}})
            }
            false => json!({"type":"tool_use","id":tool,"name":"Read","input":{"file_path":path}}),
        };
        let thinking =
            json!({"type":"thinking","thinking":self.text.prose(200),"signature":self.name(&"s".repeat(300))});
        let words = 60 + self.dice.roll(600) as usize;
        let text = json!({"type":"text","text":self.text.prose(words)});
        for block in [thinking, text, call] {
            let message = json!({
                "model": "claude-opus-4-8", "id": message, "type": "message", "role": "assistant", "content": [block],
                "stop_reason": "tool_use", "stop_sequence": null, "usage": usage,
            });
            self.record(session, "assistant", &json!({"message":message,"requestId":request}));
        }
        let size = match self.dice.roll(10) {
            0..6 => 200 + self.dice.roll(2_000),
            6..9 => 2_000 + self.dice.roll(8_000),
            _ => 10_000 + self.dice.roll(40_000),
        };
        let output = self.text.code(size as usize);
        let block = json!([{"tool_use_id":tool,"type":"tool_result","content":output}]);
        let result = json!({"type":"text","file":{"filePath":path,"content":output,"numLines":100,"startLine":1,"totalLines":100}});
        self.user(session, &block, Some(result));
        spawns.then(|| (self.name("a"), prompt))
    }

    fn user(&mut self, session: &mut Session, content: &Value, result: Option<Value>) {
        let mut members = json!({"message":{"role":"user","content":content}});
        if let Some(result) = result {
            members["toolUseResult"] = result;
        }
        self.record(session, "user", &members);
    }

    fn record(&mut self, session: &mut Session, kind: &str, members: &Value) {
        let uuid = self.uuid();
        let mut line = json!({
            "parentUuid": session.parent, "isSidechain": session.agent.is_some(), "userType": "external", "cwd": "/srv/project",
            "sessionId": session.id, "version": "2.1.197", "gitBranch": "main", "type": kind, "uuid": uuid, "timestamp": self.now(),
        });
        if let Some(agent) = &session.agent {
            line["agentId"] = json!(agent);
        }
        for (name, value) in members.as_object().unwrap() {
            line[name] = value.clone();
        }
        session.parent = Some(uuid);
        session.lines.push(line.to_string());
    }

    fn save(&mut self, path: &PathBuf, lines: &[String]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = BufWriter::new(File::create(path).unwrap());
        for line in lines {
            self.bytes += line.len() as u64 + 1;
            file.write_all(line.as_bytes()).unwrap();
            file.write_all(b"\n").unwrap();
        }
        self.files += 1;
    }

    fn now(&mut self) -> String {
        self.clock += 700 + self.dice.roll(2_000).cast_signed();
        jiff::Timestamp::from_millisecond(self.clock).unwrap().to_string()
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        let mut name = prefix.to_owned();
        write!(name, "{:08x}{:016x}", self.names, self.dice.roll(u64::MAX)).unwrap();
        name
    }

    fn uuid(&mut self) -> String {
        self.names += 1;
        let (a, b) = (self.dice.roll(1 << 32), self.dice.roll(1 << 31));
        format!("{a:08x}-{:04x}-4000-8000-{b:012x}", self.names & 0xffff)
    }
}
