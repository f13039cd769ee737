//! From records to batches of exchanges.
//!
//! An exchange whose beginning and end are read together is recorded once. One that takes longer is recorded as pending, so
//! that it can be seen while it lasts, and completed when its end is read; until then only the places of its records are kept
//! in memory, and the segments that they are in are kept on disk.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ropewalk_engine::RawExchange;

use super::assemble::{self, Closing, Open};
use crate::journal::payload::{Gap, Payload};
use crate::journal::record::Sequence;
use crate::journal::{Entry, Journal, Position, Reader};

/// Most exchanges of a batch, and most bytes of their bodies. Above them a larger batch is no faster.
const EXCHANGES_MAX: usize = 256;
const BYTES_MAX: usize = 8 << 20;

/// How long an exchange may take before it is shown as pending.
const PENDING_AFTER: Duration = Duration::from_millis(200);

/// How many are shown so at a time, and about how many bytes of theirs: they come on top of a full batch. One that has more
/// is shown when it ends: recording it twice costs more than seeing it early is worth.
const PENDING_MAX: usize = 64;
const PENDING_BYTES_MAX: usize = 4 << 20;

/// How often the position is written to a file. It only saves work after a restart.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// The file in the journal's folder that says how far it was recorded.
pub const POSITION_NAME: &str = "position";

/// Exchanges to be recorded, by owner, in the order they were read.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) groups: Vec<Group>,
    count: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) owner: String,
    pub(super) exchanges: Vec<RawExchange>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn is_full(&self) -> bool {
        self.count >= EXCHANGES_MAX || self.bytes >= BYTES_MAX
    }

    fn add(&mut self, owner: String, exchange: RawExchange) {
        self.count += 1;
        let other_bodies = [&exchange.sent_body, &exchange.response_body].into_iter().flatten();
        self.bytes += exchange.request_body.len() + other_bodies.map(Bytes::len).sum::<usize>();
        match self.groups.iter_mut().find(|group| group.owner == owner) {
            Some(group) => group.exchanges.push(exchange),
            None => self.groups.push(Group {
                owner,
                exchanges: vec![exchange],
            }),
        }
    }
}

#[derive(Debug)]
pub(super) struct Intake {
    journal: Journal,
    reader: Reader,
    open: HashMap<Sequence, Open>,
    /// Exchanges that were not shown yet, the oldest first.
    unshown: VecDeque<Sequence>,
    batch: Batch,
    /// A record that was read and could not be dealt with.
    stuck: Option<Entry>,
    dead_are_closed: bool,
    saved: (Position, Instant),
}

impl Intake {
    pub(super) fn new(journal: &Journal) -> Self {
        let from = load_position(journal);
        Intake {
            journal: journal.clone(),
            reader: journal.reader(from),
            open: HashMap::new(),
            unshown: VecDeque::new(),
            batch: Batch::default(),
            stuck: None,
            dead_are_closed: false,
            saved: (from, Instant::now()),
        }
    }

    /// What is to be recorded. Emptied by whoever records it.
    pub(super) fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Whether nothing more will be written.
    pub(super) fn is_closed(&self) -> bool {
        self.reader.is_closed()
    }

    pub(super) async fn more(&mut self) {
        self.reader.more().await;
    }

    /// Fills the batch with what there is. `is_last` says that what does not end now never will.
    pub(super) fn fill(&mut self, is_last: bool) -> io::Result<()> {
        let mut is_at_end = false;
        while !self.batch.is_full() && !is_at_end {
            let entry = match self.stuck.take() {
                Some(entry) => Some(entry),
                None => self.reader.find_next()?,
            };
            match entry {
                Some(entry) => {
                    if let Err(error) = self.take(&entry) {
                        self.stuck = Some(entry);
                        return Err(error);
                    }
                }
                None => is_at_end = true,
            }
        }
        let first_own = self.journal.first_own_segment();
        if !self.dead_are_closed && (is_at_end || self.reader.position().segment > first_own) {
            self.close(|number| number.segment() < first_own)?;
            self.dead_are_closed = true;
        }
        if is_at_end && is_last {
            self.close(|_| true)?;
        }
        self.show_pending()?;
        for open in self.open.values_mut() {
            open.forget_begin();
        }
        let open = self.open.len() as u64;
        self.journal.counters().open_exchanges.store(open, Ordering::Relaxed);
        Ok(())
    }

    /// The batch is in the store: what is before the position is needed no more, but for what is open.
    pub(super) fn recorded(&mut self) {
        self.batch = Batch::default();
        self.trim();
        self.compact();
        if self.saved.1.elapsed() >= SAVE_EVERY {
            self.save_position();
        }
    }

    /// Removes segments that nothing is needed of.
    pub(super) fn trim(&self) {
        let places = self.open.values().flat_map(Open::places);
        let pinned: BTreeSet<u32> = places.map(|at| at.segment).collect();
        self.journal.trim(self.reader.position(), &pinned);
    }

