//! What recording costs on PostgreSQL, on a private server with synchronous commits.
//!
//! `cargo bench -p ropewalk-store --bench postgres -- --turns 1000000` fills a store of a million: about five minutes and
//! six gigabytes. `--only growth` or `--only throughput` runs one half.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may fail"
)]

mod measure;

use std::sync::Arc;
use std::time::Duration;

use measure::{BATCH, growth, side_by_side};
use ropewalk_store::postgres::{Options, Postgres};
use ropewalk_testkit::postgres::{PrivatePostgres, Setup, database_of, has_compiler};

/// What docs/storage.md recommends to a server that records much; everything else as PostgreSQL comes.
const RECOMMENDED: [&str; 4] = [
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=15min",
    "wal_compression=lz4",
];

/// At once: as many as a store has connections.
const RECORDERS: usize = 8;

fn main() {
    let turns = measure::argument("--turns", 100_000);
    let only = std::env::args().skip_while(|argument| argument != "--only").nth(1);
    let is_wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    if let Err(why) = Setup::default().start() {
        println!("PostgreSQL: not measured: {why}");
        return;
    }
    println!("PostgreSQL, synchronous commit, batches of {BATCH} turns of two texts of 900 bytes");
    println!("settings: {}", RECOMMENDED.join(", "));
    if is_wanted("growth") {
        runtime.block_on(on_fresh_server(Duration::ZERO, async |server, large| {
            let small = connect(&server.fresh_database().unwrap()).await;
            growth(&small, &*large, turns).await;
            turns
        }));
    }
    if is_wanted("throughput") {
        throughput(&runtime, turns / 2);
    }
}

/// Several recorders at once, of one owner and of one owner each, also with every fsync of the server slower.
fn throughput(runtime: &tokio::runtime::Runtime, turns: u64) {
    let one_owner = ["bench"; RECORDERS];
    let owners: Vec<String> = (0..RECORDERS).map(|recorder| format!("owner {recorder}")).collect();
    let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
    for milliseconds in [0, 5] {
        if milliseconds > 0 && !has_compiler() {
            println!("slower fsync: not measured: it needs a C compiler (`cc`)");
            return;
        }
        for (owners, whose) in [(&one_owner[..], "of one owner"), (&owners, "of an owner each")] {
            let delay = Duration::from_millis(milliseconds);
            runtime.block_on(on_fresh_server(delay, async |_, store| {
                let found = side_by_side(&store, owners, turns).await;
                println!(
                    "{RECORDERS} recorders {whose}, every fsync slower by {milliseconds} ms: {:.0}/s (goal 6000), \
                     {:.0} µs of CPU a turn, client and server",
                    found.turns_per_second, found.cpu_us_per_turn
                );
                turns
            }));
        }
    }
}

/// Runs on an empty store and says how large it became.
async fn on_fresh_server(fsync_delay: Duration, run: impl AsyncFnOnce(&PrivatePostgres, Arc<Postgres>) -> u64) {
    let setup = RECOMMENDED
        .iter()
        .fold(Setup::default(), |setup, line| setup.setting(line));
    let server = setup.fsync_delay(fsync_delay).start().unwrap();
    let url = server.fresh_database().unwrap();
    let turns = run(&server, Arc::new(connect(&url).await)).await;
    let size = server.run_sql(database_of(&url), "SELECT pg_database_size(current_database())");
    let size: u64 = size.unwrap().parse().unwrap();
    println!("{} bytes a turn on disk\n", size / turns);
}

async fn connect(url: &str) -> Postgres {
    Postgres::connect(url, Options::default()).await.unwrap()
}
