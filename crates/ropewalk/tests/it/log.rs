//! `log`, `tree`, `explain`, `search`, `stats`, `rebuild`, `fsck`: what was recorded, read again.

use std::collections::BTreeSet;

use ropewalk_testkit::captures::{captures, workspace_root};
use ropewalk_testkit::postgres::PrivatePostgres;
use serde_json::Value;

use crate::store::{TestStore, talk, turn};
use crate::{stderr, stdout};

/// The contract of `log --exchanges --json`.
const KEYS: [&str; 38] = [
    "v",
    "id",
    "at",
    "owner",
    "provider",
    "model",
    "kind",
    "status",
    "conversation_id",
    "friendly_id",
    "branch_id",
    "branch_key",
    "branch_kind",
    "rewritten",
    "parent_exchange_id",
    "agent",
    "session",
    "link",
    "input_node",
    "output_node",
    "message_hash",
    "current_message_hash",
    "parent_message_hash",
    "system_hash",
    "system_raw_hash",
    "toolset_hash",
    "prompt_hash",
    "response_hash",
    "path_hash",
    "usage",
    "cost_usd",
    "latency_ms",
    "first_byte_ms",
    "reuse",
    "rules_version",
    "redactions",
    "request_sha256",
    "response_sha256",
];
const AGENT_KEYS: [&str; 5] = ["id", "name", "parent_id", "type_hash", "conversation_hash"];
const LINK_KEYS: [&str; 3] = ["method", "confidence", "reason"];
const USAGE_KEYS: [&str; 5] = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn every_row_has_every_key_of_the_contract() {
    let store = TestStore::new();
    store.import(&workspace_root().join("fixtures/exchanges"));
    let rows = store.json(&["log", "--exchanges"]);
    assert!(rows.len() > 40);
    for row in &rows {
        assert_eq!(keys(row), KEYS.into());
        assert_eq!(keys(&row["agent"]), AGENT_KEYS.into());
        assert_eq!(keys(&row["link"]), LINK_KEYS.into());
        assert_eq!(keys(&row["usage"]), USAGE_KEYS.into());
        assert!(row["conversation_id"].is_string(), "{row}");
        assert!(row["input_node"].as_str().unwrap().starts_with("v1:"));
    }
    let times: Vec<&str> = rows.iter().map(|row| row["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "oldest first");
}

#[test]
fn a_conversation_is_one_row_with_its_sums() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log"]);
    assert_eq!(rows.len(), 2);
    let (stranger, talk) = (&rows[0], &rows[1]);
    assert_eq!(stranger["title"], "How long is a rope?");
    assert_eq!(talk["exchanges"], 3);
    assert_eq!(talk["branches"], 2);
    assert_eq!(talk["agents"], 1);
    assert_eq!(talk["tokens"]["input_tokens"], 30);
    assert_eq!(talk["roots"], serde_json::json!(["talk-1"]));
    for key in ["friendly_id", "started_at", "last_at", "cost_usd"] {
        assert!(keys(talk).contains(key));
    }
}

#[test]
fn people_are_shown_the_newest_thousand_and_programs_all() {
    let opening = |number: u32| format!("Question number {number}");
    let lines: Vec<Value> = (0..1_001)
        .map(|number| turn(&format!("q-{number}"), number, &[&opening(number), "An answer."]))
        .collect();
    let store = TestStore::with(&lines);
    let conversations = |arguments: &[&str]| store.ok(arguments).matches("Question number").count();
    let output = store.run(&["log"]);
    assert_eq!(stdout(&output).matches("Question number").count(), 1_000);
    assert!(!stdout(&output).contains("Question number 0 "));
    assert!(
        stderr(&output).contains("the newest 1000 conversations"),
        "{}",
        stderr(&output)
    );
    assert_eq!(conversations(&["log", "-n", "1001"]), 1_001);
    assert_eq!(conversations(&["log", "--since", "2026-01-01"]), 1_001);
    assert_eq!(store.json(&["log"]).len(), 1_001);
    let all_of_them = store.run(&["log", "-n", "1000"]);
    assert_eq!(stderr(&all_of_them), "", "whoever says how many is not told");
}

#[test]
fn rows_can_be_chosen() {
    let store = TestStore::with(&talk());
    let chosen = |more: &[&str]| {
        let mut arguments = vec!["log", "--exchanges"];
        arguments.extend(more);
        store
            .json(&arguments)
            .iter()
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(chosen(&["-n", "2"]), ["talk-2b", "stranger"]);
    assert_eq!(
        chosen(&["--since", "2026-03-01T10:00:10Z", "--until", "2026-03-01T10:00:20Z"]),
        ["talk-2", "talk-2b"]
    );
    assert_eq!(chosen(&["--model", "opus"]), Vec::<String>::new());
    assert_eq!(chosen(&["--model", "sonnet"]).len(), 4);
    assert_eq!(chosen(&["--grep", "quarter mile"]), ["talk-2"]);
    assert_eq!(chosen(&["--branch", "branch_20260301100020"]), ["talk-2b"]);
    let rows = store.json(&["log", "--exchanges"]);
    let output_node = rows[1]["output_node"].as_str().unwrap();
    assert_eq!(chosen(&["--hash", &output_node[..12]]), ["talk-2"]);
    assert_eq!(store.run(&["log", "--hash", "xyz"]).status.code(), Some(2));
    assert_eq!(store.run(&["log", "--since", "soon"]).status.code(), Some(2));
}

#[test]
fn the_graph_shows_where_a_conversation_branched() {
    let store = TestStore::with(&talk()[..3]);
    let drawn = store.ok(&["log", "--graph"]);
    let shape: Vec<&str> = drawn
        .lines()
        .skip(2)
        .map(|line| line.split("  ").next().unwrap())
        .collect();
    assert_eq!(shape, ["o", "│ o", "├─╯", "o", ""], "{drawn}");
}

#[test]
fn explain_says_why_and_what_else() {
    let store = TestStore::with(&talk());
    let text = store.ok(&["explain", "talk-2"]);
    assert!(
        text.starts_with("talk-2 contains the answer of talk-1, and is the first to go on from it (2 blocks alike)\n"),
        "{text}"
    );
    let stranger = &store.json(&["explain", "stranger"])[0];
    let reason = stranger["reason"].as_str().unwrap();
    assert!(
        reason.contains("an equal opening alone does not link strangers"),
        "{reason}"
    );
    assert_eq!(stranger["rejected"][0]["exchange_id"], "talk-1");
    assert_eq!(store.run(&["explain", "nobody"]).status.code(), Some(1));
}

#[test]
fn the_tree_has_the_keys_of_the_contract() {
    let store = TestStore::with(&talk());
    let agents = store.json(&["tree", "talk-2"]);
    assert_eq!(agents.len(), 1);
    for key in [
        "id",
        "name",
        "is_main",
        "status",
        "model",
        "started_at",
        "updated_at",
        "completion_order",
        "input_tokens",
        "output_tokens",
        "estimated_input_tokens",
        "max_input_tokens",
        "context_fill",
        "type_hash",
        "conversation_hash",
        "parent_conversation_hash",
        "child_conversation_hashes",
        "first_user_hash",
        "first_response_hash",
        "parent_id",
        "link",
        "context_edits",
    ] {
        assert!(keys(&agents[0]).contains(key), "{key}");
    }
    assert_eq!(
        (&agents[0]["id"], &agents[0]["status"]),
        (&"main".into(), &"complete".into())
    );
}

#[test]
fn words_are_found_after_an_import() {
    let store = TestStore::with(&talk());
    let hits = store.json(&["search", "twisted", "piece"]);
    assert_eq!(hits[0]["exchange_id"], "talk-2b");
    assert_eq!(store.run(&["search", "zebra"]).status.code(), Some(1));
}

#[test]
fn a_rebuild_gives_the_same_and_fsck_finds_nothing() {
    let store = TestStore::with(&talk());
    let before = store.ok(&["log", "--exchanges", "--json"]);
    assert_eq!(store.ok(&["rebuild"]), "4 exchanges linked, 0 moved\n");
    assert_eq!(store.ok(&["log", "--exchanges", "--json"]), before);
    let output = store.run(&["fsck", "--read-data"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()));
    assert_eq!(stderr(&output), "no errors in the data of local\n");
}

#[test]
fn a_rebuild_can_be_tried_first() {
    let store = TestStore::with(&talk());
    assert_eq!(
        store.ok(&["rebuild", "--dry-run"]),
        "4 exchanges linked, 0 would move\n"
    );
}

/// As an older version that knew no keys would have left them.
fn forget_keys(store: &TestStore) {
    let file = rusqlite::Connection::open(store.data().join("ropewalk.db")).unwrap();
    let rows = file.execute("UPDATE exchange SET projections = 0, keys = X''", []);
    assert_eq!(rows.unwrap(), talk().len());
}

#[test]
fn hashes_and_keys_of_an_older_version_are_made_again() {
    let store = TestStore::with(&talk());
    let before = store.ok(&["log", "--exchanges", "--json"]);
    let linked = "4 exchanges linked, 0 moved\n";
    let current = format!("hashes of 0 exchanges made by an older version, 0 changed\n{linked}");
    assert_eq!(store.ok(&["rebuild", "--projections"]), current);
    forget_keys(&store);
    for _ in 0..2 {
        assert_eq!(
            store.ok(&["rebuild", "--projections", "--dry-run"]),
            "hashes of 4 exchanges made by an older version, 4 would change\n4 exchanges linked, 0 would move\n"
        );
    }
    let rebuilt = &store.json(&["rebuild", "--projections"])[0];
    assert_eq!(rebuilt["projections"], serde_json::json!({"old": 4, "changed": 4}));
    assert_eq!(store.ok(&["rebuild", "--projections"]), current);
    assert_eq!(store.ok(&["log", "--exchanges", "--json"]), before);
    store.ok(&["fsck", "--read-data"]);
}

#[test]
fn a_time_in_the_past_shows_what_was_known_then() {
    let store = TestStore::with(&talk());
    let all = store.json(&["log", "--exchanges"]);
    let second = all[1]["at"].as_str().unwrap().to_owned();
    let then = store.json(&["log", "--exchanges", "--as-of", &second]);
    assert_eq!(then.len(), 2);
    assert_eq!(then[0], all[0]);
    assert_eq!((&then[1]["id"], &then[1]["status"]), (&all[1]["id"], &"pending".into()));
    let output = store.run(&["fsck", "--as-of", &second]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn stats_count_what_there_is() {
    let store = TestStore::with(&talk());
    let figures = &store.json(&["stats"])[0];
    assert_eq!(figures["exchanges"], 4);
    assert_eq!(figures["models"]["claude-sonnet-4-5"]["output_tokens"], 20);
    assert!(figures["bytes_in"].as_u64() > Some(0) && figures["file_bytes"].as_u64() > Some(0));
}

#[test]
fn text_from_models_cannot_reach_the_terminal() {
    let hostile = "red \u{1b}[31m, turned \u{202e}, rung \u{7}, cleared \u{9b}2J";
    let store = TestStore::with(&[turn("evil\u{1b}]0;x\u{7}", 0, &[hostile, hostile])]);
    let id = store.json(&["log", "--exchanges"])[0]["conversation_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for arguments in [
        &["log"][..],
        &["log", "--graph"],
        &["log", "--exchanges"],
        &["show", &id],
        &["show", &format!("{id}~0")],
        &["tree"],
        &["explain", &id],
        &["search", "turned"],
    ] {
        let text = store.ok(arguments);
        let is_hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_hostile), "{arguments:?}: {text:?}");
        assert!(text.contains("\\u{1b}"), "{arguments:?} shows it escaped: {text}");
    }
    assert_eq!(
        ids(&store.json(&["log", "--exchanges"])),
        ["evil\u{1b}]0;x\u{7}"],
        "data stays as it is"
    );
}

#[test]
fn a_path_goes_on_from_the_linked_parent() {
    let store = TestStore::with(&talk());
    let file = store.data().parent().unwrap().join("traffic.exchanges.jsonl");
    let hashes = stdout(&crate::ropewalk(&["hash", file.to_str().unwrap()]));
    let rows = store.json(&["log", "--exchanges"]);
    for (row, alone) in rows.iter().zip(hashes.lines()) {
        // Nothing but the newest step changed from turn to turn, so the body alone gives the same path.
        let alone: Value = serde_json::from_str(alone).unwrap();
        assert_eq!((&row["id"], &row["path_hash"]), (&alone["id"], &alone["path_hash"]));
    }
    let filtered = store.json(&["log", "--exchanges", "--since", "2026-03-01T10:00:15Z"]);
    assert_eq!(filtered, rows[2..], "also where the parents are not on the page");
}

#[test]
fn a_subagent_knows_its_parent() {
    if captures().unwrap().is_none() {
        return;
    }
    let store = TestStore::new();
    store.import(&workspace_root().join("../shared/captures/cc-task.exchanges.jsonl"));
    let agents = store.json(&["tree"]);
    let (main, child) = (&agents[0], &agents[1]);
    assert_eq!((&main["is_main"], &child["is_main"]), (&true.into(), &false.into()));
    assert_eq!(child["parent_id"], main["id"]);
    assert_eq!(child["parent_conversation_hash"], main["conversation_hash"]);
    assert_eq!(main["child_conversation_hashes"][0], child["conversation_hash"]);
    let rows = store.json(&["log", "--exchanges", "--agent", child["id"].as_str().unwrap()]);
    assert!(rows.len() >= 2);
    for row in &rows {
        assert_eq!(
            (&row["branch_id"], &row["branch_kind"]),
            (&"subtask_1".into(), &"subtask".into())
        );
        assert_eq!(row["agent"]["type_hash"], child["type_hash"]);
    }
}

#[test]
fn a_postgresql_server_shows_the_same_as_a_file() {
    let server = PrivatePostgres::shared().unwrap();
    let url = server.fresh_database().unwrap();
    let store = TestStore::with(&talk());
    let file = store.data().parent().unwrap().join("traffic.exchanges.jsonl");
    let on_server = |arguments: &[&str]| {
        let mut all = vec!["--store", &url];
        all.extend(arguments);
        let output = crate::ropewalk(&all);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    // The key that tags redacted secrets is kept in a folder; reading needs none.
    let data = store.data();
    on_server(&["--data", data.to_str().unwrap(), "import", file.to_str().unwrap()]);
    for arguments in [
        &["log", "--exchanges", "--json"][..],
        &["log", "--json"],
        &["export"],
        &["tree", "--json"],
    ] {
        assert_eq!(on_server(arguments), store.ok(arguments), "{arguments:?}");
    }
    let node = store.json(&["log", "--exchanges"])[1]["output_node"].as_str().unwrap()[..11].to_owned();
    assert_eq!(on_server(&["show", &node]), store.ok(&["show", &node]));
    assert_eq!(on_server(&["fsck", "--read-data"]), "");
}
