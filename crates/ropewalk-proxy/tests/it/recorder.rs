//! From events to recorded and linked exchanges, with a real store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::decode::DecodeLimits;
use ropewalk_engine::redact::{RedactRules, Redactor};
use ropewalk_proxy::journal::payload::Payload;
use ropewalk_proxy::journal::{Entry, Settings};
use ropewalk_proxy::recorder::{REJECTED_BYTES_MAX, Recording, Setup};
use ropewalk_proxy::tee::{Ending, Event, ExchangeKey, Redacting};
use ropewalk_store::derived::Links;
use ropewalk_store::facts::{OwnerId, Status};
use ropewalk_store::store::{ExchangeRow, Half, SearchQuery, Selection, StoreError};
use ropewalk_store::{Micros, Store};

use crate::moody_store::Moody;
use crate::support::{PATIENCE, Running, answer_head, bodies, copy_of, folder_of, head, patient, read_all, wait_for};

/// Everything but forwarding, on real files.
struct House {
    running: Running,
    recording: Recording,
    store: Arc<Moody>,
}

impl House {
    fn start(folder: &Path) -> Self {
        Self::with_settings(folder, patient())
    }

    fn with_settings(folder: &Path, settings: Settings) -> Self {
        Self::with(folder, settings, setup())
    }

    fn with(folder: &Path, settings: Settings, setup: Setup) -> Self {
        let store = Arc::new(Moody::open(&folder.join("store")).unwrap());
        let files = folder_of(&folder.join("journal"));
        let running = Running::start(Arc::new(files), settings);
        let opened = Arc::clone(&store);
        let open = move || std::future::ready(Ok(Arc::clone(&opened)));
        let recording = Recording::start(running.journal.clone(), setup, open).unwrap();
        House {
            running,
            recording,
            store,
        }
    }

    fn close(self) -> Arc<Moody> {
        self.running.close();
        assert!(self.recording.finish(PATIENCE));
        self.store
    }

    fn send(&self, key: u64, messages: &[&str], answer: &str) {
        let released = self.running.exchange(key, &request(messages), &response(answer));
        assert!(released.blocking_recv().unwrap().acknowledged);
    }
}

fn setup() -> Setup {
    Setup {
        prices: Arc::new(BundledPrices),
        settings: ropewalk_engine::Settings::default(),
        spawn_tools: ropewalk_engine::spawn::SpawnTools::default(),
        rejected_bytes_max: REJECTED_BYTES_MAX,
        telemetry: None,
    }
}

