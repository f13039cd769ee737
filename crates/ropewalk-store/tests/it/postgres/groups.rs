//! Batches of one owner that wait are recorded together, and each hears what became of its own.

use std::sync::Arc;
use std::time::Duration;

use ropewalk_store::store::{Depth, Outcome, Recorded};
use ropewalk_store::{NewExchange, Store, StoreError};
use tokio::task::JoinHandle;

use super::{Fresh, fresh};
use crate::turn::{turn, without_parts};

/// Transactions of an owner that are under way at a time; what is handed in beside them waits.
const RUNNING: usize = 2;

/// Holds the owner's row until it is dropped, so that batches wait.
async fn hold_owner(fresh: &Fresh) -> tokio_postgres::Client {
    let (blocker, connection) = tokio_postgres::connect(&fresh.url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let lock = format!(
        "BEGIN; SELECT 1 FROM owner WHERE owner_id = {} FOR UPDATE",
        fresh.owner.0
    );
    blocker.batch_execute(&lock).await.unwrap();
    blocker
}

/// Hands batches in, one after the other.
async fn hand_in(
    fresh: &Arc<Fresh>,
    batches: Vec<Vec<NewExchange>>,
) -> Vec<JoinHandle<Result<Vec<Recorded>, StoreError>>> {
    let mut handed_in = Vec::new();
    for batch in batches {
        let fresh = Arc::clone(fresh);
        handed_in.push(tokio::spawn(
            async move { fresh.store.record(fresh.owner, batch).await },
        ));
        tokio::task::yield_now().await;
    }
    // Long enough for all of them to be where they wait.
    tokio::time::sleep(Duration::from_millis(200)).await;
    handed_in
}

fn batch(name: &str) -> Vec<NewExchange> {
    ["first", "second"]
        .map(|place| format!("{name} {place}"))
        .map(|text| turn(&text, 1, &[name, &text], Some("hi")))
        .to_vec()
}

fn transactions(fresh: &Fresh) -> String {
    fresh.sql("SELECT count(DISTINCT xmin::text) FROM exchange")
}

#[tokio::test]
async fn batches_that_wait_become_one_transaction() {
    let fresh = Arc::new(fresh().await);
    let blocker = hold_owner(&fresh).await;
    let batches = (0..RUNNING + 5).map(|number| batch(&format!("batch {number}")));
    let handed_in = hand_in(&fresh, batches.collect()).await;
    drop(blocker);
    for (number, recorded) in handed_in.into_iter().enumerate() {
        let recorded = recorded.await.unwrap().unwrap();
        assert!(recorded.iter().all(|recorded| recorded.outcome == Outcome::New));
        for (recorded, place) in recorded.iter().zip(["first", "second"]) {
            let row = fresh
                .row(&format!("batch {number} {place}"), ropewalk_store::Micros::MAX)
                .await;
            assert_eq!(row.number, recorded.number, "each hears of its own");
        }
    }
    assert_eq!(transactions(&fresh), (RUNNING + 1).to_string());
    assert_eq!(fresh.store.check(fresh.owner, Depth::Data).await.unwrap(), []);
}

#[tokio::test]
async fn a_batch_that_is_refused_fails_alone() {
    let fresh = Arc::new(fresh().await);
    let blocker = hold_owner(&fresh).await;
    let mut batches: Vec<_> = (0..RUNNING + 3)
        .map(|number| batch(&format!("batch {number}")))
        .collect();
    let bad = RUNNING + 1;
    batches[bad][1].request = without_parts(&batches[bad][1].request);
    let handed_in = hand_in(&fresh, batches).await;
    drop(blocker);
    for (number, recorded) in handed_in.into_iter().enumerate() {
        let recorded = recorded.await.unwrap();
        match recorded {
            Err(StoreError::MissingPart { id }) => assert_eq!((number, id.as_str()), (bad, "batch 3 second")),
            other => {
                let recorded = other.unwrap();
                assert!(number != bad && recorded.iter().all(|recorded| recorded.outcome == Outcome::New));
            }
        }
    }
    let stats = fresh.store.stats(fresh.owner).await.unwrap();
    assert_eq!(stats.exchanges, 2 * (RUNNING as u64 + 2));
    assert_eq!(fresh.store.check(fresh.owner, Depth::Data).await.unwrap(), []);
}

#[tokio::test]
async fn who_gives_up_takes_nobody_along() {
    let fresh = Arc::new(fresh().await);
    let blocker = hold_owner(&fresh).await;
    let batches = (0..RUNNING + 3).map(|number| batch(&format!("batch {number}")));
    let mut handed_in = hand_in(&fresh, batches.collect()).await;
    // One that is under way, and one that waits.
    let gone: Vec<_> = [RUNNING, 0].map(|at| handed_in.remove(at)).into_iter().collect();
    for one in gone {
        one.abort();
        assert!(one.await.unwrap_err().is_cancelled());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(blocker);
    for recorded in handed_in {
        let recorded = recorded.await.unwrap().unwrap();
        assert!(recorded.iter().all(|recorded| recorded.outcome == Outcome::New));
    }
    let stats = fresh.store.stats(fresh.owner).await.unwrap();
    assert_eq!(
        stats.exchanges,
        2 * (RUNNING as u64 + 1),
        "what was given up was not stored"
    );
}
