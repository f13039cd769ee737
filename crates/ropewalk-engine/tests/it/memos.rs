//! Turns that are read with the turns before them: what is stored is what came.

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Micros;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::{Half, Outcome, Recorded, Selection, Store as _};

use crate::prepare::{prepared, raw};

/// A turn of a conversation; its last message is marked, as clients mark what is to be cached.
fn turn(conversation: &str, number: usize) -> RawExchange {
    let filler = "what is said at some length, so that it is worth while to keep it; ".repeat(8);
    let mut messages: Vec<String> = (0..=2 * number)
        .map(|index| {
            let role = if index % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":[{{"type":"text","text":"{conversation} {index} {filler}"}}]}}"#)
        })
        .collect();
    let last = messages.last_mut().unwrap();
    *last = last.replace("\"}]", r#"","cache_control":{"type":"ephemeral"}}]"#);
    let body = format!(
        r#"{{"model":"m","max_tokens":9,"messages":[{}],"system":"You are an agent, for the {number}th time."}}"#,
        messages.join(",")
    );
    RawExchange {
        id: format!("{conversation}-{number}"),
        ..raw("/v1/messages", &body, None)
    }
}

async fn assert_whole(store: &Sqlite, recorder: &Recorder<'_, Sqlite>, raw: &RawExchange, recorded: &Recorded) {
    let owner = recorder.owner();
    let body = store.body(owner, recorded.number, Half::Request).await.unwrap();
    assert!(body.as_deref() == Some(&*raw.request_body), "{}", raw.id);
    let which = Selection::Numbers(vec![recorded.number]);
    let rows = store.exchanges(owner, which, Micros::MAX).await.unwrap();
    let (mut stored, mut expected) = (rows[0].hashes.clone(), prepared(raw).hashes);
    stored.sort();
    expected.sort();
    assert_eq!(stored, expected, "{}", raw.id);
}

#[tokio::test]
async fn turns_are_stored_as_they_came_in_batches_of_any_size() {
    for batch_size in [1, 3, 64] {
        let store = Sqlite::in_memory(&Options::default()).unwrap();
        let mut recorder = Recorder::new(&store, "o", &BundledPrices).await.unwrap();
        // Two conversations at once, and a branch that leaves the first.
        let mut turns: Vec<RawExchange> = (0..20)
            .flat_map(|number| [turn("a", number), turn("b", number)])
            .collect();
        turns.extend((10..14).map(|number| RawExchange {
            id: format!("branch-{number}"),
            ..turn("a", number)
        }));
        for batch in turns.chunks(batch_size) {
            let recorded = recorder.record(batch).await.unwrap();
            for (raw, recorded) in batch.iter().zip(&recorded) {
                assert_eq!(recorded.outcome, Outcome::New);
                assert_whole(&store, &recorder, raw, recorded).await;
            }
        }
    }
}

#[tokio::test]
async fn a_turn_is_whole_although_the_one_before_it_was_not_stored() {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "o", &BundledPrices).await.unwrap();
    recorder.record(&[turn("a", 9)]).await.unwrap();
    // Its id is taken by other bytes, so the first one stays.
    let refused = RawExchange {
        id: "a-9".to_owned(),
        ..turn("b", 9)
    };
    let next = turn("b", 10);
    let recorded = recorder.record(&[refused, next.clone()]).await.unwrap();
    let outcomes: Vec<Outcome> = recorded.iter().map(|recorded| recorded.outcome).collect();
    assert_eq!(outcomes, [Outcome::Conflict, Outcome::New]);
    assert_whole(&store, &recorder, &next, &recorded[1]).await;
    let behind = turn("b", 11);
    let recorded = recorder.record(std::slice::from_ref(&behind)).await.unwrap();
    assert_whole(&store, &recorder, &behind, &recorded[0]).await;
}
