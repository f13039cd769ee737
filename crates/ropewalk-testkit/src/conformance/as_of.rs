//! `as_of` is event time: exactly what a store would hold with only the requests that had started and the answers that had
//! ended by then, whenever they were recorded.

use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind, Status};
use ropewalk_store::store::{Asked, Questions};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, after_turns, all_rows, deepest, fresh_owner, record, record_one, turn};
use super::forgetting::forgetting;
use crate::conversation::Random;

/// Generated histories, exchanges in each, and moments that are asked about in each.
const CASES: u64 = 12;
const EXCHANGES: usize = 24;
const MOMENTS: usize = 12;

/// Texts are few, so that histories meet, part and repeat.
const TEXTS: [&str; 3] = ["yes", "no", "go on"];

/// Random turns over few texts: openings, continuations, edits, siblings; some without an end.
pub(super) fn forest(seed: u64) -> Vec<Case> {
    let mut random = Random(seed);
    let mut histories: Vec<Vec<&str>> = vec![Vec::new()];
    let mut cases = Vec::new();
    for number in 0..EXCHANGES {
        let mut said = histories[random.below(histories.len())].clone();
        said.push(TEXTS[random.below(TEXTS.len())]);
        let answer = TEXTS[random.below(TEXTS.len())];
        let at = Micros(after_turns(0).0 + random.below(20) as i64);
        let has_answer = random.below(5) > 0;
        let mut case = turn(&format!("f{seed}-{number}"), at, &said, has_answer.then_some(answer));
        if has_answer {
            // Some ends are not known: they count from the start.
            let ended_at = Micros(at.0 + random.below(8) as i64);
            case.raw.ended_at = (random.below(6) > 0).then_some(ended_at);
            case = Case::of(case.raw);
            said.push(answer);
            histories.push(said);
        }
        cases.push(case);
    }
    cases
}

/// What is known of a chain at a moment, worked out from the exchanges themselves.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    index: usize,
    as_input: Vec<ExchangeNumber>,
    as_output: Vec<ExchangeNumber>,
    /// Whoever had it first; of several at the same moment the one with the shorter request, then with the smaller id.
    first: ExchangeNumber,
}

fn expected(recorded: &[(Case, ExchangeNumber)], asked: &[NodeHash], as_of: Micros) -> Option<Expected> {
    let since_of = |case: &Case, node: &NodeHash| {
        let in_request = case.request_nodes().contains(node).then_some(case.new.at);
        let in_answer = case.answer_nodes().contains(node).then(|| case.answered_at()).flatten();
        let known = [in_request, in_answer].into_iter().flatten();
        known.filter(|since| *since <= as_of && case.new.at <= as_of).min()
    };
    let found = asked.iter().enumerate().rev().find_map(|(index, node)| {
        let having = recorded.iter().filter_map(|(case, number)| {
            let order = (since_of(case, node)?, case.request_nodes().len(), &case.new.id);
            Some((order, *number))
        });
        let (_, first) = having.min()?;
        Some((index, *node, first))
    });
    let (index, node, first) = found?;
    let numbers = |is_wanted: &dyn Fn(&Case) -> bool| {
        let wanted = recorded.iter().filter(|(case, _)| is_wanted(case));
        let mut numbers: Vec<_> = wanted.map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers
    };
    let is_complete = |case: &Case| case.new.status == Status::Complete;
    Some(Expected {
        index,
        first,
        as_input: numbers(&|case| case.new.at <= as_of && case.input_node() == node),
        as_output: numbers(&|case| {
            let is_known = case.answered_at().is_some_and(|at| at <= as_of);
            is_known && is_complete(case) && case.answer_nodes().last() == Some(&node)
        }),
    })
}

/// The exchanges of a forest as they were recorded, each with its number.
async fn recorded_in_any_order(
    store: &impl Store,
    owner: OwnerId,
    seed: u64,
    random: &mut Random,
) -> Vec<(Case, ExchangeNumber)> {
    let mut cases = forest(seed);
    shuffle(&mut cases, random);
    let numbers = record(store, owner, &cases).await;
    let numbers = numbers.into_iter().map(|recorded| recorded.number);
    cases.into_iter().zip(numbers).collect()
}

