//! Damage costs the records it lies in.

use std::path::PathBuf;
use std::time::Instant;

use proptest::prelude::*;
use ropewalk_proxy::journal::Settings;
use ropewalk_proxy::journal::payload::{self, Payload};
use ropewalk_proxy::journal::record::{HEADER_BYTES, Kind, MARKER};

use crate::support::{open, read_folder};

/// Writes request chunks with these bodies and gives the file and where each record begins.
fn written(folder: &std::path::Path, contents: &[Vec<u8>]) -> (PathBuf, Vec<usize>) {
    let (_journal, mut writer) = open(folder, Settings::default());
    let mut starts = Vec::new();
    for content in contents {
        starts.push(writer.buffered());
        writer.add(Kind::RequestChunk, None, |out| {
            payload::write_request_chunk(out, true);
            out.extend_from_slice(content);
        });
    }
    starts.push(writer.buffered());
    writer.write(Vec::new(), Instant::now()).unwrap();
    (only_segment(folder), starts)
}

fn only_segment(folder: &std::path::Path) -> PathBuf {
    let mut paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .find(|path| path.extension().is_some_and(|suffix| suffix == "journal"))
        .unwrap()
}

fn read_contents(folder: &std::path::Path) -> Vec<Vec<u8>> {
    let (entries, _) = read_folder(folder);
    let content = |payload: Payload| match payload {
        Payload::RequestChunk(chunk) => chunk.body.to_vec(),
        other => panic!("{other:?}"),
    };
    entries.into_iter().map(|entry| content(entry.payload)).collect()
}

#[derive(Debug, Clone)]
enum Harm {
    Flip { at: prop::sample::Index, bit: u8 },
    Garbage { at: prop::sample::Index, bytes: Vec<u8> },
    Cut { at: prop::sample::Index },
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Harm::Flip { at, bit }),
        (at(), prop::collection::vec(any::<u8>(), 1..200)).prop_map(|(at, bytes)| Harm::Garbage { at, bytes }),
        at().prop_map(|at| Harm::Cut { at }),
    ]
}

/// Bodies that look like records, among others.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        Just(MARKER.to_vec()),
        Just(MARKER[..2].to_vec()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_undamaged_record_is_read_back(
        contents in prop::collection::vec(content(), 1..20),
        harms in prop::collection::vec(harm(), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (path, starts) = written(folder.path(), &contents);
        let original = std::fs::read(&path).unwrap();
        let mut bytes = original.clone();
        for harm in harms {
            if bytes.is_empty() {
                break;
            }
            match harm {
                Harm::Flip { at, bit } => {
                    let at = at.index(bytes.len());
                    bytes[at] ^= 1 << bit;
                }
                Harm::Garbage { at, bytes: garbage } => {
                    let at = at.index(bytes.len());
                    let end = (at + garbage.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&garbage[..end - at]);
                }
                Harm::Cut { at } => bytes.truncate(at.index(bytes.len())),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let undamaged: Vec<_> = (0..contents.len())
            .filter(|index| bytes.get(starts[*index]..starts[index + 1]) == Some(&original[starts[*index]..starts[index + 1]]))
            .map(|index| contents[index].clone())
            .collect();
        prop_assert_eq!(read_contents(folder.path()), undamaged);
    }
}

fn contents() -> Vec<Vec<u8>> {
    (0..10).map(|index| vec![index; 100 + usize::from(index)]).collect()
}

#[test]
fn a_flipped_byte_anywhere_costs_one_record() {
    let original = contents();
    let record_bytes = HEADER_BYTES + 1 + original[4].len();
    for in_record in 0..record_bytes {
        let folder = tempfile::tempdir().unwrap();
        let (path, starts) = written(folder.path(), &original);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[starts[4] + in_record] ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        let mut expected = original.clone();
        expected.remove(4);
        assert_eq!(read_contents(folder.path()), expected, "byte {in_record}");
        let (_, counters) = read_folder(folder.path());
        assert_eq!(counters.bad_records.load(std::sync::atomic::Ordering::Relaxed), 1);
    }
}

#[test]
fn a_torn_tail_is_cut_at_the_last_whole_record() {
    let original = contents();
    let folder = tempfile::tempdir().unwrap();
    let (path, starts) = written(folder.path(), &original);
    let bytes = std::fs::read(&path).unwrap();
    for length in (starts[8]..=bytes.len()).rev() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let whole = starts[1..].iter().filter(|end| **end <= length).count();
        let (entries, counters) = read_folder(folder.path());
        assert_eq!(entries.len(), whole);
        let is_torn = !starts.contains(&length);
        let torn = counters.torn_tails.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(torn, u64::from(is_torn), "{length}");
        assert_eq!(counters.bad_records.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}

#[test]
fn a_record_inside_of_a_body_is_never_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = written(folder.path(), &[b"forged".to_vec()]);
    let forged = std::fs::read(path).unwrap();
    let other = tempfile::tempdir().unwrap();
    // Its own header is damaged, so the reader searches through the body.
    let (path, _) = written(other.path(), &[forged, b"true".to_vec()]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read_contents(other.path()), [b"true".to_vec()]);
}
