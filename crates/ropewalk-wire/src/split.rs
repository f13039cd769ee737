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
use ropewalk_core::shared_list::SharedList;

use crate::body::Element;
use crate::cut::{Depth, cut, frame};
use crate::stream_split;

#[derive(Debug, Clone, Default)]
pub struct Split {
    /// Those that it grew by, before all others.
    grown: GrownSegments,
    pub(crate) segments: Vec<Segment>,
    /// Which of `segments` are the newest message. Of what has grown it is the last one; a body that is no conversation has none.
    pub(crate) newest: Option<Range<usize>>,
}

/// Elements one behind the other, shared by all bodies that grew from there.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrownSegments {
    pieces: SharedList<GrownPieces>,
    /// Of each segment; none where only the pieces are kept.
    parts: SharedList<Arc<[Part]>>,
}

#[derive(Debug, Clone)]
struct GrownPieces {
    own: Arc<[Piece]>,
    /// Pieces up to its end.
    end: usize,
}

impl GrownSegments {
    pub(crate) fn push(&mut self, pieces: Vec<Piece>, parts: Vec<Part>) {
        let end = self.piece_count() + pieces.len();
        let own = pieces.into();
        self.pieces.push(GrownPieces { own, end });
        self.parts.push(parts.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn piece_count(&self) -> usize {
        self.pieces.last().map_or(0, |last| last.end)
    }

    /// The first element that ends behind so many pieces, and how many of its own are among them.
    fn find(&self, pieces: usize) -> (usize, usize) {
        let at = self.pieces.partition_point(|segment| segment.end <= pieces);
        (at, pieces - self.start(at).min(pieces))
    }

    /// Pieces before an element.
    fn start(&self, at: usize) -> usize {
        let before = at.checked_sub(1).and_then(|before| self.pieces.get(before));
        before.map_or(0, |before| before.end)
    }

    fn parts_behind(&self, first: usize) -> impl Iterator<Item = &Part> {
        self.parts.range(first..).flat_map(|parts| &parts[..])
    }
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
    /// An element of which nothing else is kept.
    Pieces(Arc<[Piece]>),
}

impl Segment {
    fn pieces(&self) -> Pieces<'_> {
        match self {
            Segment::Frame { piece, .. } => Pieces::Frame(piece),
            Segment::Element { element, .. } => Pieces::Element(&element.pieces),
            Segment::Pieces(pieces) => Pieces::Element(pieces),
        }
    }

    fn without_parts(&self) -> Segment {
        match self {
            Segment::Frame { piece, .. } => Segment::Frame {
                piece: piece.clone(),
                part: None,
            },
            Segment::Element { element, .. } => Segment::Pieces(Arc::clone(&element.pieces)),
            Segment::Pieces(pieces) => Segment::Pieces(Arc::clone(pieces)),
        }
    }
}

/// The pieces of a segment.
#[derive(Clone, Copy)]
enum Pieces<'s> {
    Frame(&'s Piece),
    Element(&'s Arc<[Piece]>),
}

impl<'s> Pieces<'s> {
    fn as_slice(self) -> &'s [Piece] {
        match self {
            Pieces::Frame(piece) => std::slice::from_ref(piece),
            Pieces::Element(pieces) => pieces,
        }
    }

    /// Those of the same element, not only of an equal one.
    fn are_very(self, other: Pieces<'_>) -> bool {
        matches!((self, other), (Pieces::Element(one), Pieces::Element(other)) if Arc::ptr_eq(one, other))
    }
}

impl Split {
    /// One part for a body we cannot or need not look into.
    pub fn opaque(body: &[u8]) -> Self {
        let mut split = Split::default();
        split.push_frame(body);
        split
    }

    /// A body that grew, and what stands behind it.
    pub(crate) fn grown(grown: GrownSegments, closing: &[u8]) -> Self {
        let mut split = Split {
            grown,
            ..Split::default()
        };
        split.push_frame(closing);
        split
    }

    /// The recipe: joining these gives the body back.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces_behind(0)
    }

