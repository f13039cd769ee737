//! The order and the way in which exchanges arrive leave no trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use ropewalk_core::hash::NodeHash;
use ropewalk_store::facts::{ExchangeNumber, Position};
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_store::{Micros, OwnerId, Store};

use super::as_of::{forest, shuffle};
use super::cases::{Case, all_rows, conversation, deepest, fresh_owner, record};
use crate::conversation::Random;

/// Sets of exchanges, and orders that each is recorded in.
const SETS: u64 = 4;
const ORDERS: u64 = 4;

/// Everything that can be asked, without the numbers that a store gives.
#[derive(Debug, PartialEq)]
struct Contents {
    rows: BTreeMap<String, ExchangeRow>,
    bodies: BTreeMap<String, [Option<Vec<u8>>; 2]>,
    /// For each chain the index of its deepest node and the ids at it.
    known: Vec<Option<Known>>,
    counted: (u64, u64, u64, u64),
}

/// The index, the ids of requests and the ids of answers that end there.
type Known = (usize, Vec<String>, Vec<String>);

async fn contents(store: &impl Store, owner: OwnerId, cases: &[Case]) -> Contents {
    let listed = all_rows(store, owner, Micros::MAX).await;
    let ids: BTreeMap<ExchangeNumber, String> = listed.iter().map(|row| (row.number, row.id.clone())).collect();
    let (mut rows, mut bodies) = (BTreeMap::new(), BTreeMap::new());
    for mut row in listed {
        let request = store
            .body(owner, row.number, Half::Request)
            .await
            .expect("a body can be read");
        let response = store
            .body(owner, row.number, Half::Response)
            .await
            .expect("a body can be read");
        bodies.insert(row.id.clone(), [request, response]);
        (row.number, row.position) = (ExchangeNumber(0), Position(0));
        row.keys.sort_unstable();
        row.hashes.sort_unstable();
        rows.insert(row.id.clone(), row);
    }
    let named = |numbers: Vec<ExchangeNumber>| {
        let mut named: Vec<String> = numbers.iter().map(|number| ids[number].clone()).collect();
        named.sort_unstable();
        named
    };
    let mut known = Vec::new();
    for case in cases {
        let chain: Vec<NodeHash> = [case.request_nodes(), case.answer_nodes()].concat();
        let found = deepest(store, owner, chain, Micros::MAX).await;
        known.push(found.map(|found| (found.index, named(found.as_input), named(found.as_output))));
    }
    let stats = store.stats(owner).await.expect("figures");
    Contents {
        rows,
        bodies,
        known,
        counted: (stats.exchanges, stats.parts, stats.nodes, stats.bytes_in),
    }
}

fn set(seed: u64) -> Vec<Case> {
    let mut cases = forest(500 + seed);
    cases.extend(conversation(500 + seed, 4));
    cases
}

pub async fn any_order_of_arrival_gives_the_same<S: Store + 'static>(store: Arc<S>) {
    for seed in 0..SETS {
        let cases = set(seed);
        let owner = fresh_owner(&*store).await;
        record(&*store, owner, &cases).await;
        let expected = contents(&*store, owner, &cases).await;
        for order in 0..ORDERS {
            let mut random = Random(seed * 100 + order);
            // Halves and repetitions too: begun before, after and without their ends.
            let mut arriving = cases.clone();
            arriving.extend(cases.iter().filter(|_| random.below(3) == 0).map(Case::begun));
            arriving.extend(cases.iter().take(5).cloned());
            shuffle(&mut arriving, &mut random);
            let owner = fresh_owner(&*store).await;
            let mut rest = &arriving[..];
            while !rest.is_empty() {
                let (group, behind) = rest.split_at((1 + random.below(9)).min(rest.len()));
                record(&*store, owner, group).await;
                rest = behind;
            }
            let found = contents(&*store, owner, &cases).await;
            assert!(
                found == expected,
                "set {seed}, order {order}: {}",
                difference(&found, &expected)
            );
        }
    }
}

/// Bodies are long; their ids are enough.
fn difference(found: &Contents, expected: &Contents) -> String {
    let other = |id: &&String| {
        found.rows.get(*id) != expected.rows.get(*id) || found.bodies.get(*id) != expected.bodies.get(*id)
    };
    let rows: Vec<_> = expected.rows.keys().filter(other).collect();
    let known = found
        .known
        .iter()
        .zip(&expected.known)
        .filter(|(found, expected)| found != expected);
    format!(
        "rows {rows:?}, nodes {:?}, figures {:?} and {:?}",
        known.collect::<Vec<_>>(),
        found.counted,
        expected.counted
    )
}

pub async fn racing_recorders_of_the_same_exchanges_agree<S: Store + 'static>(store: Arc<S>) {
    let cases = Arc::new(set(50));
    let alone = fresh_owner(&*store).await;
    record(&*store, alone, &cases).await;
    let expected = contents(&*store, alone, &cases).await;
    let owner = fresh_owner(&*store).await;
    let recorders: Vec<_> = (0..3_u64)
        .map(|recorder| {
            let (store, cases) = (Arc::clone(&store), Arc::clone(&cases));
            tokio::spawn(async move {
                let mut own = cases.to_vec();
                shuffle(&mut own, &mut Random(recorder));
                for group in own.chunks(3) {
                    record(&*store, owner, group).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for recorder in recorders {
        recorder.await.expect("a recorder failed");
    }
    let found = contents(&*store, owner, &cases).await;
    assert!(found == expected, "{}", difference(&found, &expected));
    let stats = store.stats(owner).await.expect("figures");
    assert_eq!(stats.conflicts, 0);
}
