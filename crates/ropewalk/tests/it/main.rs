//! The command line as its users meet it: the built binary, its output, its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod administration;
mod blame;
mod cache;
mod claude_log;
mod configuration;
mod demo;
mod doctor;
mod documents;
mod exports;
mod failures;
mod fsck;
mod hash;
mod import;
mod import_exports;
mod insight;
mod live;
mod log;
mod logs;
mod matching;
mod mcp;
mod operations;
mod outputs;
mod packaging;
mod python;
mod replay;
mod serve;
mod show;
mod store;
mod tree;

use std::process::{Command, Output};

/// Runs the binary in a clean environment.
fn ropewalk(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ropewalk"))
        .args(arguments)
        .env_clear()
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
