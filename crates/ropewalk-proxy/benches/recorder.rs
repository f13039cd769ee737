//! How fast the journal is brought into the store: recorded and linked exchanges a second, and what one costs.
//!
//! `cargo bench -p ropewalk-proxy --bench recorder`, on Linux. The journal is filled first, so that nothing but the recorder
//! runs.
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

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(Folder::open(&folder.path().join("journal")).unwrap());
    let (tee, inbox) = channel(1 << 30);
    let (journal, writer) = Journal::open(files, Settings::default(), Arc::default()).unwrap();
    let worker = Worker::start(inbox, writer, Box::new(KeepAsItIs), &[], Arc::clone(journal.counters())).unwrap();
    for number in 0..EXCHANGES {
        send(&tee, number);
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
    let open = move || std::future::ready(Sqlite::open(&store, &Options::default()).map(Arc::new));
    let (begun, cpu) = (Instant::now(), cpu_ticks());
    let recording = Recording::start(journal.clone(), setup, open).unwrap();
    assert!(recording.finish(Duration::from_secs(600)));
    let (seconds, ticks) = (begun.elapsed().as_secs_f64(), cpu_ticks() - cpu);
    let snapshot = journal.counters().snapshot();
    assert_eq!(snapshot.by_label.links.values().sum::<u64>(), EXCHANGES);
    println!("{:.0} exchanges a second", EXCHANGES as f64 / seconds);
    // A tick is 10 ms.
    println!("{:.0} µs of CPU an exchange", ticks as f64 * 1e4 / EXCHANGES as f64);
    println!("batches: {:?}", snapshot.batch);
}

fn send(tee: &Tee, number: u64) {
    let key = ExchangeKey(number);
    let id = Uuid::from_u128(u128::from(number));
    let words = format!("{} {number}", "the quick brown fox jumps over the lazy dog ".repeat(16));
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
