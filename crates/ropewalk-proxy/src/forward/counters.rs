//! What forwarding counts of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use super::answer::Refusal;
use crate::counters::{Histogram, Times};

/// Upper ends of the buckets of how long exchanges take, in microseconds: from a millisecond to five minutes.
const EXCHANGES_US: [u64; 12] = [
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// Shared by all forwarding threads.
#[derive(Debug)]
pub struct Counters {
    in_flight: AtomicUsize,
    refused: AtomicU64,
    /// How long exchanges took, from the request's head to the answer's end.
    took: Histogram,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            in_flight: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            took: Histogram::new(&EXCHANGES_US),
        }
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    pub in_flight: usize,
    pub refused: u64,
    /// Of every exchange that was forwarded.
    pub took: Times,
}

impl Counters {
    pub fn read(&self) -> Counted {
        Counted {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            took: self.took.times(),
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        tracing::debug!(?refusal, "refused");
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an exchange in, unless so many are under way.
    pub(crate) fn enter(self: &Arc<Self>, limit: usize) -> Option<InFlight> {
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= limit {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(InFlight {
            counters: Arc::clone(self),
            since: Instant::now(),
        })
    }
}

/// An exchange that is under way.
#[derive(Debug)]
pub(crate) struct InFlight {
    counters: Arc<Counters>,
    since: Instant,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.counters.took.add(self.since.elapsed(), 1);
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
