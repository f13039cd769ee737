//! What the worker makes of events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use ropewalk_proxy::journal::Journal;
use ropewalk_proxy::journal::payload::{self, Payload};
use ropewalk_proxy::tee::{BodyOf, Ending, Event, ExchangeKey, Half, Keep, Scrub, ScrubBody, channel};
use ropewalk_store::Micros;

use crate::support::{
    Faulty, Running, answer_head, bodies, copy_of, folder_of, head, patient, read_all, read_folder, wait_for,
};

fn start(folder: &std::path::Path) -> Running {
    Running::start(Arc::new(folder_of(folder)), patient())
}

fn kinds(journal: &Journal) -> Vec<&'static str> {
    let kind = |payload: &Payload| match payload {
        Payload::Begin(_) => "begin",
        Payload::RequestChunk(_) => "request",
        Payload::SentChunk(_) => "sent",
        Payload::ResponseChunk(_) => "response",
        Payload::End(_) => "end",
        Payload::Gap(_) => "gap",
    };
    read_all(journal).iter().map(|entry| kind(&entry.payload)).collect()
}

#[test]
fn a_small_exchange_is_two_records_that_say_everything() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    assert!(
        running
            .exchange(7, "question", "answer")
            .blocking_recv()
            .unwrap()
            .acknowledged
    );
    assert_eq!(kinds(&running.journal), ["begin", "end"]);
    let entries = read_all(&running.journal);
    let Payload::Begin(begin) = &entries[0].payload else {
        panic!();
    };
    assert_eq!((begin.id.as_u128(), &*begin.owner, begin.at), (7, "ann", Micros(1_000)));
    assert_eq!((&*begin.method, &*begin.target), ("POST", "/v1/messages?beta=true"));
    assert_eq!(begin.headers, [("user-agent".to_owned(), "test/1".to_owned())]);
    assert!(begin.is_whole && begin.body == "question");
    let Payload::End(end) = &entries[1].payload else {
        panic!();
    };
    assert_eq!(
        (end.ending, end.at, &*end.body),
        (payload::Ending::Complete, Micros(3_000), &b"answer"[..])
    );
    let head = end.head.as_ref().unwrap();
    assert_eq!((head.status, head.at), (200, Micros(1_500)));
    assert_eq!(
        head.headers,
        [("content-type".to_owned(), "application/json".to_owned())]
    );
    assert_eq!((end.marks[0].offset, end.marks[0].at), (6, Micros(2_000)));
}

#[test]
fn many_exchanges_are_one_write() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.append_gate.close();
    let running = Running::start(files, patient());
    let waiting: Vec<_> = (0..300).map(|key| running.exchange(key, "{}", "{}")).collect();
    switches.append_gate.open();
    for released in waiting {
        assert!(released.blocking_recv().unwrap().acknowledged);
    }
    assert!(switches.appends.load(Ordering::SeqCst) <= 3);
    assert_eq!(running.counters().records.load(Ordering::Relaxed), 600);
    assert_eq!(running.counters().hold.times().count(), 300);
}

#[test]
fn bodies_of_any_size_are_written_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    let big = |seed: u8| -> Vec<u8> { (0..1_500_000_u32).map(|index| (index % 251) as u8 ^ seed).collect() };
    let (request, answer) = (big(1), big(2));
    let key = ExchangeKey(1);
    running.tee.send(Event::Begin(key, head(1)));
    for piece in request.chunks(70_001) {
        running.tee.send(Event::RequestData(key, Bytes::copy_from_slice(piece)));
    }
    running.tee.send(Event::RequestEnd(key));
    running.tee.send(Event::ResponseHead(key, answer_head()));
    // A piece larger than a chunk is cut.
    running.data(1, &answer[..900_000], 1);
    for piece in answer[900_000..].chunks(1_003) {
        running.data(1, piece, 2);
    }
    assert!(running.end(1, Ending::Complete).blocking_recv().unwrap().acknowledged);
    let found = bodies(&read_all(&running.journal));
    assert!(found[&1].request == request && found[&1].answer == answer);
    assert!(found[&1].is_whole && found[&1].ended);
    let kinds = kinds(&running.journal);
    assert!(kinds.iter().filter(|kind| **kind == "request").count() >= 4);
    assert!(kinds.iter().filter(|kind| **kind == "response").count() >= 4);
}

#[test]
fn a_crash_in_a_stream_leaves_what_had_come_a_second_before() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    running.begin(1, "question");
    running.answer(1, "first, ");
    running.data(1, b"second", 2);
    wait_for(|| {
        bodies(&read_all(&running.journal))
            .get(&1)
            .is_some_and(|of| of.answer.ends_with(b"second"))
    });
    let copy = copy_of(folder.path());
    let (entries, _) = read_folder(copy.path());
    let found = &bodies(&entries)[&1];
    assert_eq!(
        (&*found.request, &*found.answer),
        (&b"question"[..], &b"first, second"[..])
    );
    assert!(found.is_whole && !found.ended);
}

