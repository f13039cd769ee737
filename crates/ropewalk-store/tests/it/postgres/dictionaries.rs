//! Dictionaries: trained when there is enough to learn from, by whoever gets there first, for one owner alone.

use std::sync::Arc;

use ropewalk_store::postgres::Options;
use ropewalk_store::store::{Depth, Half};
use ropewalk_store::{NewExchange, Postgres, Store};
use tokio::task::JoinSet;

use super::{Fresh, fresh};
use crate::turn::{body, turn};

/// Exchanges of one new text each, alike as texts of one owner are.
fn exchanges(name: &str, count: usize) -> Vec<NewExchange> {
    let exchange = |number: usize| turn(&format!("{name}-{number}"), 1, &[&text(name, number)], None);
    (0..count).map(exchange).collect()
}

fn text(name: &str, number: usize) -> String {
    format!(
        "{name} {number}: the following files were changed by the last command, in alphabetical order: \
         src/store/{number}.rs, src/engine/{}.rs; no tests failed, {} were ignored",
        number * 7 % 1_000,
        number * 31 % 100
    )
}

impl Fresh {
    /// Codecs of stored texts with how many have each: 1 is zstd alone, 2 and up the dictionaries from the first on.
    fn codecs(&self) -> String {
        self.sql(
            "SELECT string_agg(owner_id || ':' || codec, ' ' ORDER BY owner_id, codec) \
             FROM (SELECT DISTINCT owner_id, codec FROM part WHERE length > 100) AS known",
        )
    }

    fn dictionaries(&self) -> String {
        self.sql("SELECT string_agg(owner_id || ':' || number, ' ' ORDER BY owner_id, number) FROM dictionary")
    }
}

#[tokio::test]
async fn a_dictionary_is_trained_at_its_marks_and_makes_parts_smaller() {
    let fresh = fresh().await;
    let stored_by = async |name, count| {
        let before = fresh.store.stats(fresh.owner).await.unwrap().stored_bytes;
        for batch in exchanges(name, count).chunks(100) {
            fresh.record(batch).await;
        }
        fresh.store.stats(fresh.owner).await.unwrap().stored_bytes - before
    };
    let alone = stored_by("alone", 100).await;
    assert_eq!(
        (fresh.dictionaries(), fresh.codecs()),
        (String::new(), "1:1".to_owned())
    );
    stored_by("more", 100).await;
    assert_eq!(fresh.dictionaries(), "1:1");
    let with_dictionary = stored_by("with", 100).await;
    assert!(with_dictionary * 2 < alone, "{with_dictionary} to {alone}");
    stored_by("many", 1_800).await;
    assert_eq!(fresh.dictionaries(), "1:1 1:2");
    stored_by("last", 10).await;
    assert_eq!(fresh.codecs(), "1:1 1:2 1:3");
    // Those who read now, whatever it was packed with, get every byte.
    let reader = Postgres::connect(&fresh.url, Options::default()).await.unwrap();
    for id in ["alone-3", "with-3", "last-3"] {
        let number = fresh.row(id, ropewalk_store::Micros::MAX).await.number;
        let read = reader.body(fresh.owner, number, Half::Request).await.unwrap();
        let (name, _) = id.split_once('-').unwrap();
        assert_eq!(read, Some(body(b"{\"messages\":", &[text(name, 3).into()]).1));
    }
    assert_eq!(fresh.store.check(fresh.owner, Depth::Data).await.unwrap(), []);
}

#[tokio::test]
async fn an_owner_never_gets_anothers_dictionary() {
    let fresh = fresh().await;
    fresh.record(&exchanges("ann", 250)).await;
    let bob = fresh.store.owner("bob").await.unwrap();
    fresh.store.record(bob, exchanges("bob", 5)).await.unwrap();
    assert_eq!(fresh.dictionaries(), "1:1");
    assert_eq!(fresh.codecs(), "1:1 2:1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn recorders_that_train_at_once_agree() {
    const RECORDERS: usize = 4;
    let fresh = Arc::new(fresh().await);
    let mut recorders = JoinSet::new();
    for recorder in 0..RECORDERS {
        let fresh = Arc::clone(&fresh);
        // A process of its own, as far as the database can tell.
        let store = Postgres::connect(&fresh.url, Options::default()).await.unwrap();
        recorders.spawn(async move {
            for batch in exchanges(&format!("by {recorder}"), 300).chunks(10) {
                store.record(fresh.owner, batch.to_vec()).await.unwrap();
            }
            store
        });
    }
    let stores = recorders.join_all().await;
    assert_eq!(fresh.dictionaries(), "1:1", "one, whoever trained it");
    let packed_with_it = || {
        fresh
            .sql("SELECT count(*) FROM part WHERE codec = 2")
            .parse::<usize>()
            .unwrap()
    };
    let before = packed_with_it();
    for (recorder, store) in stores.iter().enumerate() {
        let late = exchanges(&format!("late {recorder}"), 1);
        store.record(fresh.owner, late).await.unwrap();
    }
    assert_eq!(packed_with_it() - before, RECORDERS, "all of them use it");
    assert_eq!(fresh.store.check(fresh.owner, Depth::Data).await.unwrap(), []);
}

#[tokio::test]
async fn a_lost_dictionary_is_damage_and_no_crash() {
    let fresh = fresh().await;
    fresh.record(&exchanges("a", 250)).await;
    fresh.record(&exchanges("b", 5)).await;
    fresh.sql("DELETE FROM dictionary");
    let findings = fresh.store.check(fresh.owner, Depth::Data).await.unwrap();
    assert!(
        findings.iter().any(|finding| finding.rule == "part-hash"),
        "{findings:?}"
    );
}
