//! What is measured of a store, whichever it is: turns per second, and how cost changes as the store grows.

mod cpu;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_store::facts::{Micros, NewExchange, OwnerId};
use ropewalk_store::store::{Questions, Store};
use ropewalk_testkit::turns::Turns;

pub(crate) const BATCH: usize = 64;

/// Batches, single turns and look-ups that a median is taken of.
const SAMPLES: usize = 400;

/// Taken of one store before the other has its turn. What else the machine does hits both alike, where one measured after the
/// other would differ by the hour.
const SAMPLES_IN_A_ROW: usize = 20;

/// The goal: cost at the end, to that in a tenth of the size.
const GROWTH_MAX: f64 = 1.3;

/// `--NAME NUMBER` of the command line.
pub(crate) fn argument(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name);
    at.map_or(default, |at| arguments[at + 1].parse().unwrap())
}

/// A store that is filled, and what was measured of it.
struct Filled<'s, S> {
    store: &'s S,
    owner: OwnerId,
    source: Turns,
    batches: Vec<Duration>,
    singles: Vec<Duration>,
    look_ups: Vec<Duration>,
}

/// Fills a store and another of a tenth of its size, and says what a turn and a look-up cost in each.
pub(crate) async fn growth<S: Store>(small: &S, large: &S, turns: u64) {
    let mut stores = [
        Filled::new(small, 1, turns / 10).await,
        Filled::new(large, 2, turns).await,
    ];
    for _ in 0..SAMPLES / SAMPLES_IN_A_ROW {
        for store in &mut stores {
            store.measure(SAMPLES_IN_A_ROW).await;
        }
    }
    let [small, large] = stores.map(|mut store| store.medians());
    for (name, small, large) in [
        ("a turn", small.0 / BATCH as f64, large.0 / BATCH as f64),
        ("one alone", small.1, large.1),
        ("a look-up", small.2, large.2),
    ] {
        println!(
            "{name}: p50 {small:.1} µs at {}, {large:.1} µs at {turns}: {:.2} (goal {GROWTH_MAX})",
            turns / 10,
            large / small
        );
    }
}

impl<'s, S: Store> Filled<'s, S> {
    async fn new(store: &'s S, seed: u64, turns: u64) -> Self {
        let owner = store.owner("bench").await.unwrap();
        let mut source = Turns::new(seed, 200, 20);
        for tenth in 1..=10 {
            let (start, cpu_before) = (Instant::now(), cpu::time());
            let batches = turns / 10 / BATCH as u64;
            for _ in 0..batches {
                record(store, owner, source.batch(BATCH)).await;
            }
            let recorded = (batches * BATCH as u64) as f64;
            println!(
                "{:>9} turns: {:>7.0}/s, {:>5.1} µs of CPU a turn",
                turns * tenth / 10,
                recorded / start.elapsed().as_secs_f64(),
                (cpu::time() - cpu_before).as_secs_f64() * 1e6 / recorded
            );
        }
        let (batches, singles, look_ups) = Default::default();
        Filled {
            store,
            owner,
            source,
            batches,
            singles,
            look_ups,
        }
    }

    async fn measure(&mut self, samples: usize) {
        for _ in 0..samples {
            self.batches
                .push(record(self.store, self.owner, self.source.batch(BATCH)).await);
        }
        for _ in 0..samples {
            self.singles
                .push(record(self.store, self.owner, self.source.batch(1)).await);
        }
        for _ in 0..samples {
            let questions = Questions {
                chains: vec![self.source.chain_to_look_up()],
                limit: 4,
                ..Questions::default()
            };
            let start = Instant::now();
            let answers = self.store.look_up(self.owner, questions, Micros::MAX).await.unwrap();
            self.look_ups.push(start.elapsed());
            assert!(answers.deepest.len() == 1);
        }
    }

    /// Of a batch, of a turn alone and of a look-up, in microseconds.
    fn medians(&mut self) -> (f64, f64, f64) {
        (
            median_us(&mut self.batches),
            median_us(&mut self.singles),
            median_us(&mut self.look_ups),
        )
    }
}

async fn record(store: &impl Store, owner: OwnerId, batch: Vec<NewExchange>) -> Duration {
    let start = Instant::now();
    store.record(owner, batch).await.unwrap();
    start.elapsed()
}

fn median_us(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}

/// What several recorders at once come to.
pub(crate) struct Throughput {
    pub(crate) turns_per_second: f64,
    pub(crate) cpu_us_per_turn: f64,
}

/// Several recorders at once, what group commit is for: one for each of these owners, who may be the same.
pub(crate) async fn side_by_side<S: Store + 'static>(store: &Arc<S>, owners: &[&str], turns: u64) -> Throughput {
    let mut writers = Vec::new();
    for (writer, owner) in (0..).zip(owners) {
        let owner = store.owner(owner).await.unwrap();
        let mut source = Turns::new(writer + 10, 200, 20).named(writer);
        let batches: Vec<Vec<NewExchange>> = (0..turns / owners.len() as u64 / BATCH as u64)
            .map(|_| source.batch(BATCH))
            .collect();
        writers.push((owner, batches));
    }
    let cpu_before = cpu::time();
    let start = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for (owner, batches) in writers {
        let store = Arc::clone(store);
        running.spawn(async move {
            let mut recorded = 0;
            for batch in batches {
                recorded += store.record(owner, batch).await.unwrap().len();
            }
            recorded
        });
    }
    let recorded: usize = running.join_all().await.into_iter().sum();
    let cpu = cpu::time() - cpu_before;
    Throughput {
        turns_per_second: recorded as f64 / start.elapsed().as_secs_f64(),
        cpu_us_per_turn: cpu.as_secs_f64() * 1e6 / recorded as f64,
    }
}
