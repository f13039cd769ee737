//! One exchange from its records.

use std::io;
use std::time::Instant;

use bytes::Bytes;
use ropewalk_engine::{RawExchange, Witness};
use ropewalk_store::Micros;

use crate::journal::payload::{AnswerHead, Begin, End, Ending, Payload, ResponseChunk};
use crate::journal::{Moved, Position, Reader};

/// An exchange that has begun and not ended: where its records are.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) seen_at: Instant,
    /// All of the request has been read.
    pub(super) is_whole: bool,
    begins_at: Position,
    /// Kept while the batch is read in which it was found.
    begin: Option<Begin>,
    request_chunks: Vec<Position>,
    /// Of what was sent in the request's place.
    sent_chunks: Vec<Position>,
    sent_is_whole: bool,
    response_chunks: Vec<Position>,
    /// The answer said that it is complete; its client may know.
    is_answered: bool,
    /// What its records take in the journal.
    request_bytes: u64,
    response_bytes: u64,
    /// When the last that is known of it came.
    last_at: Micros,
}

/// How an exchange is to be recorded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Closing<'e> {
    /// Without an end: there will be one.
    NotYet,
    Ended(&'e End),
    /// Without an end, and none will come: the process that recorded it is dead, or ends. Complete if the answer said so.
    CutOffByUs,
}

impl Open {
    pub(super) fn new(at: Position, begin: &Begin, bytes: u64) -> Self {
        Open {
            seen_at: Instant::now(),
            is_whole: begin.is_whole,
            begins_at: at,
            last_at: begin.at,
            begin: Some(begin.clone()),
            request_chunks: Vec::new(),
            sent_chunks: Vec::new(),
            sent_is_whole: false,
            response_chunks: Vec::new(),
            is_answered: false,
            request_bytes: bytes,
            response_bytes: 0,
        }
    }

    pub(super) fn add_request_chunk(&mut self, at: Position, is_last: bool, bytes: u64) {
        self.request_chunks.push(at);
        self.is_whole |= is_last;
        self.request_bytes += bytes;
    }

    pub(super) fn add_sent_chunk(&mut self, at: Position, is_last: bool, bytes: u64) {
        self.sent_chunks.push(at);
        self.sent_is_whole |= is_last;
        self.request_bytes += bytes;
    }

    pub(super) fn add_response_chunk(&mut self, at: Position, chunk: &ResponseChunk, bytes: u64) {
        self.response_chunks.push(at);
        self.last_at = chunk.at;
        self.is_answered |= chunk.completes;
        self.response_bytes += bytes;
    }

    pub(super) fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    pub(super) fn bytes(&self) -> u64 {
        self.request_bytes + self.response_bytes
    }

    pub(super) fn begins_at(&self) -> Position {
        self.begins_at
    }

    /// Where its records are.
    pub(super) fn places(&self) -> impl Iterator<Item = Position> {
        let requests = self.request_chunks.iter().chain(&self.sent_chunks);
        let chunks = requests.chain(&self.response_chunks);
        std::iter::once(&self.begins_at).chain(chunks).copied()
    }

    /// Its records have been put somewhere else.
    pub(super) fn follow(&mut self, moved: &Moved) {
        let requests = self.request_chunks.iter_mut().chain(&mut self.sent_chunks);
        let chunks = requests.chain(&mut self.response_chunks);
        for at in std::iter::once(&mut self.begins_at).chain(chunks) {
            *at = moved.get(at).copied().unwrap_or(*at);
        }
    }

    /// From here on it is read from the file again.
    pub(super) fn forget_begin(&mut self) {
        self.begin = None;
    }
}