/// User and assistant in turn.
fn request(messages: &[&str]) -> String {
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages: Vec<_> = messages
        .iter()
        .zip(roles)
        .map(|(text, role)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    format!(
        r#"{{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{}]}}"#,
        messages.join(",")
    )
}

fn response(text: &str) -> String {
    format!(
        r#"{{"id":"msg_{text}","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":3,"output_tokens":2}}}}"#
    )
}

fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn rows(store: &Moody) -> Vec<ExchangeRow> {
    now(async {
        let Some(owner) = store.find_owner("ann").await.unwrap() else {
            return Vec::new();
        };
        let all = Selection::Since {
            after: None,
            limit: 1_000,
        };
        store.exchanges(owner, all, Micros::MAX).await.unwrap()
    })
}

#[test]
#[cfg(target_os = "linux")]
fn the_recorder_stands_back_behind_forwarding() {
    let nice_now = || rustix::process::getpriority_process(None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(Arc::new(folder_of(&folder.path().join("journal"))), patient());
    let store = Arc::new(Moody::open(&folder.path().join("store")).unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    // The recorder's thread opens the store.
    let open = move || {
        tell.send(nice_now()).unwrap();
        std::future::ready(Ok(Arc::clone(&store)))
    };
    let recording = Recording::start(running.journal.clone(), setup(), open).unwrap();
    assert!(told.recv_timeout(PATIENCE).unwrap() > nice_now().min(18));
    running.close();
    assert!(recording.finish(PATIENCE));
}

#[test]
fn exchanges_are_recorded_linked_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    house.send(1, &["hello"], "one");
    house.send(2, &["hello", "one", "more"], "two");
    house.send(3, &["hello", "one", "more", "two", "zebra"], "three");
    wait_for(|| house.running.counters().snapshot().by_label.links.values().sum::<u64>() == 3);
    wait_for(|| house.running.counters().snapshot().search_lag_ms == 0);
    let snapshot = house.running.counters().snapshot();
    let label = ("anthropic".to_owned(), "turn".to_owned(), "complete");
    assert_eq!(snapshot.by_label.exchanges[&label], 3);
    assert_eq!(
        (snapshot.by_label.links["new"], snapshot.by_label.links["prefix"]),
        (1, 2)
    );
    let store = house.close();
    let rows = rows(&store);
    assert!(
        rows.iter()
            .all(|row| row.status == Status::Complete && row.http_status == Some(200))
    );
    now(async {
        let owner = store.find_owner("ann").await.unwrap().unwrap();
        let links = store
            .links(owner, Links::Of(rows.iter().map(|row| row.number).collect()))
            .await
            .unwrap();
        assert!(links.iter().all(|link| link.conversation == links[0].conversation));
        assert_eq!(links[2].parent, Some(links[1].exchange));
        let query = SearchQuery {
            text: "zebra".to_owned(),
            source: None,
            model: None,
            since: None,
            limit: 10,
        };
        assert_eq!(store.search(owner, query).await.unwrap().len(), 1);
        let body = store.body(owner, rows[0].number, Half::Request).await.unwrap();
        assert_eq!(body.unwrap(), request(&["hello"]).as_bytes());
    });
}

#[test]
fn a_long_exchange_is_pending_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    house.running.begin(1, &request(&["slow"]));
    wait_for(|| rows(&house.store).len() == 1);
    assert_eq!(rows(&house.store)[0].status, Status::Pending);
    house.running.answer(1, &response("at last"));
    assert!(
        house
            .running
            .end(1, Ending::Complete)
            .blocking_recv()
            .unwrap()
            .acknowledged
    );
    wait_for(|| rows(&house.store)[0].status == Status::Complete);
    let store = house.close();
    assert_eq!(rows(&store).len(), 1);
    assert!(rows(&store)[0].detail.contains("first_byte_ms"));
}

#[test]
fn endings_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    for (key, ending) in [
        (1, Ending::ClientCancelled),
        (2, Ending::Truncated),
        (3, Ending::Complete),
    ] {
        house.running.begin(key, &request(&["hello"]));
        house.running.answer(key, &response("text")[..40]);
        house.running.end(key, ending).blocking_recv().unwrap();
    }
    // Nothing came back at all.
    house.running.begin(4, &request(&["hello"]));
    house.running.end(4, Ending::ClientCancelled).blocking_recv().unwrap();
    let store = house.close();
    let mut found: Vec<_> = rows(&store).iter().map(|row| (row.id.clone(), row.status)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let statuses: Vec<_> = found.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses[..2], [Status::ClientCancelled, Status::Truncated]);
    assert!(matches!(statuses[2], Status::Error | Status::Truncated));
    assert_eq!(statuses[3], Status::ClientCancelled);
}

#[test]
fn what_a_dead_process_left_is_recorded_once_and_its_streams_are_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let dead = tempfile::tempdir().unwrap();
    {
        // No recorder: as if it died before it came to that.
        let files = folder_of(dead.path());
        let running = Running::start(Arc::new(files), patient());
        for key in 1..=20 {
            let released = running.exchange(key, &request(&["hello"]), &response("one"));
            released.blocking_recv().unwrap();
        }
        running.begin(100, &request(&["never answered"]));
        running.begin(101, &request(&["half answered"]));
        running.answer(101, &response("text")[..60]);
        wait_for(|| {
            bodies(&read_all(&running.journal))
                .get(&101)
                .is_some_and(|of| of.answer.len() == 60)
        });
        let copy = copy_of(dead.path());
        std::fs::rename(copy.path(), folder.path().join("journal")).unwrap();
    }
    for again in 0..3 {
        let house = House::start(folder.path());
        wait_for(|| {
            rows(&house.store)
                .iter()
                .filter(|row| row.status != Status::Pending)
                .count()
                == 22 + again
        });
        // A new exchange of the same key as one of the dead is another exchange.
        house.running.begin(1_000 + again as u64, &request(&["new"]));
        house.running.answer(1_000 + again as u64, &response("new"));
        house
            .running
            .end(1_000 + again as u64, Ending::Complete)
            .blocking_recv()
            .unwrap();
        let store = house.close();
        let rows = rows(&store);
        assert_eq!(rows.len(), 23 + again);
        let truncated = rows.iter().filter(|row| row.status == Status::Truncated).count();
        assert_eq!(truncated, 2);
        assert_eq!(
            now(async { store.stats(store.find_owner("ann").await.unwrap().unwrap()).await })
                .unwrap()
                .conflicts,
            0
        );
    }
}

