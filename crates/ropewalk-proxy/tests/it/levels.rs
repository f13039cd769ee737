//! When an exchange is released, at each level.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ropewalk_proxy::journal::{Level, Settings};

use crate::support::{Faulty, PATIENCE, Running, patient, wait_for};

/// Syncs only when somebody waits for it: the beginning and the end of an exchange may come in two writes.
fn disk() -> Settings {
    Settings {
        level: Level::Disk,
        sync_after_max: PATIENCE,
        ..patient()
    }
}

fn impatient() -> Settings {
    Settings {
        hold_max: Duration::from_millis(50),
        ..disk()
    }
}

#[test]
fn os_releases_after_the_write_and_syncs_soon_after() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_gate.close();
    let running = Running::start(files, patient());
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    assert!(released.acknowledged);
    assert_eq!(switches.log_without_repeats(), ["append"]);
    switches.sync_gate.open();
    wait_for(|| switches.log_without_repeats().last() == Some(&"sync"));
}

#[test]
fn disk_releases_after_the_sync() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_gate.close();
    let running = Running::start(files, disk());
    let mut released = running.exchange(1, "{}", "{}");
    switches.sync_gate.wait_for_somebody();
    assert!(released.try_recv().is_err(), "it is held back");
    switches.sync_gate.open();
    assert!(released.blocking_recv().unwrap().acknowledged);
    // A new segment is durable when its name is.
    assert_eq!(switches.log_without_repeats(), ["append", "sync", "folder"]);
}

#[test]
fn disk_syncs_once_for_all_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_gate.close();
    let running = Running::start(files, disk());
    let waiting: Vec<_> = (0..200).map(|key| running.exchange(key, "{}", "{}")).collect();
    wait_for(|| running.counters().records.load(Ordering::Relaxed) == 400);
    switches.sync_gate.open();
    for released in waiting {
        assert!(released.blocking_recv().unwrap().acknowledged);
    }
    // The one that was under way, and one for all who came meanwhile.
    assert!(switches.syncs.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_sync_that_takes_too_long_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_gate.close();
    let running = Running::start(files, impatient());
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    assert!(!released.acknowledged);
    // And those that come while it hangs.
    let released = running.exchange(2, "{}", "{}").blocking_recv().unwrap();
    assert!(!released.acknowledged);
    assert_eq!(running.counters().unacknowledged.load(Ordering::Relaxed), 2);
    switches.sync_gate.open();
}

#[test]
fn a_write_that_hangs_is_not_waited_for_either() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.append_gate.close();
    let running = Running::start(files, impatient());
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    assert!(!released.acknowledged);
    switches.append_gate.open();
}

#[test]
fn a_failed_sync_acknowledges_nothing_and_the_next_segment_is_believed_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.syncs_fail.store(true, Ordering::SeqCst);
    let running = Running::start(files, disk());
    assert!(!running.exchange(1, "{}", "{}").blocking_recv().unwrap().acknowledged);
    switches.syncs_fail.store(false, Ordering::SeqCst);
    assert!(running.exchange(2, "{}", "{}").blocking_recv().unwrap().acknowledged);
    let counters = running.counters();
    assert_eq!(counters.sync_failures.load(Ordering::Relaxed), 1);
    assert!(running.exchange(3, "{}", "{}").blocking_recv().unwrap().acknowledged);
    let journal = running.close();
    let segments: std::collections::BTreeSet<_> = crate::support::read_all(&journal)
        .iter()
        .map(|entry| entry.at.segment)
        .collect();
    assert_eq!(segments.len(), 2);
}
