//! Recipes as they are stored: a tree of small chunks that consecutive turns share.
//!
//! The recipe of turn N+1 repeats nearly all of turn N's. Written out whole, recipes would grow with the
//! square of a conversation and cost more than the texts. So the pieces are written as a run of bytes each, cut into
//! chunks where the *content* says so (an insertion moves no later boundary), and chunks are parts like all
//! others: equal chunks are stored once. Chunks of chunk names follow until one is left: the root.
//!
//! A piece names parts by the numbers that the store gave them, not by 32-byte hashes: at a few thousand pieces
//! a body, the difference is the larger part of the cost.

use crate::hash::PartHash;
use crate::json::Style;
use crate::recipe::{Channel, Inline, Piece, Step, Stream};

/// Number of a part within its owner, given by the store.
pub type PartNumber = u64;

/// Chunks end at one entry in `1 << CUT_BITS` on average, and never before or after these.
const CUT_BITS: u32 = 4;
const CHUNK_MIN: usize = 6;
const CHUNK_MAX: usize = 64;

/// Deepest tree that is read: 6 entries at least per chunk make this more than any body has.
const MAX_LEVELS: u8 = 24;

/// What the rope needs of a store.
pub trait PartNumbers {
    type Error;
    /// The number of a part that is known or being stored.
    fn number(&mut self, part: &PartHash) -> Result<PartNumber, Self::Error>;
    /// Stores a chunk (if it is new) and returns its number.
    fn chunk(&mut self, bytes: Vec<u8>) -> Result<PartNumber, Self::Error>;
}

/// The root of a stored recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rope {
    /// How many levels of chunks are above the pieces; 0 means `root` holds the pieces themselves.
    pub levels: u8,
    pub root: Vec<u8>,
}

/// Writes a recipe into chunks.
pub fn store<'p, N: PartNumbers>(
    pieces: impl IntoIterator<Item = &'p Piece>,
    numbers: &mut N,
) -> Result<Rope, N::Error> {
    let mut entries = Vec::new();
    for piece in pieces {
        let mut entry = Vec::with_capacity(8);
        write_piece(piece, numbers, &mut entry)?;
        entries.push(entry);
    }
    let mut levels = 0;
    while entries.len() > CHUNK_MAX {
        let mut parents = Vec::new();
        for chunk in chunks(&entries) {
            let mut entry = Vec::with_capacity(4);
            write_number(numbers.chunk(chunk.concat())?, &mut entry);
            parents.push(entry);
        }
        entries = parents;
        levels += 1;
    }
    Ok(Rope {
        levels,
        root: entries.concat(),
    })
}

fn chunks(entries: &[Vec<u8>]) -> Vec<&[Vec<u8>]> {
    let mut chunks = Vec::new();
    let mut start = 0;
    for (at, entry) in entries.iter().enumerate() {
        let length = at + 1 - start;
        if length >= CHUNK_MAX || (length >= CHUNK_MIN && ends_chunk(entry)) {
            chunks.push(&entries[start..=at]);
            start = at + 1;
        }
    }
    if start < entries.len() {
        chunks.push(&entries[start..]);
    }
    chunks
}

