//! What goes in comes out, once.

use std::sync::Arc;

use ropewalk_core::model::Usage;
use ropewalk_store::facts::{HashKind, Key, KeyKind, Position, Provenance, SearchText, Status, TextSource};
use ropewalk_store::store::{Half, Outcome, Recorded, Selection};
use ropewalk_store::{Micros, NewExchange, Store, StoreError};

use super::{Fresh, fresh};
use crate::turn::{body, turn, without_parts};

impl Fresh {
    pub(super) async fn record(&self, batch: &[NewExchange]) -> Vec<Recorded> {
        self.store.record(self.owner, batch.to_vec()).await.unwrap()
    }

    pub(super) async fn record_one(&self, exchange: &NewExchange) -> Recorded {
        self.record(std::slice::from_ref(exchange)).await[0]
    }

    pub(super) async fn row(&self, id: &str, as_of: Micros) -> ropewalk_store::store::ExchangeRow {
        let selection = Selection::Ids(vec![id.to_owned()]);
        self.store
            .exchanges(self.owner, selection, as_of)
            .await
            .unwrap()
            .remove(0)
    }

    async fn body(&self, recorded: Recorded, half: Half) -> Option<Vec<u8>> {
        self.store.body(self.owner, recorded.number, half).await.unwrap()
    }
}

#[tokio::test]
async fn gives_back_every_byte_and_every_column() {
    let fresh = fresh().await;
    let mut exchange = turn("a", 100, &["hello\u{1f600}\"\\ \u{0} there"], Some("hi"));
    exchange.http_status = Some(u16::MAX);
    exchange.model = Some("model\u{0}with nul\u{1a}".to_owned());
    exchange.session = Some("session".to_owned());
    exchange.agent = Some("agent".to_owned());
    exchange.project = Some("project".to_owned());
    exchange.hashes = vec![(HashKind::System, vec![1; 32]), (HashKind::Toolset, vec![2; 8])];
    exchange.keys = vec![Key {
        kind: KeyKind::Session,
        hash: [3; 32],
    }];
    exchange.usage = Some(Usage {
        input_tokens: 5,
        output_tokens: 7,
        ..Usage::default()
    });
    exchange.cost_nano_usd = Some(12);
    exchange.cost_is_estimate = true;
    exchange.provenance = Some(Provenance {
        file: "log\u{0}.jsonl".to_owned(),
        line: 3,
        uuid: Some("u".to_owned()),
        aliases: vec!["x".to_owned(), "y\n".to_owned()],
        log_begun: None,
    });
    let recorded = fresh.record_one(&exchange).await;
    assert_eq!(recorded.outcome, Outcome::New);
    let (_, bytes) = body(b"{\"messages\":", &[Arc::from("hello\u{1f600}\"\\ \u{0} there")]);
    assert_eq!(fresh.body(recorded, Half::Request).await, Some(bytes));
    assert_eq!(
        fresh.body(recorded, Half::Response).await,
        Some(b"{\"content\":\"hi\"".to_vec())
    );
    let row = fresh.row("a", Micros::MAX).await;
    assert_eq!(row.position, Position(1));
    assert_eq!((row.at, row.ended_at), (exchange.at, exchange.ended_at));
    assert_eq!((row.status, row.http_status), (exchange.status, exchange.http_status));
    assert_eq!((&row.model, &row.session), (&exchange.model, &exchange.session));
    assert_eq!((&row.agent, &row.project), (&exchange.agent, &exchange.project));
    assert_eq!((&row.hashes, &row.keys), (&exchange.hashes, &exchange.keys));
    assert_eq!((row.usage, row.cost_nano_usd), (exchange.usage, exchange.cost_nano_usd));
    assert_eq!((&row.detail, &row.provenance), (&exchange.detail, &exchange.provenance));
    assert_eq!(row.input_node, exchange.request_chain[0].node);
    assert_eq!(row.output_node, Some(exchange.answer_chain[0].node));
    assert_eq!(row.request_sha256, exchange.request.sha256);
    assert!(row.cost_is_estimate);
}

