//! The logs that real clients left, beside the captures of the same runs.

use std::collections::HashMap;
use std::path::PathBuf;

use ropewalk_testkit::captures::{captures, workspace_root};
use serde_json::{Value, json};

use super::total;
use crate::store::TestStore;

/// The folder of the logs, if it is there.
fn logs() -> Option<PathBuf> {
    let folder = workspace_root().join("../shared/logs");
    if !folder.exists() || captures().unwrap().is_none() {
        println!("skipped: there are no shared logs");
        return None;
    }
    Some(folder)
}

fn import(order: &[&str]) -> TestStore {
    let store = TestStore::new();
    for folder in order {
        let folder = workspace_root().join("../shared").join(folder);
        store.run(&["--owner", "local", "import", folder.to_str().unwrap()]);
    }
    store
}

/// The provider's ids of each captured call, as an exchange of a log is called.
fn calls() -> HashMap<String, String> {
    let mut calls = HashMap::new();
    for exchange in captures()
        .unwrap()
        .into_iter()
        .flatten()
        .flat_map(|file| file.exchanges)
    {
        let body = String::from_utf8_lossy(&exchange.response_body).into_owned();
        let id = body
            .split("\"id\":")
            .map(|rest| rest.trim_start().trim_start_matches('"'))
            .find_map(|rest| {
                let id = rest.split('"').next()?;
                (id.starts_with("msg_") || id.starts_with("resp_")).then_some(id)
            });
        let Some(id) = id else { continue };
        let request = exchange.response_headers.get("request-id");
        calls.insert(
            request.map_or(id.to_owned(), |request| format!("{id}:{request}")),
            exchange.id.clone(),
        );
    }
    calls
}

#[test]
fn logs_alone_give_the_conversations_agents_and_branches_of_the_captures() {
    if logs().is_none() {
        return;
    }
    let calls = calls();
    let (logs, captured) = (import(&["logs"]), import(&["captures"]));
    let logged = logs.json(&["log", "--exchanges"]);
    let captured = captured.json(&["log", "--exchanges"]);
    let captured: HashMap<&str, &Value> = captured.iter().map(|row| (row["id"].as_str().unwrap(), row)).collect();
    let mut conversations: HashMap<&str, &str> = HashMap::new();
    let mut compared = 0;
    for row in &logged {
        let Some(same) = calls
            .get(row["id"].as_str().unwrap())
            .and_then(|id| captured.get(id.as_str()))
        else {
            continue;
        };
        compared += 1;
        let id = &same["id"];
        assert_eq!(row["agent"]["id"], same["agent"]["id"], "{id}");
        assert_eq!(row["branch_kind"], same["branch_kind"], "{id}");
        assert_eq!(
            (&row["session"], &row["model"]),
            (&same["session"], &same["model"]),
            "{id}"
        );
        // The log of a Codex subagent leaves out a result that its first request has.
        if id != "codex-sub-0013" {
            assert_eq!(
                (&row["input_node"], &row["output_node"]),
                (&same["input_node"], &same["output_node"]),
                "{id}"
            );
        }
        // A log has no failed attempts, so what was another attempt is the turn.
        if same["kind"] != "retry" {
            let parent = row["parent_exchange_id"].as_str().map(|parent| json!(calls[parent]));
            assert_eq!(parent.unwrap_or_default(), same["parent_exchange_id"], "{id}");
        }
        // The log of this answer ends before its usage did, and says so.
        if id != "cc-dup-0019" {
            assert_eq!(row["usage"], same["usage"], "{id}");
        }
        let conversation = same["conversation_id"].as_str().unwrap();
        let before = conversations.insert(row["conversation_id"].as_str().unwrap(), conversation);
        assert!(
            before.is_none_or(|before| before == conversation),
            "{id} is in two conversations"
        );
    }
    assert_eq!(compared, 57);
    let mut distinct: Vec<&str> = conversations.values().copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), conversations.len(), "no two conversations became one");
}

#[test]
fn captures_and_logs_are_the_same_in_either_order_and_count_once() {
    if logs().is_none() {
        return;
    }
    let (first, second) = (import(&["captures", "logs"]), import(&["logs", "captures"]));
    // Names are facts: they tell which of the two came first.
    let without_names = |mut rows: Vec<Value>| -> Vec<Value> {
        for row in &mut rows {
            row.as_object_mut().unwrap().remove("friendly_id").unwrap();
        }
        rows
    };
    for list in [&["log", "--exchanges"][..], &["log"]] {
        assert_eq!(without_names(first.json(list)), without_names(second.json(list)));
    }
    let alone = import(&["captures"]).json(&["log", "--exchanges"]);
    let both = first.json(&["log", "--exchanges"]);
    let known: Vec<Value> = alone.iter().map(|row| row["id"].clone()).collect();
    let of_captures: Vec<Value> = both.iter().filter(|row| known.contains(&row["id"])).cloned().collect();
    assert_eq!(of_captures.len(), alone.len());
    for tokens in [
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
    ] {
        assert_eq!(total(&of_captures, tokens), total(&alone, tokens));
    }
    // Calls of runs that nobody captured.
    assert_eq!(both.len() - alone.len(), 3);
    assert_eq!(first.json(&["fsck", "--read-data"]), Vec::<Value>::new());
}
