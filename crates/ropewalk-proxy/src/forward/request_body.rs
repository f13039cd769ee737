//! A request's body on its way to the provider.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::answer::Refusal;
use super::gathered::Gathered;
use super::tap::Tap;

/// Why a body was not passed on to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestBodyError {
    #[error("the client's body ended early")]
    Client(#[source] hyper::Error),
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
}

#[derive(Debug)]
pub(crate) struct RequestBody {
    /// What was read before, told to the tap by then.
    gathered: Option<Gathered>,
    /// What is read on the way.
    inner: Option<Incoming>,
    /// `None` where the exchange is not recorded.
    tap: Option<Tap>,
    left: u64,
    bytes_max: u64,
    ended: bool,
    /// For whoever answers the client.
    failed: Rc<Cell<Option<Refusal>>>,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, tap: Option<Tap>, bytes_max: u64, failed: Rc<Cell<Option<Refusal>>>) -> Self {
        let mut body = RequestBody {
            gathered: None,
            inner: Some(inner),
            tap,
            left: bytes_max,
            bytes_max,
            ended: false,
            failed,
        };
        if body.is_read() {
            body.end();
        }
        body
    }

    /// A body of which some, or all, is here already.
    pub(crate) fn gathered(
        mut gathered: Gathered,
        tap: Option<Tap>,
        bytes_max: u64,
        failed: Rc<Cell<Option<Refusal>>>,
    ) -> Self {
        let inner = gathered.rest.take();
        RequestBody {
            ended: inner.is_none(),
            inner,
            tap,
            left: bytes_max.saturating_sub(gathered.bytes() as u64),
            gathered: Some(gathered),
            bytes_max,
            failed,
        }
    }

    /// Whether nothing more is to be read of the client.
    fn is_read(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            if let Some(tap) = self.tap.take() {
                tap.request_end();
            }
        }
    }

    fn data(&mut self, data: &Bytes) -> Result<(), RequestBodyError> {
        let length = data.len() as u64;
        if length > self.left {
            self.failed.set(Some(Refusal::BodyTooLarge));
            return Err(RequestBodyError::TooLarge(self.bytes_max));
        }
        self.left -= length;
        if let Some(tap) = &self.tap {
            tap.request_data(data);
        }
        // A body of known length is not asked for its end.
        if self.is_read() {
            self.end();
        }
        Ok(())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if let Some(frame) = self.gathered.as_mut().and_then(|gathered| gathered.frames.pop_front()) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(tap) = &self.tap {
            ready!(tap.poll_room(cx));
        }
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(inner).poll_frame(cx));
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref()
                    && let Err(error) = self.data(data)
                {
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.failed.set(Some(Refusal::BodyBroken));
                Poll::Ready(Some(Err(RequestBodyError::Client(error))))
            }
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let has_frames = self
            .gathered
            .as_ref()
            .is_some_and(|gathered| !gathered.frames.is_empty());
        !has_frames && self.is_read()
    }

    /// Asked before the first piece, to choose the framing.
    fn size_hint(&self) -> SizeHint {
        match (&self.gathered, &self.inner) {
            (Some(gathered), _) => gathered.announced,
            (None, Some(inner)) => inner.size_hint(),
            (None, None) => SizeHint::with_exact(0),
        }
    }
}
