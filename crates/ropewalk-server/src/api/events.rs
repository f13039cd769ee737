//! What happens, as it happens: server-sent events.
//!
//! `exchange.begin` and `exchange.end`, each with the agent that it changed (`agent.changed`) and, at its first exchange, the
//! conversation (`conversation.created`); `links.changed` when linking concluded something; and what the server says of itself, when that
//! changed: `health`, `import.progress`, and `exchange.delta` for answers under way.
//!
//! A [`Follower`] reads the owner's log behind linking and naming, as naming does behind linking, so that an event has the names
//! of what it tells, and so that whatever is recorded is told whoever records it. An event's id is its exchange's: a reader that
//! comes back with the last one it saw misses nothing.

use std::collections::{HashMap, HashSet};
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
use ropewalk_engine::view::exchange::AgentOfExchange;
use ropewalk_engine::view::{Directory, ExchangeView, MessageIds};
use ropewalk_store::Store as _;
use ropewalk_store::facts::{ExchangeNumber, Position};
use serde::Serialize;
use serde_json::Value;
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

/// Exchanges under way that a reader remembers; of more it may be told twice that a conversation began.
const BEGUN_MAX: usize = 1_024;

/// Things that the server said of itself that a reader remembers.
const SAID_MAX: usize = 4_096;

/// Events that wait for a slow reader. More stay in the store until it has read these.
const QUEUED_MAX: usize = 16;

/// An exchange that has begun or ended: its line of `log --exchanges`, and, at the end, the names of what it added.
#[derive(Debug, Serialize)]
struct Told {
    #[serde(flatten)]
    exchange: ExchangeView,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_ids: Option<MessageIds>,
    /// It was not told before, as one that began.
    #[serde(skip)]
    is_new: bool,
}

/// An agent, by its newest exchange.
#[derive(Debug, Serialize)]
struct ChangedAgent<'e> {
    conversation_id: &'e Option<String>,
    friendly_id: &'e Option<String>,
    exchange_id: &'e str,
    branch_id: &'e Option<String>,
    #[serde(flatten)]
    agent: &'e AgentOfExchange,
    status: &'static str,
    model: &'e Option<String>,
}

#[derive(Debug, Serialize)]
struct CreatedConversation<'e> {
    conversation_id: &'e Option<String>,
    friendly_id: &'e Option<String>,
    exchange_id: &'e str,
    at: &'e str,
}

/// How far linking has come.
#[derive(Debug, Serialize)]
struct ChangedLinks {
    version: u64,
    /// More is to be linked or named.
    settling: bool,
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    format!("event: {name}\ndata: {}\n\n", to_json(data)).into()
}

impl Told {
    /// What happened to others with it.
    fn beside(&self) -> Vec<Bytes> {
        let exchange = &self.exchange;
        let mut events = Vec::new();
        let is_first = exchange.parent_exchange_id.is_none() && exchange.branch_kind == Some("main");
        if is_first && self.is_new {
            let created = CreatedConversation {
                conversation_id: &exchange.conversation_id,
                friendly_id: &exchange.friendly_id,
                exchange_id: &exchange.id,
                at: &exchange.at,
            };
            events.push(event("conversation.created", &created));
        }
        if exchange.agent.id.is_some() {
            let changed = ChangedAgent {
                conversation_id: &exchange.conversation_id,
                friendly_id: &exchange.friendly_id,
                exchange_id: &exchange.id,
                branch_id: &exchange.branch_id,
                agent: &exchange.agent,
                status: match exchange.status {
                    "pending" => "streaming",
                    "complete" => "complete",
                    _ => "error",
                },
                model: &exchange.model,
            };
            events.push(event("agent.changed", &changed));
        }
        events
    }

    fn event(&self) -> Bytes {
        if self.message_ids.is_none() {
            // Without an id: who came back with it would miss the end.
            return event("exchange.begin", self);
        }
        // An imported id may be any text; one that would end the line is not repeated there.
        let id = Some(&*self.exchange.id).filter(|id| !id.contains(char::is_control));
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!("event: exchange.end\n{id}data: {}\n\n", to_json(self)).into()
    }
}

/// An event, and whether it is one that readers count.
enum Happened {
    Exchange(Box<Told>),
    Other(Bytes),
}

/// One owner's log, read to its end and on from there.
pub(super) struct Follower<S> {
    whose: Whose<S>,
    position: Position,
    version: u64,
    /// Exchanges that were told to have begun and not to have ended.
    begun: HashSet<ExchangeNumber>,
    /// What the server said of itself last, by its name.
    said: HashMap<String, Value>,
}

impl<S: Source> Follower<S> {
    /// Behind that exchange, or behind all there are.
    pub(super) async fn begin(whose: Whose<S>, after: Option<&str>) -> Result<Self, Problem> {
        let (mut position, mut version) = (Position::default(), 0);
        if let Some(view) = whose.now().await?.view() {
            let known = match after {
                Some(id) => view.find_exchange(id).await?,
                None => None,
            };
            let state = view.store.link_state(view.owner).await?;
            position = known.map_or(state.newest, |row| row.position);
            version = state.version;
        }
        Ok(Follower {
            whose,
            position,
            version,
            begun: HashSet::new(),
            said: HashMap::new(),
        })
    }

    async fn next(&mut self) -> Result<Vec<Happened>, Problem> {
        let mut happened = self.said_of_itself();
        let owned = self.whose.now().await?;
        let Some(view) = owned.view() else {
            return Ok(happened);
        };
        let state = view.store.link_state(view.owner).await?;
        if std::mem::replace(&mut self.version, state.version) != state.version {
            let changed = ChangedLinks {
                version: state.version,
                settling: state.linked_to.min(state.named_to) < state.newest,
            };
            happened.push(Happened::Other(event("links.changed", &changed)));
        }
        let (rows, last) = view.settled_after(&state, self.position, PAGE).await?;
        let exchanges = view.exchanges(&rows, &mut Directory::default()).await?;
        for (row, exchange) in rows.iter().zip(exchanges) {
            let conversation = exchange.conversation_id.as_deref().unwrap_or_default();
            let message_ids = match row.ended_at {
                Some(_) => Some(view.message_ids(row, conversation).await?),
                None => None,
            };
            let is_new = match row.ended_at {
                Some(_) => !self.begun.remove(&row.number),
                None => self.begun.len() >= BEGUN_MAX || self.begun.insert(row.number),
            };
            let told = Told {
                exchange,
                message_ids,
                is_new,
            };
            happened.extend(told.beside().into_iter().map(Happened::Other));
            happened.push(Happened::Exchange(Box::new(told)));
        }
        self.position = last;
        Ok(happened)
    }

    /// What the server said otherwise before, or not at all.
    fn said_of_itself(&mut self) -> Vec<Happened> {
        let mut happened = Vec::new();
        for (name, key, data) in self.whose.standing() {
            let before = self.said.insert(format!("{name} {key}"), data.clone());
            if before.as_ref() != Some(&data) {
                happened.push(Happened::Other(event(name, &data)));
            }
        }
        // Of what is over nothing more will be said.
        if self.said.len() > SAID_MAX {
            self.said.clear();
        }
        happened
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
            let has_exchanges = told.iter().any(|happened| matches!(happened, Happened::Exchange(_)));
            for happened in told {
                let (event, is_end) = match &happened {
                    Happened::Exchange(told) => (told.event(), told.message_ids.is_some()),
                    Happened::Other(event) => (event.clone(), false),
                };
                if left == 0 || pieces.send(event).await.is_err() {
                    return;
                }
                silent = Duration::ZERO;
                left -= usize::from(is_end);
            }
            if has_exchanges {
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
