//! What recording costs: turns per second, and how that changes as the store grows.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may fail"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_store::facts::{Micros, NewExchange, OwnerId};
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::{Questions, Store};
use ropewalk_testkit::turns::Turns;

const BATCH: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments[at + 1].parse().unwrap())
    };
    let turns = number("--turns", 100_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("SQLite, synchronous=FULL, batches of {BATCH} turns of two texts of 900 bytes");
    with_store(Duration::ZERO, |store| {
        runtime.block_on(growth(&*store, turns));
        turns
    });
    for milliseconds in [0, 5] {
        with_store(Duration::from_millis(milliseconds), |store| {
            let rate = runtime.block_on(side_by_side(store, turns / 2));
            println!("{WRITERS} recorders side by side, fsync slower by {milliseconds} ms: {rate:.0}/s (goal 8000)");
            turns / 2
        });
    }
}

/// Runs on a store in a folder of its own and says how large it became.
fn with_store(commit_delay: Duration, run: impl FnOnce(Arc<Sqlite>) -> u64) {
    let folder = tempfile::tempdir_in(".").unwrap();
    let options = Options {
        commit_delay,
        ..Options::default()
    };
    let turns = run(Arc::new(Sqlite::open(folder.path(), &options).unwrap()));
    let size: u64 = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    println!("{} bytes a turn on disk\n", size / turns);
}

/// Recorders at once: what group commit is for.
const WRITERS: u64 = 4;

async fn side_by_side(store: Arc<Sqlite>, turns: u64) -> f64 {
    let owner = store.owner("bench").await.unwrap();
    let batches: Vec<Vec<Vec<NewExchange>>> = (0..WRITERS)
        .map(|writer| {
            let mut source = Turns::new(writer + 10, 200, 20).named(writer);
            (0..turns / WRITERS / BATCH as u64)
                .map(|_| source.batch(BATCH))
                .collect()
        })
        .collect();
    let start = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for batches in batches {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut recorded = 0;
            for batch in batches {
                recorded += store.record(owner, batch).await.unwrap().len();
            }
            recorded
        });
    }
    let recorded: usize = writers.join_all().await.into_iter().sum();
    recorded as f64 / start.elapsed().as_secs_f64()
}

async fn growth(store: &impl Store, turns: u64) {
    let owner = store.owner("bench").await.unwrap();
    let mut source = Turns::new(1, 200, 20);
    let mut done = 0;
    while done < turns {
        let mark = (turns / 10).max(1);
        let upto = (done + mark).min(turns);
        let mut times = Vec::new();
        while done < upto {
            let batch = source.batch(BATCH);
            let start = Instant::now();
            store.record(owner, batch).await.unwrap();
            times.push(start.elapsed());
            done += BATCH as u64;
        }
        let total: Duration = times.iter().sum();
        let rate = times.len() as f64 * BATCH as f64 / total.as_secs_f64();
        let per_turn = median(&mut times).as_secs_f64() * 1e6 / BATCH as f64;
        let look_up = look_ups(store, owner, &mut source).await;
        println!("{done:>9} turns: {rate:>7.0}/s, {per_turn:>6.1} µs a turn (p50), {look_up:>6.1} µs a look-up (p50)");
    }
}

async fn look_ups(store: &impl Store, owner: OwnerId, source: &mut Turns) -> f64 {
    let mut times = Vec::new();
    for _ in 0..200 {
        let questions = Questions {
            chains: vec![source.chain_to_look_up()],
            keys: Vec::new(),
            limit: 4,
        };
        let start = Instant::now();
        let answers = store.look_up(owner, questions, Micros::MAX).await.unwrap();
        times.push(start.elapsed());
        assert!(answers.deepest.len() == 1);
    }
    median(&mut times).as_secs_f64() * 1e6
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