#[test]
fn replaying_everything_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    for key in 1..=50 {
        house.send(key, &["hello", "one", &format!("message {key}")], "two");
    }
    wait_for(|| rows(&house.store).len() == 50);
    let journal = copy_of(&folder.path().join("journal"));
    let store = house.close();
    let before = rows(&store);
    drop(store);
    std::fs::remove_dir_all(folder.path().join("journal")).unwrap();
    let _ = std::fs::remove_file(journal.path().join("position"));
    std::fs::rename(journal.path(), folder.path().join("journal")).unwrap();
    let store = House::start(folder.path()).close();
    assert_eq!(rows(&store), before);
}

#[test]
fn a_store_that_fails_for_a_while_loses_nothing_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        segment_bytes: 64 << 10,
        ..patient()
    };
    let house = House::with_settings(folder.path(), settings);
    house.store.down.store(true, Ordering::SeqCst);
    for key in 1..=600 {
        house.send(key, &[&format!("message {key} {}", "x".repeat(500))], "one");
    }
    wait_for(|| house.running.counters().snapshot().store_failures > 0);
    assert!(rows(&house.store).is_empty());
    // It waits between attempts.
    assert!(house.store.attempts.load(Ordering::SeqCst) < 20);
    let bytes = house.running.journal.bytes();
    house.store.down.store(false, Ordering::SeqCst);
    wait_for(|| rows(&house.store).len() == 600);
    wait_for(|| house.running.journal.bytes() < bytes / 4);
    assert_eq!(house.running.counters().snapshot().store_failures, 0);
    assert_eq!(rows(&house.close()).len(), 600);
}

#[test]
fn a_store_that_another_writer_holds_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    house.send(1, &["before"], "one");
    wait_for(|| rows(&house.store).len() == 1);
    let file = std::fs::read_dir(folder.path().join("store"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| {
        path.extension()
            .is_some_and(|suffix| suffix == "db" || suffix == "sqlite")
    });
    let other = rusqlite::Connection::open(file.unwrap()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for key in 2..=40 {
        house.send(key, &[&format!("locked {key}")], "one");
    }
    std::thread::sleep(Duration::from_millis(500));
    other.execute_batch("ROLLBACK").unwrap();
    wait_for(|| rows(&house.store).len() == 40);
    house.close();
}

#[test]
fn a_store_that_cannot_be_opened_at_first_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder_of(&folder.path().join("journal"));
    let running = Running::start(Arc::new(files), patient());
    let store_folder = folder.path().join("store");
    let attempts = AtomicU64::new(0);
    let open = move || {
        let attempt = attempts.fetch_add(1, Ordering::SeqCst);
        std::future::ready(match attempt {
            0..3 => Err(StoreError::Locked),
            _ => Moody::open(&store_folder).map(Arc::new),
        })
    };
    let recording = Recording::start(running.journal.clone(), setup(), open).unwrap();
    let released = running.exchange(1, &request(&["hello"]), &response("one"));
    assert!(released.blocking_recv().unwrap().acknowledged);
    running.close();
    assert!(recording.finish(PATIENCE));
    assert_eq!(rows(&Moody::open(&folder.path().join("store")).unwrap()).len(), 1);
}

#[test]
fn a_store_that_stopped_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder_of(&folder.path().join("journal"));
    let running = Running::start(Arc::new(files), patient());
    let first = Arc::new(Moody::open(&folder.path().join("first")).unwrap());
    first.stopped.store(true, Ordering::SeqCst);
    let second = Arc::new(Moody::open(&folder.path().join("second")).unwrap());
    let stores = std::sync::Mutex::new(vec![Arc::clone(&second), first]);
    let open = move || {
        let store = stores.lock().unwrap().pop();
        std::future::ready(store.ok_or(StoreError::Locked))
    };
    let recording = Recording::start(running.journal.clone(), setup(), open).unwrap();
    running
        .exchange(1, &request(&["hello"]), &response("one"))
        .blocking_recv()
        .unwrap();
    running.close();
    assert!(recording.finish(PATIENCE));
    assert_eq!(rows(&second).len(), 1);
}

