//! What became of calls that might have been answered from the store.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the store.
    Hit,
    /// Answered with somebody else's call, which was under way or had just ended.
    Shared,
    /// Asked, and stored for the next.
    Miss,
    /// Asked again because the client wanted so.
    Refresh,
    /// Not looked up: the model may choose its words.
    Temperature,
    /// Not looked up: part of the input lies elsewhere.
    Volatile,
    /// Not looked up: it cannot be read, is not recorded, or says twice what counts once.
    Unfit,
    /// The store did not answer, or not in time, and so the provider was asked.
    Failed,
}

impl Outcome {
    pub const ALL: [Outcome; 8] = [
        Outcome::Hit,
        Outcome::Shared,
        Outcome::Miss,
        Outcome::Refresh,
        Outcome::Temperature,
        Outcome::Volatile,
        Outcome::Unfit,
        Outcome::Failed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Hit => "hit",
            Outcome::Shared => "shared",
            Outcome::Miss => "miss",
            Outcome::Refresh => "refresh",
            Outcome::Temperature => "temperature",
            Outcome::Volatile => "volatile",
            Outcome::Unfit => "unfit",
            Outcome::Failed => "failed",
        }
    }
}

#[derive(Debug, Default)]
pub struct Counters([AtomicU64; Outcome::ALL.len()]);

impl Counters {
    pub(super) fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
