//! `import` of what chat services, browsers and llm leave: the same conversations as if they had been recorded.

use std::fs;
use std::path::{Path, PathBuf};

use ropewalk_testkit::captures::{captures, workspace_root};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::store::TestStore;
use crate::{stderr, stdout};

/// A folder with one of each.
fn exports(store: &TestStore) -> PathBuf {
    let folder = store.data().with_file_name("exports");
    let fixtures = workspace_root().join("fixtures/import");
    for name in ["chatgpt", "claude-ai"] {
        fs::create_dir_all(folder.join(name)).unwrap();
        for file in fs::read_dir(fixtures.join(name)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.join(name).join(file.file_name())).unwrap();
        }
    }
    fs::copy(fixtures.join("browser.har"), folder.join("browser.har")).unwrap();
    for name in ["llm-before-0.32", "llm-0.32"] {
        let database = Connection::open(folder.join(format!("{name}.db"))).unwrap();
        let sql = fs::read_to_string(fixtures.join(format!("{name}.sql"))).unwrap();
        database.execute_batch(&sql).unwrap();
    }
    folder
}

fn rows(store: &TestStore) -> Vec<Value> {
    store.json(&["log", "--exchanges"])
}

/// Imports a folder in which some things cannot be read.
fn import_with_problems(store: &TestStore, folder: &Path) -> Value {
    let output = store.run(&["--json", "import", folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Where each exchange stands: the kind of its branch, and its parent.
fn place(rows: &[Value], id: &str) -> (String, Value) {
    let row = rows
        .iter()
        .find(|row| row["id"] == id)
        .unwrap_or_else(|| panic!("no {id}"));
    assert_eq!(row["kind"], "turn", "{row}");
    (
        row["branch_kind"].as_str().unwrap().to_owned(),
        row["parent_exchange_id"].clone(),
    )
}

#[test]
fn a_folder_of_everything_becomes_its_conversations() {
    let store = TestStore::new();
    let folder = exports(&store);
    let summary = import_with_problems(&store, &folder);
    assert_eq!(
        (&summary["new"], &summary["skipped"]),
        (&json!(24), &json!(3)),
        "{summary}"
    );
    assert_eq!(summary["passed_over"]["projects.json: projects, no conversations"], 1);
    assert_eq!(summary["passed_over"]["users.json: the account, no conversations"], 1);
    let rows = rows(&store);
    for (id, branch, parent) in [
        ("say-1", "main", Value::Null),
        ("say-1b", "regeneration", Value::Null),
        ("say-2", "main", json!("say-1")),
        ("say-2b", "edit", json!("say-1")),
        ("code-b", "main", Value::Null),
        ("say-b", "main", json!("code-b")),
        ("m-2:1", "main", Value::Null),
        ("m-2", "main", json!("m-2:1")),
        ("m-2b", "regeneration", Value::Null),
        ("m-4", "main", json!("m-2")),
        ("o-4", "main", json!("o-2")),
        ("old-2", "main", json!("old-1")),
        ("turn-2", "main", json!("turn-1")),
        ("turn-3", "main", json!("turn-2")),
        ("turn-4", "edit", json!("turn-2")),
    ] {
        assert_eq!(place(&rows, id), (branch.to_owned(), parent), "{id}");
    }
    assert_eq!(store.json(&["log"]).len(), 10);
}

#[test]
fn importing_it_twice_is_importing_it_once() {
    let store = TestStore::new();
    let folder = exports(&store);
    import_with_problems(&store, &folder);
    let lists = || {
        [
            store.ok(&["log", "--exchanges", "--json"]),
            store.ok(&["log", "--json"]),
            store.ok(&["export"]),
        ]
    };
    let before = lists();
    // Another name for the same files: nothing is known of them but what is in them.
    let other = folder.with_file_name("later-exports");
    fs::rename(&folder, &other).unwrap();
    let summary = import_with_problems(&store, &other);
    assert_eq!(
        (&summary["new"], &summary["known"]),
        (&json!(0), &json!(24)),
        "{summary}"
    );
    assert_eq!(lists(), before);
}

#[test]
fn usage_that_nobody_counted_is_not_made_up() {
    let store = TestStore::new();
    store.import(&workspace_root().join("fixtures/import/chatgpt"));
    for row in rows(&store) {
        assert_eq!(
            (&row["usage"]["input_tokens"], &row["cost_usd"]),
            (&Value::Null, &Value::Null),
            "{row}"
        );
    }
    let log = store.ok(&["log"]);
    assert!(log.contains("4 turns · 3 branches · usage not known"), "{log}");
}

#[test]
fn what_a_model_said_cannot_move_the_cursor() {
    let store = TestStore::new();
    store.import(&workspace_root().join("fixtures/import/chatgpt"));
    let shown = store.ok(&["show", "say-b"]);
    assert!(shown.contains("The highest tide is 4.2 m."), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn no_header_of_a_har_opens_a_door() {
    let store = TestStore::new();
    store.import(&workspace_root().join("fixtures/import/browser.har"));
    let exported = store.ok(&["export"]);
    for secret in [
        "har-secret",
        "har-cookie",
        "har-bearer",
        "har-query",
        "har-gateway",
        "har-set-cookie",
    ] {
        assert!(!exported.contains(secret), "{secret}");
    }
    let row = &rows(&store)[0];
    assert_eq!(
        (
            &row["usage"]["output_tokens"],
            &row["latency_ms"],
            &row["first_byte_ms"]
        ),
        (&json!(5), &json!(903), &json!(203))
    );
}

#[test]
fn a_file_that_is_named_as_another_format_says_what_is_wrong() {
    let store = TestStore::new();
    let har = workspace_root().join("fixtures/import/browser.har");
    let output = store.run(&["--json", "import", "--format", "llm", har.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
}

/// What a list of conversations says of tokens and money.
fn sums(store: &TestStore) -> Vec<(Value, Value, Value)> {
    let conversations = store.json(&["--owner", "local", "log"]);
    let sums = conversations
        .iter()
        .map(|row| (row["exchanges"].clone(), row["tokens"].clone(), row["cost_usd"].clone()));
    sums.collect()
}

#[test]
fn llms_log_and_the_traffic_are_one_conversation_each() {
    let log = workspace_root().join("../shared/logs/llm-logs.db");
    if captures().unwrap().is_none() || !log.exists() {
        eprintln!("skipped: ../shared is not there");
        return;
    }
    let traffic = workspace_root().join("../shared/captures/llm.exchanges.jsonl");
    let (log, traffic) = (log.to_str().unwrap(), traffic.to_str().unwrap());
    let imported = |files: &[&str]| {
        let store = TestStore::new();
        for file in files {
            store.ok(&["--owner", "local", "import", file]);
        }
        store
    };
    let alone = imported(&[traffic]);
    assert_eq!(sums(&alone).len(), 3);
    for both in [imported(&[traffic, log]), imported(&[log, traffic])] {
        assert_eq!(sums(&both), sums(&alone));
        let rows = |store: &TestStore| store.ok(&["--owner", "local", "log", "--exchanges", "--json"]);
        assert_eq!(rows(&both), rows(&alone));
    }
    let log_alone = imported(&[log]);
    let nodes = |store: &TestStore| -> Vec<(Value, Value)> {
        let rows = store.json(&["--owner", "local", "log", "--exchanges"]);
        rows.iter()
            .map(|row| (row["input_node"].clone(), row["output_node"].clone()))
            .collect()
    };
    assert_eq!(
        nodes(&log_alone),
        nodes(&alone),
        "the same places, whoever tells of them"
    );
}
