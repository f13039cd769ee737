//! Several writers at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ropewalk_store::facts::Position;
use ropewalk_store::store::{Depth, Outcome, Selection};
use ropewalk_store::{Micros, Store};
use tokio::task::JoinSet;

use super::fresh;
use crate::turn::turn;

/// Far longer than a batch takes; a writer that waits for another owner's lock waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_follows_positions_misses_nothing() {
    const WRITERS: usize = 4;
    const BATCHES: usize = 20;
    let fresh = Arc::new(fresh().await);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let fresh = Arc::clone(&fresh);
        writers.spawn(async move {
            for batch in 0..BATCHES {
                let id = |number| format!("{writer}-{batch}-{number}");
                let turns: Vec<_> = (0..3)
                    .map(|number| turn(&id(number), 1, &[&id(number)], None))
                    .collect();
                fresh.record(&turns).await;
            }
        });
    }
    let (mut seen, mut after) = (BTreeSet::new(), Position(0));
    while seen.len() < WRITERS * BATCHES * 3 {
        let log = Selection::Log { after, limit: 1_000 };
        for row in fresh.store.exchanges(fresh.owner, log, Micros::MAX).await.unwrap() {
            assert_eq!(row.position.0, after.0 + 1, "a position that came late was skipped");
            after = row.position;
            seen.insert(row.id);
        }
        if writers.is_empty() {
            break;
        }
        while writers.try_join_next().is_some_and(|joined| joined.is_ok()) {}
    }
    assert_eq!(seen.len(), WRITERS * BATCHES * 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_the_same_parts_do_not_deadlock() {
    const WRITERS: usize = 8;
    let fresh = Arc::new(fresh().await);
    // Every writer stores the same new texts, nodes and chunks, in an order of its own.
    let texts: Vec<String> = (0..60).map(|number| format!("text {number}")).collect();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (fresh, texts) = (Arc::clone(&fresh), texts.clone());
        writers.spawn(async move {
            let history: Vec<&str> = texts.iter().map(String::as_str).collect();
            for round in 0..15 {
                let mut turns: Vec<_> = (0..20)
                    .map(|at| {
                        let length = (round * 4 + at) % 59 + 1;
                        turn(
                            &format!("{writer}-{round}-{at}"),
                            at as i64,
                            &history[..length],
                            Some(history[length]),
                        )
                    })
                    .collect();
                turns.rotate_left(writer * 2);
                turns.push(turn(&format!("shared-{round}"), 5, &history[..40], Some("shared")));
                fresh.record(&turns).await;
            }
        });
    }
    while let Some(joined) = writers.join_next().await {
        joined.unwrap();
    }
    let stats = fresh.store.stats(fresh.owner).await.unwrap();
    assert_eq!(stats.exchanges, (WRITERS * 15 * 20 + 15) as u64);
    // Two envelopes and 60 texts; a root, 60 nodes; and one more answer for all.
    assert_eq!((stats.parts, stats.nodes), (63, 62));
    assert_eq!(fresh.store.check(fresh.owner, Depth::Data).await.unwrap(), []);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(fresh.sql(deadlocks), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_exchange_from_several_writers_is_new_once_and_completed_once() {
    let fresh = Arc::new(fresh().await);
    for (answer, expected) in [(None, Outcome::New), (Some("hi"), Outcome::Completed)] {
        let mut writers = JoinSet::new();
        for _ in 0..6 {
            let fresh = Arc::clone(&fresh);
            writers.spawn(async move { fresh.record_one(&turn("a", 1, &["hello"], answer)).await });
        }
        let recorded = writers.join_all().await;
        let count = |outcome| recorded.iter().filter(|recorded| recorded.outcome == outcome).count();
        assert_eq!((count(expected), count(Outcome::Known)), (1, 5));
    }
}

#[tokio::test]
async fn owners_never_see_each_other_and_never_wait_for_each_other() {
    let fresh = fresh().await;
    let other = fresh.store.owner("bob").await.unwrap();
    let mine = fresh.record_one(&turn("a", 1, &["hello"], Some("hi"))).await;
    // Somebody holds everything of this owner that a writer can lock.
    let (blocker, connection) = tokio_postgres::connect(&fresh.url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let ann = fresh.owner.0;
    let lock = format!(
        "BEGIN; SELECT 1 FROM owner WHERE owner_id = {ann} FOR UPDATE; \
         SELECT 1 FROM owner_number WHERE owner_id = {ann} FOR UPDATE; SELECT 1 FROM part WHERE owner_id = {ann} FOR UPDATE; \
         SELECT 1 FROM node WHERE owner_id = {ann} FOR UPDATE"
    );
    blocker.batch_execute(&lock).await.unwrap();
    let theirs = fresh.store.record(other, vec![turn("a", 1, &["hello"], Some("hi"))]);
    let theirs = tokio::time::timeout(PATIENCE, theirs).await.unwrap().unwrap();
    assert_eq!(
        theirs[0].outcome,
        Outcome::New,
        "the same id and the same bytes, but another owner"
    );
    let own = fresh.store.record(fresh.owner, vec![turn("b", 1, &["hello"], None)]);
    let waiting = tokio::time::timeout(Duration::from_millis(300), own).await;
    assert!(waiting.is_err(), "the lock is the owner's own");
    blocker.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(fresh.store.stats(other).await.unwrap().parts, 4, "nothing is shared");
    let body = fresh
        .store
        .body(other, mine.number, ropewalk_store::store::Half::Request)
        .await;
    assert!(mine.number == theirs[0].number || body.unwrap().is_none());
    // The writer that gave up has left nothing behind, not even its connection in a transaction.
    assert_eq!(
        fresh.record_one(&turn("b", 1, &["hello"], None)).await.outcome,
        Outcome::New
    );
}
