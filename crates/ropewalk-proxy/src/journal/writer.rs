//! The end of the journal that grows.
//!
//! Records are put together in one buffer and go out with one write: [`Writer::add`] for each, then [`Writer::write`] with
//! those who wait for them. A write that fails leaves a torn record behind, so the segment is left as it is and a new one
//! begun.
//!
//! Invariant: nobody is told that a record is in the journal before it is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::files::OpenFile;
use super::record::{self, Kind, Sequence};
use super::release::Releases;
use super::segments::Segments;
use super::sync::Syncer;
use super::{JournalError, Level, Settings};
use crate::tee::Released;

/// How often a new segment is tried after a failure.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// Of `bytes_max` this part must be free before a full journal counts as one with room.
const RELIEF_PART: u64 = 16;

/// What the buffer may keep between writes.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the journal is full")]
    Full,
    #[error("the journal cannot be written")]
    Io(#[source] io::Error),
}

#[derive(Debug)]
pub struct Writer {
    segments: Arc<Segments>,
    settings: Settings,
    releases: Arc<Releases>,
    syncer: Syncer,
    active: Active,
    buffer: Vec<u8>,
    /// The number of the first record in the buffer.
    first: Sequence,
    /// Counts the writes, for those who wait for one.
    batch: u64,
    records: u64,
    tried_at: Option<Instant>,
    is_failing: bool,
    may_exceed: bool,
}

#[derive(Debug)]
struct Active {
    number: u32,
    salt: u32,
    next_index: u32,
    bytes: u64,
    /// `None` after a failure, until a new segment could be made.
    file: Option<Arc<dyn OpenFile>>,
}

/// How long an exchange waits for a write to the operating system. Such a write takes microseconds; one that takes so long is a
/// disk that is gone, and until then a release means that the exchange survives us.
const OS_HOLD_MAX: Duration = Duration::from_secs(30);

impl Writer {
    pub(super) fn start(segments: Arc<Segments>, settings: Settings) -> Result<Self, JournalError> {
        let counters = Arc::clone(&segments.counters);
        let hold_max = match settings.level {
            Level::Os => OS_HOLD_MAX,
            Level::Disk => settings.hold_max,
        };
        let releases = Releases::start(hold_max, counters).map_err(JournalError::Thread)?;
        let files = Arc::clone(&segments.files);
        let syncer = Syncer::start(files, &settings, &segments.counters, &releases).map_err(JournalError::Thread)?;
        let number = segments.first_own;
        let mut writer = Writer {
            segments,
            settings,
            releases,
            syncer,
            active: Active {
                number,
                salt: 0,
                next_index: 0,
                bytes: 0,
                file: None,
            },
            buffer: Vec::new(),
            first: Sequence::new(number, 0),
            batch: 0,
            records: 0,
            tried_at: None,
            is_failing: false,
            may_exceed: false,
        };
        writer.begin_segment(number).map_err(JournalError::Create)?;
        Ok(writer)
    }

    /// Puts a record into the buffer. Its exchange is itself where none is given.
    pub fn add(&mut self, kind: Kind, exchange: Option<Sequence>, payload: impl FnOnce(&mut Vec<u8>)) -> Sequence {
        let sequence = Sequence::new(self.active.number, self.active.next_index);
        self.active.next_index += 1;
        let at = record::start(&mut self.buffer);
        payload(&mut self.buffer);
        let exchange = exchange.unwrap_or(sequence);
        record::finish(&mut self.buffer, at, kind, exchange, sequence, self.active.salt);
        self.records += 1;
        sequence
    }

    /// What is in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Records from this one on are in the buffer only.
    pub fn first_unwritten(&self) -> Sequence {
        self.first
    }

    /// Whether it is well below full, so that what is written now is not the last for a while.
    pub fn has_room(&self) -> bool {
        let used = self.segments.counters.journal_bytes.load(Ordering::Relaxed);
        let bytes_max = self.settings.bytes_max;
        self.active.file.is_some() && used < bytes_max - bytes_max / RELIEF_PART
    }

