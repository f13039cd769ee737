//! Keeps search up to date in between.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ropewalk_store::Store;

use crate::counters::Counters;

/// How old a text may be before search finds it, as long as the store keeps up: a quarter of the two seconds that are promised.
const EVERY: Duration = Duration::from_millis(500);

/// How long recording waits for search at a time.
const SLICE: Duration = Duration::from_millis(250);

/// Texts for each call, so that a slice ends in time.
const TEXTS: usize = 256;

#[derive(Debug)]
pub(super) struct Indexing<'s, S> {
    store: &'s S,
    counters: &'s Counters,
    last: Option<Instant>,
    /// Since when there have been texts that are not indexed.
    behind_since: Option<Instant>,
}

impl<'s, S: Store> Indexing<'s, S> {
    pub(super) fn new(store: &'s S, counters: &'s Counters) -> Self {
        Indexing {
            store,
            counters,
            last: None,
            // The last process may have left some.
            behind_since: Some(Instant::now()),
        }
    }

    /// Something was recorded.
    pub(super) fn expect_texts(&mut self) {
        self.behind_since.get_or_insert_with(Instant::now);
    }

    /// Indexes for a while, if it is time; all there is, if it is the `last` time.
    pub(super) async fn index(&mut self, last: bool) {
        let is_due = self.last.is_none_or(|at| at.elapsed() >= EVERY);
        if self.behind_since.is_some() && (is_due || last) {
            self.last = Some(Instant::now());
            self.work(last).await;
        }
        let lag = self.behind_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.counters
            .search_lag_ms
            .store(lag.as_millis() as u64, Ordering::Relaxed);
    }

    async fn work(&mut self, all: bool) {
        let begun = Instant::now();
        loop {
            match self.store.index_texts(TEXTS).await {
                Ok(lag) => {
                    self.counters.search_waiting.store(lag.waiting, Ordering::Relaxed);
                    if lag.waiting == 0 {
                        self.behind_since = None;
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "texts cannot be indexed");
                    return;
                }
            }
            if !all && begun.elapsed() >= SLICE {
                return;
            }
        }
    }
}
