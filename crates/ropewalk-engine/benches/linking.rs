//! What linking costs: exchanges linked per second, and one turn of a long history in a store of any size.
//!
//! `cargo bench -p ropewalk-engine --bench linking -- [CONVERSATIONS]`; ten exchanges each. Prints the time of a turn at a tenth
//! of the store and at all of it, so that growth can be seen.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail and prints what it measured"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Store as _;
use ropewalk_store::derived::LinkChanges;
use ropewalk_store::facts::OwnerId;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::labelled::answered;
use serde_json::{Value, json};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TURNS: usize = 10;
const PROBES: usize = 300;
/// Blocks of the long history, so that it has about 500 KB.
const LONG_TURNS: usize = 250;

fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn exchange(id: String, at: i64, messages: &[Value], answer: &str) -> RawExchange {
    let body =
        json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "You are an agent.", "messages": messages});
    let response = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 9}});
    answered(id, at, &body, &response)
}

/// Conversations that run at the same time, and whose openings are shared by many.
struct Traffic {
    clock: i64,
    next: usize,
}

impl Traffic {
    fn conversations(&mut self, count: usize) -> Vec<RawExchange> {
        let mut histories: Vec<Vec<Value>> = (0..count).map(|_| Vec::new()).collect();
        let mut exchanges = Vec::with_capacity(count * TURNS);
        for turn in 0..TURNS {
            for (index, history) in histories.iter_mut().enumerate() {
                let number = self.next + index;
                let asked = if turn == 0 {
                    format!("please look at case {}", number % 50)
                } else {
                    format!("then {turn}")
                };
                history.push(message("user", &asked));
                let answer = format!("answer {turn} to conversation {number}");
                self.clock += 1_000;
                exchanges.push(exchange(format!("e{number}-{turn}"), self.clock, history, &answer));
                history.push(message("assistant", &answer));
            }
        }
        self.next += count;
        exchanges
    }
}

async fn fill(
    recorder: &mut Recorder<'_, Sqlite>,
    traffic: &mut Traffic,
    conversations: usize,
) -> (Duration, Duration) {
    let (mut recording, mut linking) = (Duration::ZERO, Duration::ZERO);
    let mut left = conversations;
    while left > 0 {
        let exchanges = traffic.conversations(left.min(64));
        left -= left.min(64);
        for batch in exchanges.chunks(64) {
            let begun = Instant::now();
            recorder.record(batch).await.unwrap();
            recording += begun.elapsed();
            let begun = Instant::now();
            recorder.link().await.unwrap();
            linking += begun.elapsed();
        }
    }
    (recording, linking)
}

/// Turns of one long history, each recorded and then linked alone.
async fn probe(recorder: &mut Recorder<'_, Sqlite>, traffic: &mut Traffic, name: &str) -> Vec<Duration> {
    let filler = "a line of some length that stands for what people and models say to each other all day; ".repeat(12);
    let mut history = Vec::new();
    for turn in 0..LONG_TURNS {
        history.push(message("user", &format!("{name} question {turn} {filler}")));
        history.push(message("assistant", &format!("{name} answer {turn} {filler}")));
    }
    let mut times = Vec::new();
    for turn in 0..PROBES {
        history.push(message("user", &format!("{name} next {turn}")));
        traffic.clock += 1_000;
        let answer = format!("{name} reply {turn}");
        let turn = exchange(format!("{name}-{turn}"), traffic.clock, &history, &answer);
        history.push(message("assistant", &answer));
        recorder.record(&[turn]).await.unwrap();
        let begun = Instant::now();
        recorder.link().await.unwrap();
        // The first one is the first of its history.
        if history.len() > 2 * LONG_TURNS + 2 {
            times.push(begun.elapsed());
        }
    }
    times
}

/// The same save with nothing in it: what the disk takes, whatever was decided.
async fn empty_saves(store: &Sqlite, owner: OwnerId) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..PROBES {
        let state = store.link_state(owner).await.unwrap();
        let changes = LinkChanges {
            version: state.version,
            linked_to: state.linked_to,
            ..LinkChanges::default()
        };
        let begun = Instant::now();
        assert!(store.save_links(owner, changes).await.unwrap());
        times.push(begun.elapsed());
    }
    times
}

fn report(what: &str, size: usize, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{what}, {size} exchanges in the store: p50 {:.2} ms, p99 {:.2} ms",
        at(0.5),
        at(0.99)
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let conversations = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(1_000_usize);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()).on_own_thread();
    let mut recorder = Recorder::new(&*store, "me", &BundledPrices).await.unwrap();
    let mut traffic = Traffic {
        clock: 1_800_000_000_000_000,
        next: 0,
    };
    for (part, name) in [
        (conversations / 10, "small"),
        (conversations - conversations / 10, "large"),
    ] {
        let (recording, linking) = fill(&mut recorder, &mut traffic, part).await;
        let count = (part * TURNS) as f64;
        println!(
            "{} exchanges: prepared and recorded {:.0}/s, linked {:.0}/s",
            part * TURNS,
            count / recording.as_secs_f64(),
            count / linking.as_secs_f64()
        );
        let times = probe(&mut recorder, &mut traffic, name).await;
        let size = traffic.next * TURNS;
        report("one turn of a 500 KB history, decided and saved", size, times);
        report("  saving nothing", size, empty_saves(&store, recorder.owner()).await);
    }
}
