//! One exchange between its first event and its last, and when it becomes a record.
//!
//! A request is written when it is whole, an answer when it ends, both earlier when they have grown or the worker says so. A
//! small exchange is two records.

use http::HeaderMap;
use ropewalk_store::Micros;

use super::body::Body;
use super::event::{Ending, Head, Keep, ResponseHead};
use super::kept::{self, Names};
use super::marks::Marks;
use super::scrub::{BodyOf, Half, Scrub};
use crate::counters::{Answering, UnderWay};
use crate::journal::Writer;
use crate::journal::payload::{self, BeginParts, EndParts, HeadParts};
use crate::journal::record::{Kind, Sequence};

/// What is kept of a body in memory before it is written.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// What writing needs beside the exchange.
pub(super) struct Desk {
    pub(super) writer: Writer,
    pub(super) scrub: Box<dyn Scrub>,
    request_names: Names,
    response_names: Names,
    under_way: UnderWay,
    /// Used again for each target.
    target: String,
}

impl Desk {
    pub(super) fn new(writer: Writer, scrub: Box<dyn Scrub>, headers: &[String], under_way: UnderWay) -> Self {
        Desk {
            writer,
            scrub,
            under_way,
            request_names: Names::of_requests(headers),
            response_names: Names::of_responses(headers),
            target: String::new(),
        }
    }
}

pub(super) struct Exchange {
    head: Box<Head>,
    /// The number of the begin record, once there is one.
    number: Option<Sequence>,
    request: Body,
    request_ended: bool,
    /// The end of the request is in a record.
    end_is_written: bool,
    /// Until it is in a record.
    answer_head: Option<Box<ResponseHead>>,
    answer: Body,
    answer_at: Micros,
    /// For those who watch.
    answering: Option<Answering>,
    marks: Marks,
    redactions: u32,
    is_reused: bool,
    /// The answer said that it is complete, and no record says so yet.
    completes: bool,
    /// Records of it are missing; no more are written.
    lost: bool,
}

impl Exchange {
    pub(super) fn begin(head: Box<Head>, desk: &mut Desk) -> Self {
        let mut request = Body::default();
        let of = body_of(&head, Half::Request, &head.headers);
        request.begin(&mut *desk.scrub, &of);
        Exchange {
            answer_at: head.at,
            head,
            number: None,
            request,
            request_ended: false,
            end_is_written: false,
            answer_head: None,
            answer: Body::default(),
            answering: None,
            marks: Marks::default(),
            redactions: 0,
            is_reused: false,
            completes: false,
            lost: false,
        }
    }

    pub(super) fn number(&self) -> Option<Sequence> {
        self.number
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Nothing more of it is written, and what there is goes.
    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.request.drop_all();
        self.answer.drop_all();
        self.answer_head = None;
    }

    /// What it holds in memory of its bodies.
    pub(super) fn held(&self) -> usize {
        self.request.held() + self.answer.held()
    }

    pub(super) fn request_data(&mut self, data: bytes::Bytes, desk: &mut Desk) {
        self.request.push(data);
        if self.request.buffered() >= CHUNK_BYTES {
            self.write_request(desk);
        }
    }

    /// Nothing more of a body comes: what its filter held back can be written.
    pub(super) fn close(&mut self, half: Half) {
        self.redactions += match half {
            Half::Request => self.request.end(),
            Half::Response => self.answer.end(),
        };
    }

    /// Writes a chunk of a body that has more than one; false if none has.
    pub(super) fn write_grown(&mut self, desk: &mut Desk) -> bool {
        let is_request = self.request.buffered() > CHUNK_BYTES;
        if !is_request && self.answer.buffered() <= CHUNK_BYTES {
            return false;
        }
        match self.number {
            None => self.write_begin(desk),
            Some(_) if is_request => self.write_request_chunk(desk),
            Some(_) => self.write_answer_chunk(desk, CHUNK_BYTES),
        }
        true
    }

    pub(super) fn request_end(&mut self, desk: &mut Desk) {
        self.close(Half::Request);
        self.request_ended = true;
        self.write_request(desk);
    }

    /// What the provider got instead. Written at once: it is whole.
    pub(super) fn sent(&mut self, data: bytes::Bytes, desk: &mut Desk) {
        if self.head.keep == Keep::Metadata {
            return;
        }
        let mut sent = Body::default();
        // Its headers are the request's, which were of no encoding, or nobody would have looked at it.
        let headers = HeaderMap::new();
        sent.begin(&mut *desk.scrub, &body_of(&self.head, Half::Request, &headers));
        sent.push(data);
        // Secrets in it are those of the request, which are counted there.
        sent.end();
        self.write_request(desk);
        loop {
            let is_last = sent.buffered() <= CHUNK_BYTES;
            desk.writer.add(Kind::SentChunk, self.number, |out| {
                payload::write_request_chunk(out, is_last);
                sent.write(out, CHUNK_BYTES);
            });
            if is_last {
                return;
            }
        }
    }

    pub(super) fn reused(&mut self) {
        self.is_reused = true;
    }

    pub(super) fn response_head(&mut self, head: Box<ResponseHead>, desk: &mut Desk) {
        let of = body_of(&self.head, Half::Response, &head.headers);
        self.answer.begin(&mut *desk.scrub, &of);
        self.answer_at = head.at;
        self.answer_head = Some(head);
        self.answering = Some(desk.under_way.begin(self.head.id, &self.head.owner));
    }

