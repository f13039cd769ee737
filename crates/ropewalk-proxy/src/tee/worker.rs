//! The thread that makes records of events.
//!
//! For each batch of events: what is whole becomes a record, all records go out with one write, those who wait for an end are
//! released by the journal. What the journal has no room for is counted, and the count is written as soon as there is room.
//!
//! Invariants: what is held of bodies is counted in the queue's bound until it is written; an exchange of which something is
//! missing is never acknowledged; nobody waits for a worker that has ended.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ropewalk_store::Micros;
use tokio::sync::oneshot;

use super::event::{Ending, Event, ExchangeKey, Released};
use super::exchange::{Desk, Exchange};
use super::queue::Inbox;
use super::scrub::{Half, Scrub};
use crate::clock::now;
use crate::counters::Counters;
use crate::journal::Writer;
use crate::journal::payload::{self, Gap};
use crate::journal::record::{Kind, Sequence};

/// A batch with more than this is written in parts, so that the buffer stays small.
const WRITE_BYTES: usize = 1 << 20;

/// What may be added to bodies, where memory is short already, until they are relieved again.
const RELIEVE_EVERY_BYTES: usize = 4 << 20;

/// How old what was not written may get.
const WRITE_EVERY: Duration = Duration::from_secs(1);

pub struct Worker {
    inbox: Inbox,
    desk: Desk,
    counters: Arc<Counters>,
    open: HashMap<ExchangeKey, Exchange>,
    /// Whose records are in the writer's buffer.
    touched: Vec<Touched>,
    waiting: Vec<oneshot::Sender<Released>>,
    /// What the open exchanges hold of their bodies.
    held: usize,
    missing: Missing,
    batch_at: Instant,
    swept_at: Instant,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

struct Touched {
    exchange: ExchangeKey,
    number: Option<Sequence>,
    ended: bool,
}

/// What could not be written and is still to be told.
#[derive(Default)]
struct Missing {
    gap: Gap,
    /// Exchanges that the journal has the beginning of and no end.
    owed_ends: Vec<Sequence>,
}

impl Missing {
    fn is_nothing(&self) -> bool {
        self.gap.exchanges == 0 && self.owed_ends.is_empty()
    }
}

impl Worker {
    /// Starts the thread. It ends when the [`Tee`](super::Tee) is closed and everything is written, and closes the journal. `headers`
    /// are kept beside the usual ones; the caller sees to it that none of them is a credential.
    pub fn start(
        inbox: Inbox,
        writer: Writer,
        scrub: Box<dyn Scrub>,
        headers: &[String],
        counters: Arc<Counters>,
    ) -> io::Result<JoinHandle<()>> {
        let now = Instant::now();
        let mut worker = Worker {
            inbox,
            desk: Desk::new(writer, scrub, headers, counters.under_way.clone()),
            counters,
            open: HashMap::new(),
            touched: Vec::new(),
            waiting: Vec::new(),
            held: 0,
            missing: Missing::default(),
            batch_at: now,
            swept_at: now,
        };
        thread::Builder::new()
            .name("tee-worker".to_owned())
            .spawn(move || worker.run())
    }

