//! How packs lie in the file: while they grow, after a crash, after a clean end.

use std::path::Path;

use ropewalk_core::leb128;
use ropewalk_store::NewExchange;
use ropewalk_store::sqlite::{FILE_NAME, Options, Sqlite};
use ropewalk_store::store::{Depth, Half, Recorded, Store};
use ropewalk_testkit::turns::Turns;

use crate::turn::turn;

/// A pack is full at so many bytes of parts.
const PACK_BYTES_MAX: u64 = 256 << 10;

/// Packs of an owner's tail at most: what is looked at with every batch.
const TAIL_MAX: usize = 32;

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(folder, &Options::default()).unwrap()
}

struct Pack {
    length: u64,
    is_packed: bool,
}

/// The packs of a store with one owner, oldest first.
fn packs(folder: &Path) -> Vec<Pack> {
    let file = rusqlite::Connection::open(folder.join(FILE_NAME)).unwrap();
    let mut statement = file.prepare("SELECT lengths, codec FROM pack ORDER BY key").unwrap();
    let pack = |lengths: Vec<u8>, codec: i64| {
        let mut rest = &lengths[..];
        let mut length = 0;
        while !rest.is_empty() {
            length += leb128::read(&mut rest).unwrap();
        }
        let is_packed = codec != 0;
        Pack { length, is_packed }
    };
    let packs = statement
        .query_map([], |row| Ok(pack(row.get(0)?, row.get(1)?)))
        .unwrap();
    packs.map(Result::unwrap).collect()
}

/// The file of a store that nobody has closed, as a crash leaves it.
fn crashed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE_NAME.to_owned(), format!("{FILE_NAME}-wal")] {
        std::fs::copy(folder.join(&name), copy.path().join(&name)).unwrap();
    }
    copy
}

/// Says some 2,000 bytes.
fn long_turn(number: i64) -> NewExchange {
    let (question, answer) = (
        format!("question {number} ").repeat(80),
        format!("answer {number} ").repeat(80),
    );
    turn(&number.to_string(), number, &[question.as_str()], Some(&answer))
}

fn assert_tidy(folder: &Path) {
    let packs = packs(folder);
    assert!(packs.iter().all(|pack| pack.is_packed && pack.length <= PACK_BYTES_MAX));
    let fits = |pair: &&[Pack]| pair[0].length + pair[1].length <= PACK_BYTES_MAX;
    assert_eq!(packs.windows(2).filter(fits).count(), 0, "two packs could be one");
}

#[tokio::test]
async fn a_crash_leaves_every_part_and_the_next_run_goes_on_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    let mut next = 0..;
    let mut batch = |count| next.by_ref().take(count).map(long_turn).collect::<Vec<_>>();
    for count in [1, 64, 3, 100, 7, 1, 1] {
        store.record(owner, batch(count)).await.unwrap();
    }
    let left = crashed(folder.path());
    drop(store);
    assert_tidy(folder.path());
    assert!(
        packs(left.path()).iter().any(|pack| !pack.is_packed),
        "a tail is not packed"
    );
    let store = open(left.path());
    assert_eq!(store.check(owner, Depth::Data).await.unwrap(), []);
    store.record(owner, batch(1)).await.unwrap();
    drop(store);
    assert_tidy(left.path());
    let store = open(left.path());
    assert_eq!(store.check(owner, Depth::Data).await.unwrap(), []);
    assert_eq!(store.stats(owner).await.unwrap().exchanges, 178);
}

#[tokio::test]
async fn turns_that_come_one_by_one_leave_few_small_packs() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    for number in 0..150 {
        let text = format!("text {number}");
        let exchange = turn(&text, number, &[text.as_str()], None);
        store.record(owner, vec![exchange]).await.unwrap();
    }
    let left = crashed(folder.path());
    assert!(packs(left.path()).len() <= TAIL_MAX);
    drop(store);
    assert_eq!(packs(folder.path()).len(), 1);
}

#[tokio::test]
async fn what_is_stored_is_counted_as_it_lies_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    for count in [30, 1, 80, 1] {
        store
            .record(owner, Turns::new(count, 5, 10).named(count).batch(count as usize))
            .await
            .unwrap();
    }
    drop(store);
    let file = rusqlite::Connection::open(folder.path().join(FILE_NAME)).unwrap();
    let stored: i64 = file
        .query_row("SELECT sum(length(bytes)) FROM pack", [], |row| row.get(0))
        .unwrap();
    let stats = open(folder.path()).stats(owner).await.unwrap();
    assert_eq!(stats.stored_bytes, stored as u64);
}

#[tokio::test]
async fn a_part_longer_than_a_pack_is_one_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let owner = store.owner("o").await.unwrap();
    let long = "a long text ".repeat(PACK_BYTES_MAX as usize / 10);
    let batch = vec![
        turn("before", 1, &["hello"], None),
        turn("long", 2, &[&long], None),
        turn("behind", 3, &["hello again"], None),
    ];
    let recorded: Vec<Recorded> = store.record(owner, batch).await.unwrap();
    let said = store.body(owner, recorded[1].number, Half::Request).await.unwrap();
    assert!(said.unwrap().len() > long.len());
    let lengths: Vec<u64> = packs(folder.path()).iter().map(|pack| pack.length).collect();
    assert!(lengths.contains(&(long.len() as u64)), "{lengths:?}");
    assert_eq!(store.check(owner, Depth::Data).await.unwrap(), []);
}
