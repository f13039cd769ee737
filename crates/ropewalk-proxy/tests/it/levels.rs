//! When an exchange is released, at each level.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ropewalk_proxy::journal::{Level, Settings};

use crate::support::{Faulty, Running};

fn disk() -> Settings {
    Settings {
        level: Level::Disk,
        hold_max: Duration::from_millis(50),
        ..Settings::default()
    }
}

#[test]
fn os_releases_after_the_write_and_syncs_soon_after() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_ms.store(60, Ordering::SeqCst);
    let running = Running::start(files, Settings::default());
    let begun = Instant::now();
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    assert!(released.acknowledged);
    assert!(begun.elapsed() < Duration::from_millis(50));
    assert_eq!(*switches.log.lock().unwrap(), ["append"]);
    std::thread::sleep(Duration::from_millis(100 + 60 + 60));
    assert_eq!(*switches.log.lock().unwrap(), ["append", "sync"]);
}

#[test]
fn disk_releases_after_the_sync() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_ms.store(20, Ordering::SeqCst);
    let running = Running::start(files, disk());
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    assert!(released.acknowledged);
    // A new segment is durable when its name is.
    assert_eq!(*switches.log.lock().unwrap(), ["append", "sync", "folder"]);
}

#[test]
fn disk_syncs_once_for_all_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    let switches = files.switches.clone();
    switches.sync_ms.store(15, Ordering::SeqCst);
    let running = Running::start(
        files,
        Settings {
            hold_max: Duration::from_secs(10),
            ..disk()
        },
    );
    let waiting: Vec<_> = (0..200).map(|key| running.exchange(key, "{}", "{}")).collect();
    for released in waiting {
        assert!(released.blocking_recv().unwrap().acknowledged);
    }
    assert!(switches.syncs.load(Ordering::SeqCst) <= 5);
}

#[test]
fn a_sync_that_takes_too_long_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    files.switches.sync_ms.store(400, Ordering::SeqCst);
    let running = Running::start(files, disk());
    let begun = Instant::now();
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    let held = begun.elapsed();
    assert!(!released.acknowledged);
    assert!(
        held >= Duration::from_millis(45) && held < Duration::from_millis(150),
        "{held:?}"
    );
    // And those that come while it hangs.
    let released = running.exchange(2, "{}", "{}").blocking_recv().unwrap();
    assert!(!released.acknowledged);
    assert_eq!(running.counters().unacknowledged.load(Ordering::Relaxed), 2);
}

#[test]
fn a_write_that_hangs_is_not_waited_for_either() {
    let folder = tempfile::tempdir().unwrap();
    let files = Faulty::open(folder.path());
    files.switches.append_ms.store(300, Ordering::SeqCst);
    let running = Running::start(files, disk());
    let begun = Instant::now();
    let released = running.exchange(1, "{}", "{}").blocking_recv().unwrap();
    assert!(!released.acknowledged);
    assert!(begun.elapsed() < Duration::from_millis(200));
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
