//! What messages say, from the recorded bodies.
//!
//! An answer is read from its own exchange. What users and tools said stands in requests, and a request repeats those before it: the
//! deepest ones are read first, and one is read only if something is still missing that it brought.

use std::collections::{BTreeMap, HashMap, HashSet};

use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::hierarchy::{MessageKind, Part, ToolOutput, extract};
use ropewalk_core::json::{Doc, to_compact_js};
use ropewalk_core::model::{Block, Message, Role, ToolContent, ToolResult};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{Asked, ExchangeRow, PAGE_MAX, Questions};
use ropewalk_store::{Micros, Store};
use serde_json::{Value, json};

use super::Node;
use super::draft::{Brief, Said, Source};
use crate::view::message::{block_json, text_of};
use crate::view::{Result, View};

/// Blocks at the end of a request that are read before all of it is.
const LAST_BLOCKS: [usize; 2] = [256, 4_096];

/// How much of what was said is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Everything,
    /// One line of each message.
    Briefs,
}

impl Amount {
    /// Leaves as much of it as was asked for.
    fn of(self, mut said: Said) -> Said {
        if self == Amount::Briefs {
            said.content = String::new();
            said.data = None;
        }
        said
    }
}

/// An assistant's message: its texts, then a summary of each call.
pub(super) fn said_by_parts(parts: &[Part], blocks: &[Block]) -> Said {
    Said {
        content: extract("", parts, &[]).content,
        data: Some(message_data(Role::Assistant, blocks)),
        is_error: false,
        brief: Brief::of_parts(parts),
    }
}

pub(super) fn message_data<'b>(role: Role, blocks: impl IntoIterator<Item = &'b Block>) -> Value {
    json!({"role": role.name(), "content": blocks.into_iter().map(block_json).collect::<Vec<_>>()})
}

/// The pictures and files that a tool gave back, with the exchange that sent them on to the model: its request has their bytes.
pub(super) fn attached(result: &ToolResult, exchange_id: &str) -> Option<Value> {
    let ToolContent::Blocks { blocks, .. } = &result.content else {
        return None;
    };
    let mut media = blocks
        .iter()
        .filter(|block| matches!(block, Block::Media(_)))
        .peekable();
    media.peek()?;
    let mut data = message_data(Role::User, media);
    data["sent_in"] = json!(exchange_id);
    Some(data)
}

/// The parts of an answer: where the body is the provider's JSON, calls with their members in the order received.
pub(super) fn parts(blocks: &[Block], body: &[u8]) -> Vec<Part> {
    let mut parts = Part::from_blocks(blocks);
    let has_calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
    let doc = if has_calls { Doc::parse(body).ok() } else { None };
    let content = doc.as_ref().and_then(|doc| doc.root().get("content"));
    for raw in content.into_iter().flat_map(|content| content.items()) {
        let id = raw
            .get_str("id")
            .filter(|_| raw.get_str("type").as_deref() == Some("tool_use"));
        let Some(id) = id else { continue };
        for part in &mut parts {
            if let Part::Call(call) = part
                && call.id.as_deref() == Some(&*id)
            {
                call.json = to_compact_js(raw);
            }
        }
    }
    parts
}

