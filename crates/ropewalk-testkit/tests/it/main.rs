//! One binary for all integration tests of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod captures;
mod conformance;
mod faulty_store;
mod reference;
mod tidy;
mod upstream;
