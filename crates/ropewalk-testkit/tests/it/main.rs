//! One binary for all integration tests of the crate.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the helpers of tests are tests too"
)]

mod captures;
mod conformance;
mod reference;
mod tidy;
