//! Questions with a time of their own, and chains read back.

use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind};
use ropewalk_store::store::{Asked, KnownNode, Questions, StoreError};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{ANSWER_MICROS, Case, after_turns, deepest, fresh_owner, record, row_of, turn};

/// Blocks of a request whose chain is walked: enough to end a stack that a walk would recurse on.
const LONG: usize = 20_000;

/// The moments at which something changes in what [`three_siblings`] records, and some between.
fn moments() -> Vec<Micros> {
    let around = |at: Micros| [Micros(at.0 - 1), at];
    let turns = (0..3).map(after_turns);
    let mut moments: Vec<Micros> = turns
        .flat_map(|at| [around(at), around(Micros(at.0 + ANSWER_MICROS))])
        .flatten()
        .collect();
    moments.push(Micros::MAX);
    moments
}

/// The same question three times, answered alike, all with a session and an item.
async fn three_siblings(store: &impl Store, owner: OwnerId) -> (Vec<Case>, Vec<ExchangeNumber>) {
    let cases: Vec<Case> = (0..3)
        .map(|number| {
            let mut case = turn(&format!("s{number}"), after_turns(number), &["same"], Some("same"));
            case.new.keys.extend(keys());
            case
        })
        .collect();
    let recorded = record(store, owner, &cases).await;
    (cases, recorded.into_iter().map(|recorded| recorded.number).collect())
}

/// One of a request, one of an answer.
fn keys() -> [Key; 2] {
    [KeyKind::Opening, KeyKind::Summary].map(|kind| Key { kind, hash: [8; 32] })
}

pub async fn every_key_is_asked_at_its_own_time<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (cases, numbers) = three_siblings(&*store, owner).await;
    let asked: Vec<Asked<Key>> = moments()
        .into_iter()
        .flat_map(|as_of| keys().map(|what| Asked { what, as_of }))
        .collect();
    // A question is never answered later than the look-up.
    for look_up_at in moments() {
        let questions = Questions {
            keys: asked.clone(),
            limit: 10,
            ..Questions::default()
        };
        let answers = store.look_up(owner, questions, look_up_at).await;
        let answers = answers.expect("a look-up is answered").exchanges;
        assert_eq!(answers.len(), asked.len());
        for (asked, found) in asked.iter().zip(answers) {
            let as_of = asked.as_of.min(look_up_at);
            let since = |case: &Case| match asked.what.kind.is_of_answer() {
                true => case.answered_at(),
                false => Some(case.new.at),
            };
            let known = cases.iter().zip(&numbers).rev();
            let known = known.filter(|(case, _)| since(case).is_some_and(|since| since <= as_of));
            let expected: Vec<_> = known.map(|(_, number)| *number).collect();
            assert_eq!(found, expected, "{asked:?} at {look_up_at:?}");
        }
    }
}

pub async fn every_node_is_asked_at_its_own_time<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (cases, _) = three_siblings(&*store, owner).await;
    let nodes = [cases[0].input_node(), cases[0].answer_nodes()[0], NodeHash([4; 32])];
    let asked: Vec<Asked<NodeHash>> = moments()
        .into_iter()
        .flat_map(|as_of| nodes.map(|what| Asked { what, as_of }))
        .collect();
    for look_up_at in moments() {
        let questions = Questions {
            nodes: asked.clone(),
            limit: 2,
            ..Questions::default()
        };
        let answers = store.look_up(owner, questions, look_up_at).await;
        let answers = answers.expect("a look-up is answered").nodes;
        assert_eq!(answers.len(), asked.len());
        for (index, (asked, found)) in asked.iter().zip(answers).enumerate() {
            // Exactly what a chain of this one node finds at that time.
            let as_of = asked.as_of.min(look_up_at);
            let expected = deepest(&*store, owner, vec![asked.what], as_of).await;
            let limited = expected.map(|mut known| {
                known.as_input.truncate(2);
                known.as_output.truncate(2);
                KnownNode { index, ..known }
            });
            assert_eq!(found, limited, "{asked:?} at {look_up_at:?}");
        }
    }
}

pub async fn a_chain_comes_back_whole_or_not_at_all<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let texts: Vec<String> = (0..LONG - 1).map(|number| format!("text {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let cases = [
        turn("long", after_turns(0), &texts, Some("yes")),
        turn("short", after_turns(1), &texts[..3], Some("no")),
        turn("empty", after_turns(2), &[], None),
    ];
    let recorded = record(&*store, owner, &cases).await;
    for (case, recorded) in cases.iter().zip(&recorded) {
        let expected = case.request_nodes();
        let chain = store.chain(owner, recorded.number, expected.len()).await;
        assert!(chain.expect("it is not too long") == expected, "{}", case.new.id);
        if let Some(limit) = expected.len().checked_sub(1) {
            let refused = store.chain(owner, recorded.number, limit).await;
            let is_told = matches!(refused, Err(StoreError::ChainTooLong { limit: told, .. }) if told == limit);
            assert!(is_told, "{}", case.new.id);
        }
    }
    let short = store.chain(owner, recorded[1].number, usize::MAX).await;
    assert_eq!(short.expect("there is no limit").len(), 3);
    let unknown = store.chain(owner, ExchangeNumber(1_000_000), 10).await;
    assert!(matches!(unknown, Err(StoreError::NoExchange)));
    let other = fresh_owner(&*store).await;
    let of_another = store.chain(other, recorded[1].number, 10).await;
    assert!(matches!(of_another, Err(StoreError::NoExchange)));
}

pub async fn a_row_says_how_deep_its_request_is<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let said = ["one", "two", "three", "four", "five"];
    let cases = [
        turn("d5", after_turns(0), &said, Some("yes")),
        turn("d1", after_turns(1), &said[..1], None),
        turn("d0", after_turns(2), &[], Some("no")),
    ];
    let recorded = record(&*store, owner, &cases).await;
    for (case, recorded) in cases.iter().zip(recorded) {
        let row = row_of(&*store, owner, recorded.number).await;
        assert_eq!(row.depth as usize, case.new.request_chain.len(), "{}", case.new.id);
    }
}
