//! Claims about what is kept, on real databases.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod conformance;
mod links;
mod postgres;
mod sqlite;
mod sqlite_packs;
mod statements;
mod turn;
