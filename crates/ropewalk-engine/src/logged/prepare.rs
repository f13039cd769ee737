//! From what a log tells to the facts that the store takes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Block, Message};
use ropewalk_core::prompt_path::ToolNames;
use ropewalk_store::facts::Body;
use ropewalk_store::log::RecordRow;
use ropewalk_wire::Grown;
use ropewalk_wire::provider::{path_of, route};

use super::{LogMessage, LogTurn, Logged, MessageNumber};
use crate::link::outline::Outline;
use crate::prepare::{Asked, Prepared, Preparer, Readable};
use crate::raw::{RawExchange, Witness};
use crate::recipe::SplitRecipe;
use crate::redact::count_redactions;

/// The messages of one file, as far as they came.
#[derive(Debug)]
pub struct LogPreparer<'a> {
    preparer: Preparer<'a>,
    /// Those from `first` on.
    messages: Vec<Option<Told>>,
    first: u32,
    names: ToolNames,
    /// Messages that have a call or a result of that id; a result may carry the id of a call.
    tool_ids: HashMap<(bool, Box<str>), Vec<MessageNumber>>,
    /// Bytes of messages that no turn has accounted for.
    said_since: u64,
}

#[derive(Debug, Clone)]
struct Told {
    grown: Arc<Grown>,
    outline: Arc<Outline>,
    behind: Option<MessageNumber>,
    /// Placeholders up to here.
    redactions: u64,
}

/// What a piece of a log came to.
#[derive(Debug, Default)]
pub struct Taken {
    pub prepared: Vec<Prepared>,
    pub records: Vec<RecordRow>,
    /// Lines of turns that could not be put together, and why.
    pub problems: Vec<(u64, LogError)>,
}

/// What cannot be part of a request.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the message before this one is missing")]
    NoMessage,
    #[error("the message is no JSON")]
    NoJson,
}

impl<'a> LogPreparer<'a> {
    pub fn new(preparer: Preparer<'a>) -> Self {
        LogPreparer {
            preparer,
            messages: Vec::new(),
            first: 0,
            names: ToolNames::default(),
            tool_ids: HashMap::new(),
            said_since: 0,
        }
    }

    /// Takes whatever comes next but for an exchange, which needs no preparing here.
    pub fn take(&mut self, logged: Logged, taken: &mut Taken) {
        match logged {
            Logged::Message(message) => drop(self.message(&message)),
            Logged::Turn(turn) => match self.turn(&turn) {
                Ok(prepared) => taken.prepared.push(prepared),
                Err(error) => taken.problems.push((turn.provenance.line, error)),
            },
            Logged::Record(mut row, said) => {
                row.node = said.and_then(|(message, block)| self.node_of(message, block));
                taken.records.push(*row);
            }
            Logged::Exchange { .. } => {}
        }
    }

    /// Takes the next message. One that cannot be read keeps its number, and so does what stands behind it.
    pub fn message(&mut self, message: &LogMessage) -> Result<MessageNumber, LogError> {
        let number = MessageNumber(self.first + self.messages.len() as u32);
        let told = self.read(message, number);
        self.messages.push(told.as_ref().ok().cloned());
        self.said_since += message.json.len() as u64;
        told.map(|_| number)
    }

    fn read(&mut self, message: &LogMessage, number: MessageNumber) -> Result<Told, LogError> {
        let behind = message.behind.map(|behind| self.told(behind)).transpose()?.cloned();
        let text = str::from_utf8(&message.json).map_err(|_| LogError::NoJson)?;
        let behind_of = |number: MessageNumber| find(&self.messages, self.first, number)?.behind;
        let tool_ids = &mut self.tool_ids;
        let repeats = |said: &Message| is_repetition(said, message.behind, number, behind_of, tool_ids);
        let before = behind.as_ref().map(|told| &*told.grown);
        let grown =
            Grown::new(message.provider, before, text, repeats, &mut self.names).map_err(|_| LogError::NoJson)?;
        let outline = behind
            .as_ref()
            .map(|told| Arc::clone(&told.outline))
            .unwrap_or_default();
        Ok(Told {
            outline: match grown.message() {
                Some(said) => Arc::new(outline.with(said, grown.nodes())),
                None => outline,
            },
            grown: Arc::new(grown),
            behind: message.behind,
            redactions: behind.map_or(0, |told| told.redactions) + count_redactions(&message.json),
        })
    }

