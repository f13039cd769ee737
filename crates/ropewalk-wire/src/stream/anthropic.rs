//! Anthropic Messages: blocks by index, each started, grown by deltas and stopped.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, Provider, ToolInput};

use super::growing::Growing;
use super::{FinishedToolUse, Head};
use crate::members::{boxed, present};
use crate::response::anthropic::decode_block;
use crate::response::error_of;
use crate::usage;

/// Deltas of kinds nobody knows are kept in this member of their block, as they came.
const UNKNOWN_DELTAS: &str = "deltas";

#[derive(Debug, Default)]
pub(super) struct State {
    blocks: BTreeMap<u64, OpenBlock>,
    /// The usage of the start with that of the deltas over it: the last value of each member.
    usage: Option<Growing>,
}

#[derive(Debug)]
pub(crate) struct OpenBlock {
    json: Growing,
    /// Literal of the input's JSON text so far.
    input: Option<Growing>,
    /// Set when the block has stopped: it is decoded once.
    decoded: Option<Block>,
}

impl State {
    pub(super) fn event(&mut self, event: Node<'_>, head: &mut Head) {
        let kind = event.get_str("type").unwrap_or_default();
        match &*kind {
            "message_start" => self.start(event, head),
            "content_block_start" => {
                if let (Some(index), Some(block)) = (index_of(event), event.get("content_block")) {
                    self.blocks.insert(index, OpenBlock::start(block));
                }
            }
            "content_block_delta" => {
                if let (Some(index), Some(delta)) = (index_of(event), event.get("delta"))
                    && let Some(block) = self.blocks.get_mut(&index)
                {
                    block.delta(delta);
                }
            }
            "content_block_stop" => {
                if let Some(block) = index_of(event).and_then(|index| self.blocks.get_mut(&index)) {
                    block.stop(head);
                }
            }
            "message_delta" => {
                let reason = event.get("delta").and_then(|delta| boxed(delta, "stop_reason"));
                head.stop_reason = reason.or(head.stop_reason.take());
                self.merge_usage(event, head);
            }
            "message_stop" => head.terminal = true,
            "error" => head.error = present(event, "error").map(|error| error_of(error, "error")),
            // `ping`, and whatever comes later.
            _ => {}
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        self.blocks.values().map(OpenBlock::block).collect()
    }

    fn start(&mut self, event: Node<'_>, head: &mut Head) {
        let Some(message) = event.get("message") else {
            return;
        };
        head.id = boxed(message, "id");
        head.model = boxed(message, "model");
        head.stop_reason = boxed(message, "stop_reason");
        self.merge_usage(message, head);
        let content = message.get("content").into_iter().flat_map(|content| content.items());
        for (index, block) in (0..).zip(content) {
            self.blocks.insert(index, OpenBlock::start(block));
        }
    }

    fn merge_usage(&mut self, holder: Node<'_>, head: &mut Head) {
        let Some(usage) = present(holder, "usage") else {
            return;
        };
        let merged = self.usage.get_or_insert_with(Growing::null);
        for (key, value) in usage.members() {
            let key = key.as_str().unwrap_or_default();
            if !value.is_null()
                && let Some(member) = merged.member(&key)
            {
                *member = Growing::of(value);
            }
        }
        let json = merged.to_json();
        let doc = Doc::parse_str(&json).ok();
        head.usage = doc.map(|doc| usage::read(Provider::Anthropic, doc.root()));
    }
}

fn index_of(event: Node<'_>) -> Option<u64> {
    event.get("index")?.as_u64()
}

impl OpenBlock {
    pub(crate) fn start(block: Node<'_>) -> Self {
        OpenBlock {
            json: Growing::of(block),
            input: None,
            decoded: None,
        }
    }

    pub(crate) fn delta(&mut self, delta: Node<'_>) {
        self.decoded = None;
        let kind = delta.get_str("type").unwrap_or_default();
        // (member of the delta, member of the block)
        let (from, to) = match &*kind {
            "text_delta" => ("text", "text"),
            "thinking_delta" => ("thinking", "thinking"),
            "signature_delta" => ("signature", "signature"),
            "citations_delta" => ("citation", "citations"),
            "compaction_delta" => ("content", "content"),
            "input_json_delta" => ("partial_json", "input"),
            _ => ("", UNKNOWN_DELTAS),
        };
        if to == "input" {
            let literal = delta.get(from).and_then(|part| part.literal());
            self.input
                .get_or_insert_with(Growing::null)
                .append(literal.unwrap_or_default());
            return;
        }
        let (Some(member), value) = (self.json.member(to), delta.get(from)) else {
            return;
        };
        match (to, value) {
            ("citations", Some(citation)) => member.push(citation),
            // The signature comes in one piece.
            ("signature", Some(signature)) => *member = Growing::of(signature),
            (UNKNOWN_DELTAS, _) => member.push(delta),
            (_, Some(text)) => member.merge(text),
            (_, None) => {}
        }
    }

    fn stop(&mut self, head: &mut Head) {
        let block = self.build(true);
        if self.decoded.is_none()
            && let Block::ToolUse(call) = &block
        {
            head.finished.push(FinishedToolUse::of(call));
        }
        self.decoded = Some(block);
    }

    fn block(&self) -> Block {
        self.decoded.clone().unwrap_or_else(|| self.build(false))
    }

    /// The block as a body would hold it.
    pub(crate) fn to_json(&self) -> String {
        let text = self.input_text();
        self.json_with(&text, Doc::parse_str(&text).ok().as_ref())
    }

    fn input_text(&self) -> String {
        let input = self.input.as_ref().map(|literal| decode_literal(&literal.to_json()));
        input.unwrap_or_default()
    }

    fn json_with(&self, input: &str, parsed: Option<&Doc<'_>>) -> String {
        let mut json = self.json.clone();
        // A block without input deltas keeps the input it started with.
        if !input.is_empty()
            && let Some(member) = json.member("input")
        {
            *member = match parsed {
                Some(doc) => Growing::of(doc.root()),
                None => self.input.clone().unwrap_or_else(Growing::null),
            };
        }
        json.to_json()
    }

    /// The block as a body would hold it, decoded as a body is.
    fn build(&self, stopped: bool) -> Block {
        let text = self.input_text();
        let parsed = Doc::parse_str(&text).ok();
        let json = self.json_with(&text, parsed.as_ref());
        let Ok(doc) = Doc::parse_str(&json) else {
            return Block::Other {
                kind: "".into(),
                json: json.into(),
            };
        };
        let mut block = decode_block(doc.root());
        if let Block::ToolUse(call) = &mut block
            && parsed.is_none()
            && !(stopped && text.is_empty())
        {
            call.input = ToolInput::Text(text.into());
        }
        block
    }
}

fn decode_literal(json: &str) -> String {
    let doc = Doc::parse_str(json).ok();
    doc.and_then(|doc| doc.root().to_text()).unwrap_or_default()
}