#[tokio::test]
async fn the_same_exchange_twice_is_one() {
    let fresh = fresh().await;
    let exchange = turn("a", 100, &["hello"], Some("hi"));
    let first = fresh.record(&[exchange.clone(), exchange.clone()]).await;
    let again = fresh.record_one(&exchange).await;
    assert_eq!(
        [first[0].outcome, first[1].outcome, again.outcome],
        [Outcome::New, Outcome::Known, Outcome::Known]
    );
    assert_eq!([first[1].number, again.number], [first[0].number; 2]);
    let stats = fresh.store.stats(fresh.owner).await.unwrap();
    // An envelope and a text each way; the root, the question and the answer.
    assert_eq!((stats.exchanges, stats.parts, stats.nodes), (1, 4, 3));
    assert_eq!(
        stats.bytes_in,
        exchange.request.length + exchange.response.unwrap().length
    );
}

#[tokio::test]
async fn an_id_with_other_bytes_is_a_counted_conflict_and_the_first_stays() {
    let fresh = fresh().await;
    let first = fresh.record_one(&turn("a", 100, &["hello"], None)).await;
    let other = turn("a", 100, &["goodbye"], Some("bye"));
    let recorded = fresh.record(&[other.clone(), other]).await;
    assert!(
        recorded
            .iter()
            .all(|recorded| recorded.outcome == Outcome::Conflict && recorded.number == first.number)
    );
    assert_eq!(fresh.store.stats(fresh.owner).await.unwrap().conflicts, 2);
    assert_eq!(
        fresh.body(first, Half::Request).await,
        Some(b"{\"messages\":\"hello\"".to_vec())
    );
    assert_eq!(fresh.body(first, Half::Response).await, None);
}

#[tokio::test]
async fn an_end_completes_a_beginning_and_moves_it_to_the_end_of_the_log() {
    let fresh = fresh().await;
    let (begin, end) = (turn("a", 100, &["hello"], None), turn("a", 100, &["hello"], Some("hi")));
    let begun = fresh.record(&[begin.clone(), turn("b", 101, &["other"], None)]).await;
    let ended = fresh.record_one(&end).await;
    assert_eq!((ended.number, ended.outcome), (begun[0].number, Outcome::Completed));
    assert_eq!(fresh.record_one(&end).await.outcome, Outcome::Known);
    assert_eq!(fresh.record_one(&begin).await.outcome, Outcome::Known);
    let row = fresh.row("a", Micros::MAX).await;
    assert_eq!((row.status, row.position), (Status::Complete, Position(3)));
    assert_eq!(row.output_node, Some(end.answer_chain[0].node));
    assert_eq!(
        fresh.body(ended, Half::Response).await,
        Some(b"{\"content\":\"hi\"".to_vec())
    );
    let log = Selection::Log {
        after: Position(2),
        limit: 10,
    };
    assert_eq!(
        fresh.store.exchanges(fresh.owner, log, Micros::MAX).await.unwrap(),
        [row]
    );
}

#[tokio::test]
async fn an_exchange_may_begin_and_end_in_one_batch() {
    let fresh = fresh().await;
    let batch = [turn("a", 100, &["hello"], None), turn("a", 100, &["hello"], Some("hi"))];
    let recorded = fresh.record(&batch).await;
    assert_eq!(
        [recorded[0].outcome, recorded[1].outcome],
        [Outcome::New, Outcome::Completed]
    );
    assert_eq!(recorded[0].number, recorded[1].number);
    assert_eq!(fresh.row("a", Micros::MAX).await.status, Status::Complete);
    assert_eq!(fresh.store.stats(fresh.owner).await.unwrap().exchanges, 1);
}

