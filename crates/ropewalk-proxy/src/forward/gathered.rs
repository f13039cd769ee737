//! A request's body, gathered for those who want to see it whole.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::answer::Refusal;
use super::tap::Tap;

/// What came of a body so far, in order.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) frames: VecDeque<Frame<Bytes>>,
    /// What is still to come, where the body is beyond a bound.
    pub(crate) rest: Option<Incoming>,
    /// As the client announced it, so that it is framed for the provider as it was for us.
    pub(crate) announced: SizeHint,
    bytes: usize,
    /// Counted among all that are gathered until this is gone.
    _held: Held,
}

/// Bytes that are gathered at this time, by all threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathering(Arc<AtomicUsize>);

#[derive(Debug)]
struct Held {
    gathering: Gathering,
    bytes: usize,
}

impl Held {
    fn add(&mut self, bytes: usize) -> usize {
        self.bytes += bytes;
        self.gathering.0.fetch_add(bytes, Ordering::Relaxed) + bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gathering.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How much may be gathered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Of one body.
    pub(crate) bytes: usize,
    /// Of all bodies at a time.
    pub(crate) sum: usize,
    /// Beyond this a body is refused.
    pub(crate) refused: u64,
}

impl Gathering {
    /// Reads a body to its end, or as far as a bound allows. The tap is told of every piece when it comes.
    pub(crate) async fn gather(
        &self,
        mut body: Incoming,
        tap: Option<&Tap>,
        bounds: Bounds,
    ) -> Result<Gathered, Refusal> {
        let announced = body.size_hint();
        let mut gathered = Gathered {
            frames: VecDeque::new(),
            rest: None,
            announced,
            bytes: 0,
            _held: Held {
                gathering: self.clone(),
                bytes: 0,
            },
        };
        while !body.is_end_stream() {
            if let Some(tap) = tap {
                poll_fn(|cx| tap.poll_room(cx)).await;
            }
            let frame = match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Err(Refusal::BodyBroken),
                None => break,
            };
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            gathered.bytes += bytes;
            if gathered.bytes as u64 > bounds.refused {
                return Err(Refusal::BodyTooLarge);
            }
            if let (Some(tap), Some(data)) = (tap, frame.data_ref()) {
                tap.request_data(data);
            }
            gathered.frames.push_back(frame);
            let held = gathered._held.add(bytes);
            let is_beyond = gathered.bytes > bounds.bytes || held > bounds.sum;
            if is_beyond && !body.is_end_stream() {
                gathered.rest = Some(body);
                return Ok(gathered);
            }
        }
        if let Some(tap) = tap {
            tap.request_end();
        }
        Ok(gathered)
    }
}

impl Gathered {
    /// What is here of the body, as it came.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.frames.iter().filter_map(Frame::data_ref)
    }

    /// The body, if all of it is here and nothing but it.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        if self.rest.is_some() || self.frames.iter().any(Frame::is_trailers) {
            return None;
        }
        let mut pieces = self.pieces();
        match (pieces.next(), pieces.next()) {
            (None, _) => Some(Bytes::new()),
            (Some(only), None) => Some(only.clone()),
            _ => {
                let mut all = Vec::with_capacity(self.bytes);
                self.pieces().for_each(|piece| all.extend_from_slice(piece));
                Some(Bytes::from(all))
            }
        }
    }

    /// Another body in its place, as long as it says.
    pub(crate) fn replace(&mut self, body: Bytes) {
        self.announced = SizeHint::with_exact(body.len() as u64);
        self.frames = VecDeque::from([Frame::data(body)]);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
