//! What linking asks: the deepest known node of a chain, and exchanges by key.

use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_core::hash::sha256;
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind, Status};
use ropewalk_store::store::{Asked, Beginning, KnownNode, Questions};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, after_turns, deepest, fresh_owner, record, record_one, turn};

const SAID: [&str; 5] = [
    "question one",
    "answer one",
    "question two",
    "answer two",
    "question three",
];

/// Three turns of one conversation, recorded.
async fn three_turns(store: &impl Store, owner: OwnerId) -> (Vec<Case>, Vec<ExchangeNumber>) {
    let cases = vec![
        turn("t1", after_turns(0), &SAID[..1], Some(SAID[1])),
        turn("t2", after_turns(1), &SAID[..3], Some(SAID[3])),
        turn("t3", after_turns(2), &SAID, Some("answer three")),
    ];
    let recorded = record(store, owner, &cases).await;
    (cases, recorded.into_iter().map(|recorded| recorded.number).collect())
}

fn chain(said: &[&str]) -> Vec<NodeHash> {
    turn("asked", after_turns(0), said, None).request_nodes()
}

/// The beginning of a hash finds what has it, and only that, whatever kind of hash it is.
pub async fn the_beginning_of_a_hash_finds_its_exchanges<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (cases, numbers) = three_turns(&*store, owner).await;
    let digits = |hash: &[u8], count: usize| -> String {
        let hex = hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        hex.chars().take(count).collect()
    };
    for (case, number) in cases.iter().zip(&numbers) {
        for (_, hash) in &case.new.hashes {
            let prefix = digits(hash, 15).parse().expect("digits");
            let found = store.beginning_with(owner, prefix, 10).await.expect("an answer");
            assert!(found.exchanges.contains(number), "{}", digits(hash, 15));
        }
        let node = case.input_node();
        let found = store
            .beginning_with(owner, digits(&node.0, 13).parse().expect("digits"), 10)
            .await;
        assert_eq!(found.expect("an answer").nodes, [node]);
        let unknown = digits(&sha256(&node.0), 13).parse().expect("digits");
        let found = store.beginning_with(owner, unknown, 10).await;
        assert_eq!(found.expect("an answer"), Beginning::default());
    }
}

pub async fn the_deepest_known_node_is_found<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (_, numbers) = three_turns(&*store, owner).await;
    let known = |index, as_input: &[usize], as_output: &[usize], first: usize| {
        let of = |places: &[usize]| places.iter().map(|place| numbers[*place]).collect();
        Some(KnownNode {
            index,
            as_input: of(as_input),
            as_output: of(as_output),
            first: numbers[first],
        })
    };
    let with = |said: &[&'static str], more: &[&'static str]| chain(&[said, more].concat());
    let cases: [(&str, Vec<NodeHash>, Option<KnownNode>); 9] = [
        ("a request again", chain(&SAID[..3]), known(2, &[1], &[], 1)),
        ("a first request again", chain(&SAID[..1]), known(0, &[0], &[], 0)),
        ("an answer", chain(&SAID[..4]), known(3, &[], &[1], 1)),
        (
            "an extension",
            with(&SAID, &["answer three", "question four"]),
            known(5, &[], &[2], 2),
        ),
        (
            "a regeneration",
            with(&SAID[..3], &["another answer", "more"]),
            known(2, &[1], &[], 1),
        ),
        (
            "an edit",
            with(&SAID[..2], &["another question"]),
            known(1, &[], &[0], 0),
        ),
        ("an edit of the opening", chain(&["question 1", SAID[1], SAID[2]]), None),
        ("a tail without its beginning", chain(&SAID[2..]), None),
        ("nothing", Vec::new(), None),
    ];
    for (name, asked, expected) in cases {
        assert_eq!(deepest(&*store, owner, asked, Micros::MAX).await, expected, "{name}");
    }
    // Siblings at one node come newest first, the one that was there first stays.
    let again = turn("again", after_turns(3), &SAID[..3], Some("regenerated"));
    let again = record_one(&*store, owner, &again).await.number;
    let found = deepest(&*store, owner, chain(&SAID[..3]), Micros::MAX)
        .await
        .expect("it is known");
    assert_eq!((found.as_input, found.first), (vec![again, numbers[1]], numbers[1]));
}

pub async fn every_chain_and_key_is_answered_in_its_place<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (cases, numbers) = three_turns(&*store, owner).await;
    let unknown = Key {
        kind: KeyKind::Item,
        hash: [9; 32],
    };
    let known = |id: &str| Key::short(KeyKind::Item, sha256(format!("msg_{id}").as_bytes()));
    let questions = Questions {
        chains: vec![
            chain(&["who?"]),
            cases[1].request_nodes(),
            Vec::new(),
            cases[0].request_nodes(),
        ],
        keys: [known("t3"), unknown, known("t1"), known("t1")].map(Asked::of).to_vec(),
        limit: 10,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, Micros::MAX)
        .await
        .expect("a look-up is answered");
    let indexes: Vec<_> = answers
        .deepest
        .iter()
        .map(|found| found.as_ref().map(|found| found.index))
        .collect();
    assert_eq!(indexes, [None, Some(2), None, Some(0)]);
    assert_eq!(
        answers.exchanges,
        [vec![numbers[2]], Vec::new(), vec![numbers[0]], vec![numbers[0]]]
    );
    // The same bytes under another kind are another key.
    let other_kind = Key {
        kind: KeyKind::Anchor,
        ..known("t1")
    };
    let questions = Questions {
        keys: vec![Asked::of(other_kind)],
        limit: 10,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, Micros::MAX)
        .await
        .expect("a look-up is answered");
    assert_eq!(answers.exchanges, [Vec::new()]);
}