    /// Whether the last write failed. An empty one tries again.
    pub fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Writes the buffer even if the journal is full. For the few bytes without which it could stay full for ever.
    pub fn write_beyond(&mut self) -> Result<(), WriteError> {
        self.may_exceed = true;
        let outcome = self.write(Vec::new(), Instant::now());
        self.may_exceed = false;
        outcome
    }

    /// Writes the buffer. Those who wait are released as the level says; if it fails, at once and not acknowledged.
    pub fn write(&mut self, waiting: Vec<oneshot::Sender<Released>>, since: Instant) -> Result<(), WriteError> {
        self.batch += 1;
        let is_awaited = !waiting.is_empty();
        if is_awaited {
            self.releases.expect(self.batch, since, waiting);
        }
        let outcome = self.append(is_awaited);
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        if self.active.bytes >= self.settings.segment_bytes || self.active.file.is_none() || self.syncer.take_failed() {
            self.next_segment();
        }
        self.first = Sequence::new(self.active.number, self.active.next_index);
        self.is_failing = outcome.is_err() || self.active.file.is_none();
        // Before the release: whoever is told comes back with the next exchange.
        self.segments.decide_accepts(self.is_failing);
        let records = std::mem::take(&mut self.records);
        match &outcome {
            Ok(()) => {
                self.segments.counters.records.fetch_add(records, Ordering::Relaxed);
                if self.settings.level == Level::Os {
                    self.releases.release(self.batch, true);
                }
            }
            Err(_) => self.releases.release_only(self.batch, false),
        }
        outcome
    }

    /// Goes on in a new segment, if this one says something.
    pub fn seal(&mut self) {
        if self.buffer.is_empty() && self.active.bytes > 0 {
            self.next_segment();
            self.first = Sequence::new(self.active.number, self.active.next_index);
        }
    }

    fn append(&mut self, is_awaited: bool) -> Result<(), WriteError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Some(file) = &self.active.file else {
            return Err(WriteError::Io(io::ErrorKind::StorageFull.into()));
        };
        let added = self.buffer.len() as u64;
        let counters = &self.segments.counters;
        let used = counters.journal_bytes.load(Ordering::Relaxed);
        if used + added > self.settings.bytes_max && !self.may_exceed {
            return Err(WriteError::Full);
        }
        if let Err(error) = file.append(&self.buffer) {
            counters.write_failures.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, "the journal cannot be written");
            self.active.file = None;
            self.tried_at = Some(Instant::now());
            return Err(WriteError::Io(error));
        }
        // Whoever waits without a record of his own in this batch has it in one before.
        let wanted = (is_awaited && self.settings.level == Level::Disk).then_some(self.batch);
        self.syncer
            .written(self.active.number, file, self.active.bytes == 0, wanted);
        self.active.bytes += added;
        self.segments.grown(self.active.number, added);
        Ok(())
    }

    /// Leaves the active segment for a new one. Where none can be made, a later write tries again.
    fn next_segment(&mut self) {
        let is_failed = self.active.file.is_none();
        if is_failed && self.tried_at.is_some_and(|at| at.elapsed() < RETRY_EVERY) {
            return;
        }
        self.tried_at = Some(Instant::now());
        let (left, is_empty) = (self.active.number, self.active.bytes == 0);
        match self.begin_segment(left.saturating_add(1)) {
            Ok(()) if is_failed && is_empty => {
                // Nothing in it was ever told to be written.
                let _ = self.segments.remove(left);
            }
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, "no new segment of the journal can be made");
                self.active.file = None;
            }
        }
    }

    fn begin_segment(&mut self, number: u32) -> io::Result<()> {
        let (salt, file) = self.segments.create(number)?;
        self.active = Active {
            number,
            salt,
            next_index: 0,
            bytes: 0,
            file: Some(file),
        };
        Ok(())
    }
}

impl Drop for Writer {
    /// Everything that was written is synced; then the reader learns that no more will come.
    fn drop(&mut self) {
        self.syncer.close();
        self.releases.close();
        self.segments.close();
    }
}
