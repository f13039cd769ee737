//! Reads the journal, live or left by a dead process: the same files, the same way.
//!
//! Invariants: only whole records are given, in the order they were written; damage costs the records it lies in, and is
//! counted; what cannot be read is passed over, never waited for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Position;
use super::files::OpenFile;
use super::payload::Payload;
use super::record::{self, HEADER_BYTES, Header};
use super::segments::Segments;

/// How much is read at a time. Records that are kept hold on to the block that they are in.
const BLOCK_BYTES: u64 = 256 << 10;

/// How much is passed over where the disk gives an error.
const UNREADABLE_BYTES: u64 = 4 << 10;

/// A record and where it stands.
#[derive(Debug, Clone)]
pub struct Entry {
    pub at: Position,
    pub header: Header,
    pub payload: Payload,
}

#[derive(Debug)]
pub struct Reader {
    segments: Arc<Segments>,
    /// Of the next byte that was not given yet.
    position: Position,
    open: Option<Open>,
    /// Bytes of the open segment from an offset on.
    block: Bytes,
    block_at: u64,
    /// The segment a record was last looked up in.
    looked_up: Option<Open>,
    is_damaged: bool,
}

#[derive(Debug, Clone)]
struct Open {
    number: u32,
    salt: u32,
    /// Up to where it can be read.
    bytes: u64,
    file: Arc<dyn OpenFile>,
}

/// What stands at the position.
enum Found {
    Record(Header),
    /// The record begins here and its end is missing.
    Torn,
    Damage,
}

impl Reader {
    pub(super) fn new(segments: Arc<Segments>, from: Position) -> Self {
        Reader {
            segments,
            position: from,
            open: None,
            block: Bytes::new(),
            block_at: 0,
            looked_up: None,
            is_damaged: false,
        }
    }

