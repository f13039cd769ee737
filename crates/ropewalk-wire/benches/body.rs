//! What reading a body costs, beside what parsing and hashing the same bytes costs in the same run.
//!
//! `make bench-core` runs this: divan's table first, then the ratios that the goals are about, measured
//! interleaved so that a noisy machine disturbs all contenders alike.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may fail"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ropewalk_core::hash::sha256;
use ropewalk_core::model::Provider;
use ropewalk_testkit::conversation::Conversation;
use ropewalk_wire::{Memo, read_request};

/// Bodies of 300 messages: what a long session sends, and what a very long one sends.
const SIZES: [(&str, usize); 2] = [("200 KB", 200_000), ("2 MB", 2_000_000)];
const MESSAGES: usize = 300;

struct Case {
    body: Bytes,
    memo: Memo,
}

/// The body of the 150th turn, and the memo that reading the 149th left.
fn case(bytes: usize) -> Case {
    let mut turn_bytes = bytes / MESSAGES;
    let turns = |turn_bytes| {
        let mut conversation = Conversation::new(7, turn_bytes);
        (0..MESSAGES / 2).map(|_| conversation.next_turn()).collect::<Vec<_>>()
    };
    // The generator is told how much a turn adds; two tries find what gives the size asked for.
    for _ in 0..2 {
        let size = turns(turn_bytes).last().unwrap().request.len();
        let missing = bytes as f64 - size as f64;
        turn_bytes = (turn_bytes as f64 + missing / (MESSAGES as f64 / 2.0)).max(200.0) as usize;
    }
    let mut turns = turns(turn_bytes);
    let last = Bytes::from(turns.pop().unwrap().request);
    let before = Bytes::from(turns.pop().unwrap().request);
    let memo = read_request(Provider::Anthropic, &before, None).unwrap().into_memo();
    Case { body: last, memo }
}

fn parse_value(case: &Case) {
    black_box(serde_json::from_slice::<serde_json::Value>(&case.body).unwrap());
}

fn hash_body(case: &Case) {
    black_box(sha256(&case.body));
}

fn read_cold(case: &Case) {
    black_box(read_request(Provider::Anthropic, &case.body, None).unwrap());
}

fn read_known(case: &Case) {
    black_box(read_request(Provider::Anthropic, &case.body, Some(&case.memo)).unwrap());
}

fn read_known_and_hash_body(case: &Case) {
    read_known(case);
    hash_body(case);
}

type Contender = (&'static str, fn(&Case), Option<f64>);

/// Name, what it does, and the goal as a multiple of parsing.
const CONTENDERS: [Contender; 5] = [
    ("serde_json Value", parse_value, None),
    ("SHA-256 of the body", hash_body, None),
    ("read, cold", read_cold, Some(2.5)),
    ("read, turn before known", read_known, Some(0.5)),
    ("  and SHA-256 of the body", read_known_and_hash_body, Some(0.9)),
];

fn bench(bencher: divan::Bencher<'_, '_>, size: &str, run: fn(&Case)) {
    let (_, bytes) = SIZES.into_iter().find(|(name, _)| *name == size).unwrap();
    let case = case(bytes);
    let bytes = divan::counter::BytesCount::new(case.body.len());
    bencher.counter(bytes).bench_local(|| run(&case));
}

#[divan::bench(args = ["200 KB", "2 MB"])]
fn a_serde_json_value(bencher: divan::Bencher<'_, '_>, size: &str) {
    bench(bencher, size, parse_value);
}

#[divan::bench(args = ["200 KB", "2 MB"])]
fn b_sha256_of_the_body(bencher: divan::Bencher<'_, '_>, size: &str) {
    bench(bencher, size, hash_body);
}

#[divan::bench(args = ["200 KB", "2 MB"])]
fn c_read_cold(bencher: divan::Bencher<'_, '_>, size: &str) {
    bench(bencher, size, read_cold);
}

#[divan::bench(args = ["200 KB", "2 MB"])]
fn d_read_with_the_turn_before_known(bencher: divan::Bencher<'_, '_>, size: &str) {
    bench(bencher, size, read_known);
}

/// The texts are this workspace's own source, which may well have a reference in it.
fn case_without_references() -> Case {
    let case = case(SCANNED_BYTES);
    let body = String::from_utf8(case.body.to_vec()).unwrap();
    Case {
        body: body.replace("@conv", "#conv").into(),
        ..case
    }
}

/// What every request that has no reference pays for references, in a body of 500 KB.
fn scan_for_references(case: &Case) {
    assert!(!black_box(ropewalk_core::reference::may_contain(&case.body)));
}

const SCANNED_BYTES: usize = 500_000;

/// The goal for it.
const SCAN_MAX: Duration = Duration::from_micros(100);

#[divan::bench]
fn e_scan_500_kb_for_references(bencher: divan::Bencher<'_, '_>) {
    let case = case_without_references();
    let bytes = divan::counter::BytesCount::new(case.body.len());
    bencher.counter(bytes).bench_local(|| scan_for_references(&case));
}

fn scan() {
    let case = case_without_references();
    let time = |_| {
        let start = Instant::now();
        scan_for_references(&case);
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..1_000).map(time).collect();
    let time = median(&mut times);
    let verdict = if time <= SCAN_MAX { "met" } else { "MISSED" };
    let bytes = case.body.len();
    println!("\nscan of {bytes} bytes for references: {time:.1?}  goal {SCAN_MAX:?}: {verdict}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // For callgrind and perf, which see a process: one size, one contender, so many times (0: set-up alone).
    if let Some(at) = arguments.iter().position(|argument| argument == "--once") {
        let size: usize = arguments[at + 1].parse().unwrap();
        let case = case(SIZES[size].1);
        let contender: usize = arguments[at + 2].parse().unwrap();
        let times: usize = arguments[at + 3].parse().unwrap();
        (0..times).for_each(|_| CONTENDERS[contender].1(&case));
        return;
    }
    divan::main();
    if arguments
        .iter()
        .any(|argument| argument == "--test" || argument == "--list")
    {
        return;
    }
    println!("\nratios to serde_json::from_slice::<Value>, medians of interleaved runs");
    for (name, bytes) in SIZES {
        ratios(name, &case(bytes));
    }
    scan();
}

fn ratios(name: &str, case: &Case) {
    let rounds = if case.body.len() > 1_000_000 { 60 } else { 400 };
    let mut times = vec![Vec::with_capacity(rounds); CONTENDERS.len()];
    for _ in 0..rounds {
        for (index, (_, run, _)) in CONTENDERS.iter().enumerate() {
            let start = Instant::now();
            run(case);
            times[index].push(start.elapsed());
        }
    }
    let medians: Vec<Duration> = times.iter_mut().map(|times| median(times)).collect();
    println!("\n{name} ({} bytes, {MESSAGES} messages)", case.body.len());
    for ((name, _, goal), time) in CONTENDERS.iter().zip(&medians) {
        let ratio = time.as_secs_f64() / medians[0].as_secs_f64();
        let verdict = match goal {
            Some(goal) if ratio <= *goal => format!("goal {goal}: met"),
            Some(goal) => format!("goal {goal}: MISSED"),
            None => String::new(),
        };
        println!(
            "  {name:<28} {:>9.1} µs  {ratio:>6.3} ×  {verdict}",
            time.as_secs_f64() * 1e6
        );
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
