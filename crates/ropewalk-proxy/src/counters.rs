//! What the recording side counts about itself, for `/metrics` and `/healthz`.
//!
//! Plain numbers that everybody may read at any time; nothing here decides anything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

/// Upper ends of the buckets that waits and batches are counted in, in microseconds.
const WAITS_US: [u64; 12] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000,
];

/// How often something took how long.
#[derive(Debug)]
pub struct Histogram {
    /// Upper ends of the buckets but for the last, which has none.
    ends_us: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new(&WAITS_US)
    }
}

/// A histogram as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times {
    /// Upper ends in microseconds.
    pub ends_us: &'static [u64],
    /// One for each of the ends, not added up, and one for everything above.
    pub buckets: Vec<u64>,
    pub sum_us: u64,
}

impl Histogram {
    pub fn new(ends_us: &'static [u64]) -> Self {
        Histogram {
            ends_us,
            buckets: (0..=ends_us.len()).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
        }
    }

    /// Counts a time that `count` things took.
    pub fn add(&self, time: Duration, count: u64) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = self.ends_us.partition_point(|end| *end < us);
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        self.sum_us.fetch_add(us.saturating_mul(count), Ordering::Relaxed);
    }

    pub fn times(&self) -> Times {
        Times {
            ends_us: self.ends_us,
            buckets: self
                .buckets
                .iter()
                .map(|bucket| bucket.load(Ordering::Relaxed))
                .collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

impl Times {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[derive(Debug, Default)]
pub struct Counters {
    /// Records in the journal since the start.
    pub records: AtomicU64,
    /// What the journal's segments hold now.
    pub journal_bytes: AtomicU64,
    /// Exchanges, and bytes of them, that the journal had no room for.
    pub gap_exchanges: AtomicU64,
    pub gap_bytes: AtomicU64,
    /// Exchanges that were released before the journal had them.
    pub unacknowledged: AtomicU64,
    pub write_failures: AtomicU64,
    pub sync_failures: AtomicU64,
    /// Records that were damaged when they were read, and segments whose end was missing.
    pub bad_records: AtomicU64,
    pub torn_tails: AtomicU64,
    /// How long exchanges waited for the journal.
    pub hold: Histogram,
    /// How long the store took for a batch.
    pub batch: Histogram,
    /// Batches that the store did not take, since the last one that it did. Zero is healthy.
    pub store_failures: AtomicU64,
    /// Exchanges that the store would never take.
    pub rejected: AtomicU64,
    /// Those of them that could not be put aside either.
    pub rejected_not_kept: AtomicU64,
    /// Spans that a collector took, spans that none will get, and messages with measurements that it did not take.
    pub spans_sent: AtomicU64,
    pub spans_lost: AtomicU64,
    pub measures_lost: AtomicU64,
    /// Texts that search does not find yet, and for how long there have been some, in milliseconds.
    pub search_waiting: AtomicU64,
    pub search_lag_ms: AtomicU64,
    /// Exchanges that began and did not end, as far as they were read from the journal.
    pub open_exchanges: AtomicU64,
    by_label: Mutex<ByLabel>,
    /// Answers that are coming in.
    pub under_way: UnderWay,
}

/// Answers under way that are followed; of more only the end is told.
const UNDER_WAY_MAX: usize = 1_024;

/// Whose it is, and how many bytes came.
type Came = (Arc<str>, Arc<AtomicU64>);

/// How far answers have come, by the ids of their exchanges.
#[derive(Debug, Clone, Default)]
pub struct UnderWay(Arc<Mutex<BTreeMap<Uuid, Came>>>);

/// An answer that is followed until this is dropped.
#[derive(Debug)]
pub(crate) struct Answering {
    id: Uuid,
    bytes: Arc<AtomicU64>,
    all: UnderWay,
}

impl UnderWay {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Uuid, Came>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, id: Uuid, owner: &Arc<str>) -> Answering {
        let bytes = Arc::<AtomicU64>::default();
        let mut all = self.all();
        if all.len() < UNDER_WAY_MAX {
            all.insert(id, (Arc::clone(owner), Arc::clone(&bytes)));
        }
        Answering {
            id,
            bytes,
            all: self.clone(),
        }
    }

    /// Those of one owner, with the bytes that came of each.
    pub fn of(&self, owner: &str) -> Vec<(Uuid, u64)> {
        let all = self.all();
        let answers = all.iter().filter(|(_, (whose, _))| **whose == *owner);
        answers
            .map(|(id, (_, bytes))| (*id, bytes.load(Ordering::Relaxed)))
            .collect()
    }
}

impl Answering {
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.all.all().remove(&self.id);
    }
}

/// What is counted by what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByLabel {
    /// Recorded exchanges by provider, kind and status.
    pub exchanges: BTreeMap<(String, String, &'static str), u64>,
    /// Tokens of their prompts by provider, and by what its cache did with them: read, written, none.
    pub prompt_tokens: BTreeMap<(String, &'static str), u64>,
    /// Links by method.
    pub links: BTreeMap<&'static str, u64>,
    /// Expected agents: created, matched, expired.
    pub claims: BTreeMap<&'static str, u64>,
    /// Agents since the start that nobody is known to have started.
    pub orphans: i64,
}

/// All of it at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub records: u64,
    pub journal_bytes: u64,
    pub gap_exchanges: u64,
    pub gap_bytes: u64,
    pub unacknowledged: u64,
    pub write_failures: u64,
    pub sync_failures: u64,
    pub bad_records: u64,
    pub torn_tails: u64,
    pub hold: Times,
    pub batch: Times,
    pub store_failures: u64,
    pub rejected: u64,
    pub rejected_not_kept: u64,
    pub spans_sent: u64,
    pub spans_lost: u64,
    pub measures_lost: u64,
    pub search_waiting: u64,
    pub search_lag_ms: u64,
    pub open_exchanges: u64,
    pub by_label: ByLabel,
}

impl Counters {
    pub fn snapshot(&self) -> Snapshot {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            records: of(&self.records),
            journal_bytes: of(&self.journal_bytes),
            gap_exchanges: of(&self.gap_exchanges),
            gap_bytes: of(&self.gap_bytes),
            unacknowledged: of(&self.unacknowledged),
            write_failures: of(&self.write_failures),
            sync_failures: of(&self.sync_failures),
            bad_records: of(&self.bad_records),
            torn_tails: of(&self.torn_tails),
            hold: self.hold.times(),
            batch: self.batch.times(),
            store_failures: of(&self.store_failures),
            rejected: of(&self.rejected),
            rejected_not_kept: of(&self.rejected_not_kept),
            spans_sent: of(&self.spans_sent),
            spans_lost: of(&self.spans_lost),
            measures_lost: of(&self.measures_lost),
            search_waiting: of(&self.search_waiting),
            search_lag_ms: of(&self.search_lag_ms),
            open_exchanges: of(&self.open_exchanges),
            by_label: self.by_label().clone(),
        }
    }

    pub(crate) fn by_label(&self) -> MutexGuard<'_, ByLabel> {
        // Nobody panics while holding it.
        self.by_label.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
