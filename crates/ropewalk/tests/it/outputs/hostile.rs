//! Hostile text: nothing of it reaches a terminal as it came.

use serde_json::{Value, json};

use super::Stage;
use crate::store::turn;
use crate::{stderr, stdout};

/// Text that would move the cursor, change colours, set a title, write to the clipboard, ask the terminal for an answer, turn the
/// direction of writing, hide, or look like another line.
const HOSTILE: [&str; 18] = [
    "\u{1b}[31mred",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]52;c;aGk=\u{7}",
    "\u{1b}]8;;http://x\u{1b}\\link",
    "\u{1b}P$qm\u{1b}\\",
    "\u{1b}[6n",
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}c",
    "\u{9b}31m",
    "\u{9d}0;t\u{9c}",
    "over\u{8}\u{8}\u{8}written",
    "a\rb",
    "nul\u{0}bell\u{7}del\u{7f}",
    "\u{202e}txt.exe",
    "\u{2066}x\u{2069}\u{61c}\u{200f}",
    "two\u{2028}lines\u{2029}",
    "\u{e0041}\u{e007f}tags\u{feff}",
    "form\u{c}feed\u{b}tab",
];

/// Traffic in which everything that a client or a model can choose is hostile.
fn hostile() -> Vec<Value> {
    let all = HOSTILE.join(" rope ");
    let mut lines = Vec::new();
    for (number, evil) in HOSTILE.iter().enumerate() {
        let id = format!("{number}{evil}");
        let mut turn = turn(&id, number as u32 * 10, &[&format!("rope {evil}"), &all]);
        turn["request"]["headers"]["x-claude-code-session-id"] = json!(format!("session {evil}"));
        turn["request"]["headers"]["user-agent"] = json!(format!("client/{evil}"));
        turn["request"]["headers"]["x-ropewalk-project"] = json!(evil);
        turn["request"]["body"]["model"] = json!(format!("model {evil}"));
        turn["request"]["body"]["system"] = json!([{"type": "text", "text": format!("system {all}")}]);
        turn["request"]["body"]["tools"] =
            json!([{"name": evil, "description": all, "input_schema": {"type": "object"}}]);
        turn["response"]["body"]["model"] = json!(format!("model {evil}"));
        turn["response"]["body"]["content"] = json!([
            {"type": "text", "text": all},
            {"type": "tool_use", "id": format!("toolu_{number}"), "name": evil, "input": {"file_path": evil, "text": all}},
            {"type": "tool_use", "id": format!("task_{number}"), "name": "Task", "input": {"subagent_type": evil, "prompt": format!("go {evil}")}},
        ]);
        let child = crate::store::turn(
            &format!("child {number}{evil}"),
            number as u32 * 10 + 5,
            &[&format!("go {evil}"), &all],
        );
        lines.extend([turn, child]);
    }
    lines
}

/// What would do something to a terminal, our own colours aside.
pub(super) fn raw(text: &str) -> Vec<char> {
    let mut rest = text.to_owned();
    for ours in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[33m"] {
        rest = rest.replace(ours, "");
    }
    let is_raw = |c: &char| {
        let turns =
            matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let hides = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        (c.is_control() && *c != '\n') || turns || hides
    };
    rest.chars().filter(is_raw).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_reaches_a_terminal_raw() {
    let stage = Stage::with(&hostile()).await;
    let store = &stage.store;
    let evil = HOSTILE[0];
    let ids: Vec<String> = store
        .json(&["log", "--exchanges"])
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut add = |arguments: &[&str]| commands.push(arguments.iter().map(|argument| (*argument).to_owned()).collect());
    for line in [
        "log",
        "log --graph",
        "log --exchanges --hashes",
        "log --grep rope",
        "tree -n 100",
        "search rope",
        "suggest --score 0",
        "templates --times 2",
        "log -n 3 --since 2020-01-01 --model model",
        "stats",
        "stats --by day",
        "stats --by session",
        "stats --by project",
        "stats --by agent",
        "stats --by branch",
        "stats --cache",
        "stats --waste",
        "fsck",
        "rebuild",
        "spread rope",
        "gc",
        "retain --older-than 2100-01-01 --dry-run",
        "audit",
        "doctor",
        "fsck --repair",
        "match REQUEST",
        "hash REQUEST --chain",
        "statusline",
        "config",
        "store status",
        "rebuild --projections",
        "import TRAFFIC",
        "import HOSTILE_LINES",
        "backup BACKUP",
        "restore BACKUP",
        "restore TRAFFIC",
    ] {
        add(&line.split(' ').collect::<Vec<_>>());
    }
    // One in some: each of them holds all that is hostile, and a process is not free.
    for id in ids.iter().step_by(5) {
        for verb in ["show", "explain", "blame", "tree", "resolve"] {
            add(&[verb, id]);
        }
        add(&["show", id, "--tree"]);
        add(&["show", id, "--answers"]);
        add(&["forget", id, "--dry-run"]);
        add(&["explain", "--cache", id]);
        add(&["blame", id, "--timeline"]);
        add(&["export", "--format", "markdown", id]);
        add(&["export", "--format", "html", id]);
        add(&["replay", id, "--model", evil, "--dry-run"]);
        add(&["replay", id, "--model", evil, "--upstream", "UPSTREAM"]);
        add(&["bisect", id, "--", "/bin/grep", "-q", "rope"]);
        add(&["diff", &ids[0], id]);
    }
    for argument in HOSTILE.iter().filter(|evil| !evil.contains('\0')) {
        add(&["show", argument]);
        add(&["search", argument]);
        add(&["spread", argument]);
        add(&["resolve", &format!("@conversation_{argument}_message_1")]);
        add(&["log", "--since", argument]);
        add(&["--owner", argument, "log"]);
        add(&["blame", "--project", argument]);
        add(&["config", argument]);
        add(&["import", argument]);
        add(&["forget", argument, "--yes"]);
        add(&["restore", argument]);
        add(&["--config", argument, "log"]);
        add(&["--store", argument, "log"]);
        add(&["stats", "--by", argument]);
    }
    for (id, evil) in ids.iter().zip(HOSTILE.iter().filter(|evil| !evil.contains('\0'))) {
        add(&["title", id, evil]);
    }
    for id in ids.iter().step_by(7) {
        add(&["forget", id, "--yes"]);
    }
    add(&["log", "--exchanges"]);
    add(&["retain", "--older-than", "2100-01-01"]);
    add(&["audit"]);
    for arguments in commands {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(String::as_str)
            .filter(|argument| !argument.contains('\0'))
            .collect();
        for how in ["--color=always", "--json"] {
            let mut all = vec![how];
            all.extend(&arguments);
            let output = stage.run_at(100, &all);
            for (name, text) in [("stdout", stdout(&output)), ("stderr", stderr(&output))] {
                let found = raw(&text);
                assert!(found.is_empty(), "{all:?} writes {found:?} to {name}: {text:?}");
            }
        }
    }
}
