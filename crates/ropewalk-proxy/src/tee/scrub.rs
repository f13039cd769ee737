//! The seam for decoding and redaction: what a body must go through before it is written.
//!
//! A body comes in pieces as the network gave them, and is written in pieces, because none is ever held whole. So a scrubber is a
//! filter with a memory: it may hold back what it cannot judge yet, and must say how much that is.

use http::HeaderMap;

use super::event::Keep;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    Request,
    Response,
}

/// Which body it is about.
#[derive(Debug)]
pub struct BodyOf<'a> {
    pub owner: &'a str,
    pub keep: Keep,
    pub half: Half,
    /// The request's, as it came.
    pub target: &'a str,
    /// Of this half, as they came: `content-encoding` and `content-type` are what it is for.
    pub headers: &'a HeaderMap,
}

/// Makes a filter for each body.
pub trait Scrub: Send {
    /// `None` keeps a body as it is, or nothing of it where only metadata is kept.
    fn body(&mut self, of: &BodyOf<'_>) -> Option<Box<dyn ScrubBody>>;
}

/// One body's filter. Should it panic, the rest of that body is not kept.
pub trait ScrubBody: Send {
    /// Takes a piece and appends what may be written by now.
    fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>);

    /// The body has ended, or was cut off: appends the rest and says how much was redacted in all of it.
    fn end(&mut self, out: &mut Vec<u8>) -> u32;

    /// Memory is short: appends what can be judged by now, though more may come that would change the judgement.
    fn relieve(&mut self, _out: &mut Vec<u8>) {}

    /// Whether the body had more than is kept of one. What was kept is its beginning.
    fn is_cut(&self) -> bool {
        false
    }

    /// What it holds in memory.
    fn held(&self) -> usize {
        0
    }
}

/// No decoding and no redaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepAsItIs;

impl Scrub for KeepAsItIs {
    fn body(&mut self, _: &BodyOf<'_>) -> Option<Box<dyn ScrubBody>> {
        None
    }
}