    fn run(&mut self) {
        loop {
            let soon = !self.open.is_empty() || !self.missing.is_nothing() || self.desk.writer.is_failing();
            let (events, bytes) = self.inbox.take(soon);
            self.batch_at = Instant::now();
            self.write_missing();
            let (held_before, is_empty) = (self.held, events.is_empty());
            let short_at = self.inbox.bytes_max() / 2;
            let mut relieve_at = short_at;
            for event in events {
                self.handle(event);
                // Not only between batches: the events of one may decode to any multiple of what they are.
                if self.held > relieve_at {
                    self.sweep(true);
                    relieve_at = short_at.max(self.held + RELIEVE_EVERY_BYTES);
                }
                self.write_if_much();
            }
            let is_short = self.held > short_at;
            if is_short || self.batch_at.duration_since(self.swept_at) >= WRITE_EVERY {
                self.sweep(is_short);
            }
            let is_last = is_empty && self.inbox.is_closed();
            if is_last {
                self.sweep(false);
            }
            self.write();
            self.settle(bytes + held_before);
            if is_last {
                return;
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let (key, event) = match event {
            Event::Begin(key, head) => {
                let exchange = Exchange::begin(head, &mut self.desk);
                self.open.insert(key, exchange);
                return;
            }
            Event::End {
                exchange,
                ending,
                at,
                release,
            } => return self.end(exchange, ending, at, release),
            Event::Seal => {
                self.write();
                return self.desk.writer.seal();
            }
            Event::RequestData(key, ..)
            | Event::RequestEnd(key)
            | Event::Sent(key, ..)
            | Event::Reused(key)
            | Event::ResponseHead(key, ..)
            | Event::ResponseData(key, ..) => (key, event),
            Event::Whole { exchange, .. } => (exchange, event),
        };
        let ends = match event {
            Event::RequestEnd(_) => Some(Half::Request),
            Event::Whole { .. } => Some(Half::Response),
            _ => None,
        };
        if let Some(half) = ends {
            self.close_body(key, half);
        }
        let Some(exchange) = self.open.get_mut(&key) else {
            return;
        };
        if exchange.is_lost() {
            self.missing.gap.bytes += event.bytes() as u64;
            if let Event::Whole { release, .. } = event {
                self.release_unkept(release);
            }
            return;
        }
        let release = self.change(key, |exchange, desk| match event {
            Event::RequestData(_, data) => {
                exchange.request_data(data, desk);
                None
            }
            Event::RequestEnd(_) => {
                exchange.request_end(desk);
                None
            }
            Event::Sent(_, body) => {
                exchange.sent(body, desk);
                None
            }
            Event::Reused(_) => {
                exchange.reused();
                None
            }
            Event::ResponseHead(_, head) => {
                exchange.response_head(head, desk);
                None
            }
            Event::ResponseData(_, data, at) => {
                exchange.response_data(data, at, desk);
                None
            }
            Event::Whole { release, .. } => {
                exchange.whole(desk);
                Some(release)
            }
            Event::Begin(..) | Event::End { .. } | Event::Seal => None,
        });
        self.waiting.extend(release.flatten());
    }

    fn end(&mut self, key: ExchangeKey, ending: Ending, at: Micros, release: Option<oneshot::Sender<Released>>) {
        self.close_body(key, Half::Request);
        self.close_body(key, Half::Response);
        let found = self.open.remove(&key);
        let Some(exchange) = found.filter(|exchange| !exchange.is_lost()) else {
            if let Some(release) = release {
                self.release_unkept(release);
            }
            return;
        };
        self.held = self.held.saturating_sub(exchange.held());
        let number = exchange.end(ending, at, &mut self.desk);
        self.touched.push(Touched {
            exchange: key,
            number,
            ended: true,
        });
        self.waiting.extend(release);
    }

    /// Something of the exchange is missing, and its client waits no longer.
    fn release_unkept(&self, release: oneshot::Sender<Released>) {
        self.counters.unacknowledged.fetch_add(1, Ordering::Relaxed);
        let _ = release.send(Released { acknowledged: false });
    }

    /// Nothing more of a body comes: what its filter has held back is written but for the last chunk.
    fn close_body(&mut self, key: ExchangeKey, half: Half) {
        self.change(key, |exchange, _| exchange.close(half));
        self.write_grown(key);
    }

    /// Writes of what is more than a chunk, a part at a time: a body may be larger than the buffer should be.
    fn write_grown(&mut self, key: ExchangeKey) {
        while self.change(key, Exchange::write_grown) == Some(true) {
            self.write_if_much();
        }
    }

    /// Puts everything that was not written into the buffer.
    fn sweep(&mut self, memory_is_short: bool) {
        self.swept_at = self.batch_at;
        let open: Vec<ExchangeKey> = self.open.keys().copied().collect();
        for key in open {
            if memory_is_short {
                self.change(key, |exchange, _| exchange.relieve());
                self.write_grown(key);
            }
            self.change(key, Exchange::write_all);
            self.write_if_much();
        }
    }

    /// Does something to an open exchange of which nothing is missing, and notes what became of its memory and its records.
    fn change<T>(&mut self, key: ExchangeKey, change: impl FnOnce(&mut Exchange, &mut Desk) -> T) -> Option<T> {
        let exchange = self.open.get_mut(&key).filter(|exchange| !exchange.is_lost())?;
        let (held, buffered) = (exchange.held(), self.desk.writer.buffered());
        let outcome = change(exchange, &mut self.desk);
        self.held = (self.held + exchange.held()).saturating_sub(held);
        if self.desk.writer.buffered() > buffered {
            self.touched.push(Touched {
                exchange: key,
                number: exchange.number(),
                ended: false,
            });
        }
        Some(outcome)
    }

    fn write_if_much(&mut self) {
        if self.desk.writer.buffered() >= WRITE_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.desk.writer.buffered() == 0 && self.waiting.is_empty() && !self.desk.writer.is_failing() {
            return;
        }
        let (first, bytes) = (self.desk.writer.first_unwritten(), self.desk.writer.buffered());
        let waiting = std::mem::take(&mut self.waiting);
        match self.desk.writer.write(waiting, self.batch_at) {
            Ok(()) => {}
            Err(_) => self.lose(first, bytes),
        }
        self.touched.clear();
    }

    /// Writes what is missing, if there is something, and room for it. An end that is owed needs none: while it is not there
    /// its exchange counts as open, and the segments that it pins may be the very ones that fill the journal.
    fn write_missing(&mut self) {
        let is_urgent = !self.missing.owed_ends.is_empty() && !self.desk.writer.is_failing();
        if self.missing.is_nothing() || !(is_urgent || self.desk.writer.has_room()) {
            return;
        }
        let gap = self.missing.gap;
        self.desk
            .writer
            .add(Kind::Gap, Some(Sequence(0)), |out| payload::write_gap(out, &gap));
        let until = Micros(gap.until);
        for number in &self.missing.owed_ends {
            self.desk.writer.add(Kind::End, Some(*number), |out| {
                let no_head = None::<payload::HeadParts<std::iter::Empty<_>>>;
                payload::write_end(out, payload::EndParts::lost(until), no_head);
            });
        }
        if self.desk.writer.write_beyond().is_ok() {
            self.missing = Missing::default();
        }
    }

    /// The buffer was not written: records from `first` on are gone, and with them their exchanges.
    fn lose(&mut self, first: Sequence, bytes: usize) {
        let mut exchanges = 0;
        for touched in self.touched.drain(..) {
            if touched.ended {
                exchanges += 1;
            } else if let Some(exchange) = self.open.get_mut(&touched.exchange)
                && !exchange.is_lost()
            {
                exchanges += 1;
                self.held = self.held.saturating_sub(exchange.held());
                exchange.lose();
            } else {
                continue;
            }
            // Of a lost exchange nothing more is expected: its end is owed now.
            self.missing
                .owed_ends
                .extend(touched.number.filter(|number| *number < first));
        }
        let now = now().0;
        let gap = &mut self.missing.gap;
        if gap.exchanges == 0 {
            gap.since = now;
        }
        gap.until = now;
        gap.exchanges += exchanges;
        gap.bytes += bytes as u64;
        self.counters.gap_exchanges.fetch_add(exchanges, Ordering::Relaxed);
        self.counters.gap_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Gives back what is no longer held of what was taken and held before.
    fn settle(&self, bytes: usize) {
        match bytes.checked_sub(self.held) {
            Some(0) => {}
            Some(freed) => self.inbox.let_go(freed),
            None => self.inbox.hold(self.held - bytes),
        }
    }
}
