//! What is in the way is told, the rest goes in, and the exit code says that something was left out.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::claude::{Session, talk};
use super::{count, exchanges};
use crate::store::TestStore;
use crate::{stderr, stdout};

/// Imports something of which a part cannot be read: the summary, and what was said.
#[track_caller]
fn import(store: &TestStore, path: &Path) -> (Value, String) {
    let output = store.run(&["--json", "import", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    (serde_json::from_str(&stdout(&output)).unwrap(), stderr(&output))
}

fn problem(summary: &Value) -> (u64, &str) {
    let problem = &summary["problems"][0];
    (problem["line"].as_u64().unwrap(), problem["message"].as_str().unwrap())
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_line_that_cannot_be_read_is_told_with_its_place() {
    let store = TestStore::new();
    let mut text = talk("s").text();
    text.push_str("{\"type\":\"user\",\"uuid\":\n");
    let file = store.file("s.jsonl", &text);
    let output = store.run(&["import", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("s.jsonl:7: no JSON"), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("3 read, 2 new"), "{}", stdout(&output));
}

#[test]
fn compressed_files_are_read_and_one_that_is_cut_off_as_far_as_it_goes() {
    let store = TestStore::new();
    let folder = store.folder();
    fs::write(folder.join("a.jsonl.gz"), gzip(talk("a").text().as_bytes())).unwrap();
    fs::write(
        folder.join("b.jsonl.zst"),
        zstd::encode_all(talk("b").text().as_bytes(), 3).unwrap(),
    )
    .unwrap();
    assert_eq!(count(&store.import(&folder.join("a.jsonl.gz")), "new"), 2);
    assert_eq!(count(&store.import(&folder.join("b.jsonl.zst")), "new"), 2);
    // Noise, so that the cut is behind the first lines rather than before them.
    let mut long = talk("c");
    for number in 0..4_000_u64 {
        let noise: String = (0..8)
            .map(|i| format!("{:x}", (number * 8 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        long.user(&noise);
    }
    let whole = gzip(long.text().as_bytes());
    let cut = folder.join("c.jsonl.gz");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let (summary, _) = import(&store, &cut);
    assert_eq!(count(&summary, "new"), 2, "{summary}");
    assert_eq!(problem(&summary).1, "the compressed file ends too early");
    // The whole file is read again, and adds nothing to what was there.
    fs::write(&cut, &whole).unwrap();
    let summary = store.import(&cut);
    assert_eq!((count(&summary, "new"), count(&summary, "known")), (0, 2));
}

#[test]
fn a_line_of_megabytes_is_a_line() {
    let store = TestStore::new();
    let mut session = Session::new("s");
    session.user(&"a very long question ".repeat(200_000)).says("1", "Yes.");
    let summary = store.import(&session.save(&store.folder()));
    assert_eq!(count(&summary, "new"), 1);
}

#[test]
fn a_binary_file_and_bad_text_are_left_out() {
    let store = TestStore::new();
    let folder = store.folder().join("logs");
    fs::create_dir(&folder).unwrap();
    fs::write(
        folder.join("binary.jsonl"),
        (0..=255).cycle().take(5_000).collect::<Vec<u8>>(),
    )
    .unwrap();
    let mut bytes = talk("s").text().into_bytes();
    bytes.extend(b"{\"type\":\"user\",\"uuid\":\"x\",\"sessionId\":\"s\",\"message\":{\"content\":\"\xff\xfe\"}}\n");
    bytes.extend(talk("t").text().into_bytes());
    fs::write(folder.join("text.jsonl"), bytes).unwrap();
    fs::write(folder.join("settings.json"), "{\"theme\":\"dark\"}").unwrap();
    let (summary, _) = import(&store, &folder);
    assert_eq!(
        (count(&summary, "new"), count(&summary, "skipped")),
        (4, 2),
        "{summary}"
    );
    assert_eq!(exchanges(&store).len(), 4);
}

#[test]
fn a_half_last_line_is_read_when_it_has_an_end() {
    let store = TestStore::new();
    let text = talk("s").text();
    let (begun, rest) = text.split_at(text.len() - 40);
    let file = store.file("s.jsonl", begun);
    let (summary, _) = import(&store, &file);
    assert_eq!(count(&summary, "new"), 1, "{summary}");
    assert!(problem(&summary).1.contains("no end"), "{summary}");
    fs::write(&file, format!("{begun}{rest}")).unwrap();
    assert_eq!(count(&store.import(&file), "new"), 1);
    assert_eq!(exchanges(&store).len(), 2);
}

#[test]
fn a_folder_that_may_not_be_read_is_told_and_the_others_are_read() {
    let store = TestStore::new();
    let folder = store.folder().join("logs");
    fs::create_dir_all(folder.join("closed")).unwrap();
    fs::write(folder.join("s.jsonl"), talk("s").text()).unwrap();
    fs::set_permissions(folder.join("closed"), Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(folder.join("closed")).is_ok() {
        println!("skipped: whoever runs this test may read everything");
        return;
    }
    let (summary, _) = import(&store, &folder);
    fs::set_permissions(folder.join("closed"), Permissions::from_mode(0o700)).unwrap();
    assert_eq!(count(&summary, "new"), 2);
    assert!(problem(&summary).1.contains("cannot be read"), "{summary}");
}

#[test]
fn links_out_of_the_folder_are_not_followed() {
    let store = TestStore::new();
    let (inside, outside) = (store.folder().join("inside"), store.folder().join("outside"));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(inside.join("s.jsonl"), talk("s").text()).unwrap();
    fs::write(outside.join("secret.jsonl"), talk("secret").text()).unwrap();
    symlink(&outside, inside.join("folder")).unwrap();
    symlink(outside.join("secret.jsonl"), inside.join("file.jsonl")).unwrap();
    symlink(&inside, inside.join("circle")).unwrap();
    let summary = store.import(&inside);
    assert_eq!(
        (count(&summary, "new"), count(&summary, "skipped")),
        (2, 0),
        "{summary}"
    );
}

#[test]
fn what_is_no_part_of_a_conversation_is_counted_by_kind() {
    let store = TestStore::new();
    let mut session = talk("s");
    for kind in ["mode", "last-prompt", "something-new"] {
        session.lines.push(json!({"type": kind, "sessionId": "s"}));
    }
    let summary = store.import(&session.save(&store.folder()));
    assert_eq!(
        summary["passed_over"],
        json!({"last-prompt": 1, "mode": 1, "something-new": 1})
    );
}
