//! What people and programs get to see of every verb: at two widths ([`people`]; [`insight`] where there is something to tell), as
//! JSON ([`programs`]), of hostile text ([`hostile`]), and on a terminal ([`terminal`]).
//!
//! Snapshots are in `snapshots/`; `INSTA_UPDATE=always cargo test -p ropewalk --test it outputs` writes them anew.

mod hostile;
mod insight;
mod people;
mod programs;
mod terminal;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use serde_json::{Value, json};

use crate::administration::verbs;
use crate::claude_log::working;
use crate::store::{TestStore, talk, turn};

/// The session of a client that asks for its status line.
const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// Verbs that show nothing themselves: they stand in between, speak another protocol, or print a script.
const WITHOUT_OUTPUT: [&str; 5] = ["serve", "run", "mcp", "completions", "man"];

/// A store with [`traffic`], and what the words in capitals stand for.
struct Stage {
    store: TestStore,
    words: Vec<(&'static str, String)>,
    /// Answers what is sent again.
    _upstream: Upstream,
}

impl Stage {
    async fn set() -> Self {
        Stage::with(&traffic()).await
    }

    async fn with(lines: &[Value]) -> Self {
        let store = TestStore::with(lines);
        let upstream = Upstream::start().await;
        upstream.answer_as(Provider::new());
        let known = lines.get(1).unwrap_or(&lines[0]);
        let request = store.file("request.json", &known["request"]["body"].to_string());
        let unreadable = store.file(
            "hostile.exchanges.jsonl",
            &format!("{{\"v\":1,\"\u{1b}[31m\u{202e}\n{known}\n"),
        );
        // Somebody asked a tool that still runs.
        let mut log = working();
        log.lines.truncate(4);
        let friendly_id = &store.json(&["log", "--exchanges"])[0]["friendly_id"];
        let in_folder = |name: &str| store.folder().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(in_folder("journal-of-another")).unwrap();
        let words = vec![
            ("REQUEST", request.to_str().unwrap().to_owned()),
            ("TRAFFIC", in_folder("traffic.exchanges.jsonl")),
            ("FRIENDLY", friendly_id.as_str().unwrap().to_owned()),
            (
                "REFERENCE",
                format!("@conversation_{}_message_1", friendly_id.as_str().unwrap()),
            ),
            ("LOG", log.write(&store).to_str().unwrap().to_owned()),
            ("HOSTILE_LINES", unreadable.to_str().unwrap().to_owned()),
            ("JOURNAL", in_folder("journal-of-another")),
            ("BACKUP", in_folder("backup.tar.zst")),
            ("UPSTREAM", format!("anthropic={}", upstream.url())),
        ];
        Stage {
            store,
            words,
            _upstream: upstream,
        }
    }

    /// The folder that a command works on: what fills one needs another.
    fn data(&self, arguments: &[&str]) -> PathBuf {
        match arguments.iter().find(|argument| !argument.starts_with("--")) {
            Some(&"demo") => self.store.folder().join("demo"),
            Some(&"restore") => self.store.folder().join("restored"),
            _ => self.store.data(),
        }
    }

