//! Cutting a JSON value into pieces.
//!
//! Long strings become text parts, whatever block or member they stand in, so that the same text is the same part
//! next turn although everything around it changed. What lies between them is framing, which turns have in common as soon
//! as nothing in it is new: so ids and paths, short as they are, are cut out too, and so are the numbers of an answer.
//! `cache_control` moves from turn to turn; it is lifted out of the framing and put back by the recipe.

use std::ops::Range;
use std::sync::Arc;

use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::json::{Literal, Node};
use ropewalk_core::part::{Part, PartData};
use ropewalk_core::recipe::{Inline, Piece};

/// Shortest decoded text that becomes a part of its own. It is short enough for the ids of tool calls and for paths: an
/// answer has them, its replay has them in other framing, and a frame with one inside could be shared with no other turn.
pub const TEXT_MIN: usize = 20;

/// Shortest number of an answer that is cut out of the framing. One of one digit leaves few different frames.
const NUMBER_MIN: usize = 2;

/// Numbers that are cut out of one value at most. Beyond, they are data rather than a count of tokens.
const NUMBERS_MAX: usize = 32;

/// What a cut leaves: pieces in order, the parts they name, and the texts that were decoded on the way.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) parts: Vec<Part>,
    pub(crate) texts: Texts,
}

/// Texts of long string literals by the place of their opening quote, so that none is decoded or hashed twice.
#[derive(Debug, Default)]
pub(crate) struct Texts(Vec<CutText>);

#[derive(Debug)]
struct CutText {
    start: usize,
    text: Arc<str>,
    digest: Option<[u8; 32]>,
}

impl Texts {
    /// The text of a string value.
    pub(crate) fn text(&self, node: Node<'_>) -> Option<Arc<str>> {
        let start = node.range().start;
        match self.0.binary_search_by_key(&start, |known| known.start) {
            Ok(index) => Some(Arc::clone(&self.0[index].text)),
            Err(_) => node.as_str().map(Arc::from),
        }
    }

    /// SHA-256 of a text that was cut, by identity.
    pub(crate) fn digest(&self, text: &str) -> Option<[u8; 32]> {
        let same = |known: &&CutText| std::ptr::eq(&*known.text, text);
        self.0.iter().find(same).and_then(|known| known.digest)
    }
}

/// What may be cut out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Long strings at any depth.
    Texts,
    /// Also the numbers of objects: those of an answer count tokens and seconds, and are others in every answer.
    TextsAndNumbers,
    /// Nothing: the value is one part (a tool, which changes as a whole).
    Whole,
}

/// Cuts one value of `text`, and with it the bytes around it that `range` includes.
pub(crate) fn cut(text: &str, node: Node<'_>, range: Range<usize>, depth: Depth) -> Cut {
    cut_with(text, node, range, depth, &mut String::new())
}

/// The same with a buffer to decode strings in, for callers that cut many values.
pub(crate) fn cut_with(text: &str, node: Node<'_>, range: Range<usize>, depth: Depth, scratch: &mut String) -> Cut {
    let mut cutter = Cutter {
        text,
        done: range.start,
        lifted: Vec::new(),
        depth,
        numbers_left: NUMBERS_MAX,
        scratch,
        cut: Cut::default(),
    };
    cutter.visit(node);
    cutter.flush(range.end);
    cutter.cut
}

/// Framing as pieces: short bytes stand in the recipe, longer ones are a part.
pub(crate) fn push_frame(bytes: &[u8], pieces: &mut Vec<Piece>, parts: &mut Vec<Part>) {
    if let Some((piece, part)) = frame(bytes) {
        pieces.push(piece);
        parts.extend(part);
    }
}

/// Longest framing that stands in the recipe. Longer framing is a part, which turns share: its number is shorter.
const FRAME_INLINE_MAX: usize = 3;

/// Framing as one piece and the part that it names, if it names one. `None` for no bytes.
pub(crate) fn frame(bytes: &[u8]) -> Option<(Piece, Option<Part>)> {
    if bytes.is_empty() {
        return None;
    }
    if let Some(inline) = Inline::new(bytes).filter(|_| bytes.len() <= FRAME_INLINE_MAX) {
        return Some((Piece::Inline(inline), None));
    }
    let part = Part::bytes(bytes);
    Some((Piece::Raw(part.hash), Some(part)))
}

