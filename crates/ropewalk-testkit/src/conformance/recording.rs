//! An exchange is recorded once, whole, or not at all.

use std::sync::Arc;

use ropewalk_core::hash::PartHash;
use ropewalk_core::part::Part;
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::{Layout, Pieces};
use ropewalk_store::facts::{Provenance, Recipe, Status};
use ropewalk_store::store::{Asked, ExchangeRow, ID_MAX, Outcome, Questions, Selection, StoreError};
use ropewalk_store::{Micros, NewExchange, Store};

use super::cases::{
    Case, after_turns, all_rows, assert_bytes, bytes_case, conversation, deepest, find, fresh_owner, index_all, query,
    record, record_one, row_of, turn,
};

pub async fn the_same_exchange_twice_is_one<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases = conversation(21, 4);
    let first = record(&*store, owner, &cases).await;
    let before = store.stats(owner).await.expect("figures");
    let again = record(&*store, owner, &cases).await;
    for (first, again) in first.iter().zip(&again) {
        assert_eq!((first.number, again.outcome), (again.number, Outcome::Known));
    }
    assert_eq!(store.stats(owner).await.expect("figures"), before);

    let twin = turn("twin", after_turns(9), &["hello"], Some("hi"));
    let twins = record(&*store, owner, &[twin.clone(), twin]).await;
    assert_eq!([twins[0].outcome, twins[1].outcome], [Outcome::New, Outcome::Known]);
    assert_eq!(twins[0].number, twins[1].number);
}

pub async fn a_begun_exchange_is_completed_by_its_end<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let case = &conversation(22, 1)[0];
    let begun = record_one(&*store, owner, &case.begun()).await;
    assert_eq!(begun.outcome, Outcome::New);
    let row = row_of(&*store, owner, begun.number).await;
    assert_eq!(
        (row.status, row.output_node, row.response_sha256),
        (Status::Pending, None, None)
    );
    assert_bytes(&*store, owner, begun.number, &case.begun().raw).await;

    let ended = record_one(&*store, owner, case).await;
    assert_eq!((ended.number, ended.outcome), (begun.number, Outcome::Completed));
    assert_row(&row_of(&*store, owner, ended.number).await, &case.new);
    assert_bytes(&*store, owner, ended.number, &case.raw).await;
    let stats = store.stats(owner).await.expect("figures");
    let length = case.raw.request_body.len() + case.raw.response_body.as_ref().map_or(0, |body| body.len());
    assert_eq!(
        (stats.exchanges, stats.bytes_in, stats.conflicts),
        (1, length as u64, 0)
    );
    let answer = case.answer_nodes();
    let found = deepest(&*store, owner, answer.clone(), Micros::MAX)
        .await
        .expect("the answer is known");
    assert_eq!((found.index, found.as_output), (answer.len() - 1, vec![ended.number]));
}

pub async fn a_late_beginning_changes_nothing<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let case = turn("late", after_turns(0), &["hello"], Some("hi"));
    let whole = record_one(&*store, owner, &case).await;
    let before = row_of(&*store, owner, whole.number).await;
    let begun = record_one(&*store, owner, &case.begun()).await;
    assert_eq!((begun.number, begun.outcome), (whole.number, Outcome::Known));
    assert_eq!(row_of(&*store, owner, whole.number).await, before);
}

pub async fn other_bytes_under_a_known_id_are_a_conflict_and_the_first_stays<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let first = turn(
        "same-id",
        after_turns(0),
        &["the first question, long enough to be a part of its own, surely"],
        Some("yes"),
    );
    let recorded = record_one(&*store, owner, &first).await;
    let row = row_of(&*store, owner, recorded.number).await;
    let before = store.stats(owner).await.expect("figures");
    let other_request = turn(
        "same-id",
        after_turns(1),
        &["another question, which is also a part of its own, by its length"],
        Some("yes"),
    );
    let other_response = bytes_case(
        "same-id",
        after_turns(0),
        &first.raw.request_body,
        Some(b"{\"other\":\"answer\"}"),
    );
    for (count, other) in [other_request, other_response].iter().enumerate() {
        let again = record_one(&*store, owner, other).await;
        assert_eq!((again.number, again.outcome), (recorded.number, Outcome::Conflict));
        let stats = store.stats(owner).await.expect("figures");
        assert_eq!(stats.conflicts, count as u64 + 1, "every conflict is counted");
        assert_eq!(
            (stats.parts, stats.nodes, stats.bytes_in),
            (before.parts, before.nodes, before.bytes_in)
        );
    }
    assert_eq!(row_of(&*store, owner, recorded.number).await, row);
    assert_bytes(&*store, owner, recorded.number, &first.raw).await;
}

/// Names a part that nobody stored.
#[derive(Debug)]
struct Unstored([Piece; 1]);

impl Pieces for Unstored {
    fn pieces<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.0.iter())
    }
}

impl Recipe for Unstored {
    fn layout(&self) -> Layout {
        Layout::once(self.0.len())
    }

    fn parts<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Part> + 'a> {
        Box::new(std::iter::empty())
    }
}

