//! Waiting for a store that does not answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::counters::Counters;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// Each wait is twice the last, up to a bound: soon there again after a hiccup, no burden on a store that is down.
#[derive(Debug)]
pub(super) struct Retry {
    counters: Arc<Counters>,
    next: Duration,
}

impl Retry {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        Retry {
            counters: Arc::clone(counters),
            next: FIRST,
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.next = FIRST;
        self.counters.store_failures.store(0, Ordering::Relaxed);
    }

    pub(super) async fn wait(&mut self, what: &str, error: &(dyn std::error::Error + 'static)) {
        self.counters.store_failures.fetch_add(1, Ordering::Relaxed);
        let retry_ms = self.next.as_millis() as u64;
        tracing::warn!(error, retry_ms, "{what}");
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}
