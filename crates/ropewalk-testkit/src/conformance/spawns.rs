//! Calls in answers that start agents: facts of their exchange, each known from its own time on.

use std::sync::Arc;

use ropewalk_store::facts::{ExchangeNumber, Spawn};
use ropewalk_store::store::{Answers, Outcome, Questions};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, START, fresh_owner, record, record_one, turn};

fn at(micros: i64) -> Micros {
    Micros(START.0 + micros)
}

fn spawn(index: u32, micros: i64) -> Spawn {
    Spawn {
        index,
        call: Some(format!("call-{index}")),
        name: Some("scout".to_owned()),
        prompt: Some([index as u8; 32]),
        at: at(micros),
    }
}

/// An exchange that starts at that time and makes these calls.
fn case(id: &str, micros: i64, spawns: Vec<Spawn>) -> Case {
    let mut case = turn(id, at(micros), &[id], Some("I start some"));
    case.new.spawns = spawns;
    case
}

async fn ask(
    store: &impl Store,
    owner: OwnerId,
    exchanges: &[ExchangeNumber],
    between: &[(i64, i64)],
    as_of: Micros,
) -> Answers {
    let questions = Questions {
        spawns_of: exchanges.to_vec(),
        spawns_between: between.iter().map(|(first, last)| (at(*first), at(*last))).collect(),
        limit: 1,
        ..Questions::default()
    };
    let answers = store.look_up(owner, questions, as_of).await;
    answers.expect("a look-up is answered")
}

pub async fn spawns_are_found_by_their_exchange_and_by_their_time<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    // Nothing is known of some calls, and texts may hold anything.
    let bare = Spawn {
        call: None,
        name: None,
        prompt: None,
        ..spawn(2, 30)
    };
    let odd = Spawn {
        call: Some("\0\u{1a}".to_owned()),
        name: Some(String::new()),
        ..spawn(0, 20)
    };
    let cases = [
        case("late", 15, vec![spawn(0, 40), spawn(1, 20)]),
        case("early", 10, vec![spawn(1, 50), odd, bare]),
        case("none", 12, Vec::new()),
    ];
    let recorded = record(&*store, owner, &cases).await;
    let numbers: Vec<ExchangeNumber> = recorded.iter().map(|recorded| recorded.number).collect();
    let asked = [
        numbers[1],
        ExchangeNumber(1_000_000),
        numbers[0],
        numbers[2],
        numbers[1],
    ];
    let between = [(0, 100), (20, 20), (21, 49), (51, 100), (40, 20)];
    for moment in [19, 20, 29, 30, 45, 50, 1_000] {
        let as_of = at(moment);
        let answers = ask(&*store, owner, &asked, &between, as_of).await;
        let known_of = |number: ExchangeNumber| {
            let place = numbers.iter().position(|known| *known == number);
            let spawns = place.map(|place| cases[place].new.spawns.clone()).unwrap_or_default();
            let mut known: Vec<Spawn> = spawns.into_iter().filter(|spawn| spawn.at <= as_of).collect();
            known.sort_by_key(|spawn| spawn.index);
            known
        };
        let expected: Vec<_> = asked.into_iter().map(known_of).collect();
        assert_eq!(answers.spawns_of, expected, "at {moment}");
        for ((first, last), found) in between.into_iter().zip(answers.spawns_between) {
            let mut expected: Vec<(ExchangeNumber, Spawn)> = numbers
                .iter()
                .flat_map(|number| known_of(*number).into_iter().map(|spawn| (*number, spawn)))
                .filter(|(_, spawn)| at(first) <= spawn.at && spawn.at <= at(last))
                .collect();
            expected.sort_by_key(|(number, spawn)| (spawn.at, *number, spawn.index));
            assert_eq!(found, expected, "{first} to {last} at {moment}");
        }
    }
}

pub async fn spawns_come_with_the_end_of_their_exchange<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let whole = case("later", 0, vec![spawn(0, 5), spawn(1, 6)]);
    let number = record_one(&*store, owner, &whole.begun()).await.number;
    let spawns = async || {
        let answers = ask(&*store, owner, &[number], &[(0, 10)], Micros::MAX).await;
        (answers.spawns_of[0].clone(), answers.spawns_between[0].len())
    };
    assert_eq!(spawns().await, (Vec::new(), 0));
    assert_eq!(record_one(&*store, owner, &whole).await.outcome, Outcome::Completed);
    assert_eq!(spawns().await, (whole.new.spawns.clone(), 2));
    // Once more changes nothing, nor does one of another kind.
    assert_eq!(record_one(&*store, owner, &whole).await.outcome, Outcome::Known);
    let other = case("later", 0, vec![spawn(0, 5), spawn(1, 6), spawn(2, 7)]);
    assert_eq!(record_one(&*store, owner, &other).await.outcome, Outcome::Known);
    assert_eq!(spawns().await, (whole.new.spawns.clone(), 2));
    // Begun and ended in one batch.
    let both = case("both", 1, vec![spawn(0, 8)]);
    let recorded = record(&*store, owner, &[both.begun(), both.clone()]).await;
    let answers = ask(&*store, owner, &[recorded[1].number], &[], Micros::MAX).await;
    assert_eq!(answers.spawns_of, [both.new.spawns]);
}

pub async fn spawns_of_other_owners_are_not_seen<S: Store + 'static>(store: Arc<S>) {
    let (ann, bob) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let number = record_one(&*store, ann, &case("hers", 0, vec![spawn(0, 5)]))
        .await
        .number;
    let answers = ask(&*store, bob, &[number], &[(0, 10)], Micros::MAX).await;
    assert_eq!(answers.spawns_of, [Vec::new()]);
    assert_eq!(answers.spawns_between, [Vec::new()]);
}
