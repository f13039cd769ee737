//! How fast the journal is brought into the store: recorded and linked exchanges a second, and what one costs.
//!
//! `cargo bench -p ropewalk-proxy --bench recorder -- [EXCHANGES] [WORDS]`, on Linux. The journal is filled first, so that nothing but the
//! recorder runs. Without WORDS a question and its answer have some 700 bytes that are alike in all exchanges; with them both have so many
//! words that no other has in that order.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail and talk")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ropewalk_core::cost::BundledPrices;
use ropewalk_proxy::journal::{Folder, Journal, Settings};
use ropewalk_proxy::recorder::{REJECTED_BYTES_MAX, Recording, Setup};
use ropewalk_proxy::tee::{Ending, Event, ExchangeKey, Head, Keep, KeepAsItIs, ResponseHead, Tee, Worker, channel};
use ropewalk_store::sqlite::Options;
use ropewalk_store::{Micros, Sqlite};
use uuid::Uuid;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXCHANGES: u64 = 20_000;

/// Different words of texts of so many words.
const VOCABULARY: u64 = 50_000;

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let exchanges: u64 = arguments.next().unwrap_or(EXCHANGES);
    let words: Option<u64> = arguments.next();
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(Folder::open(&folder.path().join("journal")).unwrap());
    let (tee, inbox) = channel(1 << 30);
    let (journal, writer) = Journal::open(files, Settings::default(), Arc::default()).unwrap();
    let worker = Worker::start(inbox, writer, Box::new(KeepAsItIs), &[], Arc::clone(journal.counters())).unwrap();
    for number in 0..exchanges {
        send(&tee, number, words);
    }
    tee.close();
    worker.join().unwrap();
    let setup = Setup {
        rejected_bytes_max: REJECTED_BYTES_MAX,
        telemetry: None,
        prices: Arc::new(BundledPrices),
        settings: ropewalk_engine::Settings::default(),
        spawn_tools: ropewalk_engine::spawn::SpawnTools::default(),
    };
    let store = folder.path().join("store");
    // Pages are kept as by the program.
    let options = Options {
        cache_kib: 48 << 10,
        ..Options::default()
    };
    let open = move || std::future::ready(Sqlite::open(&store, &options).map(Arc::new));
    let (begun, cpu) = (Instant::now(), cpu_ticks());
    let recording = Recording::start(journal.clone(), setup, open).unwrap();
    assert!(recording.finish(Duration::from_secs(600)));
    let (seconds, ticks) = (begun.elapsed().as_secs_f64(), cpu_ticks() - cpu);
    let snapshot = journal.counters().snapshot();
    assert_eq!(snapshot.by_label.links.values().sum::<u64>(), exchanges);
    println!("{:.0} exchanges a second", exchanges as f64 / seconds);
    // A tick is 10 ms.
    println!("{:.0} µs of CPU an exchange", ticks as f64 * 1e4 / exchanges as f64);
    println!("batches: {:?}", snapshot.batch);
}

/// Text of so many words, another for every seed.
fn text(words: u64, seed: u64) -> String {
    let mut state = seed;
    let mut text = String::new();
    for _ in 0..words {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Those with small numbers come more often, as in any language.
        let place = ((state >> 33) % VOCABULARY) * ((state >> 17) % VOCABULARY) / VOCABULARY;
        text += &format!("w{:x} ", place * 7_919);
    }
    text
}

fn send(tee: &Tee, number: u64, words: Option<u64>) {
    let key = ExchangeKey(number);
    let id = Uuid::from_u128(u128::from(number));
    let words = match words {
        Some(words) => text(words, number),
        None => format!("{} {number}", "the quick brown fox jumps over the lazy dog ".repeat(16)),
    };
    let request = format!(
        r#"{{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{{"role":"user","content":"question {words}"}}]}}"#
    );
    let answer = format!(
        r#"{{"id":"msg_{number}","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"answer {words}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":3,"output_tokens":2}}}}"#
    );
    let at = 1_700_000_000_000_000 + i64::try_from(number).unwrap() * 1_000;
    tee.send(Event::Begin(
        key,
        Box::new(Head {
            id,
            at: Micros(at),
            owner: Arc::from("local"),
            keep: Keep::Everything,
            method: Method::POST,
            target: "/v1/messages".to_owned(),
            headers: HeaderMap::new(),
        }),
    ));
    tee.send(Event::RequestData(key, Bytes::from(request)));
    tee.send(Event::RequestEnd(key));
    let head = ResponseHead {
        at: Micros(at + 100),
        status: StatusCode::OK,
        headers: HeaderMap::new(),
    };
    tee.send(Event::ResponseHead(key, Box::new(head)));
    tee.send(Event::ResponseData(key, Bytes::from(answer), Micros(at + 200)));
    tee.send(Event::End {
        exchange: key,
        ending: Ending::Complete,
        at: Micros(at + 300),
        release: None,
    });
}

/// What all threads have used.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