    /// Everything before it was given.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The next record; `None` if there is none yet. An error leaves the position where it is.
    pub fn find_next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            if !self.enter()? {
                return Ok(None);
            }
            let Some(open) = self.open.clone() else {
                return Ok(None);
            };
            match self.look(&open) {
                Found::Record(header) => {
                    self.is_damaged = false;
                    if let Some(entry) = self.take(header) {
                        return Ok(Some(entry));
                    }
                }
                Found::Torn => {
                    if !std::mem::take(&mut self.is_damaged) {
                        self.segments.counters.torn_tails.fetch_add(1, Ordering::Relaxed);
                    }
                    self.position.offset = open.bytes;
                }
                Found::Damage => self.pass_damage(&open),
            }
        }
    }

    /// The record at a position that was given before.
    pub fn read_at(&mut self, at: Position) -> io::Result<Option<Entry>> {
        let salt = self
            .segments
            .table()
            .segments
            .get(&at.segment)
            .map(|segment| segment.salt);
        let is_same = |open: &Open| open.number == at.segment && Some(open.salt) == salt;
        let open = match self.looked_up.take().filter(is_same) {
            Some(open) => open,
            None => match self.open_segment(at.segment)? {
                Some(open) => open,
                None => return Ok(None),
            },
        };
        let entry = read_record(&open, at);
        self.looked_up = Some(open);
        entry
    }

    /// Waits until there is something to read, or until the writer has ended.
    pub async fn more(&mut self) {
        self.segments.want_more();
        if self.is_at_end() && !self.is_closed() {
            self.segments.more.notified().await;
        }
    }

    /// Whether the writer has ended: what can be read now is all there will be.
    pub fn is_closed(&self) -> bool {
        self.segments.table().closed
    }

    fn is_at_end(&self) -> bool {
        self.next_unread().is_none()
    }

    /// The first segment with bytes that were not given, and how many it has in all. An empty one says nothing: either it is
    /// the last, or it stays empty.
    fn next_unread(&self) -> Option<(u32, u64)> {
        let table = self.segments.table();
        let mut from_here = table.segments.range(self.position.segment..);
        from_here.find_map(|(number, segment)| {
            let is_here = *number == self.position.segment;
            let given = if is_here { self.position.offset } else { 0 };
            (segment.bytes > given).then_some((*number, segment.bytes))
        })
    }

    /// Sees to it that the open segment has unread bytes. `false` where there are none.
    fn enter(&mut self) -> io::Result<bool> {
        if let Some(open) = &self.open
            && open.number == self.position.segment
            && self.position.offset < open.bytes
        {
            return Ok(true);
        }
        loop {
            // When a later segment has bytes, the earlier one has ended.
            let Some((number, bytes)) = self.next_unread() else {
                self.leave_ended_segment();
                return Ok(false);
            };
            if number != self.position.segment {
                self.position = Position {
                    segment: number,
                    offset: 0,
                };
            }
            if let Some(open) = self.open.as_mut().filter(|open| open.number == number) {
                open.bytes = bytes;
                return Ok(true);
            }
            self.block = Bytes::new();
            self.open = self.open_segment(number)?;
            if self.open.is_some() {
                return Ok(true);
            }
            // Somebody removed the file.
            self.position = Position {
                segment: number.saturating_add(1),
                offset: 0,
            };
        }
    }

    /// Where all is read, on to the newest segment although it is empty: the one before it will not grow, and whoever trims
    /// may have it.
    fn leave_ended_segment(&mut self) {
        let newest = self.segments.table().segments.keys().next_back().copied();
        if let Some(newest) = newest.filter(|newest| *newest > self.position.segment)
            && self.is_at_end()
        {
            self.position = Position {
                segment: newest,
                offset: 0,
            };
        }
    }

    /// `None` if there is no such segment, or no such file any more.
    fn open_segment(&self, number: u32) -> io::Result<Option<Open>> {
        let Some(segment) = self.segments.table().segments.get(&number).copied() else {
            return Ok(None);
        };
        match self.segments.files.open(&segment.name(number)) {
            Ok(file) => Ok(Some(Open {
                number,
                salt: segment.salt,
                bytes: segment.bytes,
                file,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn look(&mut self, open: &Open) -> Found {
        let left = open.bytes - self.position.offset;
        if left < HEADER_BYTES as u64 {
            return Found::Torn;
        }
        let Some(header) = Header::read(self.bytes(open, HEADER_BYTES as u64), open.salt) else {
            return Found::Damage;
        };
        let length = header.record_bytes();
        if length > left || (self.bytes(open, length).len() as u64) < length {
            return Found::Torn;
        }
        Found::Record(header)
    }

    /// The record at the position, which is all in the block. `None`, and counted, if its payload is damaged.
    fn take(&mut self, header: Header) -> Option<Entry> {
        let at = self.position;
        let start = (at.offset - self.block_at) as usize + HEADER_BYTES;
        let payload = self.block.slice(start..start + header.length as usize);
        self.position.offset += header.record_bytes();
        let payload = header.fits(&payload).then_some(payload);
        let payload = payload.and_then(|payload| Payload::read(header.kind, payload));
        if payload.is_none() {
            self.segments.counters.bad_records.fetch_add(1, Ordering::Relaxed);
        }
        Some(Entry {
            at,
            header,
            payload: payload?,
        })
    }

    /// Goes on to the next good header, as far as the block goes.
    fn pass_damage(&mut self, open: &Open) {
        if !std::mem::replace(&mut self.is_damaged, true) {
            self.segments.counters.bad_records.fetch_add(1, Ordering::Relaxed);
        }
        let bytes = self.bytes(open, BLOCK_BYTES);
        let passed = match record::find_header(bytes, 1, open.salt) {
            Some(next) => next,
            // A header may begin in the last bytes and end behind them.
            None if bytes.len() > HEADER_BYTES => bytes.len() - HEADER_BYTES,
            None => 1,
        };
        self.position.offset += passed as u64;
    }

    /// At least that many bytes from the position on, where the segment has so many.
    fn bytes(&mut self, open: &Open, count: u64) -> &[u8] {
        let offset = self.position.offset;
        let count = count.min(open.bytes - offset);
        let is_there = offset >= self.block_at && offset + count <= self.block_at + self.block.len() as u64;
        if !is_there {
            let length = count.max(BLOCK_BYTES).min(open.bytes - offset);
            self.block = read_block(open, offset, length);
            self.block_at = offset;
        }
        &self.block[(offset - self.block_at) as usize..]
    }
}

/// What the disk does not give is zeros, which are no record.
fn read_block(open: &Open, offset: u64, length: u64) -> Bytes {
    let mut block = vec![0; length as usize];
    if let Err(error) = open.file.read_at(&mut block, offset) {
        tracing::warn!(%error, segment = open.number, offset, "a part of the journal cannot be read");
        let unreadable = (length.min(UNREADABLE_BYTES)) as usize;
        let around = open.file.read_at(&mut block[unreadable..], offset + unreadable as u64);
        block[..unreadable].fill(0);
        if around.is_err() {
            block.truncate(unreadable);
        }
    }
    Bytes::from(block)
}

fn read_record(open: &Open, at: Position) -> io::Result<Option<Entry>> {
    let Some((header, payload)) = read_bytes(&*open.file, open.salt, at.offset)? else {
        return Ok(None);
    };
    let payload = Payload::read(header.kind, Bytes::from(payload));
    Ok(payload.map(|payload| Entry { at, header, payload }))
}

/// The record at an offset, if it is a good one.
pub(super) fn read_bytes(file: &dyn OpenFile, salt: u32, offset: u64) -> io::Result<Option<(Header, Vec<u8>)>> {
    let mut header = [0; HEADER_BYTES];
    file.read_at(&mut header, offset)?;
    let Some(header) = Header::read(&header, salt) else {
        return Ok(None);
    };
    let mut payload = vec![0; header.length as usize];
    file.read_at(&mut payload, offset + HEADER_BYTES as u64)?;
    Ok(header.fits(&payload).then_some((header, payload)))
}
