//! What recording costs beside forwarding: the CPU of the worker's thread for an exchange.
//!
//! `cargo bench -p ropewalk-proxy --bench tee`, on Linux. Exchanges come one by one, as at a low rate (a write for each), and
//! in groups, as under load.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail and talk")]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ropewalk_proxy::journal::{Folder, Journal, Position, Settings};
use ropewalk_proxy::tee::{Ending, Event, ExchangeKey, Head, Keep, KeepAsItIs, ResponseHead, Tee, Worker, channel};
use ropewalk_store::Micros;
use tokio::sync::oneshot;
use uuid::Uuid;

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(Folder::open(folder.path()).unwrap());
    let (tee, inbox) = channel(64 << 20);
    let (journal, writer) = Journal::open(files, Settings::default(), Arc::default()).unwrap();
    let worker = Worker::start(inbox, writer, Box::new(KeepAsItIs), &[], Arc::clone(journal.counters())).unwrap();
    // So that the thread has its name.
    send(&tee, 1, 1);
    for (name, body_bytes, group, rounds) in [
        ("1 KB, one by one", 1 << 10, 1, 20_000),
        ("1 KB, 16 at a time", 1 << 10, 16, 5_000),
        ("1 KB, 64 at a time", 1 << 10, 64, 1_000),
        ("500 KB, 4 at a time", 500 << 10, 4, 200),
    ] {
        let before = worker_cpu_ns();
        for _ in 0..rounds {
            send(&tee, group, body_bytes);
            // Only so that the disk does not fill up.
            if journal.bytes() > 256 << 20 {
                trim(&journal);
            }
        }
        let used = worker_cpu_ns() - before;
        println!("{name}: {:.2} µs", used as f64 / f64::from(rounds * group) / 1e3);
    }
    tee.close();
    worker.join().unwrap();
}

fn trim(journal: &Journal) {
    let newest = Position {
        // The one that is written to stays.
        segment: u32::MAX,
        offset: 0,
    };
    journal.trim(newest, &BTreeSet::new());
}

fn send(tee: &Tee, group: u32, body_bytes: usize) {
    let body = Bytes::from(vec![b'x'; body_bytes]);
    let mut waiting = Vec::new();
    for key in 0..u64::from(group) {
        let key = ExchangeKey(key);
        tee.send(Event::Begin(key, head()));
        tee.send(Event::RequestData(key, body.clone()));
        tee.send(Event::RequestEnd(key));
    }
    for key in 0..u64::from(group) {
        let key = ExchangeKey(key);
        tee.send(Event::ResponseHead(key, answer_head()));
        tee.send(Event::ResponseData(key, body.clone(), Micros(2)));
        let (release, released) = oneshot::channel();
        tee.send(Event::End {
            exchange: key,
            ending: Ending::Complete,
            at: Micros(3),
            release: Some(release),
        });
        waiting.push(released);
    }
    for released in waiting {
        released.blocking_recv().unwrap();
    }
}

/// The headers of a common client.
fn head() -> Box<Head> {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("accept", "application/json"),
        ("accept-encoding", "gzip, deflate"),
        ("anthropic-version", "2023-06-01"),
        ("authorization", "Bearer sk-00000000000000000000000000000000"),
        ("connection", "keep-alive"),
        ("content-length", "1024"),
        ("content-type", "application/json"),
        ("host", "127.0.0.1:8742"),
        ("user-agent", "Anthropic/Python 0.40.0"),
        ("x-stainless-arch", "x64"),
        ("x-stainless-lang", "python"),
        ("x-stainless-os", "Linux"),
        ("x-stainless-package-version", "0.40.0"),
        ("x-stainless-runtime", "CPython"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    Box::new(Head {
        id: Uuid::now_v7(),
        at: Micros(1),
        owner: Arc::from("local"),
        keep: Keep::Everything,
        method: Method::POST,
        target: "/v1/messages?beta=true".to_owned(),
        headers,
    })
}

fn answer_head() -> Box<ResponseHead> {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/json"),
        ("date", "Mon, 01 Jan 2026 00:00:00 GMT"),
        ("request-id", "req_0000"),
        ("server", "scripted"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    Box::new(ResponseHead {
        at: Micros(1),
        status: StatusCode::OK,
        headers,
    })
}

fn worker_cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let is_worker = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "tee-worker")
    };
    let path = tasks.map(|task| task.unwrap().path()).find(|path| is_worker(path));
    let schedstat = std::fs::read_to_string(path.unwrap().join("schedstat")).unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}
