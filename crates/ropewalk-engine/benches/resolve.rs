//! Whether time tells what another owner has: `make bench-resolve`.
//!
//! Two owners have as much as each other in one store. One of them asks for names of the other and, in turns and in a random
//! order, for names of the same shape that nobody has. Both are answered alike; printed is how long each took, and the ratio of
//! the medians. The first column of figures is what nobody has, asked for in two halves: how far apart two measurements of the same are.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail and prints what it measured"
)]

use std::time::{Duration, Instant};

use ropewalk_core::cost::BundledPrices;
use ropewalk_core::hash::sha256;
use ropewalk_engine::view::{View, uuid_text};
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::Store;
use ropewalk_store::sqlite::{Options, Sqlite};
use ropewalk_testkit::conversation::Random;
use ropewalk_testkit::labelled::answered;
use serde_json::json;

const CONVERSATIONS: usize = 2_000;
const ASKED: usize = 4_000;

fn exchange(owner: &str, number: usize) -> RawExchange {
    let at = 1_700_000_000_000_000 + number as i64 * 1_000_000;
    let asked = format!(
        "Case {number} of {owner} about {}",
        hex::encode(&sha256(owner.as_bytes())[..4])
    );
    let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": asked}]});
    let answer = json!({"id": format!("msg_{owner}_{number}"), "type": "message", "role": "assistant", "model": "m",
        "content": [{"type": "text", "text": format!("Answer {number} for {owner}.")}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 9}});
    answered(format!("{owner}-{number:06}"), at, &body, &answer)
}

async fn fill(store: &Sqlite, owner: &str) {
    let mut recorder = Recorder::new(store, owner, &BundledPrices).await.unwrap();
    let all: Vec<RawExchange> = (0..CONVERSATIONS).map(|number| exchange(owner, number)).collect();
    for batch in all.chunks(500) {
        recorder.record(batch).await.unwrap();
        recorder.link().await.unwrap();
    }
}

/// Names of one shape: those that Ann has.
struct Shape {
    what: &'static str,
    anns: Vec<String>,
    /// One that nobody has, of random digits.
    made_up: fn(&mut Random) -> String,
}

fn digits(random: &mut Random) -> String {
    hex::encode(sha256(&random.next_u64().to_be_bytes()))
}

async fn shapes(ann: &View<'_, Sqlite>) -> Vec<Shape> {
    let (mut ids, mut hashes, mut uuids, mut nodes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut before = None;
    loop {
        let page = ann.conversations_before(before, 200).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some((last.last_at, last.root));
        for row in &page {
            let messages = ann.messages(row.root).await.unwrap();
            ids.push(messages[0].friendly_id.clone().unwrap());
            hashes.push(messages[1].reference.clone().unwrap());
            uuids.push(uuid_text(&row.id));
            let row = ann.find_row(row.root).await.unwrap().unwrap();
            nodes.push(hex::encode(row.input_node.0)[..12].to_owned());
        }
    }
    let indices = ids.iter().map(|id| format!("@conv_{id}_msg_2")).collect();
    vec![
        Shape {
            what: "reference by hash",
            anns: hashes,
            made_up: |random| {
                let digits = digits(random);
                format!(
                    "@conversation_case_{}_{}_message_{}",
                    &digits[..4],
                    &digits[4..8],
                    &digits[8..14]
                )
            },
        },
        Shape {
            what: "reference by index",
            anns: indices,
            made_up: |random| {
                let digits = digits(random);
                format!("@conv_case_{}_{}_msg_2", &digits[..4], &digits[4..8])
            },
        },
        Shape {
            what: "friendly id",
            anns: ids,
            made_up: |random| {
                let digits = digits(random);
                format!("case_{}_{}", &digits[..4], &digits[4..8])
            },
        },
        Shape {
            what: "exchange id",
            anns: (0..CONVERSATIONS).map(|number| format!("ann-{number:06}")).collect(),
            made_up: |random| format!("amy-{:06}", random.below(CONVERSATIONS)),
        },
        Shape {
            what: "conversation id",
            anns: uuids,
            made_up: |random| {
                let mut id = [0; 16];
                id.copy_from_slice(&sha256(&random.next_u64().to_be_bytes())[..16]);
                uuid_text(&id)
            },
        },
        Shape {
            what: "beginning of a hash",
            anns: nodes,
            made_up: |random| digits(random)[..12].to_owned(),
        },
    ]
}

#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn quantile(&mut self, part: f64) -> f64 {
        self.0.sort_unstable();
        let at = ((self.0.len() - 1) as f64 * part) as usize;
        self.0[at].as_secs_f64() * 1e6
    }

    fn shown(&mut self) -> String {
        let quantiles = [0.1, 0.5, 0.9, 0.99].map(|part| format!("{:6.1}", self.quantile(part)));
        quantiles.join(" ")
    }
}

async fn ask(bob: &View<'_, Sqlite>, name: &str) -> Duration {
    let reference = name.parse();
    let begun = Instant::now();
    let found = match &reference {
        Ok(reference) => bob.resolved(reference, name).await.unwrap().resolved,
        Err(_) => bob.resolve(name).await.is_ok(),
    };
    let took = begun.elapsed();
    assert!(!found, "{name}");
    took
}

async fn measure(bob: &View<'_, Sqlite>, shape: &Shape, random: &mut Random) {
    let [mut foreign, mut missing, mut missing_too] = [(); 3].map(|()| Times::default());
    for round in 0..ASKED {
        let mut order = [0, 1, 2];
        order.swap(0, random.below(3));
        order.swap(1, 1 + random.below(2));
        for which in order {
            let name = match which {
                0 => shape.anns[random.below(shape.anns.len())].clone(),
                _ => (shape.made_up)(random),
            };
            let took = ask(bob, &name).await;
            // The first of them fill caches.
            if round >= ASKED / 10 {
                [&mut foreign, &mut missing, &mut missing_too][which].0.push(took);
            }
        }
    }
    println!(
        "{:20} {} | {} | {:.3} | {:.3}",
        shape.what,
        foreign.shown(),
        missing.shown(),
        foreign.quantile(0.5) / missing.quantile(0.5),
        missing_too.quantile(0.5) / missing.quantile(0.5),
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path(), &Options::default()).unwrap();
    for owner in ["ann", "bob"] {
        fill(&store, owner).await;
    }
    let ann = View::new(&store, store.owner("ann").await.unwrap(), "ann");
    let bob = View::new(&store, store.owner("bob").await.unwrap(), "bob");
    println!(
        "µs at 10, 50, 90, 99 %: {:>11} | not there | medians | not there, twice",
        "another's"
    );
    let mut random = Random(7);
    for shape in shapes(&ann).await {
        measure(&bob, &shape, &mut random).await;
    }
}
