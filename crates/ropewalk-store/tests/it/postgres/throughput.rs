//! How many turns a second one writer records. Run alone, optimised:
//! `cargo test --release -p ropewalk-store --test it -- --ignored --nocapture postgres::throughput`

use std::time::Instant;

use ropewalk_store::facts::{Key, KeyKind};
use ropewalk_store::{NewExchange, Store};

use super::fresh;
use crate::turn::turn;

const BATCH: usize = 64;
const TURNS_PER_CONVERSATION: usize = 4;
const CONVERSATIONS: usize = 20_000;

#[tokio::test]
#[ignore = "a measurement"]
async fn records_turns_of_short_conversations() {
    let fresh = fresh().await;
    let exchanges = conversations();
    let count = exchanges.len();
    let mut batches: Vec<Vec<NewExchange>> = Vec::new();
    let mut exchanges = exchanges.into_iter().peekable();
    while exchanges.peek().is_some() {
        batches.push(exchanges.by_ref().take(BATCH).collect());
    }
    let started = Instant::now();
    for batch in batches {
        fresh.store.record(fresh.owner, batch).await.unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{count} turns in {seconds:.2} s: {:.0} turns/s", count as f64 / seconds);
    println!("{:?}", fresh.store.stats(fresh.owner).await.unwrap());
}

/// Each turn brings a question and an answer of 900 bytes.
fn conversations() -> Vec<NewExchange> {
    let mut turns = Vec::with_capacity(CONVERSATIONS * TURNS_PER_CONVERSATION);
    for conversation in 0..CONVERSATIONS {
        let texts: Vec<String> = (0..TURNS_PER_CONVERSATION * 2)
            .map(|number| text(conversation, number))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for number in 0..TURNS_PER_CONVERSATION {
            let at = (conversation * TURNS_PER_CONVERSATION + number) as i64 * 1_000;
            let id = format!("exchange-{conversation}-{number}");
            let mut turn = turn(&id, at, &texts[..number * 2 + 1], Some(texts[number * 2 + 1]));
            let session = ropewalk_core::hash::sha256(&conversation.to_be_bytes());
            turn.keys.push(Key {
                kind: KeyKind::Session,
                hash: session,
            });
            turns.push(turn);
        }
    }
    turns
}

/// Words that repeat about as often as those of a text do.
fn text(conversation: usize, number: usize) -> String {
    const WORDS: [&str; 16] = [
        "store ", "batch ", "of ", "the ", "commit ", "reads ", "every ", "row ", "hash ", "and ", "then ", "writes ",
        "it ", "once ", "more ", "again ",
    ];
    let mut state = (conversation * 64 + number) as u64 + 1;
    let mut text = format!("{conversation} {number} ");
    while text.len() < 900 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 60) as usize]);
    }
    text.truncate(900);
    text
}
