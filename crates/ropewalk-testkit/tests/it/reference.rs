//! The Python reference can be trusted: it reads every exchange we have and gives each all its hashes.
//!
//! Whether the Rust projections agree with it is tested where they are built.

use std::process::{Command, Output};

use ropewalk_testkit::captures::{CaptureFile, captures, fixtures, workspace_root};

#[test]
fn the_reference_reads_every_fixture() {
    assert_reads_all(&fixtures().unwrap());
}

#[test]
fn the_reference_reads_every_capture() {
    if let Some(files) = captures().unwrap() {
        assert_reads_all(&files);
    }
}

#[test]
fn the_reference_passes_the_seeds_vectors() {
    let root = workspace_root();
    let places = ["fixtures/seed-hashes.json", "../shared/vectors/seed-hashes.json"];
    let Some(vectors) = places
        .map(|place| root.join(place))
        .into_iter()
        .find(|file| file.is_file())
    else {
        eprintln!("skipped: the seeds' vectors are not there");
        return;
    };
    let output = run(&["--vectors".into(), vectors.display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn assert_reads_all(files: &[CaptureFile]) {
    let paths: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
    let output = run(&paths);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<serde_json::Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let ids: Vec<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    let expected: Vec<_> = files
        .iter()
        .flat_map(|file| &file.exchanges)
        .map(|e| e.id.as_str())
        .collect();
    assert_eq!(ids, expected);
    for line in lines.iter().filter(|line| line["id"] != "anthropic-not-json") {
        // Without an answer there is no hash of an answer; without three messages no parent. Nothing else is null.
        let may_be_null = [
            "parent_message_hash",
            "first_response_hash",
            "conversation_hash",
            "response_hash",
        ];
        for (name, value) in line.as_object().unwrap() {
            assert!(
                value.is_string() || may_be_null.contains(&name.as_str()),
                "{} of {}",
                name,
                line["id"]
            );
        }
    }
}

fn run(arguments: &[String]) -> Output {
    let script = workspace_root().join("fixtures/reference/hashes.py");
    let mut python = Command::new("python3");
    python.arg("-B").arg(script).args(arguments);
    python.output().expect("python3 is installed: `make setup`")
}