#[test]
fn a_request_that_was_cut_off_is_kept_and_not_whole() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    running.tee.send(Event::Begin(ExchangeKey(1), head(1)));
    running
        .tee
        .send(Event::RequestData(ExchangeKey(1), Bytes::from("quest")));
    assert!(
        running
            .end(1, Ending::ClientCancelled)
            .blocking_recv()
            .unwrap()
            .acknowledged
    );
    let found = &bodies(&read_all(&running.journal))[&1];
    assert!(found.request == b"quest" && !found.is_whole && found.ended);
}

#[test]
fn events_out_of_order_or_of_nobody_are_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    running.answer(5, "nobody asked");
    assert!(!running.end(5, Ending::Complete).blocking_recv().unwrap().acknowledged);
    running.tee.send(Event::Begin(ExchangeKey(6), head(6)));
    running.data(6, b"without a head", 1);
    running.tee.send(Event::RequestEnd(ExchangeKey(6)));
    running.tee.send(Event::RequestEnd(ExchangeKey(6)));
    assert!(running.end(6, Ending::Truncated).blocking_recv().unwrap().acknowledged);
    assert!(running.exchange(7, "", "").blocking_recv().unwrap().acknowledged);
}

#[test]
fn no_secret_reaches_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    let mut with_token = head(1);
    with_token.target = "/t/sk-secret/v1/messages?key=sk-secret".to_owned();
    running.tee.send(Event::Begin(ExchangeKey(1), with_token));
    running.tee.send(Event::RequestEnd(ExchangeKey(1)));
    running.answer(1, "answer");
    running.end(1, Ending::Complete).blocking_recv().unwrap();
    let mut metadata = head(2);
    metadata.keep = Keep::Metadata;
    running.tee.send(Event::Begin(ExchangeKey(2), metadata));
    running
        .tee
        .send(Event::RequestData(ExchangeKey(2), Bytes::from("sk-secret")));
    running.tee.send(Event::RequestEnd(ExchangeKey(2)));
    running.answer(2, "sk-secret");
    running.end(2, Ending::Complete).blocking_recv().unwrap();
    running.close();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"sk-secret").is_none());
    }
}

/// Replaces every `e`, and holds back half of each piece.
struct Redacts;
struct RedactsBody(Vec<u8>, u32);

impl Scrub for Redacts {
    fn body(&mut self, of: &BodyOf<'_>) -> Option<Box<dyn ScrubBody>> {
        assert_eq!(of.owner, "ann");
        assert_eq!(of.headers.contains_key("content-type"), of.half == Half::Response);
        Some(Box::new(RedactsBody(Vec::new(), 0)))
    }
}

impl ScrubBody for RedactsBody {
    fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.0);
        let half = piece.len() / 2;
        for (index, byte) in piece.iter().enumerate() {
            self.1 += u32::from(*byte == b'e');
            let kept = if *byte == b'e' { b'*' } else { *byte };
            if index < half {
                out.push(kept);
            } else {
                self.0.push(kept);
            }
        }
    }
    fn end(&mut self, out: &mut Vec<u8>) -> u32 {
        out.append(&mut self.0);
        self.1
    }
    fn held(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn bodies_go_through_the_scrubber_before_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let files = Arc::new(folder_of(folder.path()));
    let running = Running::with_scrub(files, patient(), Box::new(Redacts));
    running.begin(1, "here");
    running.answer(1, "there");
    running.data(1, b" and everywhere", 5);
    running.end(1, Ending::Complete).blocking_recv().unwrap();
    let entries = read_all(&running.journal);
    let found = &bodies(&entries)[&1];
    assert_eq!(
        (&*found.request, &*found.answer),
        (&b"h*r*"[..], &b"th*r* and *v*rywh*r*"[..])
    );
    let Payload::End(end) = &entries[1].payload else {
        panic!();
    };
    assert_eq!(end.redactions, 8);
}

#[test]
fn the_queue_is_bounded_and_streams_go_on_when_the_worker_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    let piece = vec![b'x'; 64 << 10];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // 200 streams that end only together: far more than the bound, none of them enough for a chunk.
    for key in 0..200 {
        running.begin(key, "{}");
        running.answer(key, "");
    }
    for _ in 0..3 {
        for key in 0..200 {
            runtime.block_on(std::future::poll_fn(|cx| running.tee.poll_room(cx)));
            running.data(key, &piece, 1);
        }
    }
    let waiting: Vec<_> = (0..200).map(|key| running.end(key, Ending::Complete)).collect();
    for released in waiting {
        assert!(released.blocking_recv().unwrap().acknowledged);
    }
    let found = bodies(&read_all(&running.journal));
    assert!(found.values().all(|bodies| bodies.answer.len() == 3 * piece.len()));
}

#[test]
fn nobody_waits_for_a_worker_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path());
    let tee = running.tee.clone();
    running.close();
    let (release, released) = tokio::sync::oneshot::channel();
    tee.send(Event::End {
        exchange: ExchangeKey(1),
        ending: Ending::Complete,
        at: Micros(0),
        release: Some(release),
    });
    assert!(released.blocking_recv().is_err());
    let (tee, inbox) = channel(10);
    tee.send(Event::RequestData(ExchangeKey(1), Bytes::from_static(&[0; 100])));
    drop(inbox);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(std::future::poll_fn(|cx| tee.poll_room(cx)));
}
