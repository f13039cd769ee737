//! A record: a header of 36 bytes and a payload. `docs/decisions/0008` has the why.
//!
//! ```text
//!  0  marker       4  F7 'R' 'w' 01 (the last byte is the version of the format)
//!  4  length       4  of the payload
//!  8  kind         1
//!  9  zeros        3
//! 12  payload sum  4  CRC-32C
//! 16  exchange     8  the sequence of its begin record; 0 for a gap
//! 24  sequence     8  number of the segment (4), number of the record in it (4)
//! 32  header sum   4  CRC-32C of the salt and of everything above
//! ```
//!
//! All numbers are little-endian. The header has a sum of its own: where it is good, its length can be believed and a
//! damaged payload costs one record; where it is not, the next good header is searched. Each segment has a random salt in its
//! name that enters the header's sum: so what looks like a record inside of a payload, sent by whomever, is none, and neither
//! is a block of an older segment that a power cut left in a file.

/// Every record begins with it.
pub const MARKER: [u8; 4] = [0xf7, b'R', b'w', 0x01];

pub const HEADER_BYTES: usize = 36;

/// Longest payload: a piece of a body, which the worker cuts at 256 KB, and the headers before it, 4 KB each at most.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Begin,
    RequestChunk,
    ResponseChunk,
    End,
    Gap,
    /// Of what the provider got in the request's place.
    SentChunk,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Kind::Begin => 1,
            Kind::RequestChunk => 2,
            Kind::ResponseChunk => 3,
            Kind::End => 4,
            Kind::Gap => 5,
            Kind::SentChunk => 6,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        let all = [
            Kind::Begin,
            Kind::RequestChunk,
            Kind::ResponseChunk,
            Kind::End,
            Kind::Gap,
            Kind::SentChunk,
        ];
        all.into_iter().find(|kind| kind.code() == code)
    }
}

/// The number of a record, unique in a journal folder and growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    pub fn new(segment: u32, index: u32) -> Self {
        Sequence(u64::from(segment) << 32 | u64::from(index))
    }

    pub fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// The sequence of the exchange's begin record.
    pub exchange: Sequence,
    pub sequence: Sequence,
    pub length: u32,
    payload_sum: u32,
}

impl Header {
    /// The header at the start of some bytes, if it is a good one.
    pub fn read(bytes: &[u8], salt: u32) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        if header[..4] != MARKER || header_sum(header, salt) != u32_at(header, 32) {
            return None;
        }
        let length = u32_at(header, 4);
        (length as usize <= PAYLOAD_BYTES_MAX).then_some(Header {
            kind: Kind::of_code(header[8])?,
            exchange: Sequence(u64_at(header, 16)),
            sequence: Sequence(u64_at(header, 24)),
            length,
            payload_sum: u32_at(header, 12),
        })
    }

    /// Whether this is the payload that was written.
    pub fn fits(&self, payload: &[u8]) -> bool {
        crc32c::crc32c(payload) == self.payload_sum
    }

    /// Header and payload.
    pub fn record_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.length)
    }
}

/// Leaves room for a header; [`finish`] fills it in when the payload stands behind it.
pub fn start(buffer: &mut Vec<u8>) -> usize {
    let at = buffer.len();
    buffer.resize(at + HEADER_BYTES, 0);
    at
}

/// Writes the header of the record that began at `at` and goes to the end of the buffer.
pub fn finish(buffer: &mut [u8], at: usize, kind: Kind, exchange: Sequence, sequence: Sequence, salt: u32) {
    let (header, payload) = buffer[at..].split_at_mut(HEADER_BYTES);
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&MARKER);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8] = kind.code();
    header[12..16].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    header[16..24].copy_from_slice(&exchange.0.to_le_bytes());
    header[24..32].copy_from_slice(&sequence.0.to_le_bytes());
    let sum = header_sum(header, salt);
    header[32..36].copy_from_slice(&sum.to_le_bytes());
}

/// Where the next good header begins, from some bytes on. `None` where there is none that is whole.
pub fn find_header(bytes: &[u8], from: usize, salt: u32) -> Option<usize> {
    let behind = bytes.get(from..)?;
    memchr::memmem::find_iter(behind, &MARKER)
        .map(|at| from + at)
        .find(|at| Header::read(&bytes[*at..], salt).is_some())
}

fn header_sum(header: &[u8], salt: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &header[..32])
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(header: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&header[at..at + 8]);
    u64::from_le_bytes(bytes)
}
