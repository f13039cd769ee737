//! Bodies as recipes over parts.
//!
//! [`Split`] is what the store gets: pieces in order, the parts they name, and where the next turn will add to them. A
//! request's split shares its elements with the memo of the turn before; what came from there is known and need not be stored
//! again.

use std::ops::Range;
use std::sync::Arc;

use ropewalk_core::json::Doc;
use ropewalk_core::part::Part;
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::Layout;

use crate::body::Element;
use crate::cut::{Depth, cut, frame};
use crate::stream_split;

#[derive(Debug, Clone, Default)]
pub struct Split {
    pub(crate) segments: Vec<Segment>,
    /// The segments of the newest message; none of a body that is no conversation.
    pub(crate) newest: Option<Range<usize>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Segment {
    Frame {
        piece: Piece,
        part: Option<Part>,
    },
    /// `known`: it stood in the turn before, so its parts are stored.
    Element {
        element: Arc<Element>,
        known: bool,
    },
}

impl Segment {
    /// The same element, not only an equal one.
    fn is_very(&self, other: &Segment) -> bool {
        match (self, other) {
            (Segment::Element { element, .. }, Segment::Element { element: other, .. }) => Arc::ptr_eq(element, other),
            _ => false,
        }
    }

    fn pieces(&self) -> &[Piece] {
        match self {
            Segment::Frame { piece, .. } => std::slice::from_ref(piece),
            Segment::Element { element, .. } => &element.pieces,
        }
    }
}

impl Split {
    /// One part for a body we cannot or need not look into.
    pub fn opaque(body: &[u8]) -> Self {
        let mut split = Split::default();
        split.push_frame(body);
        split
    }

    /// The recipe: joining these gives the body back.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.segments.iter().flat_map(Segment::pieces)
    }

    /// With how many pieces both begin. Turns of a conversation share the elements themselves, which need no look inside.
    pub fn shared_pieces(&self, other: &Split) -> usize {
        let both = self.segments.iter().zip(&other.segments);
        let same = both.take_while(|(one, other)| one.is_very(other));
        let (segments, pieces) = same.fold((0, 0), |(count, pieces), (segment, _)| {
            (count + 1, pieces + segment.pieces().len())
        });
        let own = self.segments[segments..].iter().flat_map(Segment::pieces);
        let others = other.segments[segments..].iter().flat_map(Segment::pieces);
        pieces + own.zip(others).take_while(|(own, other)| own == other).count()
    }

    /// Where the recipe grows from turn to turn.
    pub fn layout(&self) -> Layout {
        let count = |segments: &[Segment]| segments.iter().map(|segment| segment.pieces().len()).sum::<usize>();
        let Some(newest) = &self.newest else {
            return Layout::once(count(&self.segments));
        };
        let start = count(&self.segments[..newest.start]);
        Layout {
            newest: start..start + count(&self.segments[newest.clone()]),
        }
    }

    /// The parts that may be new. Those of known elements are left out.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts_behind(0)
    }

    /// Those of them that something behind the first pieces may name.
    pub fn parts_behind(&self, pieces: usize) -> impl Iterator<Item = &Part> {
        let mut end = 0;
        let behind = self.segments.iter().skip_while(move |segment| {
            end += segment.pieces().len();
            end <= pieces
        });
        behind.flat_map(|segment| match segment {
            Segment::Frame { part, .. } => part.as_slice(),
            Segment::Element { known: true, .. } => &[],
            Segment::Element { element, .. } => &element.parts[..],
        })
    }

    /// Every part the recipe names, known or not.
    pub fn all_parts(&self) -> impl Iterator<Item = &Part> {
        self.segments.iter().flat_map(|segment| match segment {
            Segment::Frame { part, .. } => part.as_slice(),
            Segment::Element { element, .. } => &element.parts[..],
        })
    }

    pub(crate) fn push_frame(&mut self, bytes: &[u8]) {
        if let Some((piece, part)) = frame(bytes) {
            self.segments.push(Segment::Frame { piece, part });
        }
    }
}

/// Splits an answer: JSON at its long strings, server-sent events as framing over the texts they spell,
/// anything else as one part.
pub fn split_response(body: &[u8]) -> Split {
    let Ok(text) = std::str::from_utf8(body) else {
        return Split::opaque(body);
    };
    let (pieces, parts) = if let Ok(doc) = Doc::parse_str(text) {
        let cut = cut(text, doc.root(), 0..text.len(), Depth::TextsAndNumbers);
        (cut.pieces, cut.parts)
    } else if stream_split::looks_like_events(text) {
        stream_split::split(text)
    } else {
        return Split::opaque(body);
    };
    let element = Arc::new(Element::of_pieces(pieces, parts));
    Split {
        segments: vec![Segment::Element { element, known: false }],
        newest: None,
    }
}
