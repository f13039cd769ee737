//! What recording costs: turns per second, and how that changes as the store grows.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may fail"
)]

use std::time::{Duration, Instant};

use ropewalk_store::facts::{Micros, OwnerId};
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
    let delay = Duration::from_millis(number("--fsync-ms", 0));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir_in(".").unwrap();
    let options = Options {
        commit_delay: delay,
        ..Options::default()
    };
    let store = Sqlite::open(folder.path(), &options).unwrap();
    runtime.block_on(run(&store, turns));
    drop(store);
    let size: u64 = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    println!("{} bytes a turn on disk", size / turns);
}

async fn run(store: &impl Store, turns: u64) {
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
