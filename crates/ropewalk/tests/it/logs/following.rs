//! Files that grow, are read again, or are read by a server.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::claude::{Session, talk, talk_at};
use super::{count, exchanges};
use crate::serve::server::{Place, signal, wait_until};
use crate::store::TestStore;

/// A command that follows files until it is dropped.
struct Following(Child);

impl Following {
    fn start(store: &TestStore, path: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
        let command = command
            .arg("--data")
            .arg(store.data())
            .arg("import")
            .arg(path)
            .arg("--watch");
        let child = command.env_clear().stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Following(child.unwrap())
    }

    fn stop(mut self) {
        signal(self.0.id(), "TERM");
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Waits until so many exchanges are linked.
fn wait_for(store: &TestStore, expected: usize) -> Vec<Value> {
    wait_until(|| {
        let output = store.run(&["--json", "log", "--exchanges"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_linked = rows.iter().all(|row| row["conversation_id"].is_string());
        (rows.len() == expected && is_linked).then_some(rows)
    })
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_file_that_grows_is_followed_through_truncation_rotation_and_a_restart() {
    let store = TestStore::new();
    let projects = store.folder().join("projects");
    let mut session = talk("s");
    let path = session.save(&projects);
    let following = Following::start(&store, &projects);
    wait_for(&store, 2);
    // In two pieces, the first of which ends in the middle of a line.
    let before = session.text().len();
    session.user("And how thick?").says("s_3", "As thick as an arm.");
    let text = session.text();
    let (first, second) = text[before..].split_at(300);
    append(&path, first);
    append(&path, second);
    let rows = wait_for(&store, 3);
    assert_eq!(rows[2]["parent_exchange_id"], rows[1]["id"]);
    // A new file, in a folder that was not there.
    let other = talk_at("other", 1_000);
    let other_path = other.save(&projects.join("new"));
    wait_for(&store, 5);
    // Shorter, then longer than before with something else.
    fs::write(&path, "").unwrap();
    fs::write(&path, talk_at("t", 2_000).text()).unwrap();
    wait_for(&store, 7);
    // Another file under the same name.
    fs::rename(&other_path, other_path.with_extension("old")).unwrap();
    talk_at("u", 2_500).save(&projects.join("aside"));
    fs::rename(projects.join("aside/-srv-rope/u.jsonl"), &other_path).unwrap();
    wait_for(&store, 9);
    following.stop();
    // What is written meanwhile is found at the next start, and what comes then is followed.
    session.user("And how old?").says("s_4", "Older than the house.");
    fs::write(&path, session.text()).unwrap();
    let following = Following::start(&store, &projects);
    wait_for(&store, 10);
    session.user("And whose?").says("s_5", "Nobody's.");
    fs::write(&path, session.text()).unwrap();
    wait_for(&store, 11);
    following.stop();
}

#[test]
fn files_that_did_not_change_are_not_read_again() {
    let store = TestStore::new();
    let mut session = talk("s");
    let path = session.save(&store.folder());
    store.import(&path);
    let before = store.ok(&["log", "--exchanges", "--json"]);
    let again = store.import(&path);
    assert_eq!((count(&again, "unchanged"), count(&again, "read")), (1, 0), "{again}");
    session.user("And how thick?").says("s_3", "As thick as an arm.");
    session.save(&store.folder());
    let grown = store.import(&path);
    assert_eq!((count(&grown, "new"), count(&grown, "known")), (1, 2), "{grown}");
    let after = store.ok(&["log", "--exchanges", "--json"]);
    assert_eq!(
        after.lines().take(2).collect::<Vec<_>>(),
        before.lines().collect::<Vec<_>>()
    );
}

#[test]
fn a_session_is_read_again_on_its_own() {
    let store = TestStore::new();
    let folder = store.folder();
    talk("s").save(&folder);
    talk("t").save(&folder);
    let projects = folder.join("-srv-rope");
    store.import(&projects);
    let summary = store
        .json(&["import", projects.to_str().unwrap(), "--replace", "s"])
        .remove(0);
    assert_eq!(
        (count(&summary, "files"), count(&summary, "known")),
        (1, 2),
        "{summary}"
    );
    let missing = store.run(&["import", projects.to_str().unwrap(), "--replace", "nobody"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(exchanges(&store).len(), 4);
}

#[test]
fn a_server_that_holds_the_store_records_what_is_imported() {
    let place = Place::bare("");
    let projects = place.store.folder().join("projects");
    let mut session = Session::new("long");
    for number in 0..300 {
        session
            .user(&format!("question {number}"))
            .says(&format!("long_{number}"), &format!("answer {number}"));
    }
    session.save(&projects);
    talk_at("s", 2_000).save(&projects);
    let direct = TestStore::new();
    direct.import(&projects);
    let server = place.serve();
    let summary = place.store.import(&projects);
    assert_eq!(
        (count(&summary, "new"), count(&summary, "files")),
        (302, 2),
        "{summary}"
    );
    let again = place.store.import(&projects);
    assert_eq!((count(&again, "unchanged"), count(&again, "new")), (2, 0), "{again}");
    assert_eq!(exchanges(&place.store), exchanges(&direct));
    drop(server);
}
