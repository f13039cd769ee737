//! What the records say.
//!
//! Written straight into the batch's buffer, read as slices of what was read from the file: a body is copied once each way.
//! Reading never fails on damage (the sum has been checked by then) and never panics on anything: a payload that does not fit is
//! `None`, which the reader counts as a bad record.

use bytes::{Buf as _, Bytes};
use ropewalk_store::Micros;
use uuid::Uuid;

use super::record::Kind;

/// The flag of a begin or a request chunk: the request ends here.
const WHOLE: u8 = 1;
/// The flag of a response chunk or an end: the head of the answer stands here.
const HAS_HEAD: u8 = 1;
/// The flag of a response chunk: the answer is complete with it, whatever may follow.
const COMPLETES: u8 = 2;
/// The flag of an end: the answer came from the store.
const REUSED: u8 = 2;

/// Headers by name, the kept ones only.
pub type Headers = Vec<(String, String)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    Begin(Begin),
    RequestChunk(RequestChunk),
    /// Of what the provider got in the request's place.
    SentChunk(RequestChunk),
    ResponseChunk(ResponseChunk),
    End(End),
    Gap(Gap),
}

/// A request, as far as it had come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    pub id: Uuid,
    pub at: Micros,
    pub owner: String,
    pub method: String,
    pub target: String,
    pub headers: Headers,
    pub is_whole: bool,
    pub body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestChunk {
    pub is_last: bool,
    pub body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerHead {
    pub at: Micros,
    pub status: u16,
    pub headers: Headers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseChunk {
    /// When the last of it came.
    pub at: Micros,
    /// With the first piece of an answer.
    pub head: Option<AnswerHead>,
    /// The answer said that it is complete, and its client may have heard it.
    pub completes: bool,
    pub body: Bytes,
}

/// How an exchange ended, as the journal says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Complete,
    ClientCancelled,
    Truncated,
    Refused,
    /// Parts of it are missing: there was no room for them, or the answer had more than is kept of one.
    Lost,
}

impl Ending {
    const fn code(self) -> u8 {
        match self {
            Ending::Complete => 0,
            Ending::ClientCancelled => 1,
            Ending::Truncated => 2,
            Ending::Refused => 3,
            Ending::Lost => 4,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        let all = [
            Ending::Complete,
            Ending::ClientCancelled,
            Ending::Truncated,
            Ending::Refused,
            Ending::Lost,
        ];
        all.into_iter().find(|ending| ending.code() == code)
    }
}

/// By when how much of the answer's body had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of the kept body.
    pub offset: u64,
    pub at: Micros,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub is_reused: bool,
    pub ending: Ending,
    pub at: Micros,
    /// How much was redacted in both bodies.
    pub redactions: u32,
    /// Growing in both members.
    pub marks: Vec<Mark>,
    /// Where no response chunk had it.
    pub head: Option<AnswerHead>,
    pub body: Bytes,
}

/// What is missing because there was no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gap {
    pub exchanges: u64,
    pub bytes: u64,
    /// Microseconds since 1970 of the first and the last.
    pub since: i64,
    pub until: i64,
}

impl Payload {
    pub fn read(kind: Kind, bytes: Bytes) -> Option<Self> {
        let mut from = Source(bytes);
        Some(match kind {
            Kind::Begin => Payload::Begin(Begin {
                is_whole: from.u8()? & WHOLE != 0,
                id: Uuid::from_bytes(from.array()?),
                at: from.micros()?,
                owner: from.text()?,
                method: from.text()?,
                target: from.text()?,
                headers: from.headers()?,
                body: from.0,
            }),
            Kind::RequestChunk => Payload::RequestChunk(from.request_chunk()?),
            Kind::SentChunk => Payload::SentChunk(from.request_chunk()?),
            Kind::ResponseChunk => {
                let flags = from.u8()?;
                Payload::ResponseChunk(ResponseChunk {
                    at: from.micros()?,
                    head: from.head(flags & HAS_HEAD != 0)?,
                    completes: flags & COMPLETES != 0,
                    body: from.0,
                })
            }
            Kind::End => {
                let flags = from.u8()?;
                Payload::End(End {
                    is_reused: flags & REUSED != 0,
                    ending: Ending::of_code(from.u8()?)?,
                    at: from.micros()?,
                    redactions: u32::from_le_bytes(from.array()?),
                    marks: from.marks()?,
                    head: from.head(flags & HAS_HEAD != 0)?,
                    body: from.0,
                })
            }
            Kind::Gap => Payload::Gap(Gap {
                exchanges: u64::from_le_bytes(from.array()?),
                bytes: u64::from_le_bytes(from.array()?),
                since: i64::from_le_bytes(from.array()?),
                until: i64::from_le_bytes(from.array()?),
            }),
        })
    }
}

/// What is written of a begin before its body.
#[derive(Debug)]
pub struct BeginParts<'a, H> {
    pub id: Uuid,
    pub at: Micros,
    pub owner: &'a str,
    pub method: &'a str,
    pub target: &'a str,
    pub headers: H,
    pub is_whole: bool,
}

/// What is written of an answer's head.
#[derive(Debug)]
pub struct HeadParts<H> {
    pub at: Micros,
    pub status: u16,
    pub headers: H,
}

/// The body follows.
pub fn write_begin<'h>(out: &mut Vec<u8>, begin: BeginParts<'_, impl Iterator<Item = (&'h str, &'h [u8])>>) {
    out.push(if begin.is_whole { WHOLE } else { 0 });
    out.extend_from_slice(begin.id.as_bytes());
    out.extend_from_slice(&begin.at.0.to_le_bytes());
    write_text(out, begin.owner.as_bytes());
    write_text(out, begin.method.as_bytes());
    write_text(out, begin.target.as_bytes());
    write_headers(out, begin.headers);
}

