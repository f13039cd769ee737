//! What recording costs on SQLite: turns per second, and how that changes as the store grows.
//! `cargo bench -p ropewalk-store --bench store -- --turns 1000000` fills a store of a million.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may fail"
)]

mod measure;

use std::sync::Arc;
use std::time::Duration;

use measure::{BATCH, growth, side_by_side};
use ropewalk_store::sqlite::{Options, Sqlite};

/// At once.
const RECORDERS: usize = 4;

fn main() {
    let turns = measure::argument("--turns", 100_000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("SQLite, synchronous=FULL, batches of {BATCH} turns of two texts of 900 bytes");
    with_store(Duration::ZERO, |large| {
        with_store(Duration::ZERO, |small| {
            runtime.block_on(growth(&*small, &*large, turns));
            turns / 10
        });
        turns
    });
    for milliseconds in [0, 5] {
        with_store(Duration::from_millis(milliseconds), |store| {
            let found = runtime.block_on(side_by_side(&store, &["bench"; RECORDERS], turns / 2));
            println!(
                "{RECORDERS} recorders side by side, fsync slower by {milliseconds} ms: {:.0}/s (goal 8000), \
                 {:.0} µs of CPU a turn",
                found.turns_per_second, found.cpu_us_per_turn
            );
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
