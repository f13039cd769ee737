//! Hashes and keys of recorded exchanges, made again by a newer program.

use std::sync::Arc;

use ropewalk_store::facts::{ExchangeNumber, HashKind, Key, KeyKind, Projected};
use ropewalk_store::store::{Asked, Depth, Questions, Severity};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, after_turns, fresh_owner, record, record_one, row_of, turn};

/// As an older program would have recorded it: other hashes, none of the newer keys.
fn old(case: &Case) -> Case {
    let mut old = case.clone();
    for (_, hash) in &mut old.new.hashes {
        hash.iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
    old.new.keys = vec![
        key(KeyKind::Opening, 1),
        key(KeyKind::Anchor, 2),
        key(KeyKind::Session, 3),
    ];
    old.new.projections_version = 0;
    old
}

fn key(kind: KeyKind, byte: u8) -> Key {
    Key { kind, hash: [byte; 32] }
}

fn projected(exchange: ExchangeNumber, case: &Case) -> Projected {
    Projected {
        exchange,
        response_sha256: case.new.response.as_ref().map(|body| body.sha256),
        hashes: case.new.hashes.clone(),
        keys: case.new.keys.clone(),
        version: 7,
    }
}

async fn found(store: &impl Store, owner: OwnerId, key: Key, as_of: Micros) -> Vec<ExchangeNumber> {
    let questions = Questions {
        keys: vec![Asked::of(key)],
        limit: 10,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, as_of)
        .await
        .expect("a look-up is answered");
    answers.exchanges.concat()
}

/// Everything that an exchange is to be found by.
fn all_keys(case: &Case) -> Vec<Key> {
    let by_hash = case.new.hashes.iter().map(|(_, hash)| Key::of_hash(hash));
    case.new.keys.iter().copied().chain(by_hash).collect()
}

async fn assert_projected(store: &impl Store, owner: OwnerId, number: ExchangeNumber, case: &Case) {
    let row = row_of(store, owner, number).await;
    let (mut keys, mut hashes) = (row.keys.clone(), row.hashes.clone());
    let (mut new_keys, mut new_hashes) = (case.new.keys.clone(), case.new.hashes.clone());
    keys.sort_unstable();
    new_keys.sort_unstable();
    hashes.sort_unstable();
    new_hashes.sort_unstable();
    assert_eq!((keys, hashes), (new_keys, new_hashes));
    for key in all_keys(case) {
        assert!(found(store, owner, key, Micros::MAX).await.contains(&number), "{key:?}");
    }
}

pub async fn hashes_and_keys_made_again_replace_the_old_ones<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let mut case = turn("one", after_turns(0), &["hello"], Some("hi"));
    case.new.keys = vec![
        key(KeyKind::Opening, 11),
        key(KeyKind::SpawnName, 12),
        key(KeyKind::Session, 13),
    ];
    let number = record_one(&*store, owner, &old(&case)).await.number;
    let before = row_of(&*store, owner, number).await;
    assert_eq!(before.projections_version, 0);
    let written = store.project(owner, vec![projected(number, &case)]).await;
    assert_eq!(written.expect("hashes are written"), 1);
    assert_projected(&*store, owner, number, &case).await;
    for gone in all_keys(&old(&case)) {
        assert_eq!(found(&*store, owner, gone, Micros::MAX).await, [], "{gone:?}");
    }
    // Nothing else is another, and what is of the answer is found from its end on.
    let mut row = row_of(&*store, owner, number).await;
    assert_eq!(row.projections_version, 7);
    (row.hashes, row.keys) = (before.hashes.clone(), before.keys.clone());
    row.projections_version = 0;
    assert_eq!(row, before);
    let just_before = Micros(before.ended_at.expect("it ended").0 - 1);
    assert_eq!(
        found(&*store, owner, key(KeyKind::SpawnName, 12), just_before).await,
        []
    );
    assert_eq!(
        found(&*store, owner, key(KeyKind::Opening, 11), just_before).await,
        [number]
    );
    // Once more gives the same.
    let again = store.project(owner, vec![projected(number, &case)]).await;
    assert_eq!(again.expect("hashes are written"), 1);
    assert_projected(&*store, owner, number, &case).await;
    let findings = store.check(owner, Depth::Data).await.expect("a store can be checked");
    assert!(
        findings.iter().all(|finding| finding.severity == Severity::Note),
        "{findings:?}"
    );
}

pub async fn a_message_that_follows_another_keeps_its_own_hashes<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let cases = [
        turn("one", after_turns(0), &["hello"], Some("hi")),
        turn("two", after_turns(1), &["hello", "hi", "and now"], Some("bye")),
    ];
    let parent = |case: &Case| {
        let mut hashes = case.new.hashes.iter();
        hashes.find(|(kind, _)| *kind == HashKind::ParentMessage).cloned()
    };
    assert!(parent(&cases[1]).is_some());
    let recorded = record(&*store, owner, &cases.clone().map(|case| old(&case))).await;
    // The newer one first, and what is between the two is a store that can be read.
    for index in [1, 0] {
        let batch = vec![projected(recorded[index].number, &cases[index])];
        store.project(owner, batch).await.expect("hashes are written");
        assert_projected(&*store, owner, recorded[index].number, &cases[index]).await;
    }
    assert_projected(&*store, owner, recorded[1].number, &cases[1]).await;
}

pub async fn only_what_was_looked_at_is_given_other_hashes<S: Store + 'static>(store: Arc<S>) {
    let (mine, theirs) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let case = turn("one", after_turns(0), &["hello"], Some("hi"));
    let begun = case.begun();
    let my_number = record_one(&*store, mine, &begun).await.number;
    let their_number = record_one(&*store, theirs, &old(&case)).await.number;
    let made_of_the_beginning = projected(my_number, &begun);
    record_one(&*store, mine, &case).await;
    let rows = [
        row_of(&*store, mine, my_number).await,
        row_of(&*store, theirs, their_number).await,
    ];
    // It ended meanwhile; or there is no such exchange of this owner.
    let nobody = Projected {
        exchange: ExchangeNumber(my_number.0 + 1_000_000),
        ..made_of_the_beginning.clone()
    };
    let written = store.project(mine, vec![made_of_the_beginning, nobody]).await;
    assert_eq!(written.expect("nothing fits"), 0);
    let after = [
        row_of(&*store, mine, my_number).await,
        row_of(&*store, theirs, their_number).await,
    ];
    assert_eq!(after, rows);
}
