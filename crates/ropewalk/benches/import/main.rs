//! What bringing in logs costs: `make bench-import`, on Linux.
//!
//! A tree of logs is written, then in one run: its bytes read and every line parsed once by serde_json on two threads, imported,
//! imported again, and read by ccusage where it is installed. The size is an argument in megabytes; 1,000 is the real run.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark may fail and talk"
)]

mod measure;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use measure::{Measured, measure};
use tree::Tree;

/// Megabytes that are written where nothing is said.
const MEGABYTES: u64 = 200;

/// Set for the process that only reads and parses.
const PARSE: &str = "ROPEWALK_BENCH_PARSE";

/// The goals: times of reading and parsing, of the first import, and memory in MB.
const TIMES_MAX: f64 = 2.0;
const AGAIN_MIN: f64 = 20.0;
const MEMORY_MAX: f64 = 300.0;

fn main() {
    if let Some(root) = std::env::var_os(PARSE) {
        return parse(Path::new(&root));
    }
    let megabytes = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("projects");
    let tree = Tree::write(&root, megabytes.unwrap_or(MEGABYTES) << 20);
    println!(
        "{:.0} MB of logs: {} files, {} calls of a model",
        tree.bytes as f64 / 1e6,
        tree.files,
        tree.calls
    );
    let data = folder.path().join("data");
    let itself = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(PARSE, &root);
        command
    };
    let import = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
        command.arg("--data").arg(&data).arg("import").arg(&root);
        command
    };
    // Once unmeasured, so that everybody finds the files in memory.
    drop(measure(itself()));
    let parsed = measure(itself()).unwrap();
    let first = measure(import()).unwrap();
    let again = measure(import()).unwrap();
    show("cat and serde_json, 2 threads", &parsed, &parsed);
    show("ropewalk import", &first, &parsed);
    show("ropewalk import, again", &again, &parsed);
    match ccusage(folder.path()).map(measure) {
        Some(Ok(usage)) => show("ccusage", &usage, &parsed),
        Some(Err(error)) => println!("ccusage cannot be run: {error}"),
        None => println!("ccusage is not installed; ROPEWALK_BENCH_PEERS names the folder that it would be in"),
    }
    let size = std::fs::metadata(data.join("ropewalk.db")).unwrap().len();
    println!("the store has {:.0} MB", size as f64 / 1e6);
    goal("import / parse", first.wall / parsed.wall, TIMES_MAX, "at most");
    goal("first / second import", first.wall / again.wall, AGAIN_MIN, "at least");
    goal("memory in MB", first.memory, MEMORY_MAX, "at most");
}

fn show(name: &str, measured: &Measured, parsed: &Measured) {
    println!(
        "{name:32} {:8.2} s {:8.2} s CPU {:6.0} MB {:8.2} ×",
        measured.wall,
        measured.cpu,
        measured.memory,
        measured.wall / parsed.wall
    );
}

fn goal(name: &str, is: f64, goal: f64, words: &str) {
    println!("{name}: {is:.2}, to be {words} {goal}");
}

/// Reads every file and parses every line, on two threads.
fn parse(root: &Path) {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    let files: Mutex<Vec<PathBuf>> = Mutex::new(files);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let file = files.lock().unwrap().pop();
                    let Some(file) = file else { break };
                    let bytes = std::fs::read(file).unwrap();
                    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
                        std::hint::black_box(value);
                    }
                }
            });
        }
    });
}

/// It looks for `projects` in a folder that it is told.
fn ccusage(config: &Path) -> Option<Command> {
    let peers = std::env::var_os("ROPEWALK_BENCH_PEERS")?;
    let program = Path::new(&peers).join("node/node_modules/.bin/ccusage");
    if !program.exists() {
        return None;
    }
    let mut command = Command::new(program);
    command
        .args(["daily", "--json", "--offline"])
        .env("CLAUDE_CONFIG_DIR", config);
    Some(command)
}
