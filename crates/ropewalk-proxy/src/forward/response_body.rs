//! An answer's body on its way to the client.
//!
//! Pieces pass as they come, but for one: what tells the client that the answer is complete waits until the exchange is in the
//! journal. That is the piece with the terminal event of an uncompressed stream, the completing piece of a body with a length,
//! else the end of the body. No piece waits for the next one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::counters::InFlight;
use super::tap::Watch;
use super::terminal::TerminalWatch;
use super::upstream::Lease;
use crate::tee::{Ending, Released};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ResponseBodyError {
    #[error("the provider's answer broke off")]
    Broken(#[source] hyper::Error),
    #[error("the provider sent nothing for {0:?}")]
    Idle(Duration),
}

#[derive(Debug)]
pub(crate) struct ResponseBody {
    inner: Incoming,
    watch: Watch,
    lease: Option<Lease>,
    completes: Completes,
    held: Option<Held>,
    idle: Option<Idle>,
    /// Counted until the body is gone.
    _in_flight: InFlight,
    ended: bool,
}

/// What tells the client that an answer is complete.
#[derive(Debug)]
enum Completes {
    Event(TerminalWatch),
    /// So many bytes are still to come.
    Length(u64),
    End,
}

/// What waits for the journal.
#[derive(Debug)]
struct Held {
    released: oneshot::Receiver<Released>,
    /// `None` is the end of the body.
    frame: Option<Frame<Bytes>>,
}

#[derive(Debug)]
struct Idle {
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl ResponseBody {
    pub(crate) fn new(
        inner: Incoming,
        headers: &HeaderMap,
        watch: Watch,
        lease: Lease,
        idle: Option<Duration>,
        in_flight: InFlight,
    ) -> Self {
        let completes = match inner.size_hint().exact() {
            Some(length) => Completes::Length(length),
            None if is_plain_event_stream(headers) => Completes::Event(TerminalWatch::default()),
            None => Completes::End,
        };
        let idle = idle.map(|limit| Idle {
            limit,
            sleep: Box::pin(tokio::time::sleep(limit)),
        });
        ResponseBody {
            inner,
            watch,
            lease: Some(lease),
            completes,
            held: None,
            idle,
            _in_flight: in_flight,
            ended: false,
        }
    }

    /// A piece of the answer; what it completes, it waits for.
    fn data(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let Some(data) = frame.data_ref() else {
            return self.last(Some(frame));
        };
        let completed = match &mut self.completes {
            Completes::Event(watch) => watch.completes(data),
            Completes::Length(left) => {
                *left = left.saturating_sub(data.len() as u64);
                *left == 0
            }
            Completes::End => false,
        };
        if let Some(tap) = self.watch.tap() {
            tap.response_data(data);
        }
        match (completed, &self.completes) {
            (false, _) => Some(frame),
            (true, Completes::Event(_)) => {
                // What may follow, follows unheld; the end of the body is the end.
                self.completes = Completes::End;
                self.hold(|watch| Some(watch.tap()?.whole()), Some(frame))
            }
            (true, _) => self.last(Some(frame)),
        }
    }

    /// The end of the answer, with the frame that is it.
    fn last(&mut self, frame: Option<Frame<Bytes>>) -> Option<Frame<Bytes>> {
        self.ended = true;
        if let Some(lease) = self.lease.take() {
            lease.finish();
        }
        self.hold(|watch| Some(watch.tap()?.end(Ending::Complete)), frame)
    }

    fn hold(
        &mut self,
        wait: impl FnOnce(&Watch) -> Option<oneshot::Receiver<Released>>,
        frame: Option<Frame<Bytes>>,
    ) -> Option<Frame<Bytes>> {
        match wait(&self.watch) {
            Some(released) => {
                self.held = Some(Held { released, frame });
                None
            }
            None => frame,
        }
    }

    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<Option<Option<Frame<Bytes>>>> {
        let Some(held) = &mut self.held else {
            return Poll::Ready(None);
        };
        // A worker that is gone releases as well; it has counted the exchange as lost or was told to stop.
        let _released = ready!(Pin::new(&mut held.released).poll(cx));
        Poll::Ready(self.held.take().map(|held| held.frame))
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<ResponseBodyError> {
        match &mut self.idle {
            Some(idle) => idle
                .sleep
                .as_mut()
                .poll(cx)
                .map(|()| ResponseBodyError::Idle(idle.limit)),
            None => Poll::Pending,
        }
    }

    fn fail(&mut self, error: ResponseBodyError) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        self.ended = true;
        self.lease = None;
        if let Some(tap) = self.watch.tap() {
            tap.abandon(Ending::Truncated);
        }
        Poll::Ready(Some(Err(error)))
    }
}

fn is_plain_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) && !headers.contains_key(header::CONTENT_ENCODING)
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        loop {
            if let Some(frame) = ready!(self.poll_held(cx)) {
                return Poll::Ready(frame.map(Ok));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if let Some(tap) = self.watch.tap() {
                ready!(tap.poll_room(cx));
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    let error = ready!(self.poll_idle(cx));
                    return self.fail(error);
                }
            };
            if let Some(idle) = &mut self.idle {
                let next = Instant::now() + idle.limit;
                idle.sleep.as_mut().reset(next);
            }
            let passed = match frame {
                Some(Ok(frame)) => self.data(frame),
                Some(Err(error)) => return self.fail(ResponseBodyError::Broken(error)),
                None => self.last(None),
            };
            if passed.is_some() || self.held.is_none() {
                return Poll::Ready(passed.map(Ok));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.held.is_none()
    }

    /// Asked before the first piece, to choose the framing.
    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
