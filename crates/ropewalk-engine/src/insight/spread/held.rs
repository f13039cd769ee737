//! Where one exchange has a text: its blocks, and the parts that they are stored in.

use std::sync::Arc;

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_core::model::{Block, Message, ToolContent, ToolInput};
use ropewalk_store::Store;
use ropewalk_store::store::{self, ExchangeRow};
use ropewalk_wire::split_response;
use serde::Serialize;
use utoipa::ToSchema;

use super::Wanted;
use crate::texts::strings_of;
use crate::view::message::answer_message;
use crate::view::{Result, View};

/// How a provider met a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SeenHalf)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// It was sent it.
    Request,
    /// It said it.
    Response,
    /// It had it from a call that this one refers to.
    Context,
}

impl Half {
    pub fn name(self) -> &'static str {
        match self {
            Half::Request => "request",
            Half::Response => "response",
            Half::Context => "context",
        }
    }
}

/// What an exchange is known to hold.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// Places in the chain of its request and its answer.
    pub(super) blocks: Vec<usize>,
    pub(super) half: Half,
    pub(super) is_certain: bool,
}

/// A block with the text in it.
pub(super) struct Found {
    /// `None` for a block that is in no chain.
    pub(super) place: Option<(usize, NodeHash)>,
    pub(super) said_by: &'static str,
    pub(super) half: Half,
}

/// An exchange that was read for the text.
#[derive(Default)]
pub(super) struct Read {
    pub(super) found: Vec<Found>,
    pub(super) parts: Vec<PartHash>,
}

impl Read {
    pub(super) fn held(&self) -> Option<Held> {
        let is_sent = self.found.iter().any(|found| found.half == Half::Request);
        (!self.found.is_empty()).then(|| Held {
            blocks: self.found.iter().filter_map(|found| Some(found.place?.0)).collect(),
            half: if is_sent { Half::Request } else { Half::Response },
            is_certain: true,
        })
    }
}

impl<S: Store> View<'_, S> {
    pub(super) async fn read_for(&self, row: &ExchangeRow, wanted: &Wanted) -> Result<Read> {
        let mut read = Read::default();
        let Some(request) = self.read_request(row).await? else {
            return Ok(read);
        };
        let nodes = request.nodes();
        let mut before = 0;
        for (message, count) in request.messages() {
            let end = before + count;
            let places = nodes.get(before..end).unwrap_or_default();
            add_found(message, before, places, Half::Request, wanted, &mut read.found);
            before = end;
        }
        if !read.found.is_empty() {
            read.add_parts(request.split.all_parts(), wanted);
        }
        if let Some(answer) = self.read_answer(row).await? {
            let answer = answer_message(answer);
            let mut places = Vec::new();
            chain::extend(request.input_node(), &answer, &mut places);
            let known = read.found.len();
            add_found(&answer, before, &places, Half::Response, wanted, &mut read.found);
            if read.found.len() > known {
                let body = self.store.body(self.owner, row.number, store::Half::Response).await?;
                let split = split_response(&body.unwrap_or_default());
                read.add_parts(split.all_parts(), wanted);
            }
        }
        Ok(read)
    }
}

impl Read {
    fn add_parts<'p>(&mut self, parts: impl Iterator<Item = &'p ropewalk_core::part::Part>, wanted: &Wanted) {
        let holding = parts.filter(|part| wanted.is_in_part(part.as_bytes()));
        self.parts.extend(holding.map(|part| part.hash));
    }
}

/// Adds the blocks of a message that hold the text; `places` are the nodes of those that are in the chain.
fn add_found(
    message: &Message,
    before: usize,
    places: &[NodeHash],
    half: Half,
    wanted: &Wanted,
    found: &mut Vec<Found>,
) {
    let mut at = 0;
    for block in &message.blocks {
        let is_chained = chain::has_value(message.role, block);
        if let Some(said_by) = holds(message, block, wanted) {
            let node = places.get(at).filter(|_| is_chained);
            found.push(Found {
                place: node.map(|node| (before + at, *node)),
                said_by,
                half,
            });
        }
        at += usize::from(is_chained);
    }
}

/// Who says the text in a block, if anybody does.
fn holds(message: &Message, block: &Block, wanted: &Wanted) -> Option<&'static str> {
    let is_in = |text: &Arc<str>| wanted.is_in(text);
    let (is_held, said_by) = match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => (is_in(text), message.role.name()),
        Block::ToolUse(call) => match &call.input {
            ToolInput::Json(json) => (strings_of(json).iter().any(is_in), "tool_use"),
            ToolInput::Text(text) => (is_in(text), "tool_use"),
        },
        Block::ToolResult(result) => match &result.content {
            ToolContent::Absent => (false, "tool_result"),
            ToolContent::Text(text) => (is_in(text), "tool_result"),
            ToolContent::Blocks { blocks, .. } => {
                let is_text = |block: &Block| matches!(block, Block::Text { text, .. } if is_in(text));
                (blocks.iter().any(is_text), "tool_result")
            }
        },
        Block::Other { json, .. } => (strings_of(json).iter().any(is_in), message.role.name()),
        Block::Media(_) | Block::Reference { .. } => (false, message.role.name()),
    };
    is_held.then_some(said_by)
}