impl<S: Store> View<'_, S> {
    /// Reads what these messages say.
    pub(super) async fn fill(
        &self,
        nodes: &mut [Node],
        rows: &HashMap<ExchangeNumber, ExchangeRow>,
        amount: Amount,
    ) -> Result<()> {
        let mut of_answers: BTreeMap<ExchangeNumber, Vec<usize>> = BTreeMap::new();
        let mut wanted: HashMap<NodeHash, Vec<usize>> = HashMap::new();
        for (at, node) in nodes.iter_mut().enumerate() {
            match (node.draft.source, node.draft.answer_of) {
                (Source::Answer | Source::Call(_), Some(number)) => of_answers.entry(number).or_default().push(at),
                (Source::Node(hash), _) => wanted.entry(hash).or_default().push(at),
                _ => node.draft.said = amount.of(std::mem::take(&mut node.draft.said)),
            }
        }
        let answered: Vec<&ExchangeRow> = of_answers.keys().filter_map(|number| rows.get(number)).collect();
        for (row, read) in answered.iter().zip(self.read_answers(&answered).await?) {
            let Some((answer, body)) = read else { continue };
            let places = of_answers.remove(&row.number).unwrap_or_default();
            let parts = parts(&answer.blocks, &body);
            for at in places {
                let draft = &mut nodes[at].draft;
                let said = match draft.source {
                    Source::Call(index) => Said::of_tool(
                        MessageKind::ToolUse,
                        call_json(&parts, draft.tool_use.as_deref(), index),
                    ),
                    _ => said_by_parts(&parts, &answer.blocks),
                };
                draft.said = amount.of(said);
            }
        }
        self.fill_from_requests(nodes, wanted, amount).await
    }

    async fn fill_from_requests(
        &self,
        nodes: &mut [Node],
        mut wanted: HashMap<NodeHash, Vec<usize>>,
        amount: Amount,
    ) -> Result<()> {
        let hashes: Vec<NodeHash> = wanted.keys().copied().collect();
        let ends: HashSet<NodeHash> = hashes.iter().copied().collect();
        // Which nodes each exchange was the first to have.
        let mut brought: HashMap<ExchangeNumber, Vec<NodeHash>> = HashMap::new();
        for page in hashes.chunks(PAGE_MAX) {
            let questions = Questions {
                nodes: page.iter().copied().map(Asked::of).collect(),
                limit: 1,
                ..Questions::default()
            };
            let found = self.store.look_up(self.owner, questions, Micros::MAX).await?;
            for (hash, known) in page.iter().zip(found.nodes) {
                if let Some(known) = known {
                    // The first one may have it in its answer; whoever goes on from there has it in the request.
                    let holder = known.as_input.first().copied().unwrap_or(known.first);
                    brought.entry(holder).or_default().push(*hash);
                }
            }
        }
        let mut rows = self.rows(brought.keys().copied().collect()).await?;
        rows.sort_by_key(|row| (std::cmp::Reverse(row.depth), row.number));
        for row in rows {
            let Some(hashes) = brought.get(&row.number) else {
                continue;
            };
            let is_missing = |wanted: &HashMap<_, _>| hashes.iter().any(|hash| wanted.contains_key(hash));
            // What a page has stands together, most often at the end of the last request that has it.
            for blocks in LAST_BLOCKS {
                if !is_missing(&wanted) {
                    break;
                }
                let Some(ending) = self.decode_last(&row, blocks).await? else {
                    break;
                };
                let said = ending.messages.iter();
                let said = said.map(|placed| (&placed.message, &placed.nodes[..]));
                take_from(said, &row.id, &mut wanted, &ends, nodes, amount);
            }
            if is_missing(&wanted)
                && let Some(read) = self.read_request(&row).await?
            {
                let mut done = 0;
                let said = read.messages().map(|(message, count)| {
                    done += count;
                    (&**message, &read.nodes()[done - count..done])
                });
                take_from(said, &row.id, &mut wanted, &ends, nodes, amount);
            }
        }
        Ok(())
    }
}

fn call_json(parts: &[Part], id: Option<&str>, index: usize) -> String {
    let calls = || {
        parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) => None,
        })
    };
    let by_id = id.and_then(|id| calls().find(|call| call.id.as_deref() == Some(id)));
    let found = by_id.or_else(|| calls().nth(index));
    found.map(|call| call.json.clone()).unwrap_or_default()
}

/// Fills in what messages of a request, each with its nodes, have of what is wanted. `ends` are the nodes where other messages end.
fn take_from<'m>(
    said_in_it: impl Iterator<Item = (&'m Message, &'m [NodeHash])>,
    exchange_id: &str,
    wanted: &mut HashMap<NodeHash, Vec<usize>>,
    ends: &HashSet<NodeHash>,
    nodes: &mut [Node],
    amount: Amount,
) {
    for (message, hashes) in said_in_it {
        if !hashes.iter().any(|hash| wanted.contains_key(hash)) {
            continue;
        }
        // What was said since the last end, as one client may put several records into one message.
        let mut hashes = hashes.iter();
        let mut since: Vec<Block> = Vec::new();
        for block in &message.blocks {
            since.push(block.clone());
            let Some(hash) = chain::value(message.role, block, &|_| None).and_then(|_| hashes.next()) else {
                continue;
            };
            for at in wanted.remove(hash).unwrap_or_default() {
                let draft = &mut nodes[at].draft;
                if let Some(said) = said(draft.record.kind, message.role, block, &since, exchange_id) {
                    draft.said = amount.of(said);
                }
            }
            if ends.contains(hash) && !matches!(block, Block::ToolResult(_)) {
                since.clear();
            }
        }
    }
}

/// `None` where the block cannot be the record's: a record that says nothing ends where the one before it does.
fn said(kind: MessageKind, role: Role, block: &Block, since: &[Block], exchange_id: &str) -> Option<Said> {
    match (kind, role, block) {
        (MessageKind::ToolResult, Role::User, Block::ToolResult(result)) => {
            let output = ToolOutput::from_model(result);
            Some(Said::of_output(output, attached(result, exchange_id)))
        }
        (MessageKind::ToolUse, Role::Assistant, call @ Block::ToolUse(_)) => {
            let parts = Part::from_blocks(std::slice::from_ref(call));
            Some(Said::of_tool(kind, call_json(&parts, None, 0)))
        }
        (MessageKind::User, Role::User, _) => {
            let blocks: Vec<Block> = since
                .iter()
                .filter(|block| !matches!(block, Block::ToolResult(_)))
                .cloned()
                .collect();
            if blocks.is_empty() {
                return None;
            }
            let message = of_blocks(role, blocks);
            let mut said = Said::of_text(text_of(&message));
            said.data = Some(message_data(role, &message.blocks));
            Some(said)
        }
        (MessageKind::Assistant, Role::Assistant, _) => {
            let parts = Part::from_blocks(since);
            Some(said_by_parts(&parts, since))
        }
        _ => None,
    }
}

fn of_blocks(role: Role, blocks: Vec<Block>) -> Message {
    Message {
        role,
        is_string: false,
        blocks,
        extra: None,
    }
}
