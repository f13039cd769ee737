//! Several linkers at once, beside writers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_core::hash::NodeHash;
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind};
use ropewalk_store::store::{Asked, Depth, Questions};
use ropewalk_store::{Micros, NewExchange, Store};
use tokio::task::JoinSet;

use super::{Fresh, fresh};
use crate::links::one_conversation;
use crate::turn::{nodes, turn};

/// Far longer than a save takes; one that waits for another owner's lock waits for ever.
const PATIENCE: Duration = Duration::from_secs(20);

impl Fresh {
    async fn record_turns(&self, prefix: &str, count: usize) -> Vec<ExchangeNumber> {
        let id = |number| format!("{prefix}-{number}");
        let turns: Vec<NewExchange> = (0..count)
            .map(|number| turn(&id(number), 1, &[&id(number)], Some("hi")))
            .collect();
        let recorded = self.record(&turns).await;
        recorded.into_iter().map(|recorded| recorded.number).collect()
    }
}

#[tokio::test]
async fn linkers_of_different_owners_never_wait_for_each_other() {
    let fresh = fresh().await;
    let numbers = fresh.record_turns("a", 3).await;
    let bob = fresh.store.owner("bob").await.unwrap();
    let saved = fresh.store.save_links(fresh.owner, one_conversation(0, 3, &numbers));
    assert!(saved.await.unwrap());
    // Somebody holds everything of this owner that a linker can lock.
    let (blocker, connection) = tokio_postgres::connect(&fresh.url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let ann = fresh.owner.0;
    let lock: String = ["owner", "link", "branch", "conversation", "conversation_alias"]
        .iter()
        .map(|table| format!("SELECT 1 FROM {table} WHERE owner_id = {ann} FOR UPDATE;"))
        .collect();
    blocker.batch_execute(&format!("BEGIN; {lock}")).await.unwrap();
    // The same numbers and the same id, but another owner.
    let theirs = fresh.store.save_links(bob, one_conversation(0, 3, &numbers));
    assert!(tokio::time::timeout(PATIENCE, theirs).await.unwrap().unwrap());
    // A reader waits for nobody.
    let state = tokio::time::timeout(PATIENCE, fresh.store.link_state(fresh.owner)).await;
    assert_eq!(state.unwrap().unwrap().version, 1);
    let own = fresh.store.save_links(fresh.owner, one_conversation(1, 3, &numbers));
    let waiting = tokio::time::timeout(Duration::from_millis(300), own).await;
    assert!(waiting.is_err(), "the lock is the owner's own");
    blocker.batch_execute("ROLLBACK").await.unwrap();
    let own = fresh.store.save_links(fresh.owner, one_conversation(1, 3, &numbers));
    assert!(own.await.unwrap(), "the linker that gave up has changed nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn linkers_and_writers_of_one_owner_do_not_deadlock() {
    const ROUNDS: usize = 10;
    let fresh = Arc::new(fresh().await);
    let numbers = fresh.record_turns("linked", 40).await;
    let mut tasks = JoinSet::new();
    for writer in 0..2 {
        let fresh = Arc::clone(&fresh);
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                fresh.record_turns(&format!("{writer}-{round}"), 10).await;
            }
            0
        });
    }
    for linker in 0..3 {
        let (fresh, mut numbers) = (Arc::clone(&fresh), numbers.clone());
        // Each hands its rows in in an order of its own.
        numbers[1..].rotate_left(linker * 7);
        tasks.spawn(async move {
            let mut saved = 0;
            while saved < ROUNDS {
                let state = fresh.store.link_state(fresh.owner).await.unwrap();
                let mut changes = one_conversation(state.version, 40, &numbers);
                changes.from_scratch = saved % 3 == linker;
                saved += usize::from(fresh.store.save_links(fresh.owner, changes).await.unwrap());
            }
            saved
        });
    }
    let saved: usize = tasks.join_all().await.into_iter().sum();
    let state = fresh.store.link_state(fresh.owner).await.unwrap();
    assert_eq!((state.version, state.newest.0), (saved as u64, 240));
    assert_eq!(fresh.store.check(fresh.owner, Depth::Structure).await.unwrap(), []);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(fresh.sql(deadlocks), "0");
}

/// Run alone, optimised: `cargo test --release -p ropewalk-store --test it -- --ignored --nocapture linking`
#[tokio::test]
#[ignore = "a measurement"]
async fn links_and_look_ups_take_as_long_whatever_is_stored() {
    const BATCH: usize = 64;
    const TURNS: usize = 4;
    let fresh = fresh().await;
    let mut version = 0;
    for round in 0..1_000 {
        let batch: Vec<NewExchange> = (0..BATCH)
            .map(|number| {
                let texts: Vec<String> = (0..2 * TURNS)
                    .map(|text| format!("{round} {} {text}", number / TURNS))
                    .collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let said = 2 * (number % TURNS);
                let id = format!("{round}-{number}");
                turn(
                    &id,
                    (round * BATCH + number) as i64,
                    &texts[..=said],
                    Some(texts[said + 1]),
                )
            })
            .collect();
        let recorded = fresh.record(&batch).await;
        let numbers: Vec<ExchangeNumber> = recorded.iter().map(|recorded| recorded.number).collect();
        let asked: Vec<Asked<NodeHash>> = batch
            .iter()
            .flat_map(|exchange| nodes(exchange).into_iter().map(|what| (what, exchange.at)))
            .map(|(what, as_of)| Asked { what, as_of })
            .collect();
        let keys = (0..4 * BATCH).map(|number| Key {
            kind: KeyKind::Session,
            hash: [number as u8; 32],
        });
        let questions = Questions {
            keys: keys.map(Asked::of).collect(),
            spawns_of: numbers.clone(),
            limit: 4,
            nodes: asked,
            ..Questions::default()
        };
        let count = questions.nodes.len();
        let started = Instant::now();
        fresh.store.look_up(fresh.owner, questions, Micros::MAX).await.unwrap();
        let looked_up = started.elapsed();
        let started = Instant::now();
        for conversation in numbers.chunks(BATCH / 4) {
            let changes = one_conversation(version, 0, conversation);
            assert!(fresh.store.save_links(fresh.owner, changes).await.unwrap());
            version += 1;
        }
        let saved = started.elapsed() / 4;
        if round % 100 == 99 {
            println!("{round} batches: {count} nodes looked up in {looked_up:.1?}, 16 links saved in {saved:.1?}");
        }
    }
}
