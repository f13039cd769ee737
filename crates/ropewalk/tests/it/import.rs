//! `import` and `export`: everything gets in once, and out again as it was.

use ropewalk_testkit::captures::{captures, workspace_root};
use serde_json::{Value, json};

use crate::store::{TestStore, jsonl, talk, turn};
use crate::{stderr, stdout};

fn count(summary: &Value, name: &str) -> u64 {
    summary[name].as_u64().unwrap()
}

#[test]
fn importing_twice_changes_nothing() {
    let store = TestStore::new();
    let fixtures = workspace_root().join("fixtures/exchanges");
    let first = store.import(&fixtures);
    assert!(count(&first, "new") > 40, "{first}");
    assert_eq!(count(&first, "read"), count(&first, "new"));
    let before = store.ok(&["log", "--exchanges", "--json"]);
    let second = store.import(&fixtures);
    assert_eq!(count(&second, "known"), count(&first, "new"));
    assert_eq!((count(&second, "new"), count(&second, "linked")), (0, 0));
    assert_eq!(store.ok(&["log", "--exchanges", "--json"]), before);
}

#[test]
fn what_is_exported_and_imported_again_is_the_same() {
    let store = TestStore::new();
    store.import(&workspace_root().join("fixtures/exchanges"));
    if captures().unwrap().is_some() {
        store.import(&workspace_root().join("../shared/captures"));
    }
    let exported = store.ok(&["export"]);
    let other = TestStore::new();
    let file = other.file("exported.jsonl", &exported);
    other.import(&file);
    let list = ["log", "--exchanges", "--json"];
    assert_eq!(other.ok(&list), store.ok(&list));
    assert_eq!(other.ok(&["log", "--json"]), store.ok(&["log", "--json"]));
    assert_eq!(other.ok(&["export"]), exported);
}

#[test]
fn one_conversation_is_exported_by_its_name() {
    let store = TestStore::with(&talk());
    let rows = store.json(&["log", "--exchanges"]);
    let conversation = rows[0]["conversation_id"].as_str().unwrap();
    let exported = store.json(&["export", &conversation[..8]]);
    let ids: Vec<&str> = exported.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["talk-1", "talk-2", "talk-2b"]);
}

#[test]
fn a_bad_line_is_told_and_the_rest_goes_in() {
    let store = TestStore::new();
    let mut lines = jsonl(&talk());
    lines.push_str("{\"v\":1,\"id\":\"half\n");
    lines.push_str(&json!({"v": 1, "id": "x", "at": "yesterday", "path": "/", "request": {}}).to_string());
    let file = store.file("bad.jsonl", &lines);
    let output = store.run(&["import", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "something was left out");
    assert_eq!(
        stdout(&output),
        "6 read, 4 new, 0 completed, 0 known, 0 conflicts, 2 skipped\n"
    );
    let talk = stderr(&output);
    assert!(talk.contains("bad.jsonl:5: not JSON"), "{talk}");
    assert!(talk.contains("bad.jsonl:6: `at` is no time: `yesterday`"), "{talk}");
}

#[test]
fn a_file_of_another_kind_is_left_out() {
    let store = TestStore::new();
    let file = store.file("other.jsonl", "{\"type\":\"user\"}\n");
    let output = store.run(&["--json", "import", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let error: Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["kind"]),
        (&json!(1), &json!("not_found"))
    );
}

#[test]
fn the_same_id_with_other_bytes_is_a_conflict_and_the_first_stays() {
    let store = TestStore::with(&talk());
    let other = store.file(
        "other.jsonl",
        &jsonl(&[turn("talk-1", 0, &["Something else?", "Yes."])]),
    );
    let summary = store.import(&other);
    assert_eq!((count(&summary, "conflicts"), count(&summary, "new")), (1, 0));
    assert!(store.ok(&["show", "talk-1"]).contains("As long as its walk."));
}

#[test]
fn a_lines_owner_counts_unless_one_is_chosen() {
    let store = TestStore::new();
    let mut line = turn("mine", 0, &["Whose?", "Ann's."]);
    line["owner"] = json!("ann");
    let file = store.file("owned.jsonl", &jsonl(&[line]));
    let file = file.to_str().unwrap();
    store.ok(&["import", file]);
    store.ok(&["--owner", "bob", "import", file]);
    for owner in ["ann", "bob"] {
        let rows = store.json(&["--owner", owner, "log", "--exchanges"]);
        assert_eq!((rows.len(), &rows[0]["owner"]), (1, &json!(owner)));
    }
    let output = store.run(&["log"]);
    assert_eq!(output.status.code(), Some(2), "two owners and none was chosen");
    assert!(stderr(&output).contains("ann | bob"), "{}", stderr(&output));
    assert_eq!(store.json(&["stats"]).len(), 2);
}

#[test]
fn secrets_in_a_file_are_redacted_before_they_are_kept() {
    let store = TestStore::new();
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let line = turn("a", 0, &[&format!("my token is {secret}, keep it"), "I will"]);
    store.import(&store.file("a.jsonl", &jsonl(&[line])));
    let exchange = &store.json(&["log", "--exchanges"])[0];
    assert_eq!(exchange["redactions"], 1, "{exchange}");
    let body = store.ok(&["show", "a", "--raw", "request"]);
    assert!(
        body.contains("[redacted:github-token:") && !body.contains(secret),
        "{body}"
    );
}
