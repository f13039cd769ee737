//! What people and programs get to see of every verb that shows something: at two widths, as JSON, and of hostile text.
//!
//! Snapshots are in `snapshots/`; `INSTA_UPDATE=always cargo test -p ropewalk outputs` writes them anew.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::store::{TestStore, talk, turn};
use crate::{stderr, stdout};

/// Runs the binary as on a terminal of that width, in UTC.
fn run_at(store: &TestStore, columns: usize, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .arg("--data")
        .arg(store.data())
        .args(arguments)
        .env_clear()
        .env("COLUMNS", columns.to_string())
        .env("TZ", "UTC")
        .output()
        .unwrap()
}

/// A conversation with a branch, tools, an agent of its own and a changed system prompt, and a stranger.
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
    lines.extend([asked, child, done]);
    lines
}

/// Every verb that shows something, on [`traffic`].
fn shown() -> Vec<Vec<&'static str>> {
    [
        "log",
        "log --graph",
        "log --exchanges",
        "log --exchanges --hashes -n 1",
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
        "stats --cache",
        "stats --waste",
        "fsck",
        "rebuild --dry-run",
        "forget talk-2 --dry-run",
        "retain --older-than 2100-01-01 --dry-run",
        "gc --dry-run",
        "config --show identity",
    ]
    .map(|line| line.split(' ').collect())
    .to_vec()
}

/// What a run changes: sizes of files, and what they hold per byte.
fn steady(text: &str) -> String {
    let lines = text.lines().map(|line| match line {
        line if line.contains(" stored: ") => "  (sizes)".to_owned(),
        line => line.trim_end().to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn people_see_the_same_at_two_widths() {
    let store = TestStore::with(&traffic());
    for columns in [80, 120] {
        let mut all = String::new();
        for arguments in shown() {
            let output = run_at(&store, columns, &arguments);
            assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
            all.push_str(&format!(
                "$ ropewalk {}\n{}\n\n",
                arguments.join(" "),
                steady(&stdout(&output))
            ));
        }
        insta::assert_snapshot!(format!("at_{columns}_columns"), all);
    }
}

/// A value's shape: the names of members, and of what kind they are. Lists have the shape of all that is in them.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(values) => {
            let shapes = values.iter().map(shape).reduce(merged);
            json!([shapes.unwrap_or_else(|| json!("nothing"))])
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), shape(value)))
            .collect(),
    }
}

/// What fits both.
fn merged(a: Value, b: Value) -> Value {
    match (a, b) {
        (a, b) if a == b => a,
        (Value::Object(a), Value::Object(mut b)) => {
            let mut both = serde_json::Map::new();
            for (name, a) in a {
                let b = b.remove(&name);
                both.insert(name, b.map_or(a.clone(), |b| merged(a, b)));
            }
            both.extend(b);
            Value::Object(both)
        }
        (Value::Array(mut a), Value::Array(mut b)) => match (a.pop(), b.pop()) {
            (Some(a), Some(b)) => json!([merged(a, b)]),
            (one, other) => json!([one.or(other)]),
        },
        (Value::String(a), Value::String(b)) if a == "null" || a == "nothing" => json!(format!("{b}?")),
        (Value::String(a), Value::String(b)) if b == "null" || b == "nothing" => {
            json!(format!("{}?", a.trim_end_matches('?')))
        }
        (Value::String(a), other) | (other, Value::String(a)) if a == "null" || a == "nothing" => other,
        (a, _) => a,
    }
}

/// Members whose names are data: models, agents, days.
fn without_names(arguments: &[&str], value: &mut Value) {
    if arguments[0] != "stats" {
        return;
    }
    for map in ["models", "by"] {
        if let Some(members) = value.get_mut(map).and_then(Value::as_object_mut) {
            let any = members.values().cloned().reduce(merged);
            members.clear();
            members.extend(any.map(|any| ("*".to_owned(), any)));
        }
    }
}

