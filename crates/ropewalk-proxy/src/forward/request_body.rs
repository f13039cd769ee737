//! A request's body on its way to the provider.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::answer::Refusal;
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
    inner: Incoming,
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
            inner,
            tap,
            left: bytes_max,
            bytes_max,
            ended: false,
            failed,
        };
        if body.inner.is_end_stream() {
            body.end();
        }
        body
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
        if self.inner.is_end_stream() {
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
        if let Some(tap) = &self.tap {
            ready!(tap.poll_room(cx));
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
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
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
