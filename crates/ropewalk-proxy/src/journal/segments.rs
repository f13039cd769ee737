//! Which segments there are and how far each is written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

use super::files::{Files, OpenFile};
use super::{JournalError, Settings, WhenFull};
use crate::counters::Counters;

const SUFFIX: &str = ".journal";

/// The segment that holds what is still needed of all segments up to its number.
const KEPT_SUFFIX: &str = ".kept";

/// How much of `bytes_max` is kept for exchanges that have begun when new ones are refused, and its most.
const RESERVE_PART: u64 = 8;
const RESERVE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Segments {
    pub(super) files: Arc<dyn Files>,
    pub(super) counters: Arc<Counters>,
    pub(super) first_own: u32,
    pub(super) accepts: AtomicBool,
    /// New exchanges are refused above this; `u64::MAX` where none ever is.
    refuse_above: AtomicU64,
    bytes_max: AtomicU64,
    table: Mutex<Table>,
    /// The reader has seen everything and wants to be told of more.
    reader_waits: AtomicBool,
    pub(super) more: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) segments: BTreeMap<u32, Segment>,
    /// The writer has ended.
    pub(super) closed: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) salt: u32,
    /// It was put together from older ones.
    pub(super) is_kept: bool,
    /// What can be read of it: whole records where this process wrote it, everything where a dead one did.
    pub(super) bytes: u64,
}

impl Segments {
    pub(super) fn open(files: Arc<dyn Files>, counters: Arc<Counters>) -> Result<Self, JournalError> {
        let mut table = Table::default();
        let listed = files.list().map_err(JournalError::List)?;
        let mut found: Vec<_> = listed.iter().filter_map(|(name, bytes)| parse(name, *bytes)).collect();
        // What was put together stands for everything up to its number, itself of an older time included.
        let kept = found
            .iter()
            .filter(|(_, segment)| segment.is_kept)
            .map(|(number, _)| *number)
            .max();
        found.retain(|(number, segment)| {
            let is_needed = kept.is_none_or(|kept| *number > kept || (segment.is_kept && *number == kept));
            if !is_needed {
                let _ = files.remove(&segment.name(*number));
            }
            is_needed
        });
        let newest = found.iter().map(|(number, _)| *number).max();
        // A process to which nothing came leaves an empty one. Its number is not given again: positions stay what they are.
        found.retain(|(number, segment)| {
            let says_something = segment.bytes > 0 || segment.is_kept;
            if !says_something {
                let _ = files.remove(&segment.name(*number));
            }
            says_something
        });
        table.segments.extend(found);
        let total = table.segments.values().map(|segment| segment.bytes).sum();
        counters.journal_bytes.store(total, Ordering::Relaxed);
        Ok(Segments {
            files,
            counters,
            first_own: newest.unwrap_or(0).saturating_add(1),
            accepts: AtomicBool::new(true),
            refuse_above: AtomicU64::new(u64::MAX),
            bytes_max: AtomicU64::new(u64::MAX),
            table: Mutex::new(table),
            reader_waits: AtomicBool::new(false),
            more: Notify::new(),
        })
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self, settings: &Settings) {
        self.bytes_max.store(settings.bytes_max, Ordering::Relaxed);
        if settings.when_full == WhenFull::Strict {
            let reserve = (settings.bytes_max / RESERVE_PART).min(RESERVE_BYTES_MAX);
            let refuse_above = settings.bytes_max.saturating_sub(reserve);
            self.refuse_above.store(refuse_above, Ordering::Relaxed);
        }
        self.decide_accepts(false);
    }

    /// Whether new exchanges may begin, after what was written, removed or failed.
    pub(super) fn decide_accepts(&self, failed: bool) {
        let limit = self.refuse_above.load(Ordering::Relaxed);
        let bytes = self.counters.journal_bytes.load(Ordering::Relaxed);
        let accepts = limit == u64::MAX || (!failed && bytes <= limit);
        self.accepts.store(accepts, Ordering::Relaxed);
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        // Nobody panics while holding it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a segment to be appended to.
    pub(super) fn create(&self, number: u32) -> std::io::Result<(u32, Arc<dyn OpenFile>)> {
        let salt = new_salt();
        let segment = Segment {
            salt,
            is_kept: false,
            bytes: 0,
        };
        let file = self.files.append_to(&segment.name(number))?;
        self.table().segments.insert(number, segment);
        Ok((salt, file))
    }

    /// Says that more of a segment can be read, and tells the reader if it waits.
    pub(super) fn grown(&self, number: u32, added: u64) {
        if let Some(segment) = self.table().segments.get_mut(&number) {
            segment.bytes += added;
        }
        self.counters.journal_bytes.fetch_add(added, Ordering::Relaxed);
        self.tell();
    }

    pub(super) fn close(&self) {
        self.table().closed = true;
        self.tell();
    }

    fn tell(&self) {
        if self.reader_waits.swap(false, Ordering::AcqRel) {
            self.more.notify_one();
        }
    }

    /// To be followed by a last look at the table, then by waiting for `more`.
    pub(super) fn want_more(&self) {
        self.reader_waits.store(true, Ordering::Release);
    }

    /// Removes a segment, from the table first: nobody opens it again.
    pub(super) fn remove(&self, number: u32) -> std::io::Result<()> {
        let Some(segment) = self.table().segments.remove(&number) else {
            return Ok(());
        };
        self.counters.journal_bytes.fetch_sub(segment.bytes, Ordering::Relaxed);
        self.files.remove(&segment.name(number))
    }
}

impl Segment {
    /// The salt is in the name, where damage to the file does not reach it.
    pub(super) fn name(&self, number: u32) -> String {
        let suffix = if self.is_kept { KEPT_SUFFIX } else { SUFFIX };
        format!("{number:010}-{:08x}{suffix}", self.salt)
    }
}

/// Whether a file of the folder is a segment, by its name.
pub fn is_segment(name: &str) -> bool {
    name.ends_with(SUFFIX) || name.ends_with(KEPT_SUFFIX)
}

fn parse(name: &str, bytes: u64) -> Option<(u32, Segment)> {
    let kept = name.strip_suffix(KEPT_SUFFIX);
    let (number, salt) = kept.or_else(|| name.strip_suffix(SUFFIX))?.split_once('-')?;
    let segment = Segment {
        salt: u32::from_str_radix(salt, 16).ok()?,
        is_kept: kept.is_some(),
        bytes,
    };
    Some((number.parse().ok()?, segment))
}

/// The random end of an id is as random as is needed.
pub(super) fn new_salt() -> u32 {
    Uuid::now_v7().as_u128() as u32
}