/// Whether a boundary follows this entry: a property of its bytes alone (FNV-1a, folded).
fn ends_chunk(entry: &[u8]) -> bool {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in entry {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) & ((1 << CUT_BITS) - 1) == 0
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RopeError<E> {
    #[error("the recipe is damaged")]
    Damaged,
    #[error(transparent)]
    Store(E),
}

/// What reading a rope needs of a store.
pub trait RopeSource {
    type Error;
    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash, Self::Error>;
    fn chunk(&mut self, number: PartNumber) -> Result<Vec<u8>, Self::Error>;
}

/// Reads a recipe back. Walks level by level, so that a store can answer each in one batch.
pub fn load<S: RopeSource>(rope: &Rope, source: &mut S) -> Result<Vec<Piece>, RopeError<S::Error>> {
    if rope.levels > MAX_LEVELS {
        return Err(RopeError::Damaged);
    }
    let mut bytes = rope.root.clone();
    for _ in 0..rope.levels {
        let mut below = Vec::new();
        let mut reader = Reader { rest: &bytes };
        while !reader.rest.is_empty() {
            let number = reader.number().ok_or(RopeError::Damaged)?;
            below.extend_from_slice(&source.chunk(number).map_err(RopeError::Store)?);
        }
        bytes = below;
    }
    let mut pieces = Vec::new();
    let mut reader = Reader { rest: &bytes };
    while !reader.rest.is_empty() {
        pieces.push(read_piece(&mut reader, source)?);
    }
    Ok(pieces)
}

// The first byte of a piece: its kind in the low three bits, something small above them.
const RAW: u8 = 0;
const TEXT: u8 = 1;
const LIFTED: u8 = 2;
const INLINE: u8 = 3;
const STREAM: u8 = 4;

fn write_piece<N: PartNumbers>(piece: &Piece, numbers: &mut N, out: &mut Vec<u8>) -> Result<(), N::Error> {
    match piece {
        Piece::Raw(part) => {
            out.push(RAW);
            write_number(numbers.number(part)?, out);
        }
        Piece::Text(part, style) => {
            out.push(TEXT | style_code(*style) << 3);
            write_number(numbers.number(part)?, out);
        }
        Piece::Lifted { part, inserts } => {
            out.push(LIFTED);
            write_number(numbers.number(part)?, out);
            write_number(inserts.len() as u64, out);
            for (offset, insert) in inserts {
                write_number(u64::from(*offset), out);
                write_number(numbers.number(insert)?, out);
            }
        }
        Piece::Inline(bytes) => {
            out.push(INLINE | (bytes.as_bytes().len() as u8) << 3);
            out.extend_from_slice(bytes.as_bytes());
        }
        Piece::Stream(stream) => {
            out.push(STREAM);
            write_stream(stream, numbers, out)?;
        }
    }
    Ok(())
}

fn write_stream<N: PartNumbers>(stream: &Stream, numbers: &mut N, out: &mut Vec<u8>) -> Result<(), N::Error> {
    write_number(stream.channels.len() as u64, out);
    for channel in &stream.channels {
        write_number(numbers.number(&channel.template)?, out);
        write_number(u64::from(channel.text_at), out);
        write_number(channel.counter_at.map_or(0, |at| u64::from(at) + 1), out);
        out.push(style_code(channel.style));
        write_pieces(&channel.text, numbers, out)?;
    }
    write_number(stream.steps.len() as u64, out);
    for step in &stream.steps {
        match step {
            Step::Bytes(pieces) => {
                write_number(0, out);
                write_pieces(pieces, numbers, out)?;
            }
            Step::Run {
                channel,
                counter,
                lengths,
            } => {
                write_number(u64::from(*channel) + 1, out);
                write_number(*counter, out);
                write_number(lengths.len() as u64, out);
                for length in lengths {
                    write_number(u64::from(*length), out);
                }
            }
        }
    }
    Ok(())
}

fn write_pieces<N: PartNumbers>(pieces: &[Piece], numbers: &mut N, out: &mut Vec<u8>) -> Result<(), N::Error> {
    write_number(pieces.len() as u64, out);
    for piece in pieces {
        write_piece(piece, numbers, out)?;
    }
    Ok(())
}

fn read_piece<S: RopeSource>(reader: &mut Reader<'_>, source: &mut S) -> Result<Piece, RopeError<S::Error>> {
    let head = reader.byte().ok_or(RopeError::Damaged)?;
    let small = head >> 3;
    Ok(match head & 7 {
        RAW => Piece::Raw(read_part(reader, source)?),
        TEXT => {
            let style = style_of(small).ok_or(RopeError::Damaged)?;
            Piece::Text(read_part(reader, source)?, style)
        }
        LIFTED => {
            let part = read_part(reader, source)?;
            let mut inserts = Vec::new();
            for _ in 0..reader.count()? {
                let offset = reader.small_number().ok_or(RopeError::Damaged)?;
                inserts.push((offset, read_part(reader, source)?));
            }
            Piece::Lifted {
                part,
                inserts: inserts.into(),
            }
        }
        INLINE => {
            let bytes = reader.take(usize::from(small)).ok_or(RopeError::Damaged)?;
            Piece::Inline(Inline::new(bytes).ok_or(RopeError::Damaged)?)
        }
        STREAM => Piece::Stream(Box::new(read_stream(reader, source)?)),
        _ => return Err(RopeError::Damaged),
    })
}

fn read_stream<S: RopeSource>(reader: &mut Reader<'_>, source: &mut S) -> Result<Stream, RopeError<S::Error>> {
    let mut stream = Stream {
        channels: Vec::new(),
        steps: Vec::new(),
    };
    for _ in 0..reader.count()? {
        let template = read_part(reader, source)?;
        let text_at = reader.small_number().ok_or(RopeError::Damaged)?;
        let counter_at = reader.small_number().ok_or(RopeError::Damaged)?.checked_sub(1);
        let style = reader.byte().and_then(style_of).ok_or(RopeError::Damaged)?;
        let text = read_pieces(reader, source)?;
        stream.channels.push(Channel {
            template,
            text_at,
            counter_at,
            style,
            text,
        });
    }
    for _ in 0..reader.count()? {
        let step = match reader.small_number().ok_or(RopeError::Damaged)?.checked_sub(1) {
            None => Step::Bytes(read_pieces(reader, source)?),
            Some(channel) => {
                let counter = reader.number().ok_or(RopeError::Damaged)?;
                let mut lengths = Vec::new();
                for _ in 0..reader.count()? {
                    lengths.push(reader.small_number().ok_or(RopeError::Damaged)?);
                }
                Step::Run {
                    channel,
                    counter,
                    lengths,
                }
            }
        };
        stream.steps.push(step);
    }
    Ok(stream)
}

fn read_pieces<S: RopeSource>(reader: &mut Reader<'_>, source: &mut S) -> Result<Vec<Piece>, RopeError<S::Error>> {
    let mut pieces = Vec::new();
    for _ in 0..reader.count()? {
        let piece = read_piece(reader, source)?;
        if matches!(piece, Piece::Stream(_)) {
            // Streams never nest; damaged bytes must not make the reader recurse.
            return Err(RopeError::Damaged);
        }
        pieces.push(piece);
    }
    Ok(pieces)
}

fn read_part<S: RopeSource>(reader: &mut Reader<'_>, source: &mut S) -> Result<PartHash, RopeError<S::Error>> {
    let number = reader.number().ok_or(RopeError::Damaged)?;
    source.hash_of(number).map_err(RopeError::Store)
}

fn style_code(style: Style) -> u8 {
    match style {
        Style::Plain => 0,
        Style::Ascii => 1,
        Style::Html => 2,
    }
}

fn style_of(code: u8) -> Option<Style> {
    Style::ALL.into_iter().find(|style| style_code(*style) == code)
}

/// LEB128.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small_number(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// A count of things that take at least one byte each, so that damage cannot ask for more than there is.
    fn count<E>(&mut self) -> Result<usize, RopeError<E>> {
        let count = self.number().ok_or(RopeError::Damaged)?;
        let count = usize::try_from(count).map_err(|_| RopeError::Damaged)?;
        if count > self.rest.len() {
            return Err(RopeError::Damaged);
        }
        Ok(count)
    }
}