struct Cutter<'a> {
    text: &'a str,
    /// Everything before this place is in pieces.
    done: usize,
    /// Ranges behind `done` that are lifted out of the framing.
    lifted: Vec<Range<usize>>,
    depth: Depth,
    numbers_left: usize,
    scratch: &'a mut String,
    cut: Cut,
}

impl Cutter<'_> {
    fn visit(&mut self, node: Node<'_>) {
        if node.is_string() {
            if self.depth != Depth::Whole {
                self.string(node);
            }
        } else if node.is_array() {
            for item in node.items() {
                self.visit(item);
            }
        } else if node.is_object() {
            self.object(node);
        }
    }

    fn object(&mut self, node: Node<'_>) {
        let mut previous_end = None;
        let mut members = node.members().peekable();
        while let Some((key, value)) = members.next() {
            if key.is("cache_control") {
                let next_start = members.peek().map(|(key, _)| key.range().start);
                let range = match (previous_end, next_start) {
                    (Some(end), _) => end..value.range().end,
                    (None, Some(next)) => key.range().start..next,
                    (None, None) => key.range().start..value.range().end,
                };
                // Two in a row would both claim the comma between them.
                let free_from = self.lifted.last().map_or(0, |before| before.end);
                self.lifted.push(range.start.max(free_from)..range.end);
            } else {
                self.visit(value);
                self.number(value);
            }
            previous_end = Some(value.range().end);
        }
    }

    fn number(&mut self, node: Node<'_>) {
        let is_wanted = self.depth == Depth::TextsAndNumbers && self.numbers_left > 0;
        if !is_wanted || !node.is_number() || node.raw().len() < NUMBER_MIN {
            return;
        }
        let Some(inline) = Inline::new(node.raw().as_bytes()) else {
            return;
        };
        self.numbers_left -= 1;
        self.flush(node.range().start);
        self.done = node.range().end;
        self.cut.pieces.push(Piece::Inline(inline));
    }

    fn string(&mut self, node: Node<'_>) {
        let Some(literal) = node.literal() else { return };
        if literal.len() < TEXT_MIN {
            return;
        }
        let (text, style) = Literal::read_with(literal, self.scratch);
        if text.len() < TEXT_MIN {
            return;
        }
        let text: Arc<str> = text.into();
        let range = node.range();
        self.flush(range.start + 1);
        self.done = range.end - 1;
        let digest = style.map(|_| sha256(text.as_bytes()));
        match (style, digest) {
            (Some(style), Some(digest)) => {
                let hash = PartHash(digest);
                self.cut.pieces.push(Piece::Text(hash, style));
                let data = PartData::Text(Arc::clone(&text));
                self.cut.parts.push(Part { hash, data });
            }
            // No encoder gives this literal back: its own bytes are the part.
            _ => push_frame(literal.as_bytes(), &mut self.cut.pieces, &mut self.cut.parts),
        }
        self.cut.texts.0.push(CutText {
            start: range.start,
            text,
            digest,
        });
    }

    /// Emits the framing up to `end`.
    fn flush(&mut self, end: usize) {
        let start = std::mem::replace(&mut self.done, end);
        let lifted = std::mem::take(&mut self.lifted);
        let Cut { pieces, parts, .. } = &mut self.cut;
        if lifted.is_empty() {
            push_frame(&self.text.as_bytes()[start..end], pieces, parts);
            return;
        }
        let mut kept = Vec::with_capacity(end - start);
        let mut inserts = Vec::with_capacity(lifted.len());
        let mut at = start;
        for range in lifted {
            kept.extend_from_slice(&self.text.as_bytes()[at..range.start]);
            let insert = Part::bytes(&self.text.as_bytes()[range.clone()]);
            inserts.push((kept.len() as u32, insert.hash));
            parts.push(insert);
            at = range.end;
        }
        kept.extend_from_slice(&self.text.as_bytes()[at..end]);
        push_lifted(&kept, inserts, pieces, parts);
    }
}

fn push_lifted(kept: &[u8], inserts: Vec<(u32, PartHash)>, pieces: &mut Vec<Piece>, parts: &mut Vec<Part>) {
    if kept.len() > FRAME_INLINE_MAX {
        let part = Part::bytes(kept);
        pieces.push(Piece::Lifted {
            part: part.hash,
            inserts: inserts.into(),
        });
        parts.push(part);
        return;
    }
    let mut at = 0;
    for (offset, insert) in inserts {
        push_frame(&kept[at..offset as usize], pieces, parts);
        pieces.push(Piece::Raw(insert));
        at = offset as usize;
    }
    push_frame(&kept[at..], pieces, parts);
}
