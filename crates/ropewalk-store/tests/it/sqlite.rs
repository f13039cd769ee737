//! What only a file can do to us: locks, full disks, damage.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use ropewalk_store::facts::Micros;
use ropewalk_store::sqlite::{FILE_NAME, Options, Sqlite};
use ropewalk_store::store::{Depth, Outcome, Questions, Selection, Store, StoreError};
use ropewalk_testkit::turns::Turns;

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(folder, &Options::default()).unwrap()
}

#[tokio::test]
async fn what_is_recorded_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut turns = Turns::new(1, 5, 10);
    let batch = turns.batch(64);
    let ids: Vec<String> = batch.iter().map(|exchange| exchange.id.clone()).collect();
    {
        let store = open(folder.path());
        let owner = store.owner("o").await.unwrap();
        store.record(owner, batch.clone()).await.unwrap();
    }
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    let rows = store.exchanges(owner, Selection::Ids(ids), Micros::MAX).await.unwrap();
    assert_eq!(rows.len(), 64);
    let again = store.record(owner, batch).await.unwrap();
    assert!(again.iter().all(|recorded| recorded.outcome == Outcome::Known));
    let questions = Questions {
        chains: vec![turns.chain_to_look_up()],
        keys: Vec::new(),
        limit: 3,
    };
    let answers = store.look_up(owner, questions, Micros::MAX).await.unwrap();
    assert!(
        answers.deepest[0]
            .as_ref()
            .is_some_and(|node| !node.as_output.is_empty())
    );
}

#[tokio::test]
async fn one_process_writes_and_others_read_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert!(matches!(
        Sqlite::open(folder.path(), &Options::default()),
        Err(StoreError::Locked)
    ));
    let owner = store.owner("o").await.unwrap();
    let batch = Turns::new(1, 5, 10).batch(10);
    let id = batch[9].id.clone();
    store.record(owner, batch.clone()).await.unwrap();
    let reader = Sqlite::open_read_only(folder.path()).unwrap();
    let rows = reader
        .exchanges(owner, Selection::Ids(vec![id]), Micros::MAX)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert!(matches!(reader.record(owner, batch).await, Err(StoreError::ReadOnly)));
    drop(store);
    open(folder.path());
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        pages_max: 200,
        ..Options::default()
    };
    let store = Sqlite::open(folder.path(), &options).unwrap();
    let owner = store.owner("o").await.unwrap();
    let mut turns = Turns::new(1, 5, 10);
    let mut committed = 0;
    let error = loop {
        match store.record(owner, turns.batch(8)).await {
            Ok(recorded) => committed += recorded.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full), "{error}");
    // Still alive, still refusing, still readable.
    assert!(store.record(owner, turns.batch(8)).await.is_err());
    let page = Selection::Since {
        after: None,
        limit: 1_000,
    };
    assert_eq!(
        store.exchanges(owner, page, Micros::MAX).await.unwrap().len(),
        committed
    );
    assert!(committed > 0);
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.check(owner, Depth::Structure).await.unwrap(), []);
    // With room again, it goes on.
    let others = store.owner("another").await.unwrap();
    store.record(others, Turns::new(2, 5, 10).batch(8)).await.unwrap();
}

#[tokio::test]
async fn a_damaged_page_is_an_error_for_those_who_need_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    for _ in 0..20 {
        store.record(owner, Turns::new(1, 5, 10).batch(64)).await.unwrap();
    }
    drop(store);
    let path = folder.path().join(FILE_NAME);
    let pages = std::fs::metadata(&path).unwrap().len() / 4096;
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    for page in (pages / 2)..(pages / 2 + 3) {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0x5a; 4096]).unwrap();
    }
    drop(file);
    let store = open(folder.path());
    let findings = store.check(owner, Depth::Data).await;
    assert!(
        findings.as_ref().map_or(true, |findings| !findings.is_empty()),
        "{findings:?}"
    );
    // The process lives, and says so by answering.
    assert!(store.stats(owner).await.is_ok());
}
