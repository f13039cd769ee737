//! Which exchanges can be answered from, and what one that was answered so is worth.

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::names::NamesOfLine;
use ropewalk_engine::reuse::{HIT, REUSE_HEADER, REUSED_FROM_HEADER, Reusable, STORED, Standing, find};
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::facts::KeyKind;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::{Micros, Store as _};
use ropewalk_wire::provider::route;
use ropewalk_wire::read_request;
use ropewalk_wire::reuse::Essence;

use crate::prepare::{ANSWER, prepared, raw};

const ASK: &str = r#"{"model":"claude-opus-4-1","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}"#;

fn exchange(id: &str, at: i64, request: &str) -> RawExchange {
    let mut raw = raw("/v1/messages", request, Some((200, ANSWER)));
    raw.id = id.to_owned();
    raw.at = Micros(raw.at.0 + at);
    raw.ended_at = Some(Micros(raw.at.0 + 10));
    raw
}

async fn recorded(exchanges: &[RawExchange]) -> Sqlite {
    let store = Sqlite::in_memory(&Options::default()).unwrap();
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    recorder.record(exchanges).await.unwrap();
    recorder.link().await.unwrap();
    store
}

async fn found(store: &Sqlite, owner: &str, request: &str, as_of: Micros) -> Option<Reusable> {
    let owner = store.owner(owner).await.unwrap();
    let route = route("/v1/messages");
    let provider = route.endpoint.provider().unwrap();
    let read = read_request(provider, &Bytes::copy_from_slice(request.as_bytes()), None).unwrap();
    let essence = Essence::of(&read, &route, []).unwrap();
    find(store, owner, essence.hash(), &essence.to_bytes(), as_of)
        .await
        .unwrap()
}

#[tokio::test]
async fn the_newest_complete_answer_is_found_and_its_bytes_are_whole() {
    let store = recorded(&[exchange("a", 0, ASK), exchange("b", 100, ASK)]).await;
    let newest = found(&store, "me", ASK, Micros::MAX).await.unwrap();
    assert_eq!((&*newest.id, newest.status), ("b", 200));
    assert_eq!(newest.body, ANSWER);
    let earlier = Micros(newest.ended_at.0 - 1);
    assert_eq!(found(&store, "me", ASK, earlier).await.unwrap().id, "a");
    let streamed = ASK.replace("\"max_tokens\"", "\"stream\":true,\"max_tokens\"");
    assert_eq!(found(&store, "me", &streamed, Micros::MAX).await.unwrap().id, "b");
}

#[tokio::test]
async fn nothing_is_found_for_another_owner_model_option_or_text() {
    let store = recorded(&[exchange("a", 0, ASK)]).await;
    assert!(found(&store, "other", ASK, Micros::MAX).await.is_none());
    for (from, to) in [
        ("claude-opus-4-1", "claude-opus-4-2"),
        ("9", "10"),
        ("Hello", "Hello "),
        ("\"messages\"", "\"system\":\"s\",\"messages\""),
        (
            "\"messages\"",
            "\"tools\":[{\"name\":\"t\",\"input_schema\":{}}],\"messages\"",
        ),
        ("\"messages\"", "\"temperature\":0,\"messages\""),
    ] {
        let other = ASK.replacen(from, to, 1);
        assert!(found(&store, "me", &other, Micros::MAX).await.is_none(), "{other}");
    }
}

#[test]
fn only_whole_successful_answers_without_redactions_have_a_key() {
    let has_key = |raw: &RawExchange| prepared(raw).keys.iter().any(|key| key.kind == KeyKind::Reuse);
    let good = exchange("a", 0, ASK);
    assert!(has_key(&good));
    let changed = |change: fn(&mut RawExchange)| {
        let mut raw = good.clone();
        change(&mut raw);
        has_key(&raw)
    };
    assert!(!changed(|raw| raw.cut_off = true));
    assert!(!changed(|raw| raw.status = Some(529)));
    assert!(!changed(|raw| raw.response_body = None));
    assert!(!changed(|raw| raw.path = "/v1/messages/count_tokens".to_owned()));
    let placeholder = "[redacted:openai-key:01234567]";
    let mut redacted = exchange("a", 0, &ASK.replace("Hello", placeholder));
    assert!(prepared(&redacted).detail.contains("\"redactions\":1"), "{placeholder}");
    assert!(!has_key(&redacted));
    redacted.request_body = good.request_body.clone();
    redacted.response_body = Some(Bytes::from(ANSWER.replace("Hi!", placeholder)));
    assert!(!has_key(&redacted));
}

#[tokio::test]
async fn a_hit_costs_nothing_and_is_not_found_itself() {
    let mut hit = exchange("b", 100, ASK);
    hit.response_headers = vec![
        (REUSE_HEADER.to_owned(), HIT.to_owned()),
        (REUSED_FROM_HEADER.to_owned(), "a".to_owned()),
    ];
    let mut stored = exchange("a", 0, ASK);
    stored.response_headers = vec![(REUSE_HEADER.to_owned(), STORED.to_owned())];
    let store = recorded(&[stored, hit]).await;
    assert_eq!(found(&store, "me", ASK, Micros::MAX).await.unwrap().id, "a");
    let view = View::new(&store, store.owner("me").await.unwrap(), "me");
    let rows = view.rows_after(None, 10).await.unwrap();
    let spent: Vec<_> = rows
        .iter()
        .map(|row| (row.usage.is_some(), row.cost_nano_usd))
        .collect();
    let cost = 10 * 15_000 + 5 * 75_000;
    assert_eq!(spent, [(true, Some(cost)), (false, Some(0))]);
    let Standing::Hit(saved) = Standing::of(&rows[1]) else {
        panic!("it is a hit");
    };
    assert_eq!(
        (saved.input_tokens, saved.output_tokens, saved.cost_nano_usd),
        (10, 5, cost)
    );
    assert_eq!(Standing::of(&rows[0]), Standing::Stored);
    for (row, reuse, from) in [(&rows[0], "stored", None), (&rows[1], "hit", Some("a"))] {
        let shown = view.exchange(row).await.unwrap();
        assert_eq!((shown.reuse, shown.reused_from.as_deref()), (reuse, from));
        // It is exported with its mark, so that importing it spends nothing either.
        let line = view.line(row, &mut NamesOfLine::default()).await.unwrap();
        let again = prepared(&RawExchange::try_from(line).unwrap());
        assert_eq!(again.cost_nano_usd, row.cost_nano_usd);
    }
}
