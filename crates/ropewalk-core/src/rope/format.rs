//! Entries as bytes. The format is stored: extend it, never change it.
//!
//! Texts are mostly new, and new parts have consecutive numbers: a text is written as the step from the text before it. Frames
//! are old, and the oldest have the smallest numbers: a frame is written as it is. Chunks are written as steps too.

use crate::hash::PartHash;
use crate::json::Style;
use crate::leb128;
use crate::recipe::{Channel, Inline, Piece, Step, Stream};
use crate::rope::{ChunkNumber, PartNumber, RopeError, RopeSource};

// The first byte of a piece: its kind in the low three bits, something small above them.
const RAW: u8 = 0;
const TEXT: u8 = 1;
const LIFTED: u8 = 2;
const INLINE: u8 = 3;
const STREAM: u8 = 4;

/// Writes pieces one behind the other.
pub(super) struct Writer<'n, E> {
    number: &'n mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    last_text: PartNumber,
    pub(super) out: Vec<u8>,
}

impl<'n, E> Writer<'n, E> {
    /// `number` knows the number of every part that the pieces name.
    pub(super) fn new(number: &'n mut dyn FnMut(&PartHash) -> Result<PartNumber, E>) -> Self {
        Writer {
            number,
            last_text: 0,
            out: Vec::with_capacity(40),
        }
    }

    pub(super) fn piece(&mut self, piece: &Piece) -> Result<(), E> {
        match piece {
            Piece::Raw(part) => {
                self.out.push(RAW);
                self.part(part)?;
            }
            Piece::Text(part, style) => {
                self.out.push(TEXT | style_code(*style) << 3);
                let number = (self.number)(part)?;
                leb128::write_step(self.last_text, number, &mut self.out);
                self.last_text = number;
            }
            Piece::Lifted { part, inserts } => {
                self.out.push(LIFTED);
                self.part(part)?;
                self.count(inserts.len());
                for (offset, insert) in inserts {
                    leb128::write(u64::from(*offset), &mut self.out);
                    self.part(insert)?;
                }
            }
            Piece::Inline(bytes) => {
                self.out.push(INLINE | (bytes.as_bytes().len() as u8) << 3);
                self.out.extend_from_slice(bytes.as_bytes());
            }
            Piece::Stream(stream) => {
                self.out.push(STREAM);
                self.stream(stream)?;
            }
        }
        Ok(())
    }

    fn stream(&mut self, stream: &Stream) -> Result<(), E> {
        self.count(stream.channels.len());
        for channel in &stream.channels {
            self.part(&channel.template)?;
            leb128::write(u64::from(channel.text_at), &mut self.out);
            leb128::write(channel.counter_at.map_or(0, |at| u64::from(at) + 1), &mut self.out);
            self.out.push(style_code(channel.style));
            self.pieces(&channel.text)?;
        }
        self.count(stream.steps.len());
        for step in &stream.steps {
            match step {
                Step::Bytes(pieces) => {
                    leb128::write(0, &mut self.out);
                    self.pieces(pieces)?;
                }
                Step::Run {
                    channel,
                    counter,
                    lengths,
                } => {
                    leb128::write(u64::from(*channel) + 1, &mut self.out);
                    leb128::write(*counter, &mut self.out);
                    self.count(lengths.len());
                    for length in lengths {
                        leb128::write(u64::from(*length), &mut self.out);
                    }
                }
            }
        }
        Ok(())
    }

    fn pieces(&mut self, pieces: &[Piece]) -> Result<(), E> {
        self.count(pieces.len());
        pieces.iter().try_for_each(|piece| self.piece(piece))
    }

    fn part(&mut self, part: &PartHash) -> Result<(), E> {
        leb128::write((self.number)(part)?, &mut self.out);
        Ok(())
    }

    fn count(&mut self, count: usize) {
        leb128::write(count as u64, &mut self.out);
    }
}

/// The entries of a run of chunks.
pub fn write_chunks(numbers: &[ChunkNumber]) -> Vec<u8> {
    let mut out = Vec::with_capacity(numbers.len() * 2);
    let mut last = 0;
    for number in numbers {
        leb128::write_step(last, *number, &mut out);
        last = *number;
    }
    out
}

/// Reads a list of chunks; `None` where it is damaged.
pub(super) fn read_chunks(mut bytes: &[u8]) -> Option<Vec<ChunkNumber>> {
    let (mut numbers, mut last) = (Vec::new(), 0);
    while !bytes.is_empty() {
        last = leb128::read_step(last, &mut bytes)?;
        numbers.push(last);
    }
    Some(numbers)
}

pub(super) fn read_piece<S: RopeSource>(reader: &mut Reader<'_>, source: &mut S) -> Result<Piece, RopeError<S::Error>> {
    let head = reader.byte().ok_or(RopeError::Damaged)?;
    let small = head >> 3;
    Ok(match head & 7 {
        RAW => Piece::Raw(read_part(reader, source)?),
        TEXT => {
            let style = style_of(small).ok_or(RopeError::Damaged)?;
            let step = leb128::read_step(reader.last_text, &mut reader.rest);
            reader.last_text = step.ok_or(RopeError::Damaged)?;
            Piece::Text(source.hash_of(reader.last_text).map_err(RopeError::Store)?, style)
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

/// Reads what was written, as far as it goes.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    last_text: PartNumber,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader {
            rest: bytes,
            last_text: 0,
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

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
        leb128::read(&mut self.rest)
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
