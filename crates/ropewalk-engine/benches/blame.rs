//! What it takes to say who brought a system block or a tool, why a cache was not read, and where a text went, in a store of any size.
//!
//! `cargo bench -p ropewalk-engine --bench blame -- [CONVERSATIONS]`; ten exchanges each. Prints the time of each answer at a tenth of
//! the store and at all of it, so that growth can be seen.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail and prints what it measured"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::insight::blame::Scope;
use ropewalk_engine::insight::spread::Wanted;
use ropewalk_engine::view::View;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Store as _;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_store::store::PAGE_MAX;
use ropewalk_testkit::labelled::answered;
use serde_json::{Value, json};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TURNS: usize = 10;
const LONG_TURNS: usize = 300;
const PROBES: usize = 50;
/// Turns after which a conversation's tools change.
const TOOLS_LAST: usize = 40;

struct Traffic {
    clock: i64,
    next: usize,
}

impl Traffic {
    fn conversation(&mut self, turns: usize) -> Vec<RawExchange> {
        let number = self.next;
        self.next += 1;
        let mut history: Vec<Value> = Vec::new();
        (0..turns)
            .map(|turn| {
                self.clock += 1_000;
                let said = "what was said ".repeat(if turns > TURNS { 100 } else { 4 });
                history.push(json!({"role": "user", "content": format!("{number} asks {turn}: {said}")}));
                let answer = format!("{number} is answered {turn}: {said}");
                let raw = exchange(number, turn, self.clock, &history, &answer);
                history.push(json!({"role": "assistant", "content": answer}));
                raw
            })
            .collect()
    }
}

fn exchange(number: usize, turn: usize, at: i64, history: &[Value], answer: &str) -> RawExchange {
    let id = format!("e{number}-{turn}");
    let tools: Vec<Value> = (0..10 + turn / TOOLS_LAST)
        .map(|tool| json!({"name": format!("Tool{tool}"), "description": "Does what it says. ".repeat(10)}))
        .collect();
    let system = format!("You are an agent of release {}.", number / 1_000);
    let body =
        json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "tools": tools, "system": system, "messages": history});
    let response = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 900, "output_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 2_000}});
    RawExchange {
        path: "/p/site/anthropic/v1/messages".to_owned(),
        request_headers: vec![("user-agent".to_owned(), format!("claude-cli/2.1.{}", number / 1_000))],
        ..answered(id, at, &body, &response)
    }
}

#[tokio::main]
async fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let conversations: usize = asked.unwrap_or(2_000);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path(), &Options::default()).unwrap()).on_own_thread();
    let mut recorder = Recorder::new(&*store, "me", &BundledPrices).await.unwrap();
    let mut traffic = Traffic {
        clock: 1_767_225_600_000_000,
        next: 0,
    };
    let long = traffic.conversation(LONG_TURNS);
    record(&mut recorder, &long).await;
    for part in [conversations / 10, conversations - conversations / 10] {
        let mut left = part;
        while left > 0 {
            let count = left.min(100);
            let batch: Vec<RawExchange> = (0..count).flat_map(|_| traffic.conversation(TURNS)).collect();
            record(&mut recorder, &batch).await;
            left -= count;
        }
        while store.index_texts(PAGE_MAX).await.unwrap().waiting > 0 {}
        measure(&store, traffic.next).await;
    }
}

async fn record(recorder: &mut Recorder<'_, Sqlite>, exchanges: &[RawExchange]) {
    for batch in exchanges.chunks(256) {
        recorder.record(batch).await.unwrap();
    }
    recorder.link().await.unwrap();
}

async fn measure(store: &Sqlite, conversations: usize) {
    let view = View::new(store, store.owner("me").await.unwrap(), "me");
    println!("{} exchanges", (conversations - 1) * TURNS + LONG_TURNS);
    let step = (conversations / PROBES).max(1);
    let tips: Vec<String> = (1..conversations)
        .step_by(step)
        .map(|number| format!("e{number}-{}", TURNS - 1))
        .collect();
    let mut times = [Vec::new(), Vec::new()];
    for tip in &tips {
        let row = view.resolve_exchange(tip).await.unwrap();
        let begun = Instant::now();
        let blame = view.blame(&row, &BundledPrices).await.unwrap();
        times[0].push(begun.elapsed());
        assert_eq!(blame.turns, TURNS as u64);
        let begun = Instant::now();
        view.explain_cache(&row, &BundledPrices).await.unwrap();
        times[1].push(begun.elapsed());
    }
    let [blame, explain] = times;
    tell("blame, 10 turns", blame);
    tell("explain --cache", explain);
    let long = view.resolve_exchange(&format!("e0-{}", LONG_TURNS - 1)).await.unwrap();
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..PROBES {
        let begun = Instant::now();
        let blame = view.blame(&long, &BundledPrices).await.unwrap();
        times[0].push(begun.elapsed());
        assert_eq!(blame.turns, LONG_TURNS as u64);
    }
    let kind = ropewalk_store::facts::HashKind::AgentType;
    let hash = long.hashes.iter().find(|(known, _)| *known == kind).unwrap();
    for (at, scope) in [
        (1, Scope::Project("site")),
        (2, Scope::Client("claude-code/2.1.0")),
        (3, Scope::AgentType(&hash.1)),
    ] {
        for _ in 0..5 {
            let begun = Instant::now();
            view.timeline(scope, &BundledPrices).await.unwrap();
            times[at].push(begun.elapsed());
        }
    }
    let [long, project, client, agent_type] = times;
    tell("blame, 300 turns", long);
    tell("timeline of a project that has everything", project);
    tell("timeline of a client's version", client);
    tell("timeline of an agent type", agent_type);
    let particular: Vec<String> = (1..conversations)
        .step_by(step)
        .map(|number| format!("{number} asks 3"))
        .collect();
    measure_spread(&view, "spread of a text of one conversation", &particular).await;
    let common = vec!["what was said".to_owned(); 5];
    measure_spread(&view, "spread of a text that all have", &common).await;
}

async fn measure_spread(view: &View<'_, Sqlite>, what: &str, texts: &[String]) {
    let mut times = Vec::new();
    for text in texts {
        let begun = Instant::now();
        let spread = view.spread(&Wanted::new(text).unwrap()).await.unwrap();
        times.push(begun.elapsed());
        assert!(!spread.exchanges.is_empty());
    }
    tell(what, times);
}

fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("  {what}: median {:.2} ms, worst {:.2} ms", at(0.5), at(1.0));
}