    fn told(&self, number: MessageNumber) -> Result<&Told, LogError> {
        find(&self.messages, self.first, number).ok_or(LogError::NoMessage)
    }

    /// Lets go of what came so far: nothing that follows stands behind it. Numbers go on.
    pub fn forget_messages(&mut self) {
        self.first += self.messages.len() as u32;
        self.names = ToolNames::default();
        self.tool_ids.clear();
        self.messages.clear();
    }

    /// The node behind a block of a message.
    pub fn node_of(&self, message: MessageNumber, block: usize) -> Option<NodeHash> {
        Some(self.told(message).ok()?.grown.node_of(block))
    }

    /// A turn, ready to be stored.
    pub fn turn(&mut self, turn: &LogTurn) -> Result<Prepared, LogError> {
        let asked = turn.asked.map(|asked| self.told(asked)).transpose()?;
        let last = asked.map(|told| &*told.grown);
        let mut grown = Grown::request(turn.provider, last, turn.model.as_deref());
        let split = std::mem::take(&mut grown.split);
        let readable = Readable {
            request: Body {
                recipe: Arc::new(SplitRecipe(split)),
                sha256: grown.sha256,
                length: grown.length,
            },
            redactions: asked.map_or(0, |told| told.redactions),
            asked: Asked::Grown(grown, asked.map(|told| Arc::clone(&told.outline)).unwrap_or_default()),
        };
        let raw = raw(turn);
        let mut prepared = self.preparer.readable(&raw, &route(&raw.path), readable);
        // The last line of a stream that was not seen to its end counts what had come by then.
        prepared.exchange.cost_is_estimate |= turn.is_estimate && prepared.exchange.cost_nano_usd.is_some();
        // Outlines of one file share their messages.
        prepared.outline_bytes = std::mem::take(&mut self.said_since);
        Ok(prepared)
    }
}

fn find(messages: &[Option<Told>], first: u32, number: MessageNumber) -> Option<&Told> {
    let place = number.0.checked_sub(first)?;
    messages.get(place as usize)?.as_ref()
}

/// Whether a call or a result in `said` stands in a message before it. Stops at the first repetition, so the ids behind it stay unseen.
fn is_repetition(
    said: &Message,
    behind: Option<MessageNumber>,
    number: MessageNumber,
    behind_of: impl Fn(MessageNumber) -> Option<MessageNumber>,
    tool_ids: &mut HashMap<(bool, Box<str>), Vec<MessageNumber>>,
) -> bool {
    for block in &said.blocks {
        let id = match block {
            Block::ToolUse(call) => (true, call.id.clone()),
            Block::ToolResult(result) => (false, result.tool_use_id.clone()),
            _ => continue,
        };
        let (is_call, Some(id)) = id else { continue };
        let holders = tool_ids.entry((is_call, id)).or_default();
        if holders.iter().any(|holder| stands_before(*holder, behind, &behind_of)) {
            return true;
        }
        holders.push(number);
    }
    false
}

/// Messages are numbered as they come, so the way back from `behind` need not go further than to the one that is looked for.
fn stands_before(
    wanted: MessageNumber,
    behind: Option<MessageNumber>,
    behind_of: impl Fn(MessageNumber) -> Option<MessageNumber>,
) -> bool {
    let mut at = behind;
    while let Some(number) = at.filter(|number| *number >= wanted) {
        if number == wanted {
            return true;
        }
        at = behind_of(number);
    }
    false
}

/// The turn as a recorder would have it, but for the request's body.
fn raw(turn: &LogTurn) -> RawExchange {
    let mut response_headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    response_headers.extend(turn.request_id.iter().map(|id| ("request-id".to_owned(), id.clone())));
    let mut request_headers = turn.hints.clone();
    let project = turn.project.iter();
    request_headers.extend(project.map(|name| ("x-ropewalk-project".to_owned(), name.clone())));
    RawExchange {
        id: turn.id.clone(),
        at: turn.at,
        ended_at: turn.ended_at,
        spawned_at: turn.spawned_at.clone(),
        method: "POST".to_owned(),
        path: path_of(turn.provider, turn.model.as_deref()),
        request_headers,
        request_body: Bytes::new(),
        sent_body: None,
        names: Default::default(),
        status: Some(200),
        response_headers,
        response_body: Some(turn.answer.clone()),
        cut_off: turn.cut_off,
        witness: Witness::default(),
        provenance: Some(turn.provenance.clone()),
    }
}
