//! gzip: a header, a deflate stream, its checksum, and perhaps another member behind it.

use flate2::{Crc, Decompress};

use super::DecodeEnd;
use super::stage::{Sink, inflate};

/// Longest header that is waited for: names and comments are short.
const HEADER_BYTES_MAX: usize = 16 << 10;
const TRAILER_BYTES: usize = 8;

/// Flags of a header, RFC 1952.
const HAS_CHECKSUM: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;

pub(super) struct Gzip {
    place: Place,
    /// Bytes of a header or a trailer that is not yet whole.
    held: Vec<u8>,
    inflater: Decompress,
    crc: Crc,
    members: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Text,
    Trailer,
}

impl Default for Gzip {
    fn default() -> Self {
        Gzip {
            place: Place::Header,
            held: Vec::new(),
            inflater: Decompress::new(false),
            crc: Crc::new(),
            members: 0,
        }
    }
}

impl Gzip {
    pub(super) fn is_at_end(&self) -> bool {
        self.place == Place::Header && self.held.is_empty() && self.members > 0
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], sink: Sink<'_>) -> Result<(), DecodeEnd> {
        while !bytes.is_empty() {
            bytes = match self.place {
                Place::Header => self.header(bytes)?,
                Place::Text => self.text(bytes, sink)?,
                Place::Trailer => self.trailer(bytes)?,
            };
        }
        Ok(())
    }

    fn header<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], DecodeEnd> {
        let before = self.held.len();
        self.held.extend_from_slice(&bytes[..bytes.len().min(HEADER_BYTES_MAX)]);
        match header_length(&self.held)? {
            Some(length) => {
                self.held.clear();
                self.place = Place::Text;
                // What was held before had no whole header, so the end is in these bytes.
                Ok(&bytes[length - before..])
            }
            None if self.held.len() >= HEADER_BYTES_MAX => Err(DecodeEnd::Damaged),
            None => Ok(&[]),
        }
    }

    fn text<'b>(&mut self, bytes: &'b [u8], sink: Sink<'_>) -> Result<&'b [u8], DecodeEnd> {
        let crc = &mut self.crc;
        let (has_ended, used) = inflate(&mut self.inflater, bytes, &mut |piece| {
            crc.update(piece);
            sink(piece)
        })?;
        if has_ended {
            self.place = Place::Trailer;
        } else if used < bytes.len() {
            return Err(DecodeEnd::Damaged);
        }
        Ok(&bytes[used..])
    }

    fn trailer<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], DecodeEnd> {
        let missing = (TRAILER_BYTES - self.held.len()).min(bytes.len());
        self.held.extend_from_slice(&bytes[..missing]);
        if let Ok(trailer) = <[u8; TRAILER_BYTES]>::try_from(&self.held[..]) {
            let sum = u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
            let length = u32::from_le_bytes([trailer[4], trailer[5], trailer[6], trailer[7]]);
            if sum != self.crc.sum() || length != self.crc.amount() {
                return Err(DecodeEnd::Damaged);
            }
            let members = self.members + 1;
            *self = Gzip {
                members,
                ..Gzip::default()
            };
        }
        Ok(&bytes[missing..])
    }
}

/// Where the text begins; `None` while the header is not whole.
fn header_length(bytes: &[u8]) -> Result<Option<usize>, DecodeEnd> {
    const FIXED_BYTES: usize = 10;
    let known = [0x1f, 0x8b, 8];
    if bytes.iter().zip(known).any(|(byte, expected)| *byte != expected) {
        return Err(DecodeEnd::Damaged);
    }
    let Some(flags) = bytes.get(3).filter(|_| bytes.len() >= FIXED_BYTES) else {
        return Ok(None);
    };
    let mut at = FIXED_BYTES;
    if flags & HAS_EXTRA != 0 {
        let Some([low, high]) = bytes.get(at..at + 2) else {
            return Ok(None);
        };
        at += 2 + usize::from(u16::from_le_bytes([*low, *high]));
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            let end = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == 0));
            let Some(end) = end else { return Ok(None) };
            at += end + 1;
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        at += 2;
    }
    Ok((at <= bytes.len()).then_some(at))
}
