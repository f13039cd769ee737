//! Segments: who may use them, when they go, and how a reader goes through them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use ropewalk_proxy::journal::payload::{self, Payload};
use ropewalk_proxy::journal::record::Kind;
use ropewalk_proxy::journal::{Folder, FolderError, Journal, Position, Settings, Writer};

use crate::support::{open, read_all, read_folder};

fn small() -> Settings {
    Settings {
        segment_bytes: 1_000,
        ..Settings::default()
    }
}

/// One record that fills most of a segment's bound.
fn write(writer: &mut Writer, content: u8) {
    writer.add(Kind::RequestChunk, None, |out| {
        payload::write_request_chunk(out, true);
        out.extend_from_slice(&[content; 600]);
    });
    writer.write(Vec::new(), Instant::now()).unwrap();
}

fn contents(journal: &Journal) -> Vec<u8> {
    let content = |payload: &Payload| match payload {
        Payload::RequestChunk(chunk) => chunk.body[0],
        other => panic!("{other:?}"),
    };
    read_all(journal).iter().map(|entry| content(&entry.payload)).collect()
}

fn segment_files(folder: &Path) -> usize {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "journal"))
        .count()
}

#[test]
fn a_second_process_cannot_use_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = Folder::open(folder.path()).unwrap();
    assert!(matches!(Folder::open(folder.path()), Err(FolderError::InUse { .. })));
    drop(first);
    crate::support::folder_of(folder.path());
}

#[test]
fn records_are_read_in_order_over_segments_and_processes() {
    let folder = tempfile::tempdir().unwrap();
    for run in 0..3 {
        let (journal, mut writer) = open(folder.path(), small());
        assert_eq!(contents(&journal), (0..run * 10).collect::<Vec<_>>());
        for content in 0..10 {
            write(&mut writer, run * 10 + content);
        }
        assert_eq!(contents(&journal).len(), usize::from(run) * 10 + 10);
    }
    let (entries, _) = read_folder(folder.path());
    assert!(
        entries
            .windows(2)
            .all(|pair| pair[0].header.sequence < pair[1].header.sequence)
    );
}

#[test]
fn starts_to_which_nothing_comes_leave_no_segments_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut writer) = open(folder.path(), small());
    write(&mut writer, 7);
    drop(writer);
    let mut first_own = 0;
    for _ in 0..5 {
        let (journal, _writer) = open(folder.path(), small());
        assert!(journal.first_own_segment() > first_own, "a number is never given again");
        first_own = journal.first_own_segment();
        assert_eq!(contents(&journal), [7]);
        assert_eq!(
            segment_files(folder.path()),
            2,
            "the one that says something, and our own"
        );
    }
}

#[test]
fn a_record_is_found_again_by_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), small());
    for content in 0..10 {
        write(&mut writer, content);
    }
    let entries = read_all(&journal);
    let mut reader = journal.reader(Position::default());
    for entry in entries.iter().rev() {
        let again = reader.read_at(entry.at).unwrap().unwrap();
        assert_eq!(again.payload, entry.payload);
    }
    let nowhere = Position { segment: 99, offset: 0 };
    assert!(reader.read_at(nowhere).unwrap().is_none());
}

#[test]
fn segments_go_when_they_are_recorded_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), small());
    for content in 0..10 {
        write(&mut writer, content);
    }
    let before = segment_files(folder.path());
    let entries = read_all(&journal);
    // Up to the middle of a segment: that one stays.
    let to = entries[5].at;
    let bytes = journal.bytes();
    assert_eq!(journal.trim(to, &BTreeSet::new()), to.segment as usize - 1);
    assert_eq!(segment_files(folder.path()), before - (to.segment as usize - 1));
    assert!(journal.bytes() < bytes);
    assert_eq!(contents(&journal)[0], entries_from(&entries, to.segment));
}

fn entries_from(entries: &[ropewalk_proxy::journal::Entry], segment: u32) -> u8 {
    let index = entries.iter().position(|entry| entry.at.segment == segment).unwrap();
    u8::try_from(index).unwrap()
}

#[test]
fn an_open_exchange_pins_the_segments_it_is_in_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), small());
    for content in 0..10 {
        write(&mut writer, content);
    }
    let last = read_all(&journal).last().unwrap().at;
    let pinned = BTreeSet::from([1, 3]);
    journal.trim(last, &pinned);
    let left: BTreeSet<u32> = read_all(&journal).iter().map(|entry| entry.at.segment).collect();
    assert_eq!(left, BTreeSet::from([1, 3, last.segment]));
}

#[tokio::test]
async fn a_live_reader_is_told_of_more_and_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), small());
    let mut reader = journal.reader(Position::default());
    let writing = std::thread::spawn(move || {
        for content in 0..100 {
            write(&mut writer, content);
            if content % 10 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    });
    let mut count = 0;
    loop {
        let closed = reader.is_closed();
        while reader.find_next().unwrap().is_some() {
            count += 1;
        }
        if closed {
            break;
        }
        reader.more().await;
    }
    writing.join().unwrap();
    assert_eq!(count, 100);
}

#[test]
fn a_sealed_segment_goes_although_nothing_is_written_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, mut writer) = open(folder.path(), Settings::default());
    write(&mut writer, 1);
    let mut reader = journal.reader(Position::default());
    assert!(reader.find_next().unwrap().is_some());
    writer.seal();
    assert!(reader.find_next().unwrap().is_none());
    assert_eq!(journal.trim(reader.position(), &BTreeSet::new()), 1);
    write(&mut writer, 2);
    assert!(reader.find_next().unwrap().is_some());
    assert_eq!(contents(&journal), [2]);
}