pub async fn a_batch_with_a_missing_part_leaves_nothing<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let kept = turn("kept", after_turns(0), &["before"], Some("it"));
    record_one(&*store, owner, &kept).await;
    let before = store.stats(owner).await.expect("figures");
    let good = turn(
        "good",
        after_turns(1),
        &["zanzibar"],
        Some("a text that is long enough to become a part of its own here"),
    );
    let mut missing = turn("missing", after_turns(2), &["bad"], None);
    missing.new.request.recipe = Arc::new(Unstored([Piece::Raw(PartHash([7; 32]))]));
    let mut too_long = turn("x", after_turns(2), &["bad"], None);
    too_long.new.id = "x".repeat(ID_MAX + 1);
    for bad in [missing, too_long] {
        let batch: Vec<NewExchange> = [&good, &bad, &kept].map(|case: &Case| case.new.clone()).into();
        let error = store.record(owner, batch).await.expect_err("the batch is bad");
        let is_told = match &error {
            StoreError::MissingPart { id } => id == "missing",
            StoreError::IdTooLong { length } => *length == ID_MAX + 1,
            _ => false,
        };
        assert!(is_told, "{error}");
        index_all(&*store).await;
        assert_eq!(store.stats(owner).await.expect("figures"), before);
        assert_eq!(all_rows(&*store, owner, Micros::MAX).await.len(), 1);
        assert_eq!(deepest(&*store, owner, good.request_nodes(), Micros::MAX).await, None);
        let questions = Questions {
            keys: good.new.keys.iter().copied().map(Asked::of).collect(),
            limit: 10,
            ..Questions::default()
        };
        let answers = store
            .look_up(owner, questions, Micros::MAX)
            .await
            .expect("a look-up is answered");
        let own = good.new.keys.iter().zip(&answers.exchanges);
        assert!(
            own.filter(|(key, _)| !kept.new.keys.contains(key))
                .all(|(_, found)| found.is_empty())
        );
        assert_eq!(find(&*store, owner, query("zanzibar")).await, []);
    }
    assert_eq!(record_one(&*store, owner, &good).await.outcome, Outcome::New);
}

/// A row has everything that was handed in.
#[track_caller]
pub fn assert_row(row: &ExchangeRow, new: &NewExchange) {
    let input_node = new.request_chain.last().map_or(new.start, |link| link.node);
    let last = new.answer_chain.last().map_or(input_node, |link| link.node);
    let output_node = (new.status == Status::Complete && new.response.is_some()).then_some(last);
    assert_eq!((&row.id, row.at, row.ended_at), (&new.id, new.at, new.ended_at));
    assert_eq!(
        (row.status, row.http_status, &row.kind),
        (new.status, new.http_status, &new.kind)
    );
    assert_eq!((&row.provider, &row.model), (&new.provider, &new.model));
    assert_eq!(
        (&row.session, &row.agent, &row.project),
        (&new.session, &new.agent, &new.project)
    );
    assert_eq!((row.input_node, row.output_node), (input_node, output_node));
    assert_eq!(
        (row.usage, row.cost_nano_usd, row.cost_is_estimate),
        (new.usage, new.cost_nano_usd, new.cost_is_estimate)
    );
    assert_eq!(
        (row.request_sha256, row.request_length),
        (new.request.sha256, new.request.length)
    );
    assert_eq!(row.response_sha256, new.response.as_ref().map(|body| body.sha256));
    assert_eq!(row.response_length, new.response.as_ref().map(|body| body.length));
    assert_eq!(
        (&row.detail, &row.provenance, row.rules_version),
        (&new.detail, &new.provenance, new.rules_version)
    );
    let sorted = |mut hashes: Vec<_>| {
        hashes.sort_unstable();
        hashes
    };
    assert_eq!(sorted(row.hashes.clone()), sorted(new.hashes.clone()));
    let mut keys = (row.keys.clone(), new.keys.clone());
    keys.0.sort_unstable();
    keys.1.sort_unstable();
    assert_eq!(keys.0, keys.1);
}

pub async fn a_row_says_what_was_handed_in<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut cases = conversation(23, 3);
    cases.push(turn("plain", after_turns(5), &["hello"], Some("hi")));
    cases.push(bytes_case("opaque", after_turns(6), b"no json", Some(b"nothing")));
    cases.push(turn("pending", after_turns(7), &["hello"], None));
    for (index, case) in cases.iter_mut().enumerate() {
        case.new.provenance = (index % 2 == 0).then(|| Provenance {
            file: "session é.jsonl".to_owned(),
            line: u64::from(u32::MAX) + index as u64,
            uuid: (index % 4 == 0).then(|| "u-1".to_owned()),
            aliases: vec!["a\"1".to_owned(), String::new()],
            log_begun: None,
        });
        case.new.agent = Some(format!("agent-{index}"));
        case.new.project = Some("site".to_owned());
        case.new.status = Status::ALL[(index + 1) % Status::ALL.len()];
        if case.new.response.is_none() {
            case.new.status = Status::Pending;
        }
    }
    for (case, recorded) in cases.iter().zip(record(&*store, owner, &cases).await) {
        assert_row(&row_of(&*store, owner, recorded.number).await, &case.new);
    }
}

pub async fn only_a_complete_answer_has_an_output_node<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Pending) {
        let mut case = turn(status.name(), after_turns(0), &[status.name()], Some("answer"));
        case.new.status = status;
        let recorded = record_one(&*store, owner, &case).await;
        let selection = Selection::Numbers(vec![recorded.number]);
        let rows = store
            .exchanges(owner, selection, Micros::MAX)
            .await
            .expect("rows can be read");
        let expected = case.answer_nodes().pop().filter(|_| status == Status::Complete);
        assert_eq!(rows[0].output_node, expected, "{}", status.name());
    }
}