#[test]
fn programs_see_versioned_objects_of_known_shapes() {
    let store = TestStore::with(&traffic());
    store.ok(&["title", "talk-1", "Ropes"]);
    let request = store.file("request.json", &talk()[1]["request"]["body"].to_string());
    let traffic = store.folder().join("traffic.exchanges.jsonl");
    let backup = store.folder().join("backup.tar.zst");
    let friendly_id = &store.json(&["log", "--exchanges"])[0]["friendly_id"];
    let reference = format!("@conversation_{}_message_1", friendly_id.as_str().unwrap());
    let words = [
        ("REQUEST", request.to_str().unwrap()),
        ("TRAFFIC", traffic.to_str().unwrap()),
        ("REFERENCE", &reference),
        ("BACKUP", backup.to_str().unwrap()),
    ];
    let more = [
        "store status",
        "store migrate",
        "audit",
        "export --format exchanges",
        "config",
        "title talk-1 Ropes",
        "match REQUEST",
        "hash REQUEST --chain",
        "import TRAFFIC",
        "resolve REFERENCE",
        "replay talk-2 --model other --dry-run",
        "backup BACKUP",
        "forget talk-2 --yes",
        "retain --older-than 2100-01-01",
        "gc",
    ]
    .map(|line| line.split(' ').collect());
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    let mut without_version = Vec::new();
    for arguments in shown().into_iter().chain(more) {
        let mut with_json = vec!["--json"];
        let word = |argument: &&'static str| {
            words
                .iter()
                .find(|(name, _)| name == argument)
                .map_or(*argument, |word| word.1)
        };
        with_json.extend(arguments.iter().map(word));
        let output = run_at(&store, 80, &with_json);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        let lines: Vec<Value> = stdout(&output)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for line in &lines {
            let is_list_of_messages = line.get("messages").is_some() && line.get("total").is_some();
            let is_a_request = arguments[0] == "replay";
            if line["v"] != 1 && !is_list_of_messages && !is_a_request {
                without_version.push(format!("{arguments:?}: {line}"));
            }
        }
        let shapes = lines.iter().map(|line| {
            let mut shape = shape(line);
            without_names(&arguments, &mut shape);
            shape
        });
        let whole = shapes.reduce(merged).unwrap_or_else(|| json!("nothing"));
        all.insert(arguments.join(" "), whole);
    }
    assert!(without_version.is_empty(), "no version: {without_version:#?}");
    insta::assert_json_snapshot!("json_shapes", all);
}

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
fn raw(text: &str) -> Vec<char> {
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

#[test]
fn nothing_reaches_a_terminal_raw() {
    let store = TestStore::with(&hostile());
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
        "stats",
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
        "export --format markdown",
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
    add(&["title", &ids[0], evil]);
    for arguments in commands {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(String::as_str)
            .filter(|argument| !argument.contains('\0'))
            .collect();
        let mut painted = vec!["--color", "always"];
        painted.extend(&arguments);
        let output = run_at(&store, 100, &painted);
        for (name, text) in [("stdout", stdout(&output)), ("stderr", stderr(&output))] {
            let found = raw(&text);
            assert!(found.is_empty(), "{arguments:?} writes {found:?} to {name}: {text:?}");
        }
    }
}

/// Runs the binary on a terminal of 80 columns and gives what came out of it.
fn on_a_terminal(store: &TestStore, variables: &str, arguments: &str) -> Option<String> {
    on_a_terminal_until("", store, variables, arguments)
}

/// The same, until Ctrl-C after something was seen.
fn on_a_terminal_until(seen: &str, store: &TestStore, variables: &str, arguments: &str) -> Option<String> {
    const SCRIPT: &str = "
import fcntl, os, pty, signal, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execv('/bin/sh', ['sh', '-c', sys.argv[1]])
text = b''
while True:
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        break
    if not piece:
        break
    text += piece
    if sys.argv[2] and sys.argv[2].encode() in text:
        os.kill(pid, signal.SIGINT)
os.waitpid(pid, 0)
sys.stdout.buffer.write(text)
";
    let data = store.data();
    let binary = env!("CARGO_BIN_EXE_ropewalk");
    let line = format!(
        "TERM=xterm {variables} exec {binary} --data {} {arguments}",
        data.display()
    );
    let output = Command::new("python3")
        .args(["-c", SCRIPT, &line, seen])
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stdout(&output).replace("\r\n", "\n"))
}

#[test]
fn a_terminal_has_colours_a_pager_and_lines_that_fit() {
    let store = TestStore::with(&traffic());
    let Some(through_pager) = on_a_terminal(&store, "PAGER='sed s/^/paged:/'", "log --graph") else {
        println!("skipped: no python3");
        return;
    };
    assert!(
        through_pager.lines().all(|line| line.starts_with("paged:")),
        "{through_pager}"
    );
    assert!(through_pager.contains("\u{1b}[33m"), "{through_pager}");
    let plain = on_a_terminal(&store, "PAGER=cat NO_COLOR=1", "log --graph").unwrap();
    assert!(raw(&plain).is_empty(), "{plain:?}");
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    let never = on_a_terminal(&store, "PAGER=", "--color never log").unwrap();
    assert!(raw(&never).is_empty() && !never.contains("\u{1b}"), "{never:?}");
    let json = on_a_terminal(&store, "PAGER='sed s/^/paged:/'", "--json log").unwrap();
    assert!(json.lines().all(|line| line.starts_with('{')), "{json}");
    let left = on_a_terminal(&store, "PAGER=true", "log --exchanges --hashes").unwrap();
    assert_eq!(left, "", "who closes the pager has had enough");
}

#[test]
fn a_live_tree_is_drawn_over_and_ends_with_ctrl_c() {
    let store = TestStore::with(&traffic());
    let Some(drawn) = on_a_terminal_until("\u{1b}[J", &store, "", "tree --live") else {
        println!("skipped: no python3");
        return;
    };
    assert!(drawn.starts_with("\u{1b}[2J\u{1b}[H"), "{drawn:?}");
    assert!(drawn.contains("rigger"), "{drawn:?}");
}
