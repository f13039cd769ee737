//! Recipes: how parts give back a body, byte for byte.
//!
//! A body is a sequence of [`Piece`]s. Most name a part; a text part is written through an escaping style;
//! volatile members such as `cache_control` are lifted out of a part and inserted again; a stream of deltas is
//! one [`Stream`] over the text that the deltas spell.

use crate::hash::PartHash;
use crate::json::{Style, encode_into};

/// Longest bytes that can stand in the recipe itself.
pub const INLINE_MAX: usize = 15;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A part's bytes as they are.
    Raw(PartHash),
    /// A text part, as the inside of a JSON string literal.
    Text(PartHash, Style),
    /// A part with others inserted at offsets of its own bytes, ascending.
    Lifted {
        part: PartHash,
        inserts: Box<[(u32, PartHash)]>,
    },
    Inline(Inline),
    Stream(Box<Stream>),
}

/// A few bytes without an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    length: u8,
    bytes: [u8; INLINE_MAX],
}

impl Inline {
    pub fn new(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; INLINE_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Inline {
            length: from.len() as u8,
            bytes,
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Inline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inline({:?})", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Server-sent events as framing over texts: each channel spells one text, each run of a channel says how
/// many bytes of that text the next events carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    pub channels: Vec<Channel>,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// The event without its holes.
    pub template: PartHash,
    /// Where the delta stands in the template.
    pub text_at: u32,
    /// Where a number stands that grows by one from event to event (Responses `sequence_number`).
    pub counter_at: Option<u32>,
    pub style: Style,
    /// The text that the deltas spell, itself in pieces: an arguments stream shares the strings inside it.
    pub text: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Bytes(Vec<Piece>),
    /// Events of one channel in a row: the first counter, then the bytes of text in each.
    Run {
        channel: u32,
        counter: u64,
        lengths: Vec<u32>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    #[error("part {0} is not there")]
    Missing(PartHash),
    #[error("the recipe does not fit its parts")]
    Misfit,
}

/// Bytes of a part by its name. `None` means a hole: forgotten, or never stored.
pub trait PartSource {
    fn part(&self, hash: &PartHash) -> Option<&[u8]>;
}

impl<S: std::hash::BuildHasher> PartSource for std::collections::HashMap<PartHash, Vec<u8>, S> {
    fn part(&self, hash: &PartHash) -> Option<&[u8]> {
        self.get(hash).map(Vec::as_slice)
    }
}

/// Puts a body together again.
pub fn join<'p>(pieces: impl IntoIterator<Item = &'p Piece>, source: &dyn PartSource) -> Result<Vec<u8>, JoinError> {
    let mut out = Vec::new();
    for piece in pieces {
        join_piece(piece, source, &mut out)?;
    }
    Ok(out)
}

fn join_piece(piece: &Piece, source: &dyn PartSource, out: &mut Vec<u8>) -> Result<(), JoinError> {
    let part = |hash: &PartHash| source.part(hash).ok_or(JoinError::Missing(*hash));
    match piece {
        Piece::Raw(hash) => out.extend_from_slice(part(hash)?),
        Piece::Text(hash, style) => {
            let text = std::str::from_utf8(part(hash)?).map_err(|_| JoinError::Misfit)?;
            encode_into(text, *style, out);
        }
        Piece::Lifted { part: hash, inserts } => {
            let bytes = part(hash)?;
            let mut done = 0;
            for (offset, insert) in inserts {
                let upto = bytes.get(done..*offset as usize).ok_or(JoinError::Misfit)?;
                out.extend_from_slice(upto);
                out.extend_from_slice(part(insert)?);
                done = *offset as usize;
            }
            out.extend_from_slice(&bytes[done..]);
        }
        Piece::Inline(bytes) => out.extend_from_slice(bytes.as_bytes()),
        Piece::Stream(stream) => join_stream(stream, source, out)?,
    }
    Ok(())
}

fn join_stream(stream: &Stream, source: &dyn PartSource, out: &mut Vec<u8>) -> Result<(), JoinError> {
    let mut texts = Vec::with_capacity(stream.channels.len());
    for channel in &stream.channels {
        let text = String::from_utf8(join(&channel.text, source)?).map_err(|_| JoinError::Misfit)?;
        let template = source.part(&channel.template);
        texts.push((text, 0, template.ok_or(JoinError::Missing(channel.template))?));
    }
    for step in &stream.steps {
        match step {
            Step::Bytes(pieces) => out.extend_from_slice(&join(pieces, source)?),
            Step::Run {
                channel,
                counter,
                lengths,
            } => {
                let index = *channel as usize;
                let channel = stream.channels.get(index).ok_or(JoinError::Misfit)?;
                let (text, done, template) = &mut texts[index];
                for (number, length) in lengths.iter().enumerate() {
                    let end = *done + *length as usize;
                    let delta = text.get(*done..end).ok_or(JoinError::Misfit)?;
                    channel.write_event(template, delta, counter + number as u64, out)?;
                    *done = end;
                }
            }
        }
    }
    Ok(())
}

impl Channel {
    fn write_event(&self, template: &[u8], delta: &str, counter: u64, out: &mut Vec<u8>) -> Result<(), JoinError> {
        let text_at = self.text_at as usize;
        let mut holes = vec![(text_at, false)];
        if let Some(at) = self.counter_at {
            holes.push((at as usize, true));
        }
        holes.sort_unstable();
        let mut done = 0;
        for (at, is_counter) in holes {
            out.extend_from_slice(template.get(done..at).ok_or(JoinError::Misfit)?);
            done = at;
            if is_counter {
                out.extend_from_slice(counter.to_string().as_bytes());
            } else {
                encode_into(delta, self.style, out);
            }
        }
        out.extend_from_slice(&template[done..]);
        Ok(())
    }
}
