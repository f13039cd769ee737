//! Calls as a client's log tells of them.
//!
//! A log has every message once, each behind another, and every answer in its place; a request is the way from the first message
//! to the one before the answer. [`Logged`] is what a reader of logs yields, in any order in which a message comes before what
//! stands behind it; [`LogPreparer`] makes exchanges of it. Nothing of a request is repeated: what it costs to tell of a turn is what is new in it.

mod prepare;

use bytes::Bytes;
use ropewalk_core::model::Provider;
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;
use ropewalk_store::log::RecordRow;
use serde::{Deserialize, Serialize};

use crate::raw::RawExchange;

pub use prepare::{LogError, LogPreparer, Taken};

/// One thing that was found in a file.
#[derive(Debug)]
pub enum Logged {
    /// A message that a request may contain. Messages are numbered from 0 as they come.
    Message(LogMessage),
    Turn(Box<LogTurn>),
    /// A record of the log, for the tree of messages, and which block of which message says the same.
    Record(Box<RecordRow>, Option<(MessageNumber, usize)>),
    /// An exchange as it was on the wire, with whose it is if the file says so.
    Exchange {
        owner: Option<String>,
        raw: Box<RawExchange>,
    },
}

/// Which message of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageNumber(pub u32);

/// A message as a request has it.
#[derive(Debug, Clone)]
pub struct LogMessage {
    /// The one before it; `None` for one that a conversation begins with.
    pub behind: Option<MessageNumber>,
    pub provider: Provider,
    /// In the provider's own JSON: an element of `messages`, `input` or `contents`.
    pub json: Bytes,
}

/// A call that a model answered.
#[derive(Debug, Clone)]
pub struct LogTurn {
    /// Of the exchange; the same for every copy of the log.
    pub id: String,
    pub provider: Provider,
    /// When it was asked, as far as the log knows: when the last message of the request was written.
    pub at: Micros,
    /// When the last of the answer was written.
    pub ended_at: Option<Micros>,
    /// When each spawning call was written, by tool_use id.
    pub spawned_at: Vec<(String, Micros)>,
    pub model: Option<String>,
    pub project: Option<String>,
    /// What the client would have said about itself, as headers. They are what linking reads as hints.
    pub hints: Vec<(String, String)>,
    /// The provider's id of the call; that of the answer stands in the answer.
    pub request_id: Option<String>,
    /// The last message of its request.
    pub asked: Option<MessageNumber>,
    /// The answer as the provider gives it whole, as JSON.
    pub answer: Bytes,
    /// The answer did not come to its end.
    pub cut_off: bool,
    /// Its usage may not be the last word.
    pub is_estimate: bool,
    pub provenance: Provenance,
}