#[test]
fn a_shutdown_does_not_wait_for_a_store_that_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    house.store.down.store(true, Ordering::SeqCst);
    house.send(1, &["hello"], "one");
    house.running.close();
    assert!(!house.recording.finish(Duration::from_millis(300)));
    drop(house.store);
    assert_eq!(rows(&House::start(folder.path()).close()).len(), 1);
}

#[test]
fn a_bad_exchange_is_put_aside_and_the_others_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::start(folder.path());
    let (bad, doubtful) = (request(&["bad one"]), request(&["a doubtful one"]));
    house.store.bad_lengths.lock().unwrap().insert(bad.len() as u64);
    house
        .store
        .doubtful_lengths
        .lock()
        .unwrap()
        .insert(doubtful.len() as u64);
    house.store.down.store(true, Ordering::SeqCst);
    for (key, messages) in [
        (1, "good"),
        (2, "bad one"),
        (3, "good too"),
        (4, "a doubtful one"),
        (5, "and good"),
    ] {
        house.send(key, &[messages], "one");
    }
    std::thread::sleep(Duration::from_millis(100));
    house.store.down.store(false, Ordering::SeqCst);
    wait_for(|| house.running.counters().snapshot().rejected == 2);
    wait_for(|| rows(&house.store).len() == 3);
    house.close();
    let rejected = std::fs::read_to_string(folder.path().join("journal/rejected.jsonl")).unwrap();
    let mut lines = rejected.lines();
    assert!(lines.next().unwrap().contains("bad one") && lines.next().unwrap().contains("a doubtful one"));
    let line = ropewalk_wire::exchange::ExchangeLine::parse(rejected.lines().next().unwrap().as_bytes()).unwrap();
    assert_eq!(line.request.body, bad.as_bytes());
}

#[test]
fn what_is_put_aside_has_a_bound_and_the_rest_is_counted() {
    const ROOM: u64 = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let bounded = Setup {
        rejected_bytes_max: ROOM,
        ..setup()
    };
    let house = House::with(folder.path(), patient(), bounded);
    house
        .store
        .bad_lengths
        .lock()
        .unwrap()
        .insert(request(&["bad one"]).len() as u64);
    for key in 1..=10 {
        house.send(key, &["bad one"], "one");
    }
    house.send(11, &["good"], "one");
    wait_for(|| rows(&house.store).len() == 1);
    wait_for(|| house.running.counters().snapshot().rejected == 10);
    let counted = house.running.counters().snapshot();
    house.close();
    let rejected = std::fs::read_to_string(folder.path().join("journal/rejected.jsonl")).unwrap();
    let kept = rejected.lines().count() as u64;
    assert!(
        rejected.len() as u64 <= ROOM && kept > 0,
        "{kept} lines of {}",
        rejected.len()
    );
    assert_eq!(kept + counted.rejected_not_kept, 10);
}

#[test]
fn an_answer_that_is_larger_than_is_kept_is_recorded_as_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let limits = DecodeLimits {
        decoded_bytes_max: 1_000,
        ..DecodeLimits::default()
    };
    let redactor = Arc::new(Redactor::new(&RedactRules::default()).unwrap());
    let scrub = Redacting::new(redactor, [7; 32], limits);
    let store = Arc::new(Moody::open(&folder.path().join("store")).unwrap());
    let files = Arc::new(folder_of(&folder.path().join("journal")));
    let running = Running::with_scrub(files, patient(), Box::new(scrub));
    let opened = Arc::clone(&store);
    let open = move || std::future::ready(Ok(Arc::clone(&opened)));
    let recording = Recording::start(running.journal.clone(), setup(), open).unwrap();
    let house = House {
        running,
        recording,
        store,
    };
    let text = "x".repeat(3_000);
    house.send(1, &["much"], &text);
    house.send(2, &["little"], "one");
    let store = house.close();
    let rows = rows(&store);
    let of = |id: u128| rows.iter().find(|row| row.id.ends_with(&id.to_string())).unwrap();
    assert_eq!((of(1).status, of(2).status), (Status::Truncated, Status::Complete));
    let kept = now(store.body(owner_of(&store), of(1).number, Half::Response))
        .unwrap()
        .unwrap();
    assert_eq!(kept, response(&text).as_bytes()[..1_000]);
}

