//! The exchanges that other crates test with can be loaded, all of them.

use std::collections::BTreeSet;

use ropewalk_testkit::captures::{CaptureFile, captures, fixtures};

#[test]
fn every_fixture_loads_and_has_an_id_of_its_own() {
    let files = fixtures().unwrap();
    assert!(files.len() >= 4, "one file per format at least");
    assert_ids_are_unique(&files);
    for exchange in files.iter().flat_map(|file| &file.exchanges) {
        assert!(!exchange.request_body.is_empty(), "{}", exchange.id);
        assert!(!exchange.response_body.is_empty(), "{}", exchange.id);
        assert!(exchange.ended_at.is_some(), "{}", exchange.id);
    }
}

#[test]
fn every_capture_loads_and_has_an_id_of_its_own() {
    let Some(files) = captures().unwrap() else {
        return;
    };
    assert!(!files.is_empty());
    assert_ids_are_unique(&files);
}

fn assert_ids_are_unique(files: &[CaptureFile]) {
    let mut seen = BTreeSet::new();
    for exchange in files.iter().flat_map(|file| &file.exchanges) {
        assert!(seen.insert(&exchange.id), "{} appears twice", exchange.id);
    }
}
