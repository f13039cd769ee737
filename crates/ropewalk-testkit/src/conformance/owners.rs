//! Nothing crosses owners: no row, no part, no look-up, no word.

use std::sync::Arc;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::prepare;
use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::store::{Asked, Half, Outcome, Questions, Selection, Stats, StoreError};
use ropewalk_store::{Micros, OwnerId, Store};

use super::cases::{Case, all_rows, assert_bytes, conversation, deepest, find, fresh_owner, index_all, query, record};

/// Numbers and positions that are guessed in another owner's data.
const GUESSES: i64 = 40;

pub async fn an_owner_is_made_once<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let other = fresh_owner(&*store).await;
    assert_ne!(owner, other);
    let name = format!("twice-{}", owner.0);
    let first = store.owner(&name).await.expect("an owner can be made");
    assert_eq!(store.owner(&name).await.expect("an owner is found"), first);
    let odd = store
        .owner(&format!("é\"' {}", owner.0))
        .await
        .expect("any text is a name");
    assert_ne!(odd, first);
}

pub async fn an_owner_is_found_by_name_without_being_made<S: Store + 'static>(store: Arc<S>) {
    let owner = fresh_owner(&*store).await;
    let name = format!("z é\"' {}", owner.0);
    assert_eq!(store.find_owner(&name).await.expect("a name can be looked up"), None);
    let made = store.owner(&name).await.expect("any text is a name");
    assert_eq!(
        store.find_owner(&name).await.expect("a name can be looked up"),
        Some(made)
    );
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|(_, name): &(OwnerId, String)| name.clone());
        let page = store.owners(after).await.expect("owners can be listed");
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert!(all.contains(&(made, name)));
    assert!(all.is_sorted_by(|a, b| a.1 < b.1));
}

pub async fn owners_share_and_see_nothing<S: Store + 'static>(store: Arc<S>) {
    let (ann, bob) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let cases = conversation(31, 6);
    record(&*store, ann, &cases).await;
    index_all(&*store).await;
    assert_sees_nothing(&*store, bob, &cases).await;

    // The same data again is all new to the other owner, and costs the same.
    let recorded = record(&*store, bob, &cases).await;
    assert!(recorded.iter().all(|recorded| recorded.outcome == Outcome::New));
    let figures = async |owner| store.stats(owner).await.expect("figures");
    let (of_ann, of_bob) = (figures(ann).await, figures(bob).await);
    let counted = |stats: Stats| (stats.exchanges, stats.parts, stats.nodes, stats.bytes_in);
    assert_eq!(counted(of_ann), counted(of_bob));

    // What one records from here on, the other does not see.
    let later = conversation(32, 2);
    record(&*store, bob, &later).await;
    index_all(&*store).await;
    assert_eq!(figures(ann).await, of_ann);
    assert_eq!(all_rows(&*store, ann, Micros::MAX).await.len(), cases.len());
    assert_eq!(deepest(&*store, ann, later[1].request_nodes(), Micros::MAX).await, None);
    for (case, recorded) in cases.iter().zip(recorded) {
        assert_bytes(&*store, bob, recorded.number, &case.raw).await;
    }
}

/// Asks for another owner's data in every way there is.
async fn assert_sees_nothing(store: &impl Store, owner: OwnerId, cases: &[Case]) {
    assert_eq!(store.stats(owner).await.expect("figures"), Stats::default());
    let numbers: Vec<_> = (0..GUESSES).map(ExchangeNumber).collect();
    let selections = [
        Selection::Numbers(numbers.clone()),
        Selection::Ids(cases.iter().map(|case| case.new.id.clone()).collect()),
        Selection::Since {
            after: None,
            limit: 100,
        },
        Selection::Log {
            after: Position::default(),
            limit: 100,
        },
    ];
    for selection in selections {
        let rows = store
            .exchanges(owner, selection, Micros::MAX)
            .await
            .expect("rows can be listed");
        assert_eq!(rows, []);
    }
    for number in numbers {
        for half in [Half::Request, Half::Response] {
            assert_eq!(
                store.body(owner, number, half).await.expect("nothing is no error"),
                None
            );
        }
    }
    let questions = Questions {
        chains: cases
            .iter()
            .map(|case| [case.request_nodes(), case.answer_nodes()].concat())
            .collect(),
        keys: cases
            .iter()
            .flat_map(|case| case.new.keys.iter().copied().map(Asked::of))
            .collect(),
        limit: 10,
        ..Questions::default()
    };
    let answers = store
        .look_up(owner, questions, Micros::MAX)
        .await
        .expect("a look-up is answered");
    assert!(answers.deepest.iter().all(Option::is_none) && answers.exchanges.iter().all(Vec::is_empty));
    let texts = cases.iter().flat_map(|case| &case.new.texts);
    for word in texts
        .filter_map(|text| text.strings[0].split_whitespace().next())
        .take(10)
    {
        assert_eq!(find(store, owner, query(word)).await, [], "{word}");
    }
}

pub async fn a_part_of_another_owner_is_missing<S: Store + 'static>(store: Arc<S>) {
    let (ann, bob) = (fresh_owner(&*store).await, fresh_owner(&*store).await);
    let cases = conversation(33, 2);
    record(&*store, ann, &cases[..1]).await;
    let memo = prepare(&cases[0].raw, None, &BundledPrices).memo;
    // It leaves out what the turn before had, which the other owner never stored.
    let second = prepare(&cases[1].raw, memo.as_ref(), &BundledPrices).exchange;
    let error = store
        .record(bob, vec![second.clone()])
        .await
        .expect_err("its parts are another owner's");
    assert!(matches!(error, StoreError::MissingPart { .. }), "{error}");
    assert_eq!(store.stats(bob).await.expect("figures"), Stats::default());
    store.record(ann, vec![second]).await.expect("the parts are there");
}
