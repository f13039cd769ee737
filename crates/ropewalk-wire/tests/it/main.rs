//! Claims about bodies and streams, over generated, hand-made and captured traffic.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod bad_input;
mod captures;
mod chain;
mod exchange;
mod generate;
mod inject;
mod replay;
mod skeleton;
mod split;
mod storage;
mod streams;