    /// All but the first ones.
    pub fn pieces_behind(&self, first: usize) -> impl Iterator<Item = &Piece> {
        let (at, within) = self.grown.find(first);
        let behind = first.saturating_sub(self.grown.piece_count());
        let skipped = if at < self.grown.pieces.len() { within } else { behind };
        self.segments_behind(at).flat_map(Pieces::as_slice).skip(skipped)
    }

    pub fn piece_count(&self) -> usize {
        self.grown.piece_count() + count(&self.segments)
    }

    /// All segments but the first ones that it grew by.
    fn segments_behind(&self, grown: usize) -> impl Iterator<Item = Pieces<'_>> {
        let grown = self.grown.pieces.range(grown..);
        let own = self.segments.iter().map(Segment::pieces);
        grown.map(|segment| Pieces::Element(&segment.own)).chain(own)
    }

    /// The same recipe without what is only for storing it: enough to compare others with.
    #[must_use]
    pub fn without_parts(&self) -> Self {
        Split {
            grown: GrownSegments {
                pieces: self.grown.pieces.clone(),
                parts: SharedList::default(),
            },
            segments: self.segments.iter().map(Segment::without_parts).collect(),
            newest: self.newest.clone(),
        }
    }

    /// With how many pieces both begin. Turns of a conversation share the elements themselves, which need no look inside.
    pub fn shared_pieces(&self, other: &Split) -> usize {
        let grown = self.grown.pieces.shared_with(&other.grown.pieces);
        let both = self.segments_behind(grown).zip(other.segments_behind(grown));
        let same = both.take_while(|(one, other)| one.are_very(*other));
        let start = self.grown.start(grown);
        let (segments, pieces) = same.fold((0, start), |(count, pieces), (same, _)| {
            (count + 1, pieces + same.as_slice().len())
        });
        let own = self.segments_behind(grown).skip(segments).flat_map(Pieces::as_slice);
        let others = other.segments_behind(grown).skip(segments).flat_map(Pieces::as_slice);
        pieces + own.zip(others).take_while(|(own, other)| own == other).count()
    }

    /// Where the recipe grows from turn to turn.
    pub fn layout(&self) -> Layout {
        let grown = self.grown.piece_count();
        match (&self.newest, self.grown.pieces.len().checked_sub(1)) {
            (Some(newest), _) => {
                let start = grown + count(&self.segments[..newest.start]);
                Layout {
                    newest: start..start + count(&self.segments[newest.clone()]),
                }
            }
            (None, Some(last)) => Layout {
                newest: self.grown.start(last)..grown,
            },
            (None, None) => Layout::once(count(&self.segments)),
        }
    }

    /// The parts that may be new. Those of known elements are left out.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts_behind(0)
    }

    /// Those of them that something behind the first pieces may name.
    pub fn parts_behind(&self, pieces: usize) -> impl Iterator<Item = &Part> {
        let (first, _) = self.grown.find(pieces);
        let grown = self.grown.parts_behind(first);
        let mut end = self.grown.piece_count();
        let behind = self.segments.iter().skip_while(move |segment| {
            end += segment.pieces().as_slice().len();
            end <= pieces
        });
        grown.chain(behind.flat_map(|segment| match segment {
            Segment::Frame { part, .. } => part.as_slice(),
            Segment::Element { known: true, .. } | Segment::Pieces(_) => &[],
            Segment::Element { element, .. } => &element.parts[..],
        }))
    }

    /// Every part the recipe names, known or not.
    pub fn all_parts(&self) -> impl Iterator<Item = &Part> {
        let grown = self.grown.parts_behind(0);
        grown.chain(self.segments.iter().flat_map(|segment| match segment {
            Segment::Frame { part, .. } => part.as_slice(),
            Segment::Element { element, .. } => &element.parts[..],
            Segment::Pieces(_) => &[],
        }))
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
        ..Split::default()
    }
}

fn count(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.pieces().as_slice().len()).sum()
}