#[tokio::test]
async fn a_long_conversation_is_stored_once_and_read_back_whole() {
    let fresh = fresh().await;
    let texts: Vec<String> = (0..400)
        .map(|number| format!("message {number}: {}", "words ".repeat(20)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let turns: Vec<NewExchange> = (1..200)
        .map(|number| {
            turn(
                &format!("t{number}"),
                number as i64,
                &texts[..2 * number - 1],
                Some(texts[2 * number - 1]),
            )
        })
        .collect();
    for batch in turns.chunks(16) {
        fresh.record(batch).await;
    }
    let stats = fresh.store.stats(fresh.owner).await.unwrap();
    assert_eq!(stats.parts, 2 + 398, "every text once, and two envelopes");
    assert_eq!(stats.nodes, 1 + 398);
    let chunks: u64 = fresh.sql("SELECT count(*) FROM chunk").parse().unwrap();
    assert!((10..4_000).contains(&chunks), "{chunks} chunks for 199 recipes");
    let last = fresh.row("t199", Micros::MAX).await;
    let read = fresh
        .store
        .body(fresh.owner, last.number, Half::Request)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.len() as u64, turns[198].request.length);
}

#[tokio::test]
async fn nothing_of_a_batch_is_stored_when_one_part_is_missing() {
    let fresh = fresh().await;
    let mut bad = turn("bad", 2, &["never stored"], None);
    bad.request = without_parts(&bad.request);
    let batch = vec![turn("good", 1, &["hello"], None), bad.clone()];
    let refused = fresh.store.record(fresh.owner, batch).await;
    assert!(matches!(refused, Err(StoreError::MissingPart { id }) if id == "bad"));
    assert_eq!(fresh.store.stats(fresh.owner).await.unwrap(), Default::default());
    // Once the parts are there, a recipe may name them without bringing them.
    fresh.record_one(&turn("whole", 1, &["never stored"], None)).await;
    assert_eq!(fresh.record_one(&bad).await.outcome, Outcome::New);
}

#[tokio::test]
async fn an_owner_has_one_number_and_strangers_have_none() {
    let fresh = fresh().await;
    assert_eq!(fresh.store.owner("ann").await.unwrap(), fresh.owner);
    assert_ne!(fresh.store.owner("bob\u{0}").await.unwrap(), fresh.owner);
    let nobody = ropewalk_store::OwnerId(999);
    let refused = fresh.store.record(nobody, vec![turn("a", 1, &["x"], None)]).await;
    assert!(matches!(refused, Err(StoreError::NoOwner)));
    assert!(matches!(fresh.store.stats(nobody).await, Err(StoreError::NoOwner)));
    let long = turn(&"x".repeat(3_000), 1, &["x"], None);
    let refused = fresh.store.record(fresh.owner, vec![long]).await;
    assert!(matches!(refused, Err(StoreError::IdTooLong { length: 3_000 })));
}

#[tokio::test]
async fn texts_that_are_no_parts_are_searched_without_their_nul() {
    let fresh = fresh().await;
    let mut exchange = turn("a", 1, &["hello"], None);
    // A lone surrogate reaches Rust as U+FFFD, or escaped inside of a detail.
    exchange.texts = vec![SearchText {
        source: TextSource::ToolInput,
        strings: vec![Arc::from("zebra\u{0}crossing \u{fffd} here")],
    }];
    exchange.detail = "{\"hint\":\"\\ud800\\u0000\"}".to_owned();
    fresh.record_one(&exchange).await;
    assert_eq!(fresh.row("a", Micros::MAX).await.detail, exchange.detail);
    assert_eq!(fresh.search("zebra crossing").await.len(), 0, "not indexed yet");
    assert_eq!(fresh.store.index_texts(100).await.unwrap().waiting, 0);
    let hits = fresh.search("zebra crossing").await;
    assert_eq!(hits[0].snippet, "\u{2}zebra\u{3} \u{2}crossing\u{3} \u{fffd} here");
}
