//! Readers of documents, over files that were made up for it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod chatgpt;
mod claude_ai;
mod har;
mod hostile;
mod llm;
mod recognition;
mod support;
