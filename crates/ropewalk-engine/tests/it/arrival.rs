//! The result depends on the set of facts: any order of arrival, in pieces or at once, on either engine, by one recorder or by two
//! that race, live or rebuilt, gives the same conversations. Recording again changes nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::postgres::{self, Postgres};
use ropewalk_store::sqlite::{self, Sqlite};
use ropewalk_store::{Micros, Store};
use ropewalk_testkit::postgres::PrivatePostgres;
use ropewalk_testkit::traffic::{Mode, Settings, Traffic};

use crate::linking::{Placed, assert_same, placed};

fn traffic(seed: u64, conversations: u64, mode: Mode) -> Vec<RawExchange> {
    let mut settings = Settings::new(seed, conversations, mode);
    // Close together, so that there is something to confuse.
    settings.spacing_ms = 300;
    let traffic = Traffic::new(settings);
    traffic
        .map(|recorded| RawExchange::try_from(recorded.line).unwrap())
        .collect()
}

/// A request as it is before its answer has ended.
fn begun(raw: &RawExchange) -> RawExchange {
    RawExchange {
        ended_at: None,
        status: None,
        response_headers: Vec::new(),
        response_body: None,
        cut_off: false,
        spawned_at: Vec::new(),
        ..raw.clone()
    }
}

async fn record<S: Store>(store: &S, exchanges: &[RawExchange], at_once: usize) {
    let mut recorder = Recorder::new(store, "me", &BundledPrices).await.unwrap();
    for batch in exchanges.chunks(at_once.max(1)) {
        recorder.record(batch).await.unwrap();
        recorder.link().await.unwrap();
    }
}

async fn in_memory(exchanges: &[RawExchange], at_once: usize) -> BTreeMap<String, Placed> {
    let store = Sqlite::in_memory(&sqlite::Options::default()).unwrap();
    record(&store, exchanges, at_once).await;
    placed(&store, "me").await
}

fn mode(is_hinted: bool) -> Mode {
    if is_hinted { Mode::Hinted } else { Mode::ContentOnly }
}

/// Runs a test for some cases; `ROPEWALK_CASES` times as many where it is set.
pub(crate) fn run<C: std::fmt::Debug>(cases: u32, strategy: impl Strategy<Value = C>, test: impl Fn(C)) {
    let times = std::env::var("ROPEWALK_CASES")
        .ok()
        .and_then(|times| times.parse().ok())
        .unwrap_or(1);
    let config = Config {
        cases: cases * times,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&strategy, |case| {
            test(case);
            Ok(())
        })
        .unwrap();
}

fn cases() -> impl Strategy<Value = (u64, bool, u64, usize)> {
    (any::<u64>(), any::<bool>(), any::<u64>(), 1_usize..40)
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// In an order that a number decides.
pub(crate) fn shuffled<T: Clone>(items: &[T], order: u64) -> Vec<T> {
    let mut state = order | 1;
    let mut keyed: Vec<(u64, &T)> = items
        .iter()
        .map(|item| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 20, item)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, item)| item.clone()).collect()
}

#[test]
fn any_order_of_arrival_gives_the_same() {
    run(40, cases(), |(seed, is_hinted, order, at_once)| {
        let exchanges = traffic(seed, 6, mode(is_hinted));
        block_on(async {
            let expected = in_memory(&exchanges, exchanges.len()).await;
            let found = in_memory(&shuffled(&exchanges, order), at_once).await;
            assert_same(
                &found,
                &expected,
                &format!("seed {seed}, hints {is_hinted}, order {order}, {at_once} at once"),
            );
        });
    });
}

#[test]
fn beginnings_and_ends_may_come_apart() {
    run(30, cases(), |(seed, is_hinted, order, at_once)| {
        halves_give_the_same(seed, is_hinted, order, at_once);
    });
}

#[test]
fn beginnings_and_ends_came_apart_otherwise_once() {
    halves_give_the_same(11_514_730_155_964_058_452, true, 10_335_538_510_112_975_462, 11);
}

