//! The journal of a server that died before it had recorded everything: into the store, once, and not from under a living one.

use std::path::Path;
use std::time::Duration;

use ropewalk_store::sqlite;
use ropewalk_testkit::postgres::Setup;
use ropewalk_testkit::upstream::Upstream;
use ropewalk_testkit::upstream::provider::Provider;
use rusqlite::Connection;

use super::load;
use crate::serve::server::{Place, Server};
use crate::stderr;
use crate::store::TestStore;

const CALLS: usize = 12;

/// A server whose store stands still has answered clients and recorded nothing, and is killed.
async fn killed_with_a_full_journal(place: &Place, mut freeze: impl FnMut(bool)) {
    let server: Server = place.serve();
    server.wait_until_ready();
    freeze(true);
    load(server.address, CALLS).await.unwrap();
    let data = place.data();
    let living = place.over_store(&["store", "drain", data.to_str().unwrap()]);
    let living = place.store.run(&living);
    assert_eq!(living.status.code(), Some(3), "{}", stderr(&living));
    assert!(
        stderr(&living).contains("another process uses the journal"),
        "{}",
        stderr(&living)
    );
    server.kill();
    freeze(false);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Drains what is left, twice, and a copy of it.
fn assert_drained_once(place: &Place) {
    let data = place.data();
    let spare = place.store.folder().join("spare");
    copy(&data.join("journal"), &spare);
    let drain = |folder: &Path| {
        let arguments = ["store", "drain", folder.to_str().unwrap()];
        place.store.json(&place.over_store(&arguments)).remove(0)["drained"].clone()
    };
    let drained = drain(&data);
    assert_eq!(
        (&drained["exchanges"], &drained["rejected"]),
        (&CALLS.into(), &0.into())
    );
    assert_eq!(drain(&data)["exchanges"], 0, "it is empty");
    assert_eq!(drain(&spare)["exchanges"], 0, "all of it is known");
    let exchanges = place.exchanges();
    assert_eq!(exchanges.len(), CALLS);
    assert!(exchanges.iter().all(|exchange| exchange["status"] == "complete"));
    place.store.ok(&place.over_store(&["fsck", "--read-data"]));
}

async fn provider() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    upstream
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_left_is_recorded_once_on_sqlite() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let file = place.data().join(sqlite::FILE_NAME);
    let mut lock = None;
    killed_with_a_full_journal(&place, |freezes| match freezes {
        true => {
            let connection = Connection::open(&file).unwrap();
            connection.busy_timeout(Duration::from_secs(30)).unwrap();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            lock = Some(connection);
        }
        false => drop(lock.take()),
    })
    .await;
    assert_drained_once(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_server_left_is_recorded_once_on_postgres() {
    let postgres = Setup::default().start().unwrap();
    let upstream = provider().await;
    let place = Place::on(&upstream, Some(&postgres.fresh_database().unwrap()));
    killed_with_a_full_journal(&place, |freezes| match freezes {
        true => postgres.freeze().unwrap(),
        false => postgres.thaw().unwrap(),
    })
    .await;
    assert_drained_once(&place);
}

#[test]
fn a_folder_that_is_no_journal_stays_as_it_is() {
    let store = TestStore::new();
    let folder = store.folder().join("photographs");
    let missing = store.run(&["store", "drain", folder.to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(1), "{}", stderr(&missing));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("yew.jpg"), "a picture").unwrap();
    assert_eq!(
        store.json(&["store", "drain", folder.to_str().unwrap()])[0]["drained"]["exchanges"],
        0
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert!(!store.data().exists(), "nor is a store made");
}
