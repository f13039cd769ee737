//! Pieces as bytes. The format is stored: extend it, never change it.

use crate::hash::PartHash;
use crate::json::Style;
use crate::leb128;
use crate::recipe::{Channel, Inline, Piece, Step, Stream};
use crate::rope::{PartNumber, RopeError, RopeSource};

// The first byte of a piece: its kind in the low three bits, something small above them.
const RAW: u8 = 0;
const TEXT: u8 = 1;
const LIFTED: u8 = 2;
const INLINE: u8 = 3;
const STREAM: u8 = 4;

pub(super) fn write_piece<E>(
    piece: &Piece,
    number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    out: &mut Vec<u8>,
) -> Result<(), E> {
    match piece {
        Piece::Raw(part) => {
            out.push(RAW);
            leb128::write(number(part)?, out);
        }
        Piece::Text(part, style) => {
            out.push(TEXT | style_code(*style) << 3);
            leb128::write(number(part)?, out);
        }
        Piece::Lifted { part, inserts } => {
            out.push(LIFTED);
            leb128::write(number(part)?, out);
            leb128::write(inserts.len() as u64, out);
            for (offset, insert) in inserts {
                leb128::write(u64::from(*offset), out);
                leb128::write(number(insert)?, out);
            }
        }
        Piece::Inline(bytes) => {
            out.push(INLINE | (bytes.as_bytes().len() as u8) << 3);
            out.extend_from_slice(bytes.as_bytes());
        }
        Piece::Stream(stream) => {
            out.push(STREAM);
            write_stream(stream, number, out)?;
        }
    }
    Ok(())
}

fn write_stream<E>(
    stream: &Stream,
    number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    out: &mut Vec<u8>,
) -> Result<(), E> {
    leb128::write(stream.channels.len() as u64, out);
    for channel in &stream.channels {
        leb128::write(number(&channel.template)?, out);
        leb128::write(u64::from(channel.text_at), out);
        leb128::write(channel.counter_at.map_or(0, |at| u64::from(at) + 1), out);
        out.push(style_code(channel.style));
        write_pieces(&channel.text, number, out)?;
    }
    leb128::write(stream.steps.len() as u64, out);
    for step in &stream.steps {
        match step {
            Step::Bytes(pieces) => {
                leb128::write(0, out);
                write_pieces(pieces, number, out)?;
            }
            Step::Run {
                channel,
                counter,
                lengths,
            } => {
                leb128::write(u64::from(*channel) + 1, out);
                leb128::write(*counter, out);
                leb128::write(lengths.len() as u64, out);
                for length in lengths {
                    leb128::write(u64::from(*length), out);
                }
            }
        }
    }
    Ok(())
}

pub(super) fn write_pieces<E>(
    pieces: &[Piece],
    number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    out: &mut Vec<u8>,
) -> Result<(), E> {
    leb128::write(pieces.len() as u64, out);
    for piece in pieces {
        write_piece(piece, number, out)?;
    }
    Ok(())
}

pub(super) fn read_piece<S: RopeSource>(reader: &mut Reader<'_>, source: &mut S) -> Result<Piece, RopeError<S::Error>> {
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

pub(super) fn read_pieces<S: RopeSource>(
    reader: &mut Reader<'_>,
    source: &mut S,
) -> Result<Vec<Piece>, RopeError<S::Error>> {
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
    pub(super) rest: &'a [u8],
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

    pub(super) fn number(&mut self) -> Option<u64> {
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
