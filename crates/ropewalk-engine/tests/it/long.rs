//! A conversation of a hundred thousand messages, from the wire into a store and back.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{Recorder, prepare};
use ropewalk_store::facts::Micros;
use ropewalk_store::postgres::{self, Postgres};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::{Depth, Half, Outcome, Questions, Store};
use ropewalk_testkit::postgres::PrivatePostgres;

use crate::prepare::raw;

const MESSAGES: usize = 100_000;

/// What is made of a body of 9 MB, in every form and for two stores at once, takes 0.6 GB at most.
const MEMORY_MAX: u64 = 1 << 30;

fn request(messages: usize) -> String {
    let said: Vec<String> = (0..messages)
        .map(|number| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"message {number} of a conversation that does not end"}}"#)
        })
        .collect();
    format!(r#"{{"model":"m","max_tokens":9,"messages":[{}]}}"#, said.join(","))
}

#[tokio::test]
async fn a_hundred_thousand_messages_are_stored_read_and_walked_on_sqlite() {
    keeps_all(&Sqlite::in_memory(&Options::default()).unwrap()).await;
}

#[tokio::test]
async fn a_hundred_thousand_messages_are_stored_read_and_walked_on_postgres() {
    let url = PrivatePostgres::shared().unwrap().fresh_database().unwrap();
    let store = Postgres::connect(&url, postgres::Options::default()).await.unwrap();
    keeps_all(&store).await;
    if let Some(peak) = memory_peak() {
        assert!(peak < MEMORY_MAX, "{peak} bytes");
    }
}

/// Its answers were never recorded, so every one of them is looked for: in ever larger groups, or this would not end.
#[tokio::test]
async fn a_long_history_of_which_nothing_was_recorded_is_linked() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "o", &BundledPrices).await.unwrap();
    let body = request(MESSAGES / 5);
    recorder.record(&[raw("/v1/messages", &body, None)]).await.unwrap();
    let progress = recorder.link().await.unwrap();
    assert_eq!((progress.linked, progress.created.len()), (1, 1));
}

/// The most memory that this process has used, both stores together.
fn memory_peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

async fn keeps_all(store: &impl Store) {
    let owner = store.owner("o").await.unwrap();
    let body = request(MESSAGES);
    let first = prepare(&raw("/v1/messages", &body, None), None, &BundledPrices);
    let chain: Vec<_> = first.exchange.request_chain.iter().map(|link| link.node).collect();
    assert_eq!(chain.len(), MESSAGES);
    let recorded = store.record(owner, vec![first.exchange]).await.unwrap();
    let back = store.body(owner, recorded[0].number, Half::Request).await.unwrap();
    assert!(back.as_deref() == Some(body.as_bytes()));

    // The next turn adds two nodes and few parts, however long the history is.
    let before = store.stats(owner).await.unwrap();
    let longer = request(MESSAGES + 2);
    let mut next = raw("/v1/messages", &longer, None);
    next.id = "the next turn".to_owned();
    let next = prepare(&next, first.memo.as_ref(), &BundledPrices);
    let recorded = store.record(owner, vec![next.exchange]).await.unwrap();
    assert_eq!(recorded[0].outcome, Outcome::New);
    let after = store.stats(owner).await.unwrap();
    assert_eq!(after.nodes - before.nodes, 2);
    assert!(
        after.parts - before.parts < 12,
        "{} new parts",
        after.parts - before.parts
    );

    let questions = Questions {
        chains: vec![chain],
        limit: 1,
        ..Questions::default()
    };
    let answers = store.look_up(owner, questions, Micros::MAX).await.unwrap();
    assert_eq!(answers.deepest[0].as_ref().map(|node| node.index), Some(MESSAGES - 1));
    assert_eq!(store.check(owner, Depth::Structure).await.unwrap(), []);
}
