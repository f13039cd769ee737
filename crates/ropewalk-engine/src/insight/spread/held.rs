//! Where one exchange has a text: its blocks, and the parts that they are stored in.

use std::sync::Arc;

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_core::model::{Block, Message, ToolContent, ToolInput};
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{self, ExchangeRow};
use ropewalk_wire::{Memo, read_request, split_response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Wanted;
use crate::detail::Kept;
use crate::texts::strings_of;
use crate::view::message::{answer_in, answer_message};
use crate::view::{Result, View};

/// Exchanges whose bodies are read at once, and about how many bytes of them.
const TOGETHER_MAX: usize = 64;
const TOGETHER_BYTES_MAX: u64 = 8 << 20;

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

/// Reads exchanges for a text, one after the other.
#[derive(Debug)]
pub(super) struct Reader<'w> {
    wanted: &'w Wanted,
    /// The request that was read last. The next one often repeats it.
    last: Option<Memo>,
}

impl<'w> Reader<'w> {
    pub(super) fn new(wanted: &'w Wanted) -> Self {
        Reader { wanted, last: None }
    }

    /// Where some exchanges have the text, in their order. Turns of one conversation should stand one behind the other.
    pub(super) async fn read<S: Store>(&mut self, view: &View<'_, S>, rows: &[ExchangeRow]) -> Result<Vec<Read>> {
        let mut read = Vec::with_capacity(rows.len());
        let mut rest = rows;
        while !rest.is_empty() {
            let (together, behind) = rest.split_at(together(rest));
            let numbers: Vec<ExchangeNumber> = together.iter().map(|row| row.number).collect();
            let requests = view.store.bodies(view.owner, numbers.clone(), store::Half::Request);
            let requests = requests.await?;
            let answers = view.store.bodies(view.owner, numbers, store::Half::Response).await?;
            for ((row, request), answer) in together.iter().zip(requests).zip(answers) {
                read.push(self.exchange(row, request.unwrap_or_default(), answer));
            }
            rest = behind;
        }
        Ok(read)
    }

    fn exchange(&mut self, row: &ExchangeRow, request: Vec<u8>, answer: Option<Vec<u8>>) -> Read {
        let mut read = Read::default();
        let provider = Kept::of(row).provider(row);
        let request = provider.and_then(|provider| read_request(provider, &request.into(), self.last.as_ref()).ok());
        let Some(request) = request else {
            return read;
        };
        let nodes = request.nodes();
        let mut before = 0;
        for (message, count) in request.messages() {
            let end = before + count;
            let places = nodes.get(before..end).unwrap_or_default();
            add_found(message, before, places, Half::Request, self.wanted, &mut read.found);
            before = end;
        }
        if !read.found.is_empty() {
            read.add_parts(request.split.all_parts(), self.wanted);
        }
        if let Some(body) = answer
            && let Some(answer) = answer_in(row, &body)
        {
            let answer = answer_message(answer);
            let mut places = Vec::new();
            chain::extend(request.input_node(), &answer, &mut places);
            let known = read.found.len();
            add_found(&answer, before, &places, Half::Response, self.wanted, &mut read.found);
            if read.found.len() > known {
                read.add_parts(split_response(&body).all_parts(), self.wanted);
            }
        }
        self.last = Some(request.into_memo());
        read
    }
}

/// How many of some exchanges are read at once, at least one.
fn together(rows: &[ExchangeRow]) -> usize {
    let mut bytes: u64 = 0;
    let fitting = rows.iter().take(TOGETHER_MAX).take_while(|row| {
        bytes = bytes
            .saturating_add(row.request_length)
            .saturating_add(row.response_length.unwrap_or(0));
        bytes <= TOGETHER_BYTES_MAX
    });
    fitting.count().max(1)
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