pub async fn keys_find_their_exchanges_newest_first_and_limited<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let shared = KeyKind::ALL.map(|kind| Key { kind, hash: [3; 32] });
    // Recorded in another order than they happened.
    let mut numbers = Vec::new();
    for turns in [4, 1, 3, 0, 2] {
        let text = format!("question {turns}");
        let mut case = turn(&format!("k{turns}"), after_turns(turns), &[&text], Some("yes"));
        case.new.keys.extend(shared);
        // Of several sessions, which share what they are found by and nothing else.
        case.new.session = Some(format!("session {}", turns % 3));
        numbers.push((turns, record_one(&*store, owner, &case).await.number));
    }
    numbers.sort_unstable_by_key(|(turns, _)| std::cmp::Reverse(*turns));
    let newest: Vec<_> = numbers.into_iter().map(|(_, number)| number).collect();
    for limit in [1, 3, 5, 100] {
        let questions = Questions {
            keys: shared.map(Asked::of).to_vec(),
            limit,
            ..Questions::default()
        };
        let answers = store
            .look_up(owner, questions, Micros::MAX)
            .await
            .expect("a look-up is answered");
        for (key, found) in shared.iter().zip(&answers.exchanges) {
            assert_eq!(found[..], newest[..limit.min(5)], "{:?}, {limit}", key.kind);
        }
    }
}

/// The hashes that stay the same in a conversation find all of its exchanges, the others one each.
pub async fn every_hash_finds_its_exchanges<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let (cases, numbers) = three_turns(&*store, owner).await;
    for (kind, hash) in cases.iter().flat_map(|case| &case.new.hashes) {
        let has_it = |case: &&(&Case, &ExchangeNumber)| case.0.new.hashes.iter().any(|(_, other)| other == hash);
        let both: Vec<_> = cases.iter().zip(&numbers).collect();
        let mut expected: Vec<ExchangeNumber> = both.iter().filter(has_it).map(|(_, number)| **number).collect();
        expected.reverse();
        let questions = Questions {
            keys: vec![Asked::of(Key::of_hash(hash))],
            limit: 10,
            ..Questions::default()
        };
        let answers = store.look_up(owner, questions, Micros::MAX).await;
        let found = &answers.expect("a look-up is answered").exchanges[0];
        assert_eq!(*found, expected, "{kind:?}");
    }
}

pub async fn a_cut_off_answer_is_known_but_no_output<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut case = turn("cut", after_turns(0), &["go on"], Some("I will sta"));
    case.new.status = Status::Truncated;
    let number = record_one(&*store, owner, &case).await.number;
    let asked = chain(&["go on", "I will sta", "continue"]);
    let expected = KnownNode {
        index: 1,
        as_input: Vec::new(),
        as_output: Vec::new(),
        first: number,
    };
    assert_eq!(deepest(&*store, owner, asked, Micros::MAX).await, Some(expected));
}

/// However many begin alike, the newest of a time are found: also those that come late, and those that end later.
pub async fn what_many_share_is_found_by_its_time_as_more_come<S: Store + 'static>(store: Arc<S>) {
    const MANY: i64 = 80;
    let owner = fresh_owner(&*store).await;
    let opening = ["the opening that everybody uses"];
    let mut made: Vec<(Micros, ExchangeNumber)> = Vec::new();
    // The newest is recorded first, then every other, then those between.
    let times = std::iter::once(MANY)
        .chain((0..MANY).step_by(2))
        .chain((1..MANY).step_by(2));
    for (count, turns) in times.enumerate() {
        let at = after_turns(turns);
        let answer = (turns % 4 != 0).then_some("the answer that everybody gets");
        let case = turn(&format!("many-{turns}"), at, &opening, answer);
        made.push((at, record_one(&*store, owner, &case).await.number));
        made.sort_by(|a, b| b.cmp(a));
        if count % 16 != 0 {
            continue;
        }
        for as_of in [Micros::MAX, after_turns(MANY / 2), after_turns(3), after_turns(0)] {
            let known = made.iter().filter(|(at, _)| *at <= as_of).map(|(_, number)| *number);
            let expected: Vec<ExchangeNumber> = known.take(100).collect();
            let found = deepest(&*store, owner, chain(&opening), as_of).await;
            let found = found.map(|found| found.as_input).unwrap_or_default();
            assert_eq!(found, expected, "{count} recorded, as of {as_of:?}");
        }
    }
    let answered = chain(&[opening[0], "the answer that everybody gets"]);
    let before = deepest(&*store, owner, answered.clone(), Micros::MAX)
        .await
        .expect("it is known");
    // One that was under way ends.
    let ended = turn(
        "many-4",
        after_turns(4),
        &opening,
        Some("the answer that everybody gets"),
    );
    let ended = record_one(&*store, owner, &ended).await.number;
    let after = deepest(&*store, owner, answered, Micros::MAX)
        .await
        .expect("it is known");
    assert!(!before.as_output.contains(&ended), "it had no answer");
    let mut expected = before.as_output;
    expected.push(ended);
    expected.sort_by_key(|number| std::cmp::Reverse(made.iter().find(|(_, made)| made == number).map(|(at, _)| *at)));
    assert_eq!(after.as_output, expected);
}
