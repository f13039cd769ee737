//! What became of calls that might have been answered from the store.

use std::sync::Arc;
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
pub struct Counters {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    waiting: AtomicU64,
}

impl Counters {
    pub(super) fn add(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// Those who wait for somebody else's call right now.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(super) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(self))
    }
}

/// One who waits, until it is dropped.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Counters>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
