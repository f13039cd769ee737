//! Exchanges that stay open for long keep what is theirs, and no more.

use std::path::Path;
use std::time::Instant;

use ropewalk_proxy::journal::payload::{self, Payload};
use ropewalk_proxy::journal::record::{Kind, Sequence};
use ropewalk_proxy::journal::{Entry, Journal, Position, Settings, Writer};

use crate::support::{copy_of, open, read_all, read_folder};

fn settings() -> Settings {
    Settings {
        segment_bytes: 4_000,
        bytes_max: 40_000,
        ..Settings::default()
    }
}

fn write(writer: &mut Writer, exchange: u64, content: u8) {
    writer.add(Kind::RequestChunk, Some(Sequence(exchange)), |out| {
        payload::write_request_chunk(out, true);
        out.extend_from_slice(&[content; 300]);
    });
    writer.write(Vec::new(), Instant::now()).unwrap();
}

/// Records of exchange 1 among many of others, over several segments.
fn fill(writer: &mut Writer) {
    for content in 0..100 {
        write(writer, if content % 10 == 5 { 1 } else { 2 }, content);
    }
}

fn contents(entries: &[Entry]) -> Vec<u8> {
    let content = |payload: &Payload| match payload {
        Payload::RequestChunk(chunk) => chunk.body[0],
        other => panic!("{other:?}"),
    };
    entries.iter().map(|entry| content(&entry.payload)).collect()
}

fn of_exchange(entries: &[Entry], exchange: u64) -> Vec<Position> {
    let its = entries
        .iter()
        .filter(|entry| entry.header.exchange == Sequence(exchange));
    its.map(|entry| entry.at).collect()
}

fn compacted(journal: &Journal) -> (Vec<Position>, u32) {
    let entries = read_all(journal);
    let needed = of_exchange(&entries, 1);
    let before = entries.last().unwrap().at.segment;
    assert!(journal.is_wasteful(before, 4_000));
    let moved = journal.compact(before, &needed).unwrap();
    let places = needed.iter().map(|at| moved.get(at).copied().unwrap_or(*at)).collect();
    (places, before)
}

fn count(folder: &Path, suffix: &str) -> usize {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == suffix))
        .count()
}

#[test]
fn what_is_needed_is_found_at_its_new_place_and_the_rest_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), settings());
    fill(&mut writer);
    let bytes = journal.bytes();
    let (places, before) = compacted(&journal);
    assert!(journal.bytes() < bytes / 3);
    assert!(!journal.is_wasteful(before, 4_000));
    let mut reader = journal.reader(Position::default());
    let found: Vec<_> = places.iter().map(|at| reader.read_at(*at).unwrap().unwrap()).collect();
    assert_eq!(contents(&found), [5, 15, 25, 35, 45, 55, 65, 75, 85, 95]);
    assert_eq!((count(folder.path(), "kept"), count(folder.path(), "journal")), (1, 1));
    // Once more, with the one that was put together among the old ones.
    fill(&mut writer);
    let (places, _) = compacted(&journal);
    assert_eq!(places.len(), 20);
    assert!(places.iter().all(|at| reader.read_at(*at).unwrap().is_some()));
    assert_eq!((count(folder.path(), "kept"), count(folder.path(), "journal")), (1, 1));
}

#[test]
fn a_crash_around_it_loses_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), settings());
    fill(&mut writer);
    let before = copy_of(folder.path());
    compacted(&journal);
    let after = copy_of(folder.path());
    let expected = contents(&read_all(&journal));
    // The new segment has its name, and the old ones are still there.
    for entry in std::fs::read_dir(before.path()).unwrap() {
        let entry = entry.unwrap();
        let to = after.path().join(entry.file_name());
        if !to.exists() {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
    let (entries, _) = read_folder(after.path());
    assert_eq!(contents(&entries), expected);
    assert_eq!(count(after.path(), "kept"), 1);
    // It has not.
    std::fs::write(before.path().join("kept.new"), b"half").unwrap();
    let (entries, _) = read_folder(before.path());
    assert_eq!(contents(&entries), (0..100).collect::<Vec<_>>());
}

#[test]
fn an_offset_of_the_time_before_reads_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), settings());
    fill(&mut writer);
    let (places, _) = compacted(&journal);
    let from = Position {
        segment: places[0].segment,
        offset: 1_234,
    };
    let mut reader = journal.reader(from);
    assert_eq!(reader.find_next().unwrap().unwrap().at, places[0]);
}
