//! Look-ups, pages and search, as of any moment.

use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind, Position, Status, TextSource};
use ropewalk_store::store::{Answers, Asked, Hit, Questions, SearchQuery, Selection};
use ropewalk_store::{Micros, NewExchange, Store};

use super::{Fresh, fresh};
use crate::turn::{nodes, turn};

impl Fresh {
    pub(super) async fn search(&self, text: &str) -> Vec<Hit> {
        let query = SearchQuery {
            text: text.to_owned(),
            source: None,
            model: None,
            since: None,
            limit: 10,
        };
        self.store.search(self.owner, query).await.unwrap()
    }

    async fn look_up(&self, exchange: &NewExchange, as_of: i64) -> Answers {
        let questions = Questions {
            chains: vec![nodes(exchange)],
            keys: exchange.keys.iter().copied().map(Asked::of).collect(),
            limit: 10,
            ..Questions::default()
        };
        self.store.look_up(self.owner, questions, Micros(as_of)).await.unwrap()
    }
}

#[tokio::test]
async fn a_chain_is_known_as_far_as_it_was_seen_by_then() {
    let fresh = fresh().await;
    let first = turn("a", 100, &["one"], Some("two"));
    let second = turn("b", 200, &["one", "two", "three"], Some("four"));
    let recorded = fresh.record(&[first, second.clone()]).await;
    let (a, b) = (recorded[0].number, recorded[1].number);
    let known = |as_of| {
        let (fresh, second) = (&fresh, &second);
        async move { fresh.look_up(second, as_of).await.deepest.remove(0) }
    };
    assert_eq!(known(99).await, None);
    let at_start = known(100).await.unwrap();
    assert_eq!(
        (at_start.index, at_start.as_input, at_start.as_output, at_start.first),
        (0, vec![a], vec![], a)
    );
    assert_eq!(known(109).await.unwrap().index, 0, "the answer had not ended");
    let answered = known(110).await.unwrap();
    assert_eq!((answered.index, answered.as_output), (1, vec![a]));
    assert_eq!(known(200).await.unwrap().index, 2);
    let whole = known(210).await.unwrap();
    assert_eq!((whole.index, whole.as_output, whole.first), (3, vec![b], b));
}

#[tokio::test]
async fn what_is_recorded_late_is_known_from_its_own_time_on() {
    let fresh = fresh().await;
    let late = turn("late", 500, &["one", "two", "three"], Some("four"));
    let early = turn("early", 100, &["one", "two"], None);
    fresh.record_one(&late).await;
    assert_eq!(fresh.look_up(&late, 499).await.deepest, [None]);
    let recorded = fresh.record_one(&early).await;
    let known = fresh.look_up(&late, 100).await.deepest.remove(0).unwrap();
    assert_eq!((known.index, known.first), (1, recorded.number));
    assert_eq!(fresh.look_up(&late, 499).await.deepest[0].as_ref().unwrap().index, 1);
    // An answer that was a question elsewhere corrects both.
    let answering = turn("answering", 50, &["one"], Some("two"));
    fresh.record_one(&answering).await;
    assert_eq!(fresh.look_up(&late, 50).await.deepest[0].as_ref().unwrap().index, 0);
    assert_eq!(fresh.look_up(&late, 60).await.deepest[0].as_ref().unwrap().index, 1);
}

#[tokio::test]
async fn keys_find_exchanges_newest_first_and_not_before_their_time() {
    let fresh = fresh().await;
    let session = Key {
        kind: KeyKind::Session,
        hash: [1; 32],
    };
    let spawn = Key {
        kind: KeyKind::SpawnPrompt,
        hash: [2; 32],
    };
    let with_keys = |id: &str, at, answer| {
        let mut exchange = turn(id, at, &[id], answer);
        exchange.keys = vec![session];
        exchange.keys.extend(answer.map(|_| spawn));
        exchange
    };
    let recorded = fresh
        .record(&[with_keys("a", 100, None), with_keys("b", 200, Some("x"))])
        .await;
    let (a, b) = (recorded[0].number, recorded[1].number);
    fresh.record_one(&with_keys("a", 100, Some("late"))).await;
    let asked = with_keys("b", 200, Some("x"));
    let found = |as_of| {
        let (fresh, asked) = (&fresh, &asked);
        async move { fresh.look_up(asked, as_of).await.exchanges }
    };
    assert_eq!(found(99).await, [vec![], vec![]] as [Vec<ExchangeNumber>; 2]);
    assert_eq!(found(109).await, [vec![a], vec![]]);
    assert_eq!(found(110).await, [vec![a], vec![a]]);
    assert_eq!(found(210).await, [vec![b, a], vec![b, a]]);
}