    /// Makes room where open exchanges keep many segments for little.
    fn compact(&mut self) {
        let before = self.reader.position().segment;
        let needed_bytes = self.open.values().map(Open::bytes).sum();
        if !self.journal.is_wasteful(before, needed_bytes) {
            return;
        }
        let mut needed: Vec<_> = self.open.values().flat_map(Open::places).collect();
        needed.sort_unstable();
        match self.journal.compact(before, &needed) {
            Ok(moved) => {
                for open in self.open.values_mut() {
                    open.follow(&moved);
                }
                self.save_position();
            }
            Err(error) => tracing::warn!(%error, "the journal cannot be compacted"),
        }
    }

    /// Where a next process has to begin.
    pub(super) fn save_position(&mut self) {
        let first_open = self.open.values().map(Open::begins_at).min();
        let position = first_open.map_or(self.reader.position(), |first| first.min(self.reader.position()));
        if position != self.saved.0 {
            let text = format!("{} {}\n", position.segment, position.offset);
            // Without it more is read again than needed.
            let _ = self.journal.replace(POSITION_NAME, text.as_bytes());
        }
        self.saved = (position, Instant::now());
    }

    fn take(&mut self, entry: &Entry) -> io::Result<()> {
        let (number, bytes) = (entry.header.exchange, entry.header.record_bytes());
        match &entry.payload {
            Payload::Begin(begin) => {
                self.open.insert(number, Open::new(entry.at, begin, bytes));
                self.unshown.push_back(number);
            }
            Payload::RequestChunk(chunk) => {
                if let Some(open) = self.open.get_mut(&number) {
                    open.add_request_chunk(entry.at, chunk.is_last, bytes);
                }
            }
            Payload::SentChunk(chunk) => {
                if let Some(open) = self.open.get_mut(&number) {
                    open.add_sent_chunk(entry.at, chunk.is_last, bytes);
                }
            }
            Payload::ResponseChunk(chunk) => {
                if let Some(open) = self.open.get_mut(&number) {
                    open.add_response_chunk(entry.at, chunk, bytes);
                }
            }
            // An end without a beginning is of one that was recorded before the position, or whose beginning is damaged.
            Payload::End(end) => self.finish(number, Closing::Ended(end))?,
            Payload::Gap(gap) => report(gap),
        }
        Ok(())
    }

    /// Puts an exchange into the batch for the last time.
    fn finish(&mut self, number: Sequence, closing: Closing<'_>) -> io::Result<()> {
        if let Some(open) = self.open.get_mut(&number) {
            if let Some((owner, exchange)) = assemble::exchange(open, &mut self.reader, closing)? {
                self.batch.add(owner, exchange);
            }
            self.open.remove(&number);
        }
        Ok(())
    }

    /// Ends what nobody will end any more.
    fn close(&mut self, which: impl Fn(Sequence) -> bool) -> io::Result<()> {
        let mut left: Vec<_> = self.open.keys().copied().filter(|number| which(*number)).collect();
        left.sort_unstable();
        for number in left {
            self.finish(number, Closing::CutOffByUs)?;
        }
        Ok(())
    }

    /// Also beside a full batch: under load every batch is full.
    fn show_pending(&mut self) -> io::Result<()> {
        let mut shown = 0;
        let bytes_before = self.batch.bytes;
        while let Some(number) = self.unshown.front().copied() {
            let Some(open) = self.open.get_mut(&number) else {
                self.unshown.pop_front();
                continue;
            };
            let is_much = shown == PENDING_MAX || self.batch.bytes - bytes_before >= PENDING_BYTES_MAX;
            if is_much || open.seen_at.elapsed() < PENDING_AFTER {
                return Ok(());
            }
            shown += 1;
            if open.request_bytes() > PENDING_BYTES_MAX as u64 {
                self.unshown.pop_front();
                continue;
            }
            if open.is_whole {
                if let Some((owner, exchange)) = assemble::exchange(open, &mut self.reader, Closing::NotYet)? {
                    self.batch.add(owner, exchange);
                }
            } else {
                // Its request is still coming.
                open.seen_at = Instant::now();
                self.unshown.push_back(number);
            }
            self.unshown.pop_front();
        }
        Ok(())
    }
}

fn report(gap: &Gap) {
    let Gap { exchanges, bytes, .. } = gap;
    tracing::warn!(exchanges, bytes, "the journal was full: exchanges passed unrecorded");
}

/// From the start where there is no position, or one that cannot be of this journal.
fn load_position(journal: &Journal) -> Position {
    let read = || {
        let file = journal.files().open(POSITION_NAME).ok()?;
        let mut text = [0; 64];
        let length = file.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let (segment, offset) = text.trim_end().split_once(' ')?;
        Some(Position {
            segment: segment.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    };
    let position = read().unwrap_or_default();
    if position.segment < journal.first_own_segment() {
        position
    } else {
        Position::default()
    }
}
