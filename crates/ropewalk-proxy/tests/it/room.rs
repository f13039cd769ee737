//! What happens when there is no room.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropewalk_proxy::journal::payload::{Ending, Payload};
use ropewalk_proxy::journal::{Journal, Position, Settings, WhenFull};

use crate::support::{Faulty, Running, bodies, folder_of, patient, read_all, wait_for};

fn tiny(when_full: WhenFull) -> Settings {
    Settings {
        when_full,
        bytes_max: 64 << 10,
        segment_bytes: 8 << 10,
        ..patient()
    }
}

fn fill(running: &Running) -> u64 {
    let text = "x".repeat(2_000);
    (0..)
        .find(|key| {
            !running
                .exchange(*key, &text, &text)
                .blocking_recv()
                .unwrap()
                .acknowledged
        })
        .unwrap()
}

fn trim_all(journal: &Journal) {
    let last = read_all(journal).last().unwrap().at;
    journal.trim(last, &std::collections::BTreeSet::new());
}

fn gaps(journal: &Journal) -> Vec<u64> {
    let gap = |payload: &Payload| match payload {
        Payload::Gap(gap) => Some(gap.exchanges),
        _ => None,
    };
    read_all(journal)
        .iter()
        .filter_map(|entry| gap(&entry.payload))
        .collect()
}

#[test]
fn open_passes_on_and_counts_what_is_missing_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(Arc::new(folder_of(folder.path())), tiny(WhenFull::Open));
    let first_lost = fill(&running);
    for key in 100..110 {
        assert!(
            !running
                .exchange(key, &"y".repeat(9_000), "{}")
                .blocking_recv()
                .unwrap()
                .acknowledged
        );
    }
    assert!(running.journal.accepts());
    assert!(gaps(&running.journal).is_empty());
    trim_all(&running.journal);
    wait_for(|| !gaps(&running.journal).is_empty());
    assert_eq!(gaps(&running.journal), [11]);
    assert_eq!(running.counters().gap_exchanges.load(Ordering::Relaxed), 11);
    assert!(
        running
            .exchange(first_lost, "{}", "{}")
            .blocking_recv()
            .unwrap()
            .acknowledged
    );
}

#[test]
fn an_exchange_that_began_before_it_was_full_is_closed_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(Arc::new(folder_of(folder.path())), tiny(WhenFull::Open));
    running.begin(1_000, "{}");
    fill(&running);
    running.answer(1_000, &"z".repeat(9_000));
    let released = running.end(1_000, ropewalk_proxy::tee::Ending::Complete);
    assert!(!released.blocking_recv().unwrap().acknowledged);
    let begun_in = read_all(&running.journal)[0].header.exchange;
    let last = read_all(&running.journal).last().unwrap().at;
    running
        .journal
        .trim(last, &std::collections::BTreeSet::from([begun_in.segment()]));
    let is_closed = |journal: &Journal| {
        read_all(journal).iter().any(|entry| {
            entry.header.exchange == begun_in
                && matches!(&entry.payload, Payload::End(end) if end.ending == Ending::Lost)
        })
    };
    wait_for(|| is_closed(&running.journal));
}

#[test]
fn strict_refuses_before_it_is_full_and_accepts_again() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(Arc::new(folder_of(folder.path())), tiny(WhenFull::Strict));
    let text = "x".repeat(2_000);
    let mut key = 0;
    while running.journal.accepts() {
        assert!(
            running
                .exchange(key, &text, &text)
                .blocking_recv()
                .unwrap()
                .acknowledged
        );
        key += 1;
    }
    // One that had begun by then still has room.
    assert!(
        running
            .exchange(key, &text, &text)
            .blocking_recv()
            .unwrap()
            .acknowledged
    );
    trim_all(&running.journal);
    assert!(running.journal.accepts());
}

#[test]
fn a_disk_that_is_full_counts_as_full_and_is_tried_again() {
    for when_full in [WhenFull::Open, WhenFull::Strict] {
        let folder = tempfile::tempdir().unwrap();
        let files = Faulty::open(folder.path());
        let switches = files.switches.clone();
        let settings = Settings { when_full, ..patient() };
        let running = Running::start(files, settings);
        assert!(running.exchange(1, "one", "1").blocking_recv().unwrap().acknowledged);
        switches.appends_fail.store(true, Ordering::SeqCst);
        assert!(!running.exchange(2, "two", "2").blocking_recv().unwrap().acknowledged);
        assert!(!running.exchange(3, "three", "3").blocking_recv().unwrap().acknowledged);
        assert_eq!(running.journal.accepts(), when_full == WhenFull::Open);
        switches.appends_fail.store(false, Ordering::SeqCst);
        wait_for(|| !gaps(&running.journal).is_empty());
        assert!(running.journal.accepts());
        assert!(running.exchange(4, "four", "4").blocking_recv().unwrap().acknowledged);
        assert_eq!(gaps(&running.journal), [2]);
        let journal = running.close();
        let found = bodies(&read_all(&journal));
        let requests: Vec<_> = found.values().map(|bodies| &*bodies.request).collect();
        assert_eq!(requests, [&b"one"[..], b"four"]);
        // The torn halves are in nobody's way.
        drop(journal);
        let copy = crate::support::copy_of(folder.path());
        let (entries, _) = crate::support::read_folder(copy.path());
        assert_eq!(bodies(&entries), found);
    }
}

#[test]
fn a_reader_goes_on_behind_a_segment_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(Arc::new(folder_of(folder.path())), tiny(WhenFull::Open));
    fill(&running);
    let mut reader = running.journal.reader(Position::default());
    reader.find_next().unwrap().unwrap();
    trim_all(&running.journal);
    while reader.find_next().unwrap().is_some() {}
    assert_eq!(
        reader.position().segment,
        read_all(&running.journal).last().unwrap().at.segment
    );
}