    pub(super) fn response_data(&mut self, data: bytes::Bytes, at: Micros, desk: &mut Desk) {
        if let Some(answering) = &self.answering {
            answering.add(data.len());
        }
        self.answer.push(data);
        self.answer_at = at;
        if self.head.keep == Keep::Everything {
            self.marks.add(self.answer.kept(), at);
        }
        if self.answer.buffered() >= CHUNK_BYTES {
            self.write_answer(desk, 0);
        }
    }

    /// The answer says that it is complete: all of it so far is written. What may follow is a body of its own for the filter.
    pub(super) fn whole(&mut self, desk: &mut Desk) {
        self.close(Half::Response);
        let headers = HeaderMap::new();
        let of = body_of(&self.head, Half::Response, &headers);
        self.answer.begin(&mut *desk.scrub, &of);
        // Of an answer that is kept in part nobody may say that it is complete.
        self.completes = !self.answer.is_cut();
        self.write_all(desk);
    }

    /// Memory is short.
    pub(super) fn relieve(&mut self) {
        self.request.relieve();
        self.answer.relieve();
    }

    /// Writes what there is, whole or not.
    pub(super) fn write_all(&mut self, desk: &mut Desk) {
        if !self.end_is_written {
            self.write_request(desk);
        }
        self.write_answer(desk, 0);
    }

    pub(super) fn end(mut self, ending: Ending, at: Micros, desk: &mut Desk) -> Option<Sequence> {
        if !self.end_is_written {
            // Cut off: what the filter held back belongs to it.
            self.close(Half::Request);
            self.write_request(desk);
        }
        self.close(Half::Response);
        if self.answer.buffered() > CHUNK_BYTES {
            self.write_answer(desk, CHUNK_BYTES);
        }
        let ending = match ending {
            Ending::Complete if self.answer.is_cut() => payload::Ending::Lost,
            Ending::Complete => payload::Ending::Complete,
            Ending::ClientCancelled => payload::Ending::ClientCancelled,
            Ending::Truncated => payload::Ending::Truncated,
            Ending::Refused => payload::Ending::Refused,
        };
        let head = self.answer_head.take();
        let answer = &mut self.answer;
        desk.writer.add(Kind::End, self.number, |out| {
            let head = head.as_deref().map(|head| head_parts(head, &desk.response_names));
            payload::write_end(
                out,
                EndParts {
                    ending,
                    at,
                    redactions: self.redactions,
                    marks: self.marks.as_slice(),
                    is_reused: self.is_reused,
                },
                head,
            );
            answer.write(out, CHUNK_BYTES);
        });
        self.number
    }

    fn write_request(&mut self, desk: &mut Desk) {
        if self.number.is_none() {
            self.write_begin(desk);
        }
        while self.request.buffered() > 0 || (self.request_ended && !self.end_is_written) {
            self.write_request_chunk(desk);
        }
    }

    fn write_request_chunk(&mut self, desk: &mut Desk) {
        let is_last = self.request_ended && self.request.buffered() <= CHUNK_BYTES;
        let request = &mut self.request;
        desk.writer.add(Kind::RequestChunk, self.number, |out| {
            payload::write_request_chunk(out, is_last);
            request.write(out, CHUNK_BYTES);
        });
        self.end_is_written = is_last;
    }

    fn write_begin(&mut self, desk: &mut Desk) {
        kept::target(&self.head.target, &mut desk.target);
        let is_whole = self.request_ended && self.request.buffered() <= CHUNK_BYTES;
        let (head, request) = (&self.head, &mut self.request);
        let parts = BeginParts {
            id: head.id,
            at: head.at,
            owner: &head.owner,
            method: head.method.as_str(),
            target: &desk.target,
            headers: desk.request_names.kept(&head.headers),
            is_whole,
        };
        let number = desk.writer.add(Kind::Begin, None, |out| {
            payload::write_begin(out, parts);
            request.write(out, CHUNK_BYTES);
        });
        self.number = Some(number);
        self.end_is_written = is_whole;
        // They are written, and a key should live no longer than needed.
        self.head.headers = HeaderMap::new();
    }

    /// Writes the answer but for its last bytes.
    fn write_answer(&mut self, desk: &mut Desk, leave_bytes: usize) {
        while self.answer_head.is_some() || self.answer.buffered() > leave_bytes || self.completes {
            if self.number.is_none() {
                self.write_begin(desk);
            }
            let bytes = self.answer.buffered() - leave_bytes.min(self.answer.buffered());
            self.write_answer_chunk(desk, bytes.min(CHUNK_BYTES));
        }
    }

    fn write_answer_chunk(&mut self, desk: &mut Desk, bytes: usize) {
        let head = self.answer_head.take();
        let completes = self.completes && bytes == self.answer.buffered();
        self.completes &= !completes;
        let answer = &mut self.answer;
        desk.writer.add(Kind::ResponseChunk, self.number, |out| {
            let head = head.as_deref().map(|head| head_parts(head, &desk.response_names));
            payload::write_response_chunk(out, self.answer_at, head, completes);
            answer.write(out, bytes);
        });
    }
}

fn body_of<'h>(head: &'h Head, half: Half, headers: &'h HeaderMap) -> BodyOf<'h> {
    BodyOf {
        owner: &head.owner,
        keep: head.keep,
        half,
        target: &head.target,
        headers,
    }
}

fn head_parts<'h>(head: &'h ResponseHead, names: &'h Names) -> HeadParts<impl Iterator<Item = (&'h str, &'h [u8])>> {
    HeadParts {
        at: head.at,
        status: head.status.as_u16(),
        headers: names.kept(&head.headers),
    }
}
