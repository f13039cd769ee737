//! `show`, and what a REF may be.

use ropewalk_testkit::captures::{captures, workspace_root};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::store::{TestStore, talk};
use crate::{stderr, stdout};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_recorded_bytes_come_back() {
    let store = TestStore::new();
    store.import(&workspace_root().join("fixtures/exchanges"));
    let rows = store.json(&["log", "--exchanges"]);
    for row in rows.iter().step_by(5) {
        let id = row["id"].as_str().unwrap();
        for (half, hash) in [("request", "request_sha256"), ("response", "response_sha256")] {
            let output = store.run(&["show", id, "--raw", half]);
            match row[hash].as_str() {
                Some(hash) => assert_eq!(sha256(&output.stdout), hash, "{id} {half}"),
                None => assert_eq!(output.status.code(), Some(1), "{id} {half}"),
            }
        }
    }
}

#[test]
fn a_conversation_shows_its_active_path() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log", "--exchanges"]);
    let id = rows[0]["conversation_id"].as_str().unwrap();
    let messages = store.json(&["show", id]);
    let said: Vec<&str> = messages
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            "How long is a rope?",
            "As long as its walk.",
            "Why?",
            "It is twisted in one piece."
        ]
    );
    let of: Vec<&str> = messages
        .iter()
        .map(|message| message["exchange_id"].as_str().unwrap())
        .collect();
    assert_eq!(of, ["talk-1", "talk-1", "talk-2b", "talk-2b"]);
    let indices: Vec<u64> = messages
        .iter()
        .map(|message| message["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indices, [1, 2, 3, 4]);
    for pair in messages.windows(2) {
        assert_eq!(pair[1]["parent_uuid"], pair[0]["uuid"]);
    }
    for key in [
        "uuid",
        "conversation_id",
        "friendly_id",
        "index",
        "short_hash",
        "reference",
        "parent_uuid",
        "type",
        "role",
        "content",
        "blocks",
        "timestamp",
        "is_sidechain",
        "branch",
        "model",
        "usage",
        "cost_usd",
        "exchange_id",
        "node",
    ] {
        assert!(messages[0].get(key).is_some(), "{key}");
    }
}

#[test]
fn a_ref_is_an_id_or_the_beginning_of_one() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log", "--exchanges"]);
    let row = &rows[1];
    let shown = |reference: &str| -> String {
        let shown = store.json(&["show", reference]);
        shown[0]["exchange"]["id"].as_str().unwrap().to_owned()
    };
    let text = |name: &str| row[name].as_str().unwrap();
    for reference in [
        "talk-2",
        text("output_node"),
        &text("output_node")[..11],
        &text("output_node")[3..15],
        &text("input_node")[3..15],
        &text("prompt_hash")[..12],
        &text("current_message_hash").to_uppercase()[..12],
    ] {
        assert_eq!(shown(reference), "talk-2", "{reference}");
    }
    assert_eq!(shown("talk-2~1"), "talk-1");
    assert_eq!(shown("talk-2b~"), "talk-1");
    let conversation = row["conversation_id"].as_str().unwrap();
    assert_eq!(shown(&format!("{}~0", &conversation[..13])), "talk-2b");
    assert_eq!(shown(&format!("{}~1", conversation.replace('-', ""))), "talk-1");
}

#[test]
fn a_ref_that_names_nothing_or_too_much_is_an_error_with_a_hint() {
    let store = TestStore::with(&talk());
    let system = store.json(&["log", "--exchanges"])[0]["system_hash"]
        .as_str()
        .unwrap()
        .to_owned();
    let failed = |reference: &str| -> Value {
        let output = store.run(&["--json", "show", reference]);
        assert_eq!(output.status.code(), Some(1), "{reference}");
        assert_eq!(stdout(&output), "");
        serde_json::from_str::<Value>(&stderr(&output)).unwrap()["error"].take()
    };
    let ambiguous = failed(&system[..8]);
    assert_eq!(ambiguous["message"], format!("`{}` names 4 things", &system[..8]));
    assert!(ambiguous["hint"].as_str().unwrap().contains("more digits"));
    for unknown in ["nobody", "abc", "0123456789abcdef", "@", "~", ""] {
        assert_eq!(failed(unknown)["kind"], "not_found", "{unknown}");
    }
    assert!(
        failed("talk-1~7")["message"]
            .as_str()
            .unwrap()
            .contains("only 0 are there")
    );
}

#[test]
fn messages_of_real_clients_are_shown() {
    if captures().unwrap().is_none() {
        return;
    }
    let store = TestStore::new();
    store.import(&workspace_root().join("../shared/captures"));
    for row in store.json(&["log"]) {
        let id = row["conversation_id"].as_str().unwrap();
        let messages = store.json(&["show", id]);
        // A session of nothing but calls beside the conversation has no path.
        assert!(row["turns"] == 0 || !messages.is_empty(), "{row}");
        store.ok(&["show", id]);
        store.ok(&["tree", id]);
    }
}