/// The body follows.
pub fn write_request_chunk(out: &mut Vec<u8>, is_last: bool) {
    out.push(if is_last { WHOLE } else { 0 });
}

/// The body follows.
pub fn write_response_chunk<'h>(
    out: &mut Vec<u8>,
    at: Micros,
    head: Option<HeadParts<impl Iterator<Item = (&'h str, &'h [u8])>>>,
    completes: bool,
) {
    let has_head = if head.is_some() { HAS_HEAD } else { 0 };
    out.push(has_head | if completes { COMPLETES } else { 0 });
    out.extend_from_slice(&at.0.to_le_bytes());
    write_head(out, head);
}

/// What is written of an end before the answer's head.
#[derive(Debug, Clone, Copy)]
pub struct EndParts<'a> {
    pub ending: Ending,
    pub at: Micros,
    pub redactions: u32,
    pub marks: &'a [Mark],
    pub is_reused: bool,
}

impl EndParts<'_> {
    /// Of an exchange of which more is missing.
    pub fn lost(at: Micros) -> Self {
        EndParts {
            ending: Ending::Lost,
            at,
            redactions: 0,
            marks: &[],
            is_reused: false,
        }
    }
}

/// The body follows.
pub fn write_end<'h>(
    out: &mut Vec<u8>,
    end: EndParts<'_>,
    head: Option<HeadParts<impl Iterator<Item = (&'h str, &'h [u8])>>>,
) {
    let has_head = if head.is_some() { HAS_HEAD } else { 0 };
    out.push(has_head | if end.is_reused { REUSED } else { 0 });
    out.push(end.ending.code());
    out.extend_from_slice(&end.at.0.to_le_bytes());
    out.extend_from_slice(&end.redactions.to_le_bytes());
    write_marks(out, end.marks);
    write_head(out, head);
}

pub fn write_gap(out: &mut Vec<u8>, gap: &Gap) {
    out.extend_from_slice(&gap.exchanges.to_le_bytes());
    out.extend_from_slice(&gap.bytes.to_le_bytes());
    out.extend_from_slice(&gap.since.to_le_bytes());
    out.extend_from_slice(&gap.until.to_le_bytes());
}

fn write_head<'h>(out: &mut Vec<u8>, head: Option<HeadParts<impl Iterator<Item = (&'h str, &'h [u8])>>>) {
    if let Some(head) = head {
        out.extend_from_slice(&head.at.0.to_le_bytes());
        out.extend_from_slice(&head.status.to_le_bytes());
        write_headers(out, head.headers);
    }
}

/// The count is filled in behind: the headers are filtered while they are written.
fn write_headers<'h>(out: &mut Vec<u8>, headers: impl Iterator<Item = (&'h str, &'h [u8])>) {
    let at = out.len();
    out.push(0);
    let mut count = 0;
    for (name, value) in headers.take(usize::from(u8::MAX)) {
        write_text(out, name.as_bytes());
        write_text(out, value);
        count += 1;
    }
    out[at] = count;
}

/// At most 64 KB; what is longer is cut, because the texts here have bounds of their own far below.
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    let kept = &text[..text.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&(kept.len() as u16).to_le_bytes());
    out.extend_from_slice(kept);
}

/// Differences, because a stream has many marks and each is a little later than the last.
fn write_marks(out: &mut Vec<u8>, marks: &[Mark]) {
    write_number(out, marks.len() as u64);
    let (mut offset, mut at) = (0, 0);
    for mark in marks {
        write_number(out, mark.offset.saturating_sub(offset));
        write_number(out, mark.at.0.saturating_sub(at).max(0) as u64);
        (offset, at) = (mark.offset, mark.at.0);
    }
}

/// Seven bits a byte, the lowest first.
fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Read from the front.
struct Source(Bytes);

impl Source {
    fn request_chunk(mut self) -> Option<RequestChunk> {
        Some(RequestChunk {
            is_last: self.u8()? & WHOLE != 0,
            body: self.0,
        })
    }

    fn u8(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.try_copy_to_slice(&mut bytes).ok()?;
        Some(bytes)
    }

    fn micros(&mut self) -> Option<Micros> {
        Some(Micros(i64::from_le_bytes(self.array()?)))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(u16::from_le_bytes(self.array()?));
        if self.0.len() < length {
            return None;
        }
        Some(String::from_utf8_lossy(&self.0.split_to(length)).into_owned())
    }

    fn headers(&mut self) -> Option<Headers> {
        let count = self.u8()?;
        (0..count).map(|_| Some((self.text()?, self.text()?))).collect()
    }

    fn head(&mut self, is_there: bool) -> Option<Option<AnswerHead>> {
        if !is_there {
            return Some(None);
        }
        Some(Some(AnswerHead {
            at: self.micros()?,
            status: u16::from_le_bytes(self.array()?),
            headers: self.headers()?,
        }))
    }

    fn marks(&mut self) -> Option<Vec<Mark>> {
        let count = self.number()?;
        let (mut offset, mut at) = (0_u64, 0_i64);
        let mut marks = Vec::new();
        // Each takes two bytes or more, so a wrong count ends with the bytes.
        for _ in 0..count {
            offset = offset.checked_add(self.number()?)?;
            at = at.checked_add_unsigned(self.number()?)?;
            marks.push(Mark { offset, at: Micros(at) });
        }
        Some(marks)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}