fn halves_give_the_same(seed: u64, is_hinted: bool, order: u64, at_once: usize) {
    let exchanges = traffic(seed, 5, mode(is_hinted));
    block_on(async {
        let expected = in_memory(&exchanges, exchanges.len()).await;
        let mut halves: Vec<RawExchange> = exchanges.iter().map(begun).collect();
        halves.extend(shuffled(&exchanges, order));
        let found = in_memory(&halves, at_once).await;
        assert_same(
            &found,
            &expected,
            &format!("seed {seed}, hints {is_hinted}, order {order}, {at_once} at once"),
        );
    });
}

#[test]
fn recording_again_and_rebuilding_change_nothing() {
    run(15, cases(), |(seed, is_hinted, order, at_once)| {
        let exchanges = traffic(seed, 6, mode(is_hinted));
        block_on(async {
            let store = Sqlite::in_memory(&sqlite::Options::default()).unwrap();
            record(&store, &exchanges, at_once).await;
            let expected = placed(&store, "me").await;
            record(&store, &shuffled(&exchanges, order), at_once).await;
            assert_same(&placed(&store, "me").await, &expected, "again");
            let mut recorder = Recorder::new(&store, "me", &BundledPrices).await.unwrap();
            let rebuilt = recorder.rebuild().await.unwrap();
            assert_eq!(rebuilt.moved, [], "seed {seed}");
            assert_same(&placed(&store, "me").await, &expected, "rebuilt");
        });
    });
}

#[test]
fn a_time_in_the_past_shows_what_was_known_then() {
    run(15, cases(), |(seed, is_hinted, at, _)| {
        let exchanges = traffic(seed, 5, mode(is_hinted));
        let chosen = exchanges[(at % exchanges.len() as u64) as usize].at;
        let then = exchanges.iter().filter(|raw| raw.at <= chosen).map(|raw| {
            let had_ended = raw.ended_at.unwrap_or(raw.at) <= chosen;
            if had_ended { raw.clone() } else { begun(raw) }
        });
        let then: Vec<_> = then.collect();
        block_on(async {
            let expected = in_memory(&then, then.len()).await;
            let store = Sqlite::in_memory(&sqlite::Options::default()).unwrap();
            record(&store, &exchanges, 64).await;
            let found = as_of(&store, chosen).await;
            assert_same(
                &found,
                &expected,
                &format!("seed {seed}, hints {is_hinted}, at {chosen:?}"),
            );
        });
    });
}

async fn as_of(store: &Sqlite, at: Micros) -> BTreeMap<String, Placed> {
    let recorder = Recorder::new(store, "me", &BundledPrices).await.unwrap();
    let view = recorder.as_of(at).await.unwrap();
    placed(&view, "me").await
}

#[test]
fn both_engines_agree_and_so_do_two_recorders_that_race() {
    let server = PrivatePostgres::shared().unwrap();
    run(3, cases(), |(seed, is_hinted, order, _)| {
        let exchanges = traffic(seed, 5, mode(is_hinted));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let expected = in_memory(&exchanges, exchanges.len()).await;
            let url = server.fresh_database().unwrap();
            let store = Postgres::connect(&url, postgres::Options::default()).await.unwrap();
            record(&store, &shuffled(&exchanges, order), 16).await;
            assert_same(&placed(&store, "me").await, &expected, "PostgreSQL");
            let url = server.fresh_database().unwrap();
            let left = Postgres::connect(&url, postgres::Options::default()).await.unwrap();
            let right = Postgres::connect(&url, postgres::Options::default()).await.unwrap();
            let halves = exchanges.split_at(exchanges.len() / 2);
            let (one, other) = (shuffled(halves.0, order), shuffled(halves.1, order));
            tokio::join!(record(&left, &one, 3), record(&right, &other, 5));
            // Whoever was last may have left something of the other's.
            record(&left, &[], 1).await;
            let mut recorder = Recorder::new(&left, "me", &BundledPrices).await.unwrap();
            recorder.link().await.unwrap();
            assert_same(&placed(&left, "me").await, &expected, "two recorders");
        });
    });
}
