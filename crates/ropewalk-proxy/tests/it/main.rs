//! What the proxy promises, on real sockets and real files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "the functions around the tests may fail and talk as tests do"
)]

mod compact;
mod damage;
mod format;
mod forwarding;
mod interposing;
mod killed;
mod levels;
mod moody_store;
mod proxy;
mod recorder;
mod references;
mod reusing;
mod room;
mod segments;
mod support;
mod transparency;
mod worker;
