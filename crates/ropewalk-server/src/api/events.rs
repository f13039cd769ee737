//! What happens, as it happens: server-sent events.
//!
//! A [`Follower`] reads the owner's log behind linking and naming, as naming does behind linking, so that an event has the names
//! of what it tells, and so that whatever is recorded is told whoever records it. An event's id is its exchange's: a reader that
//! comes back with the last one it saw misses nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use ropewalk_engine::view::{Directory, ExchangeView, MessageIds};
use ropewalk_store::Store as _;
use ropewalk_store::facts::Position;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use crate::bounds::to_json;
use crate::problem::Problem;
use crate::source::{Source, Whose};

/// Readers at a time; each asks the store a small question in every [`PAUSE`].
pub(super) const FOLLOWERS_MAX: usize = 16;

/// Between two looks at the log.
const PAUSE: Duration = Duration::from_millis(250);

/// A silent stream says that it lives, so that neither end waits for one that is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Exchanges that are looked at at once.
const PAGE: usize = 64;

/// Events that wait for a slow reader. More stay in the store until it has read these.
const QUEUED_MAX: usize = 16;

/// An exchange that has begun or ended: its line of `log --exchanges`, and, at the end, the names of what it added.
#[derive(Debug, Serialize)]
struct Told {
    #[serde(flatten)]
    exchange: ExchangeView,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_ids: Option<MessageIds>,
}

impl Told {
    fn event(&self) -> Bytes {
        let data = to_json(self);
        if self.message_ids.is_none() {
            // Without an id: who came back with it would miss the end.
            return format!("event: exchange.begin\ndata: {data}\n\n").into();
        }
        // An imported id may be any text; one that would end the line is not repeated there.
        let id = Some(&*self.exchange.id).filter(|id| !id.contains(char::is_control));
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!("event: exchange.end\n{id}data: {data}\n\n").into()
    }
}

/// One owner's log, read to its end and on from there.
pub(super) struct Follower<S> {
    whose: Whose<S>,
    position: Position,
}

impl<S: Source> Follower<S> {
    /// Behind that exchange, or behind all there are.
    pub(super) async fn begin(whose: Whose<S>, after: Option<&str>) -> Result<Self, Problem> {
        let mut position = Position::default();
        if let Some(view) = whose.now().await?.view() {
            let known = match after {
                Some(id) => view.find_exchange(id).await?,
                None => None,
            };
            position = match known {
                Some(row) => row.position,
                None => view.store.link_state(view.owner).await?.newest,
            };
        }
        Ok(Follower { whose, position })
    }

    async fn next(&mut self) -> Result<Vec<Told>, Problem> {
        let owned = self.whose.now().await?;
        let Some(view) = owned.view() else {
            return Ok(Vec::new());
        };
        let (rows, last) = view.settled_after(self.position, PAGE).await?;
        let exchanges = view.exchanges(&rows, &mut Directory::default()).await?;
        let mut told = Vec::with_capacity(rows.len());
        for (row, exchange) in rows.iter().zip(exchanges) {
            let conversation = exchange.conversation_id.as_deref().unwrap_or_default();
            let message_ids = match row.ended_at {
                Some(_) => Some(view.message_ids(row, conversation).await?),
                None => None,
            };
            told.push(Told { exchange, message_ids });
        }
        self.position = last;
        Ok(told)
    }

    /// Until the reader has had enough, counted in ends.
    async fn tell(mut self, pieces: &mpsc::Sender<Bytes>, limit: Option<usize>) {
        let mut left = limit.unwrap_or(usize::MAX);
        let mut silent = Duration::ZERO;
        while left > 0 {
            let told = match self.next().await {
                Ok(told) => told,
                Err(problem) => {
                    // The reader comes back and is told then.
                    tracing::debug!(kind = problem.kind, "a stream of events ends");
                    return;
                }
            };
            for event in &told {
                if left == 0 || pieces.send(event.event()).await.is_err() {
                    return;
                }
                left -= usize::from(event.message_ids.is_some());
            }
            if !told.is_empty() {
                silent = Duration::ZERO;
                continue;
            }
            if silent >= SILENCE_MAX {
                silent = Duration::ZERO;
                if pieces.send(Bytes::from_static(b":\n\n")).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
            silent += PAUSE;
        }
    }
}

/// So many events, or all that come until the reader leaves or the server stops.
pub(super) fn stream<S: Source>(
    follower: Follower<S>,
    limit: Option<usize>,
    place: OwnedSemaphorePermit,
    mut closing: watch::Receiver<bool>,
) -> Response {
    let (sender, pieces) = mpsc::channel(QUEUED_MAX);
    tokio::spawn(async move {
        tokio::select! {
            () = follower.tell(&sender, limit) => {}
            () = sender.closed() => {}
            _ = closing.wait_for(|is_closing| *is_closing) => {}
        }
        drop(place);
    });
    let mut answer = Response::new(Body::new(Pieces(pieces)));
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// A body of what is sent to it.
struct Pieces(mpsc::Receiver<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
