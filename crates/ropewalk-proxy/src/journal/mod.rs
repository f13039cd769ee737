//! An append-only file of what passed, in segments.
//!
//! Read [`record`] (the bytes), [`payload`] (what they say), [`files`] (where they are), then [`Writer`] with its two helpers,
//! `release` (who waits for a write) and `sync` (what is not durable yet), then [`Reader`], then how room is made: `trim` and
//! `compact`.
//!
//! Invariants: one writer, one write for a group of records; what was told to be written can be read back, whatever happens to
//! bytes around it; a reader sees no record before all of it is written; memory does not grow with the journal.

mod compact;
pub mod files;
pub mod payload;
mod reader;
pub mod record;
mod release;
mod segments;
mod sync;
mod trim;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use compact::Moved;
pub use files::{Files, Folder, FolderError, LOCK_NAME};
pub use reader::{Entry, Reader};
pub use segments::is_segment;
pub use writer::{WriteError, Writer};

use crate::counters::Counters;
use segments::Segments;

/// When an exchange counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Written to the operating system: survives the death of the process.
    #[default]
    Os,
    /// Synced: survives a loss of power.
    Disk,
}

/// What happens to an exchange that the journal has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// It is passed on, and its absence is counted.
    #[default]
    Open,
    /// It is refused before the provider is called.
    Strict,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub level: Level,
    pub when_full: WhenFull,
    /// What all segments together may hold.
    pub bytes_max: u64,
    /// A segment is closed when it holds this much.
    pub segment_bytes: u64,
    /// How long an exchange waits at most for the sync of [`Level::Disk`].
    pub hold_max: Duration,
    /// How long written bytes stay unsynced at most.
    pub sync_after_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            level: Level::Os,
            when_full: WhenFull::Open,
            bytes_max: 1 << 30,
            segment_bytes: 16 << 20,
            hold_max: Duration::from_millis(50),
            sync_after_max: Duration::from_millis(100),
        }
    }
}

/// A place in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    pub segment: u32,
    pub offset: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot list the journal's files")]
    List(#[source] io::Error),
    #[error("cannot make a segment of the journal")]
    Create(#[source] io::Error),
    #[error("cannot start a thread of the journal")]
    Thread(#[source] io::Error),
}

/// Everybody's view of a journal. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    segments: Arc<Segments>,
}

impl Journal {
    /// Opens what the last process left, and a new segment behind it.
    pub fn open(
        files: Arc<dyn Files>,
        settings: Settings,
        counters: Arc<Counters>,
    ) -> Result<(Journal, Writer), JournalError> {
        let segments = Arc::new(Segments::open(files, counters)?);
        let journal = Journal {
            segments: Arc::clone(&segments),
        };
        segments.limit(&settings);
        let writer = Writer::start(segments, settings)?;
        Ok((journal, writer))
    }

    /// Whether a new exchange may begin. `false` only with [`WhenFull::Strict`].
    pub fn accepts(&self) -> bool {
        self.segments.accepts.load(Ordering::Relaxed)
    }

    /// What the segments hold.
    pub fn bytes(&self) -> u64 {
        self.segments.counters.journal_bytes.load(Ordering::Relaxed)
    }

    /// The first segment that this process wrote. Exchanges that began before it belong to one that is dead.
    pub fn first_own_segment(&self) -> u32 {
        self.segments.first_own
    }

    /// The newest segment, and the oldest that there still is.
    pub fn ends(&self) -> (u32, u32) {
        let table = self.segments.table();
        let mut numbers = table.segments.keys().copied();
        let oldest = numbers.next().unwrap_or_default();
        (numbers.next_back().unwrap_or(oldest), oldest)
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.segments.counters
    }

    /// Puts a small file in the place of the one of that name, at once.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (files, draft) = (&self.segments.files, format!("{name}.new"));
        // What a dead process left of one would stay in front.
        let _ = files.remove(&draft);
        files.append_to(&draft)?.append(content)?;
        files.rename(&draft, name)
    }

    pub fn files(&self) -> &Arc<dyn Files> {
        &self.segments.files
    }

    /// Reads from a position on, or from the oldest segment that is behind it.
    pub fn reader(&self, mut from: Position) -> Reader {
        // An offset into a segment that was put together may be of the time before.
        if self
            .segments
            .table()
            .segments
            .get(&from.segment)
            .is_some_and(|segment| segment.is_kept)
        {
            from.offset = 0;
        }
        Reader::new(Arc::clone(&self.segments), from)
    }
}