    /// Runs the binary as on a terminal of that width, in UTC.
    fn run_at(&self, columns: usize, arguments: &[&str]) -> Output {
        let word = |argument: &&str| -> String {
            let known = self.words.iter().find(|(name, _)| name == argument);
            known.map_or((*argument).to_owned(), |(_, word)| word.clone())
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
        command.arg("--data").arg(self.data(arguments));
        command.args(arguments.iter().map(word));
        command.env_clear().env("COLUMNS", columns.to_string()).env("TZ", "UTC");
        command
            .env("PATH", self.store.folder().join("bin"))
            .env("ANTHROPIC_API_KEY", "none");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let status = json!({"session_id": SESSION});
        // Whoever is not asked for a status line does not read it.
        drop(child.stdin.take().unwrap().write_all(status.to_string().as_bytes()));
        child.wait_with_output().unwrap()
    }
}

/// A conversation with a branch, tools, an agent of its own and a changed system prompt, a stranger, and a client's session.
fn traffic() -> Vec<Value> {
    let mut lines = talk();
    let spawn = json!([
        {"type": "text", "text": "I ask somebody who knows ropes."},
        {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {"subagent_type": "rigger", "prompt": "Measure the rope."}},
    ]);
    let mut asked = turn("agents-1", 100, &["Have it measured.", "?"]);
    asked["response"]["body"]["content"] = spawn.clone();
    asked["request"]["body"]["system"] = json!("You are a rope maker.");
    let child = turn("agents-2", 105, &["Measure the rope.", "Three hundred yards."]);
    let mut done = turn("agents-3", 110, &["Have it measured.", "It has three hundred yards."]);
    done["request"]["body"]["system"] = json!("You are a rope maker. Be brief.");
    done["request"]["body"]["messages"] = json!([
        {"role": "user", "content": "Have it measured."},
        {"role": "assistant", "content": spawn},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Three hundred yards."}]},
    ]);
    let mut of_session = turn("walker", 120, &["Who walks there?", "A rope maker, backwards."]);
    of_session["request"]["headers"]["x-claude-code-session-id"] = json!(SESSION);
    of_session["response"]["body"]["usage"] =
        json!({"input_tokens": 1_000, "cache_read_input_tokens": 9_000, "output_tokens": 50});
    lines.extend([asked, child, done, of_session]);
    lines
}

/// Every verb that shows something, on [`traffic`].
fn shown() -> Vec<Vec<&'static str>> {
    words(&[
        "log",
        "log --graph",
        "log --exchanges",
        "log --exchanges --hashes -n 1",
        "show FRIENDLY",
        "show talk-2",
        "show talk-2~1",
        "show talk-2 --tree",
        "show talk-2 --answers",
        "tree",
        "diff talk-2 talk-2b",
        "explain talk-2",
        "explain --cache agents-3",
        "blame agents-3",
        "blame agents-3 --timeline",
        "search rope",
        "spread As long as its walk.",
        "suggest --score 0",
        "templates --times 2",
        "stats",
        "stats --by day",
        "stats --by agent",
        "stats --by session",
        "stats --by project",
        "stats --by branch",
        "stats --cache",
        "stats --waste",
        "statusline",
        "match REQUEST",
        "hash REQUEST",
        "hash REQUEST --chain",
        "resolve REFERENCE",
        "export --format markdown talk-2",
        "replay talk-2 --model other --dry-run",
        "bisect talk-2 -- /bin/grep -q As",
        "fsck",
        "fsck --repair --dry-run",
        "rebuild --dry-run",
        "forget talk-2 --dry-run",
        "retain --older-than 2100-01-01 --dry-run",
        "gc --dry-run",
        "config --show identity",
        "store status",
        "doctor",
    ])
}

/// Every verb that changes something, in this order.
fn changing() -> Vec<Vec<&'static str>> {
    words(&[
        "import TRAFFIC",
        "import LOG",
        "fsck",
        "tree",
        "title talk-1 Ropes",
        "store migrate",
        "store drain JOURNAL",
        "rebuild",
        "rebuild --projections",
        "fsck --repair",
        "replay talk-1 --model claude-opus-4-5 --upstream UPSTREAM",
        "backup BACKUP",
        "restore BACKUP",
        "forget talk-2 --yes",
        "show talk-2",
        "log --graph --until 2026-03-02",
        "log --exchanges --until 2026-03-02",
        "retain --older-than 2100-01-01",
        "gc",
        "audit",
    ])
}

fn words(lines: &[&'static str]) -> Vec<Vec<&'static str>> {
    lines.iter().map(|line| line.split(' ').collect()).collect()
}

#[test]
fn every_verb_is_looked_at() {
    let seen = shown()
        .into_iter()
        .chain(changing())
        .chain(programs::only_for_programs());
    let seen: BTreeSet<&str> = seen.map(|arguments| arguments[0]).chain(WITHOUT_OUTPUT).collect();
    let missing: Vec<String> = verbs().into_iter().filter(|verb| !seen.contains(&**verb)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
