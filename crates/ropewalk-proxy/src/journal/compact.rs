//! Room behind exchanges that stay open for long.
//!
//! A stream of many hours has records in every segment, a few each, and would keep all of them. When too much is kept so, the
//! records that are needed are put together into one segment, which takes the place of all before it and of the last of them.
//!
//! Invariant: the new segment is durable under its name before an old one goes; a crash in between leaves both, and the name
//! says which one counts.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::files::OpenFile;
use super::reader::read_bytes;
use super::record;
use super::segments::{Segment, new_salt};
use super::{Journal, Position};

/// More than this part of `bytes_max` may not be kept for nothing.
const WASTE_PART: u64 = 4;

/// What is gathered for a write.
const WRITE_BYTES: usize = 1 << 20;

const DRAFT_NAME: &str = "kept.new";

/// Where records have gone.
pub type Moved = HashMap<Position, Position>;

impl Journal {
    /// Whether the segments before one are kept for much less than they hold.
    pub fn is_wasteful(&self, before: u32, needed_bytes: u64) -> bool {
        let table = self.segments.table();
        let old = table.segments.range(..before).map(|(_, segment)| segment.bytes);
        let wasted = old.sum::<u64>().saturating_sub(needed_bytes);
        wasted > self.segments.bytes_max() / WASTE_PART
    }

    /// Puts the records that are needed of the segments before one together, and removes the rest. Everything else in them must
    /// be in the store. A record that is not told its new place could not be read.
    pub fn compact(&self, before: u32, needed: &[Position]) -> io::Result<Moved> {
        let old: Vec<(u32, Segment)> = {
            let table = self.segments.table();
            table
                .segments
                .range(..before)
                .map(|(number, segment)| (*number, *segment))
                .collect()
        };
        let Some((last, _)) = old.last().copied() else {
            return Ok(Moved::new());
        };
        let files = &self.segments.files;
        // A dead process may have left one.
        let _ = files.remove(DRAFT_NAME);
        let salt = new_salt();
        let mut copy = Copy {
            journal: self,
            target: files.append_to(DRAFT_NAME)?,
            salt,
            number: last,
            buffer: Vec::new(),
            written: 0,
            source: None,
            moved: Moved::new(),
        };
        for at in needed.iter().filter(|at| at.segment < before) {
            copy.record(*at)?;
        }
        copy.write()?;
        copy.target.sync()?;
        let kept = Segment {
            salt,
            is_kept: true,
            bytes: copy.written,
        };
        files.rename(DRAFT_NAME, &kept.name(last))?;
        files.sync_folder()?;
        self.put_in_place(&old, last, kept);
        Ok(copy.moved)
    }

    fn put_in_place(&self, old: &[(u32, Segment)], number: u32, kept: Segment) {
        {
            let mut table = self.segments.table();
            for (number, _) in old {
                table.segments.remove(number);
            }
            table.segments.insert(number, kept);
        }
        let freed: u64 = old.iter().map(|(_, segment)| segment.bytes).sum();
        let counter = &self.segments.counters.journal_bytes;
        counter.fetch_add(kept.bytes, Ordering::Relaxed);
        counter.fetch_sub(freed, Ordering::Relaxed);
        for (number, segment) in old {
            // One that stays is passed over at the next start, because the kept one stands for it.
            let _ = self.segments.files.remove(&segment.name(*number));
        }
        self.segments.decide_accepts(false);
    }
}

struct Copy<'j> {
    journal: &'j Journal,
    target: Arc<dyn OpenFile>,
    salt: u32,
    number: u32,
    buffer: Vec<u8>,
    written: u64,
    /// The segment that is read from.
    source: Option<(u32, u32, Arc<dyn OpenFile>)>,
    moved: Moved,
}

impl Copy<'_> {
    fn record(&mut self, at: Position) -> io::Result<()> {
        let source = match self.source.take().filter(|(number, ..)| *number == at.segment) {
            Some(source) => source,
            None => {
                let segment = self.journal.segments.table().segments.get(&at.segment).copied();
                let Some(segment) = segment else { return Ok(()) };
                let file = self.journal.segments.files.open(&segment.name(at.segment))?;
                (at.segment, segment.salt, file)
            }
        };
        if let Some((header, payload)) = read_bytes(&*source.2, source.1, at.offset)? {
            let to = Position {
                segment: self.number,
                offset: self.written + self.buffer.len() as u64,
            };
            let start = record::start(&mut self.buffer);
            self.buffer.extend_from_slice(&payload);
            let (exchange, sequence) = (header.exchange, header.sequence);
            record::finish(&mut self.buffer, start, header.kind, exchange, sequence, self.salt);
            self.moved.insert(at, to);
        }
        self.source = Some(source);
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.target.append(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
