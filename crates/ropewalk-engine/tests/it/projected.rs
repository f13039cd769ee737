//! Hashes and keys that an older version made are made again from the bodies, on both engines, and links follow.

use ropewalk_core::cost::BundledPrices;
use ropewalk_core::projections::PROJECTIONS_VERSION;
use ropewalk_engine::project::{Projector, Reprojected};
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_engine::{RawExchange, Recorder, prepare};
use ropewalk_store::postgres::{self, Postgres};
use ropewalk_store::sqlite::{self, Sqlite};
use ropewalk_store::store::{ExchangeRow, Selection};
use ropewalk_store::{Micros, OwnerId, Store};
use ropewalk_testkit::postgres::PrivatePostgres;
use ropewalk_testkit::traffic::{Mode, Settings, Traffic};

use crate::linking::{assert_same, placed};

fn traffic() -> Vec<RawExchange> {
    let traffic = Traffic::new(Settings::new(5, 12, Mode::Hinted));
    traffic
        .map(|recorded| RawExchange::try_from(recorded.line).unwrap())
        .collect()
}

/// Records as a version that hashed otherwise and looked up by nothing but the client's ids, whose hashes it had at full length.
async fn record_as_before(store: &impl Store, owner: OwnerId, exchanges: &[RawExchange]) {
    for raw in exchanges {
        let mut new = prepare(raw, None, &BundledPrices).exchange;
        new.hashes.iter_mut().for_each(|(_, hash)| hash.reverse());
        new.keys.retain(|key| key.kind.is_of_context());
        new.keys.iter_mut().for_each(|key| key.hash[16..].fill(7));
        new.projections_version = 0;
        store.record(owner, vec![new]).await.unwrap();
    }
}

async fn rows(store: &impl Store, owner: OwnerId) -> Vec<ExchangeRow> {
    let all = Selection::Since {
        after: None,
        limit: 1_000,
    };
    let mut rows = store.exchanges(owner, all, Micros::MAX).await.unwrap();
    for row in &mut rows {
        row.keys.sort_unstable();
        row.hashes.sort_unstable();
    }
    rows
}

async fn made_again(old: &impl Store, new: &impl Store) {
    let exchanges = traffic();
    let owner = old.owner("me").await.unwrap();
    record_as_before(old, owner, &exchanges).await;
    let mut recorder = Recorder::new(old, "me", &BundledPrices).await.unwrap();
    recorder.link().await.unwrap();

    let mut fresh = Recorder::new(new, "me", &BundledPrices).await.unwrap();
    for raw in &exchanges {
        fresh.record(std::slice::from_ref(raw)).await.unwrap();
    }
    fresh.link().await.unwrap();

    let all = exchanges.len() as u64;
    let trial = Projector {
        store: old,
        owner,
        prices: &BundledPrices,
        spawn_tools: &SpawnTools::default(),
    };
    let found = Reprojected { old: all, changed: all };
    assert_eq!(trial.run(true).await.unwrap(), found);
    assert_eq!(recorder.project().await.unwrap(), found, "a trial changes nothing");
    assert_eq!(recorder.project().await.unwrap(), Reprojected::default());
    recorder.rebuild().await.unwrap();

    let (found, expected) = (rows(old, owner).await, rows(new, fresh.owner()).await);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(
            (&found.hashes, &found.keys),
            (&expected.hashes, &expected.keys),
            "{}",
            found.id
        );
        assert_eq!(found.projections_version, PROJECTIONS_VERSION);
    }
    assert_same(&placed(old, "me").await, &placed(new, "me").await, "after a rebuild");
}

#[tokio::test]
async fn old_hashes_and_keys_are_made_again_on_sqlite() {
    let store = || Sqlite::in_memory(&sqlite::Options::default()).unwrap();
    made_again(&store(), &store()).await;
}

#[tokio::test]
async fn old_hashes_and_keys_are_made_again_on_postgres() {
    let server = PrivatePostgres::shared().unwrap();
    let url = server.fresh_database().unwrap();
    let old = Postgres::connect(&url, postgres::Options::default()).await.unwrap();
    let new = Sqlite::in_memory(&sqlite::Options::default()).unwrap();
    made_again(&old, &new).await;
}

#[tokio::test]
async fn a_run_that_was_interrupted_goes_on() {
    let store = Sqlite::in_memory(&sqlite::Options::default()).unwrap();
    let exchanges = traffic();
    let owner = store.owner("me").await.unwrap();
    let (before, now) = exchanges.split_at(exchanges.len() / 2);
    record_as_before(&store, owner, before).await;
    let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
    recorder.record(now).await.unwrap();
    let left = before.len() as u64;
    let expected = Reprojected {
        old: left,
        changed: left,
    };
    assert_eq!(recorder.project().await.unwrap(), expected, "what is new is left alone");
}