pub async fn look_ups_never_see_the_future_and_all_of_the_past<S: Store + 'static>(store: Arc<S>) {
    for seed in 0..CASES {
        let owner = fresh_owner(&*store).await;
        let mut random = Random(seed + 1_000);
        let recorded = recorded_in_any_order(&*store, owner, seed, &mut random).await;
        for _ in 0..MOMENTS {
            let as_of = Micros(after_turns(0).0 - 1 + random.below(32) as i64);
            let (case, _) = &recorded[random.below(recorded.len())];
            let asked = [case.request_nodes(), case.answer_nodes()].concat();
            assert_known(&*store, owner, &recorded, asked, as_of, seed).await;
        }
    }
}

pub async fn what_is_left_is_looked_up_as_if_nothing_else_had_been_there<S: Store + 'static>(store: Arc<S>) {
    for seed in 0..CASES {
        let owner = fresh_owner(&*store).await;
        let mut left = recorded_in_any_order(&*store, owner, seed, &mut Random(seed + 2_000)).await;
        let gone: Vec<ExchangeNumber> = left.drain(..EXCHANGES / 3).map(|(_, number)| number).collect();
        store.forget(owner, forgetting(&gone)).await.expect("it is forgotten");
        for (case, _) in &left {
            let asked = [case.request_nodes(), case.answer_nodes()].concat();
            for depth in 1..=asked.len() {
                assert_known(&*store, owner, &left, asked[..depth].to_vec(), Micros::MAX, seed).await;
            }
        }
    }
}

async fn assert_known(
    store: &impl Store,
    owner: OwnerId,
    recorded: &[(Case, ExchangeNumber)],
    asked: Vec<NodeHash>,
    as_of: Micros,
    seed: u64,
) {
    let expected = expected(recorded, &asked, as_of);
    let found = deepest(store, owner, asked.clone(), as_of).await;
    let found = found.map(|mut found| {
        found.as_input.sort_unstable();
        found.as_output.sort_unstable();
        Expected {
            index: found.index,
            as_input: found.as_input,
            as_output: found.as_output,
            first: found.first,
        }
    });
    assert_eq!(found, expected, "seed {seed}, as of {}", as_of.0 - after_turns(0).0);
}

pub(super) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

pub async fn rows_are_as_they_were<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases = forest(77);
    record(&*store, owner, &cases).await;
    for offset in -1..30 {
        let as_of = Micros(after_turns(0).0 + offset);
        let rows = all_rows(&*store, owner, as_of).await;
        let begun = cases.iter().filter(|case| case.new.at <= as_of);
        assert_eq!(rows.len(), begun.count(), "as of {offset}");
        for row in rows {
            let case = cases
                .iter()
                .find(|case| case.new.id == row.id)
                .expect("the row was recorded");
            let is_answered = case.answered_at().is_some_and(|at| at <= as_of);
            if is_answered {
                assert_eq!((row.status, row.ended_at), (case.new.status, case.new.ended_at));
                assert!(row.response_sha256.is_some() && row.output_node.is_some() && row.usage.is_some());
            } else {
                assert_eq!(
                    (row.status, row.ended_at, row.http_status),
                    (Status::Pending, None, None)
                );
                assert_eq!(
                    (row.output_node, row.response_sha256, row.response_length),
                    (None, None, None)
                );
                assert_eq!((row.usage, row.cost_nano_usd), (None, None));
                assert!(row.keys.iter().all(|key| !key.kind.is_of_answer()));
            }
        }
    }
}

pub async fn keys_of_answers_are_known_from_their_end<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut case = turn("k", after_turns(0), &["hello"], Some("hi"));
    let keys = KeyKind::ALL.map(|kind| Key { kind, hash: [5; 32] });
    case.new.keys.extend(keys);
    let number = record_one(&*store, owner, &case).await.number;
    let ended_at = case.answered_at().expect("it has an answer");
    let moments = [
        Micros(case.new.at.0 - 1),
        case.new.at,
        Micros(ended_at.0 - 1),
        ended_at,
        Micros::MAX,
    ];
    for as_of in moments {
        let questions = Questions {
            keys: keys.map(Asked::of).to_vec(),
            limit: 10,
            ..Questions::default()
        };
        let answers = store
            .look_up(owner, questions, as_of)
            .await
            .expect("a look-up is answered");
        for (key, found) in keys.iter().zip(answers.exchanges) {
            let since = if key.kind.is_of_answer() { ended_at } else { case.new.at };
            let expected: &[ExchangeNumber] = if since <= as_of { &[number] } else { &[] };
            assert_eq!(found, expected, "{:?}", key.kind);
        }
    }
}