#[tokio::test]
async fn pages_go_by_time_or_by_commit_and_hide_what_had_not_happened() {
    let fresh = fresh().await;
    fresh.record_one(&turn("b", 200, &["b"], Some("x"))).await;
    fresh.record_one(&turn("a", 100, &["a"], Some("x"))).await;
    let ids = |selection, as_of| {
        let fresh = &fresh;
        async move {
            let rows = fresh
                .store
                .exchanges(fresh.owner, selection, Micros(as_of))
                .await
                .unwrap();
            rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
        }
    };
    let since = |after| Selection::Since { after, limit: 10 };
    assert_eq!(ids(since(None), i64::MAX).await, ["a", "b"]);
    let a = fresh.row("a", Micros::MAX).await;
    assert_eq!(ids(since(Some((a.at, a.number))), i64::MAX).await, ["b"]);
    assert_eq!(ids(since(None), 150).await, ["a"]);
    let log = |after| Selection::Log {
        after: Position(after),
        limit: 1,
    };
    assert_eq!(ids(log(0), i64::MAX).await, ["b"]);
    assert_eq!(ids(log(1), i64::MAX).await, ["a"]);
    assert_eq!(ids(Selection::Numbers(vec![a.number]), i64::MAX).await, ["a"]);
    let asked = Selection::Ids(vec!["b".to_owned(), "missing".to_owned(), "a".to_owned()]);
    assert_eq!(ids(asked, i64::MAX).await, ["b", "a"]);
    let pending = fresh.row("a", Micros(105)).await;
    assert_eq!(
        (pending.status, pending.ended_at, pending.output_node),
        (Status::Pending, None, None)
    );
}

#[tokio::test]
async fn search_finds_words_and_phrases_with_filters() {
    let fresh = fresh().await;
    let other = fresh.store.owner("bob").await.unwrap();
    fresh
        .record_one(&turn(
            "a",
            100,
            &["The quick brown fox"],
            Some("jumps over the lazy dog"),
        ))
        .await;
    let mut later = turn("b", 200, &["quick and brown"], None);
    later.model = Some("model-2".to_owned());
    fresh.record_one(&later).await;
    for (owner, waiting) in [(fresh.owner, 3), (other, 0)] {
        assert_eq!(fresh.store.search_lag(owner).await.unwrap().waiting, waiting);
    }
    assert_eq!(fresh.store.index_texts(2).await.unwrap().waiting, 1);
    assert_eq!(fresh.store.search_lag(fresh.owner).await.unwrap().waiting, 1);
    assert_eq!(fresh.store.index_texts(10).await.unwrap().waiting, 0);
    let hits = fresh.search("quick brown").await;
    assert_eq!(hits.len(), 2);
    assert_eq!(hits[0].snippet, "\u{2}quick\u{3} and \u{2}brown\u{3}");
    assert_eq!(fresh.search("\"quick brown\"").await.len(), 1);
    assert_eq!(fresh.search("lazy").await[0].source, TextSource::Assistant);
    assert_eq!(fresh.search("absent").await, []);
    assert_eq!(
        fresh.search("\"' & | ! : ( <-> \\").await,
        [],
        "operators are words like any other"
    );
    let filtered = |source, model: Option<&str>, since: Option<i64>| SearchQuery {
        text: "quick".to_owned(),
        source,
        model: model.map(str::to_owned),
        since: since.map(Micros),
        limit: 10,
    };
    let count = |query| async { fresh.store.search(fresh.owner, query).await.unwrap().len() };
    assert_eq!(count(filtered(Some(TextSource::Assistant), None, None)).await, 0);
    assert_eq!(count(filtered(Some(TextSource::User), None, None)).await, 2);
    assert_eq!(count(filtered(None, Some("model-2"), None)).await, 1);
    assert_eq!(count(filtered(None, None, Some(150))).await, 1);
    assert_eq!(fresh.store.search(other, filtered(None, None, None)).await.unwrap(), []);
    // The texts are parts already, and are not kept twice.
    assert_eq!(
        fresh.sql("SELECT count(*) FROM search_text WHERE text IS NOT NULL"),
        "0"
    );
}
