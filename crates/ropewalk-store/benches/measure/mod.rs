//! What is measured of a store, whichever it is: turns per second, and how cost changes as the store grows.

mod cpu;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_store::facts::{Micros, NewExchange, OwnerId};
use ropewalk_store::store::{Questions, Store};
use ropewalk_testkit::turns::Turns;

pub(crate) const BATCH: usize = 64;

/// Batches, single turns and look-ups that a median is taken of.
const SAMPLES: usize = 200;

/// The goal: cost at the end, to that at a tenth of the size.
const GROWTH_MAX: f64 = 1.3;

/// `--NAME NUMBER` of the command line.
pub(crate) fn argument(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == name);
    at.map_or(default, |at| arguments[at + 1].parse().unwrap())
}

/// Costs at one size of the store, in microseconds (p50, but for the CPU time, which is the mean).
struct Costs {
    batched_turn: f64,
    batched_turn_cpu: f64,
    single_turn: f64,
    look_up: f64,
}

/// Fills a store and says what a turn and a look-up cost at every tenth of the way.
pub(crate) async fn growth(store: &impl Store, turns: u64) {
    let owner = store.owner("bench").await.unwrap();
    let mut source = Turns::new(1, 200, 20);
    let mut at_tenths = Vec::new();
    let mut done = 0;
    for tenth in 1..=10 {
        let mut times = Vec::new();
        let cpu_before = cpu::time();
        while done < turns * tenth / 10 {
            let batch = source.batch(BATCH);
            times.push(record(store, owner, batch).await);
            done += BATCH as u64;
        }
        let cpu = (cpu::time() - cpu_before).as_secs_f64() * 1e6;
        let total: Duration = times.iter().sum();
        let rate = times.len() as f64 * BATCH as f64 / total.as_secs_f64();
        let latest = times.len().saturating_sub(SAMPLES);
        let costs = Costs {
            batched_turn_cpu: cpu / (times.len() * BATCH) as f64,
            batched_turn: median_us(&mut times[latest..]) / BATCH as f64,
            single_turn: single_turns(store, owner, &mut source).await,
            look_up: look_ups(store, owner, &mut source).await,
        };
        println!(
            "{done:>9} turns: {rate:>7.0}/s; p50: {:>6.1} µs a turn, {:>7.1} µs one alone, {:>6.1} µs a look-up; \
             {:>5.1} µs of CPU a turn",
            costs.batched_turn, costs.single_turn, costs.look_up, costs.batched_turn_cpu
        );
        at_tenths.push(costs);
    }
    let ratio = |cost: fn(&Costs) -> f64| cost(&at_tenths[9]) / cost(&at_tenths[0]);
    println!(
        "at {turns} to at {}: a turn {:.2}, one alone {:.2}, a look-up {:.2}, CPU {:.2} (goal {GROWTH_MAX})",
        turns / 10,
        ratio(|costs| costs.batched_turn),
        ratio(|costs| costs.single_turn),
        ratio(|costs| costs.look_up),
        ratio(|costs| costs.batched_turn_cpu)
    );
}

async fn record(store: &impl Store, owner: OwnerId, batch: Vec<NewExchange>) -> Duration {
    let start = Instant::now();
    store.record(owner, batch).await.unwrap();
    start.elapsed()
}

async fn single_turns(store: &impl Store, owner: OwnerId, source: &mut Turns) -> f64 {
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        times.push(record(store, owner, source.batch(1)).await);
    }
    median_us(&mut times)
}

async fn look_ups(store: &impl Store, owner: OwnerId, source: &mut Turns) -> f64 {
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let questions = Questions {
            chains: vec![source.chain_to_look_up()],
            limit: 4,
            ..Questions::default()
        };
        let start = Instant::now();
        let answers = store.look_up(owner, questions, Micros::MAX).await.unwrap();
        times.push(start.elapsed());
        assert!(answers.deepest.len() == 1);
    }
    median_us(&mut times)
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