/// The exchange and its owner. `None` if its begin record, or a piece of its request, cannot be read any more.
pub(super) fn exchange(
    open: &mut Open,
    reader: &mut Reader,
    closing: Closing<'_>,
) -> io::Result<Option<(String, RawExchange)>> {
    let begin = match open.begin.take() {
        Some(begin) => begin,
        None => match reader.read_at(open.begins_at)?.map(|entry| entry.payload) {
            Some(Payload::Begin(begin)) => begin,
            _ => return Ok(None),
        },
    };
    let Some(request_body) = request_body(open, reader, &begin)? else {
        return Ok(None);
    };
    let mut raw = RawExchange {
        id: begin.id.to_string(),
        at: begin.at,
        ended_at: None,
        spawned_at: Vec::new(),
        method: begin.method,
        path: begin.target,
        request_headers: begin.headers,
        request_body,
        sent_body: sent_body(open, reader)?,
        names: Default::default(),
        status: None,
        response_headers: Vec::new(),
        response_body: None,
        cut_off: false,
        witness: Witness {
            headers_are_chosen: true,
            ..Witness::default()
        },
        provenance: None,
    };
    match closing {
        Closing::NotYet => {}
        Closing::Ended(end) => {
            let (head, body) = answer(open, reader, Some(end))?;
            add_answer(&mut raw, head, body);
            raw.ended_at = Some(end.at);
            add_ending(&mut raw, end);
        }
        Closing::CutOffByUs => {
            let (head, body) = answer(open, reader, None)?;
            add_answer(&mut raw, head, body);
            raw.ended_at = Some(open.last_at);
            raw.cut_off = !open.is_answered;
        }
    }
    Ok(Some((begin.owner, raw)))
}

fn request_body(open: &Open, reader: &mut Reader, begin: &Begin) -> io::Result<Option<Bytes>> {
    if open.request_chunks.is_empty() {
        return Ok(Some(begin.body.clone()));
    }
    // Of the size it will have: a body that grows step by step takes up to thrice its bytes.
    let mut body = Vec::with_capacity(usize::try_from(open.request_bytes).unwrap_or_default());
    body.extend_from_slice(&begin.body);
    for at in &open.request_chunks {
        match reader.read_at(*at)?.map(|entry| entry.payload) {
            Some(Payload::RequestChunk(chunk)) => body.extend_from_slice(&chunk.body),
            _ => return Ok(None),
        }
    }
    Ok(Some(Bytes::from(body)))
}

/// What was sent in the request's place. Of one that is not whole nothing is told.
fn sent_body(open: &Open, reader: &mut Reader) -> io::Result<Option<Bytes>> {
    if !open.sent_is_whole {
        return Ok(None);
    }
    let mut body = Vec::new();
    for at in &open.sent_chunks {
        match reader.read_at(*at)?.map(|entry| entry.payload) {
            Some(Payload::SentChunk(chunk)) => body.extend_from_slice(&chunk.body),
            _ => return Ok(None),
        }
    }
    Ok(Some(Bytes::from(body)))
}

/// The answer as far as it is there. A chunk that cannot be read ends it.
fn answer(open: &Open, reader: &mut Reader, end: Option<&End>) -> io::Result<(Option<AnswerHead>, Bytes)> {
    let head = end.and_then(|end| end.head.clone());
    let rest = end.map(|end| end.body.clone()).unwrap_or_default();
    if open.response_chunks.is_empty() {
        return Ok((head, rest));
    }
    let mut head = head;
    let mut body = Vec::with_capacity(usize::try_from(open.response_bytes).unwrap_or_default() + rest.len());
    for at in &open.response_chunks {
        match reader.read_at(*at)?.map(|entry| entry.payload) {
            Some(Payload::ResponseChunk(chunk)) => {
                head = head.or(chunk.head);
                body.extend_from_slice(&chunk.body);
            }
            _ => return Ok((head, Bytes::from(body))),
        }
    }
    body.extend_from_slice(&rest);
    Ok((head, Bytes::from(body)))
}

fn add_answer(raw: &mut RawExchange, head: Option<AnswerHead>, body: Bytes) {
    raw.response_body = Some(body);
    if let Some(head) = head {
        raw.status = Some(head.status);
        raw.response_headers = head.headers;
        raw.witness.first_byte_at = Some(head.at);
    }
}

fn add_ending(raw: &mut RawExchange, end: &End) {
    raw.witness.arrivals = end.marks.iter().map(|mark| (mark.offset, mark.at)).collect();
    raw.witness.is_reused = end.is_reused;
    raw.witness.client_left = end.ending == Ending::ClientCancelled;
    raw.cut_off = match end.ending {
        // Nothing came back: that is no complete answer, whatever the sender of the event meant.
        Ending::Complete | Ending::Refused => raw.status.is_none(),
        Ending::ClientCancelled | Ending::Truncated | Ending::Lost => true,
    };
}