fn owner_of(store: &Moody) -> OwnerId {
    now(store.find_owner("ann")).unwrap().unwrap()
}

#[test]
fn a_long_stream_survives_the_trimming_of_segments_around_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        segment_bytes: 32 << 10,
        ..patient()
    };
    let house = House::with_settings(folder.path(), settings);
    let question = request(&[&"long ".repeat(100_000)]);
    house.running.tee.send(Event::Begin(ExchangeKey(1_000), head(1_000)));
    for piece in question.as_bytes().chunks(50_000) {
        let piece = Bytes::copy_from_slice(piece);
        house.running.tee.send(Event::RequestData(ExchangeKey(1_000), piece));
    }
    house.running.tee.send(Event::RequestEnd(ExchangeKey(1_000)));
    house
        .running
        .tee
        .send(Event::ResponseHead(ExchangeKey(1_000), answer_head()));
    let answer = response(&"answer ".repeat(100_000));
    let (first, second) = answer.as_bytes().split_at(400_000);
    house.running.data(1_000, first, 5);
    for key in 1..=200 {
        house.send(key, &[&format!("message {key} {}", "x".repeat(2_000))], "one");
    }
    let own = (question.len() + first.len()) as u64;
    wait_for(|| rows(&house.store).len() == 201 && house.running.journal.bytes() < own + (200 << 10));
    house.running.data(1_000, second, 6);
    house.running.end(1_000, Ending::Complete).blocking_recv().unwrap();
    let store = house.close();
    let rows = rows(&store);
    let row = rows
        .iter()
        .find(|row| row.request_length == question.len() as u64)
        .unwrap();
    now(async {
        let owner = store.find_owner("ann").await.unwrap().unwrap();
        let body = store.body(owner, row.number, Half::Response).await.unwrap().unwrap();
        assert!(body == answer.as_bytes());
    });
}

#[test]
fn a_stream_with_records_everywhere_does_not_fill_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        segment_bytes: 128 << 10,
        bytes_max: 1_200 << 10,
        ..patient()
    };
    let house = House::with_settings(folder.path(), settings);
    let question = request(&["long"]);
    house.running.begin(9_000, &question);
    house.running.answer(9_000, "");
    let mut answer = Vec::new();
    let mut key = 0;
    // More than the journal holds twice over, and pieces of the stream all along.
    for round in 0..4 {
        for _ in 0..150 {
            key += 1;
            house.send(key, &[&format!("message {key} {}", "x".repeat(3_000))], "one");
        }
        let piece = vec![b'a' + round; 20_000];
        house.running.data(9_000, &piece, 5 + i64::from(round));
        answer.extend_from_slice(&piece);
        wait_for(|| rows(&house.store).len() as u64 == key + 1);
        let is_of_the_piece = |entry: &Entry| match &entry.payload {
            Payload::ResponseChunk(chunk) => chunk.body.ends_with(&piece),
            _ => false,
        };
        wait_for(|| read_all(&house.running.journal).iter().any(is_of_the_piece));
        // A recorder that has not come round yet keeps what it has recorded; the next round needs half of the room.
        wait_for(|| house.running.counters().snapshot().journal_bytes <= 650 << 10);
    }
    let mut names = std::fs::read_dir(folder.path().join("journal"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    assert!(names.any(|path| path.extension().is_some_and(|suffix| suffix == "kept")));
    house.running.end(9_000, Ending::Complete).blocking_recv().unwrap();
    assert_eq!(house.running.counters().snapshot().gap_exchanges, 0);
    let store = house.close();
    let rows = rows(&store);
    assert_eq!(rows.len() as u64, key + 1);
    let row = rows
        .iter()
        .find(|row| row.request_length == question.len() as u64)
        .unwrap();
    now(async {
        let owner = store.find_owner("ann").await.unwrap().unwrap();
        let body = store.body(owner, row.number, Half::Response).await.unwrap().unwrap();
        assert!(body == answer);
    });
}
