//! Commands that do not end by themselves, and the line for a status bar.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::store::{TestStore, jsonl, talk, turn};
use crate::{ropewalk, stderr, stdout};

/// How long a loaded machine may take for what takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command whose lines are read as they come; it ends with the value.
struct Following {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Following {
    fn start(store: &TestStore, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ropewalk"))
            .arg("--data")
            .arg(store.data())
            .args(arguments)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Following { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line comes")
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn import(store: &TestStore, lines: &[Value]) {
    let file = store.file("more.exchanges.jsonl", &jsonl(lines));
    store.ok(&["import", file.to_str().unwrap()]);
}

#[test]
fn a_log_is_followed_from_before_there_is_a_store() {
    let store = TestStore::new();
    let following = Following::start(&store, &["--json", "log", "--follow"]);
    import(&store, &talk()[..2]);
    let id = |line: String| {
        serde_json::from_str::<Value>(&line).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!([id(following.next()), id(following.next())], ["talk-1", "talk-2"]);
    import(&store, &talk()[2..]);
    assert_eq!([id(following.next()), id(following.next())], ["talk-2b", "stranger"]);
}

#[test]
fn following_begins_with_the_newest_and_keeps_to_what_was_asked_for() {
    let store = TestStore::with(&talk());
    let following = Following::start(&store, &["log", "-f", "-n", "2"]);
    assert!(following.next().contains("talk-2b"));
    assert!(following.next().contains("stranger"));
    let of_model = Following::start(&store, &["log", "-f", "-n", "0", "--model", "opus"]);
    let mut other = turn("of-opus", 60, &["Anew?", "Yes."]);
    other["request"]["body"]["model"] = json!("claude-opus-4-5");
    other["response"]["body"]["model"] = json!("claude-opus-4-5");
    import(&store, &[turn("of-sonnet", 50, &["And now?", "No."]), other]);
    assert!(of_model.next().contains("of-opus"), "what was asked for comes first");
    assert!(following.next().contains("of-sonnet"));
    assert_eq!(store.run(&["log", "-f", "--graph"]).status.code(), Some(2));
    assert_eq!(store.run(&["log", "--hashes"]).status.code(), Some(2));
}

#[test]
fn a_live_tree_is_added_to_where_there_is_no_terminal() {
    let store = TestStore::with(&talk()[..1]);
    let live = Following::start(&store, &["tree", "--live"]);
    assert!(live.next().contains("How long is a rope?"));
    assert!(live.next().contains("1 exchange"));
    assert_eq!(live.next(), "");
    import(&store, &talk()[1..2]);
    assert!(live.next().contains("How long is a rope?"));
    assert!(live.next().contains("2 exchanges"));
}

/// A line for a status bar, and the exit code.
fn status_line(store: &TestStore, arguments: &[&str], input: &[u8]) -> (String, Option<i32>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .arg("--data")
        .arg(store.data())
        .arg("statusline")
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Whoever knows enough does not read on.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    (stdout(&output), output.status.code())
}

/// A turn of a session, most of which was read from the cache.
fn of_session(session: &str) -> Value {
    let mut turn = turn("s-1", 0, &["How long is a rope?", "As long as its walk."]);
    turn["request"]["headers"]["x-claude-code-session-id"] = json!(session);
    turn["response"]["body"]["usage"] =
        json!({"input_tokens": 1_000, "cache_read_input_tokens": 9_000, "output_tokens": 50});
    turn
}

#[test]
fn a_status_bar_gets_name_cost_cache_and_context() {
    const SESSION: &str = "11111111-2222-4333-8444-555555555555";
    let store = TestStore::with(&[of_session(SESSION)]);
    let row = &store.json(&["log", "--exchanges"])[0];
    assert_eq!(row["session"], SESSION, "the client's id is known");
    let friendly_id = row["friendly_id"].as_str().unwrap();
    let said = json!({"session_id": SESSION, "model": {"id": "x"}, "context_window": {"context_window_size": 200_000}});
    let (line, code) = status_line(&store, &[], said.to_string().as_bytes());
    let cost = row["cost_usd"].as_f64().unwrap();
    assert_eq!(code, Some(0));
    assert_eq!(line, format!("{friendly_id} · ${cost:.4} · cache 90 % · context 5 %\n"));
    let (json, _) = status_line(&store, &["--json"], said.to_string().as_bytes());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["v"], &json["context_tokens"]), (&1.into(), &10_000.into()));
    let (without_size, _) = status_line(&store, &[], format!("{{\"session_id\":\"{SESSION}\"}}").as_bytes());
    assert!(without_size.ends_with("context 10.0k\n"), "{without_size}");
}

#[test]
fn a_status_bar_is_empty_where_nothing_is_known_and_never_fails() {
    let store = TestStore::new();
    let many = vec![b'['; 3 << 20];
    let inputs: [&[u8]; 7] = [
        b"",
        b"{",
        b"\xff\xfe",
        b"{\"session_id\":\"nobody\"}",
        b"{\"session_id\":3}",
        b"[]",
        &many,
    ];
    for filled in [false, true] {
        if filled {
            import(&store, &talk());
        }
        for input in inputs {
            assert_eq!(status_line(&store, &[], input), ("\n".to_owned(), Some(0)));
        }
    }
    std::fs::write(store.data().join("ropewalk.db"), "no database").unwrap();
    assert_eq!(
        status_line(&store, &[], b"{\"session_id\":\"x\"}"),
        ("\n".to_owned(), Some(0))
    );
    let bad = store.file("bad.toml", "nonsense");
    let bad = ["--config", bad.to_str().unwrap()];
    assert_eq!(
        status_line(&store, &bad, b"{\"session_id\":\"x\"}"),
        ("\n".to_owned(), Some(0))
    );
}

#[test]
fn changes_are_noted_with_who_and_what_and_without_what_was_said() {
    let store = TestStore::with(&talk());
    assert!(store.json(&["audit"]).is_empty(), "reading and adding change nothing");
    store.ok(&["title", "talk-1", "hunter2 and ropes"]);
    store.ok(&["rebuild"]);
    store.ok(&["rebuild", "--dry-run"]);
    let entries = store.json(&["audit"]);
    let verbs: Vec<&str> = entries.iter().map(|entry| entry["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["title", "rebuild"]);
    let conversation = &store.json(&["log", "--exchanges"])[0]["conversation_id"];
    assert_eq!(&entries[0]["about"], conversation);
    assert_eq!((&entries[0]["v"], &entries[0]["owner"]), (&1.into(), &"local".into()));
    assert_eq!(entries[1]["detail"]["linked"], 4);
    let file = std::fs::read_to_string(store.data().join("audit.jsonl")).unwrap();
    assert!(!file.contains("hunter2"), "{file}");
    assert!(store.ok(&["audit"]).contains("title"));
    assert!(store.json(&["audit", "--since", "2200-01-01"]).is_empty());
    assert!(store.json(&["--owner", "somebody", "audit"]).is_empty());
}

#[test]
fn a_store_says_who_may_use_it() {
    let store = TestStore::new();
    assert_eq!(store.json(&["store", "status"])[0]["schema"], Value::Null);
    assert!(!store.data().exists(), "looking makes nothing");
    import(&store, &talk());
    let status = &store.json(&["store", "status"])[0];
    let known = status["schema"]["known"].as_u64().unwrap();
    assert_eq!(
        (&status["schema"]["version"], &status["schema"]["can_write"]),
        (&known.into(), &true.into())
    );
    assert_eq!(
        store.json(&["store", "migrate"])[0],
        json!({"v": 1, "from": known, "to": known})
    );

    let database = rusqlite::Connection::open(store.data().join("ropewalk.db")).unwrap();
    let pretend = |version: u64, reader: u64, writer: u64| {
        let packed = (version | reader << 8 | writer << 16) as i64;
        database.pragma_update(None, "user_version", packed).unwrap();
    };
    pretend(known + 1, known, known + 1);
    assert_eq!(store.json(&["log"]).len(), 2, "an older program may read");
    let refused = store.run(&["title", "talk-1", "x"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        stderr(&refused).contains("written by a newer version"),
        "{}",
        stderr(&refused)
    );
    assert!(store.ok(&["store", "status"]).contains("to write it, update ropewalk"));
    pretend(known + 1, known, known);
    store.ok(&["title", "talk-1", "x"]);
    pretend(known + 1, known + 1, known + 1);
    assert_eq!(store.run(&["log"]).status.code(), Some(3));
    assert!(store.ok(&["store", "status"]).contains("update ropewalk"));
}

#[test]
fn only_a_cluster_can_be_distributed() {
    let store = TestStore::with(&talk());
    let refused = store.run(&["store", "distribute"]);
    assert_eq!(refused.status.code(), Some(2));
    let server = ropewalk_testkit::postgres::PrivatePostgres::shared().unwrap();
    let url = server.fresh_database().unwrap();
    let data = store.data();
    let refused = ropewalk(&["--data", data.to_str().unwrap(), "--store", &url, "store", "distribute"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        stderr(&refused).contains("CREATE EXTENSION citus"),
        "{}",
        stderr(&refused)
    );
}
