//! What forwarding counts of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use super::answer::Refusal;

/// Upper bounds of the buckets of how long exchanges take, in seconds.
pub const FORWARD_SECONDS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Shared by all forwarding threads.
#[derive(Debug, Default)]
pub struct Counters {
    in_flight: AtomicUsize,
    forwarded: AtomicU64,
    refused: AtomicU64,
    /// One for each of [`FORWARD_SECONDS`], and one for what took longer.
    took: [AtomicU64; FORWARD_SECONDS.len() + 1],
    took_micros: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    pub in_flight: usize,
    pub forwarded: u64,
    pub refused: u64,
    pub took: Vec<u64>,
    pub took_micros: u64,
}

impl Counters {
    pub fn read(&self) -> Counted {
        Counted {
            in_flight: self.in_flight.load(Ordering::Relaxed),
            forwarded: self.forwarded.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            took: self.took.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            took_micros: self.took_micros.load(Ordering::Relaxed),
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
        let took = self.since.elapsed();
        let bucket = FORWARD_SECONDS.partition_point(|bound| *bound < took.as_secs_f64());
        self.counters.took[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counters.took_micros.fetch_add(micros, Ordering::Relaxed);
        self.counters.forwarded.fetch_add(1, Ordering::Relaxed);
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
