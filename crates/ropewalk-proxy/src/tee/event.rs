//! What forwarding tells about an exchange, in the order it happens.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ropewalk_store::Micros;
use tokio::sync::oneshot;
use uuid::Uuid;

/// Names an exchange within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExchangeKey(pub u64);

/// How much of an exchange is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Everything,
    /// Model, tokens and times; no text.
    Metadata,
}

/// A request before its body.
#[derive(Debug)]
pub struct Head {
    /// What the client is told in `x-ropewalk-exchange`.
    pub id: Uuid,
    pub at: Micros,
    pub owner: Arc<str>,
    pub keep: Keep,
    pub method: Method,
    /// Path and query as they came, but without the owner's token.
    pub target: String,
    /// All of them, keys included: only the kept ones leave the worker.
    pub headers: HeaderMap,
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The answer came to its end.
    Complete,
    /// The client went away.
    ClientCancelled,
    /// The provider went away, before or within its answer.
    Truncated,
    /// We answered ourselves: the provider could not be reached, or a limit was passed.
    Refused,
}

/// What became of the wait for the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// The whole exchange is in the journal, as its level promises.
    pub acknowledged: bool,
}

#[derive(Debug)]
pub enum Event {
    Begin(ExchangeKey, Box<Head>),
    RequestData(ExchangeKey, Bytes),
    /// The request is whole.
    RequestEnd(ExchangeKey),
    /// What the provider gets in the request's place. Comes behind the request's end, in one piece.
    Sent(ExchangeKey, Bytes),
    /// The provider is not asked: what follows is an answer from the store.
    Reused(ExchangeKey),
    ResponseHead(ExchangeKey, Box<ResponseHead>),
    ResponseData(ExchangeKey, Bytes, Micros),
    /// The event that ends an answer has come by, though its body may go on: from here on the answer counts as complete. Told
    /// when all of it so far is in the journal.
    Whole {
        exchange: ExchangeKey,
        release: oneshot::Sender<Released>,
    },
    /// Always the last, and always sent.
    End {
        exchange: ExchangeKey,
        ending: Ending,
        at: Micros,
        /// Told when the exchange is in the journal. `None` where nobody waits.
        release: Option<oneshot::Sender<Released>>,
    },
    /// Of no exchange: the segment at hand is closed, so that it can go once it is recorded.
    Seal,
}

#[derive(Debug)]
pub struct ResponseHead {
    pub at: Micros,
    pub status: StatusCode,
    pub headers: HeaderMap,
}

impl Event {
    /// What it holds in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Event::RequestData(_, data) | Event::Sent(_, data) | Event::ResponseData(_, data, _) => {
                data.len() + EVENT_BYTES
            }
            Event::Begin(..) | Event::ResponseHead(..) => HEADERS_BYTES,
            Event::RequestEnd(_) | Event::Reused(_) | Event::Whole { .. } | Event::End { .. } | Event::Seal => {
                EVENT_BYTES
            }
        }
    }

    /// Whether somebody waits for what the worker does with it.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self, Event::Whole { .. } | Event::End { .. } | Event::Seal)
    }
}

/// What an event without data is counted as, and one with headers.
const EVENT_BYTES: usize = 64;
const HEADERS_BYTES: usize = 2 << 10;
