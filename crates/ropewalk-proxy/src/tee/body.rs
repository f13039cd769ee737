//! What of a body has come and is not written yet.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::event::Keep;
use super::scrub::{BodyOf, Scrub, ScrubBody};

/// Pieces below this are copied together: a few bytes of a stream would hold on to the buffer that they were read into.
const SMALL_BYTES: usize = 4 << 10;

/// A filter that holds less is left alone when memory is short.
const RELIEVED_BYTES_MIN: usize = 64 << 10;

/// A body on its way through.
#[derive(Default)]
pub(super) struct Body {
    pieces: Vec<Piece>,
    /// What the pieces have.
    buffered: usize,
    /// What was kept, written or not.
    kept: u64,
    /// There was more of it than is kept.
    is_cut: bool,
    through: Through,
}

/// What becomes of its bytes.
#[derive(Default)]
enum Through {
    /// Nothing is kept: not begun, ended, metadata only, or the filter broke.
    #[default]
    Nothing,
    Everything,
    Filter(Box<dyn ScrubBody>),
}

enum Piece {
    Shared(Bytes),
    Own(Vec<u8>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Shared(bytes) => bytes,
            Piece::Own(bytes) => bytes,
        }
    }

    fn drop_front(&mut self, count: usize) {
        match self {
            Piece::Shared(bytes) => drop(bytes.split_to(count)),
            Piece::Own(bytes) => drop(bytes.drain(..count)),
        }
    }
}

impl Body {
    pub(super) fn begin(&mut self, scrub: &mut dyn Scrub, of: &BodyOf<'_>) {
        let made = catch_unwind(AssertUnwindSafe(|| scrub.body(of)));
        self.through = match made {
            Ok(Some(filter)) => Through::Filter(filter),
            Ok(None) if of.keep == Keep::Everything => Through::Everything,
            Ok(None) => Through::Nothing,
            Err(_) => broken(),
        };
    }

    pub(super) fn push(&mut self, data: Bytes) {
        match &mut self.through {
            Through::Nothing => {}
            Through::Everything => self.keep(data),
            Through::Filter(filter) => {
                let mut out = Vec::new();
                let done = catch_unwind(AssertUnwindSafe(|| filter.piece(&data, &mut out)));
                if done.is_err() {
                    self.through = broken();
                } else {
                    self.keep(Bytes::from(out));
                }
            }
        }
    }

    /// Nothing more will come. Gives how much was redacted.
    pub(super) fn end(&mut self) -> u32 {
        let Through::Filter(mut filter) = std::mem::take(&mut self.through) else {
            return 0;
        };
        self.is_cut |= filter.is_cut();
        let mut out = Vec::new();
        let Ok(redactions) = catch_unwind(AssertUnwindSafe(|| filter.end(&mut out))) else {
            self.through = broken();
            return 0;
        };
        self.keep(Bytes::from(out));
        redactions
    }

    /// Memory is short: what the filter holds back goes as far as it can.
    pub(super) fn relieve(&mut self) {
        let Through::Filter(filter) = &mut self.through else {
            return;
        };
        if filter.held() < RELIEVED_BYTES_MIN {
            return;
        }
        let mut out = Vec::new();
        match catch_unwind(AssertUnwindSafe(|| filter.relieve(&mut out))) {
            Ok(()) => self.keep(Bytes::from(out)),
            Err(_) => self.through = broken(),
        }
    }

    /// What can be written.
    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    /// What was kept of it so far.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether a body that has ended had more than was kept of it.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What it holds in memory.
    pub(super) fn held(&self) -> usize {
        let in_filter = match &self.through {
            Through::Filter(filter) => filter.held(),
            Through::Nothing | Through::Everything => 0,
        };
        self.buffered + in_filter
    }

    /// Moves up to so many bytes to the end of a buffer.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, bytes_max: usize) {
        let mut left = bytes_max;
        let mut whole = 0;
        for piece in &mut self.pieces {
            let bytes = piece.bytes();
            if bytes.len() > left {
                out.extend_from_slice(&bytes[..left]);
                piece.drop_front(left);
                left = 0;
                break;
            }
            out.extend_from_slice(bytes);
            left -= bytes.len();
            whole += 1;
        }
        self.pieces.drain(..whole);
        self.buffered -= bytes_max - left;
    }

    pub(super) fn drop_all(&mut self) {
        *self = Body::default();
    }

    fn keep(&mut self, data: Bytes) {
        self.buffered += data.len();
        self.kept += data.len() as u64;
        match self.pieces.last_mut() {
            _ if data.is_empty() => {}
            Some(Piece::Own(last)) if data.len() < SMALL_BYTES => last.extend_from_slice(&data),
            Some(_) if data.len() < SMALL_BYTES => self.pieces.push(Piece::Own(data.to_vec())),
            _ => self.pieces.push(Piece::Shared(data)),
        }
    }
}

/// A filter that panicked may have let through what it should not: nothing more of this body is kept.
fn broken() -> Through {
    tracing::error!("a body could not be scrubbed; the rest of it is not kept");
    Through::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body() -> Body {
        Body {
            through: Through::Everything,
            ..Body::default()
        }
    }

    #[test]
    fn pieces_of_any_size_come_out_as_they_went_in() {
        let mut body = body();
        let mut expected = Vec::new();
        for (index, size) in [10, 20, 5_000, 3, 0, 9_000, 4_096, 1].into_iter().enumerate() {
            let piece = vec![index as u8; size];
            expected.extend_from_slice(&piece);
            body.push(Bytes::from(piece));
        }
        assert_eq!(body.buffered(), expected.len());
        let mut out = Vec::new();
        while body.buffered() > 0 {
            body.write(&mut out, body.buffered().min(777));
        }
        assert_eq!(out, expected);
        assert_eq!(body.kept(), expected.len() as u64);
        assert_eq!(body.held(), 0);
    }

    #[test]
    fn a_filter_that_breaks_keeps_nothing_more() {
        struct Breaks;
        impl ScrubBody for Breaks {
            fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
                assert_ne!(piece, b"bad");
                out.extend_from_slice(piece);
            }
            fn end(&mut self, _: &mut Vec<u8>) -> u32 {
                7
            }
        }
        let mut body = Body {
            through: Through::Filter(Box::new(Breaks)),
            ..Body::default()
        };
        for piece in ["good", "bad", "good"] {
            body.push(Bytes::from(piece));
        }
        assert_eq!(body.end(), 0);
        let mut out = Vec::new();
        body.write(&mut out, body.buffered());
        assert_eq!(out, b"good");
    }
}
