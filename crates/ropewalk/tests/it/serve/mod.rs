//! `ropewalk serve`, one claim per module, each shown with the built binary before a scripted provider.
//!
//! [`server`] and [`client`] are what all use. Some claims have a long form, which a variable asks for: `ROPEWALK_KILLS=300`
//! (kills) and `ROPEWALK_FROZEN_S=60` (seconds that a store is frozen).

mod api;
mod api_changes;
mod api_lists;
mod bad_clients;
mod beside;
pub(crate) mod client;
mod endings;
mod frozen;
mod gateways;
mod killed;
mod references;
mod reuse;
mod sdks;
mod secrets;
pub(crate) mod server;
mod stopping;
mod telemetry;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// A number that a variable may say.
fn from_environment(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => usual,
    }
}

/// Tells a figure, for those who run a test with `--nocapture`.
#[allow(clippy::print_stdout, reason = "what a run has measured is its result")]
fn tell(figure: &str) {
    println!("{figure}");
}

/// Any number, another one in every run.
fn random_below(end: u64) -> u64 {
    RandomState::new().build_hasher().finish() % end
}
