//! What others are told about exchanges, as OpenTelemetry says it.
//!
//! The recorder tells of each exchange when it is recorded and linked: [`Told`], into the queue of a [`Telemetry`]. `export` is the
//! other end, a thread of its own that makes spans and measurements of it and sends them over OTLP.
//!
//! Invariants: nobody waits for anything here; what finds no room is counted and gone; no text of a conversation leaves unless
//! the configuration says so, and then only the redacted one; no credential ever does.

#[cfg(feature = "otel")]
mod export;
mod told;
mod trace_parent;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

#[cfg(feature = "otel")]
pub use export::{Address, Exporting, Settings, StartError};
pub use told::Told;
pub use trace_parent::TraceParent;

use crate::counters::Counters;

/// Exchanges that wait for the exporting thread, each of about 1 KB.
const QUEUE_MAX: usize = 4_096;

/// The recorder's end. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Telemetry {
    queue: mpsc::Sender<Told>,
    counters: Arc<Counters>,
}

/// The exporter's end.
#[derive(Debug)]
pub struct Inbox {
    #[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "nobody exports"))]
    queue: mpsc::Receiver<Told>,
}

pub fn channel(counters: Arc<Counters>) -> (Telemetry, Inbox) {
    let (sender, queue) = mpsc::channel(QUEUE_MAX);
    (
        Telemetry {
            queue: sender,
            counters,
        },
        Inbox { queue },
    )
}

impl Telemetry {
    /// Never waits: what finds no room is lost, and counted.
    pub(crate) fn tell(&self, told: Told) {
        if self.queue.try_send(told).is_err() {
            self.lost(1);
        }
    }

    pub(crate) fn lost(&self, spans: usize) {
        self.counters.spans_lost.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_nobody_waits() {
        let counters: Arc<Counters> = Arc::default();
        let (telemetry, inbox) = channel(Arc::clone(&counters));
        for _ in 0..QUEUE_MAX + 3 {
            telemetry.tell(Told::example(uuid::Uuid::nil()));
        }
        assert_eq!(counters.snapshot().spans_lost, 3);
        drop(inbox);
        telemetry.tell(Told::example(uuid::Uuid::nil()));
        assert_eq!(counters.snapshot().spans_lost, 4);
    }
}
