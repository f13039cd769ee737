//! What only a file can do to us: locks, full disks, damage.

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use ropewalk_store::derived::Links;
use ropewalk_store::facts::{Key, KeyKind, Micros, NewExchange, Position};
use ropewalk_store::sqlite::{FILE_NAME, Options, Sqlite};
use ropewalk_store::store::{Asked, Depth, Half, Outcome, Questions, Selection, Store, StoreError};
use ropewalk_testkit::turns::Turns;

use crate::links::one_conversation;
use crate::turn::turn;

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
        limit: 3,
        ..Questions::default()
    };
    let answers = store.look_up(owner, questions, Micros::MAX).await.unwrap();
    assert!(
        answers.deepest[0]
            .as_ref()
            .is_some_and(|node| !node.as_output.is_empty())
    );
}

#[tokio::test]
async fn turns_share_a_context_whatever_only_one_of_them_refers_to() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    let session = Key {
        kind: KeyKind::Session,
        hash: [1; 32],
    };
    let own = [KeyKind::Opening, KeyKind::CallResult, KeyKind::Reference];
    let own: Vec<Key> = own
        .into_iter()
        .zip(2..)
        .map(|(kind, byte)| Key { kind, hash: [byte; 32] })
        .collect();
    let mut batch = Turns::new(1, 1, 10).batch(own.len());
    for (exchange, key) in batch.iter_mut().zip(&own) {
        exchange.keys.extend([session, *key]);
    }
    let recorded = store.record(owner, batch).await.unwrap();
    let numbers: Vec<_> = recorded.iter().map(|recorded| recorded.number).collect();
    let questions = Questions {
        keys: own.into_iter().chain([session]).map(Asked::of).collect(),
        limit: 10,
        ..Questions::default()
    };
    let found = store.look_up(owner, questions, Micros::MAX).await.unwrap().exchanges;
    let (of_session, each) = found.split_last().unwrap();
    assert_eq!(each.concat(), numbers);
    assert_eq!(of_session.len(), numbers.len());
    drop(store);
    let file = rusqlite::Connection::open(folder.path().join(FILE_NAME)).unwrap();
    let contexts: i64 = file
        .query_row("SELECT count(*) FROM context", [], |row| row.get(0))
        .unwrap();
    assert_eq!(contexts, 1);
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
async fn a_reader_finds_what_is_recorded_after_it_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let batch = |round: i64| -> Vec<NewExchange> {
        let turn_of = |number: i64| {
            let said = format!("question {number} about {}", format!("rope {number} ").repeat(100));
            turn(&format!("e{number}"), number, &[&said], Some("answer"))
        };
        (round * 10..(round + 1) * 10).map(turn_of).collect()
    };
    let mut store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    store.record(owner, batch(-1)).await.unwrap();
    let reader = Sqlite::open_read_only(folder.path()).unwrap();
    let check = async |ids: &[String], what: &str| {
        let selection = Selection::Ids(ids.to_vec());
        let rows = reader.exchanges(owner, selection, Micros::MAX).await.unwrap();
        assert_eq!(rows.len(), ids.len(), "{what}");
        for row in rows {
            let body = reader.body(owner, row.number, Half::Request).await.unwrap().unwrap();
            assert_eq!(ropewalk_core::hash::sha256(&body), row.request_sha256, "{what}");
        }
    };
    let ids = |batch: &[NewExchange]| -> Vec<String> { batch.iter().map(|new| new.id.clone()).collect() };
    let mut all = Vec::new();
    // Enough for entries to move into the table and for packs to become one.
    for round in 0..60 {
        let batch = batch(round);
        all.extend(ids(&batch));
        store.record(owner, batch.clone()).await.unwrap();
        check(&ids(&batch), &format!("round {round}")).await;
        if round % 20 == 19 {
            // A clean end drops the log, and the next one begins with the same numbers.
            drop(store);
            store = open(folder.path());
            check(&ids(&batch), "after a restart").await;
        }
    }
    check(&all, "all of it").await;
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
async fn links_that_do_not_fit_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        pages_max: 400,
        ..Options::default()
    };
    let store = Sqlite::open(folder.path(), &options).unwrap();
    let owner = store.owner("o").await.unwrap();
    let recorded = store.record(owner, Turns::new(1, 5, 10).batch(8)).await.unwrap();
    let numbers: Vec<_> = recorded.iter().map(|recorded| recorded.number).collect();
    assert!(store.save_links(owner, one_conversation(0, 8, &numbers)).await.unwrap());
    let mut large = one_conversation(1, 8, &numbers[1..]);
    large.from_scratch = true;
    large.branches[0].record = vec![7; 4_096 * 400];
    let error = store.save_links(owner, large).await.unwrap_err();
    assert!(matches!(error, StoreError::Full), "{error}");
    drop(store);
    let store = open(folder.path());
    let state = store.link_state(owner).await.unwrap();
    assert_eq!(
        (state.version, state.linked_to, state.newest),
        (1, Position(8), Position(8))
    );
    let links = store.links(owner, Links::Of(numbers.clone())).await.unwrap();
    assert_eq!(links, one_conversation(0, 8, &numbers).links);
    assert_eq!(store.check(owner, Depth::Structure).await.unwrap(), []);
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
    let pages: Vec<i64> = {
        let connection = rusqlite::Connection::open(&path).unwrap();
        let select = "SELECT pageno FROM dbstat WHERE name = 'exchange' AND pagetype = 'leaf' ORDER BY pageno LIMIT 3";
        let mut statement = connection.prepare(select).unwrap();
        let pages = statement.query_map([], |row| row.get(0)).unwrap();
        pages.map(Result::unwrap).collect()
    };
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    for page in pages {
        file.seek(SeekFrom::Start((page as u64 - 1) * 4096)).unwrap();
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

/// Whoever has a thread of their own writes on it; whoever has none leaves it to the writer's. They take turns.
#[tokio::test(flavor = "multi_thread")]
async fn those_with_a_thread_of_their_own_and_others_write_beside_each_other() {
    const BATCHES: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()));
    let owner = store.owner("o").await.unwrap();
    let record = |store: Arc<Sqlite>, seed: u64| async move {
        let mut turns = Turns::new(seed, 3, 5);
        for _ in 0..BATCHES {
            let mut batch = turns.batch(8);
            for exchange in &mut batch {
                exchange.id = format!("{seed}-{}", exchange.id);
            }
            store.record(owner, batch).await.unwrap();
        }
        turns.chain_to_look_up()
    };
    let own = Arc::clone(&store).on_own_thread();
    let tasks = [
        tokio::spawn(record(Arc::clone(&own), 1)),
        tokio::spawn(record(Arc::clone(&store), 2)),
        tokio::spawn(record(own, 3)),
    ];
    let mut chains = Vec::new();
    for task in tasks {
        chains.push(task.await.unwrap());
    }
    let stats = store.stats(owner).await.unwrap();
    assert_eq!(stats.exchanges, 3 * BATCHES as u64 * 8);
    let questions = Questions {
        chains,
        limit: 3,
        ..Questions::default()
    };
    let answers = store.look_up(owner, questions, Micros::MAX).await.unwrap();
    assert!(answers.deepest.iter().all(Option::is_some));
}
