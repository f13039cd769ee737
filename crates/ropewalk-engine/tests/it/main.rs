//! One binary for all integration tests of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod arrival;
mod blame;
mod claims;
mod clocks;
mod crowded;
mod generated;
mod hard_cases;
mod insight;
mod keys;
mod linking;
mod logged;
mod long;
mod matching;
mod memos;
mod names;
mod prepare;
mod progress;
mod projected;
mod prompt_cache;
mod recorded;
mod reuse;
mod said;
mod stateful;
mod thread;
