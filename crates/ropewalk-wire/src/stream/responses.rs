//! OpenAI Responses: items by output index, grown by deltas, replaced by what the `done` events say.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, Response};

use super::growing::Growing;
use super::{FinishedToolUse, Head};
use crate::members::{boxed, present};
use crate::response::error_of;
use crate::response::responses::{decode_item, head as read_head, read_usage};

#[derive(Debug, Default)]
pub(super) struct State {
    items: BTreeMap<u64, Item>,
}

#[derive(Debug)]
struct Item {
    json: Growing,
    /// Id and blocks, once the item is done.
    decoded: Option<(Option<Box<str>>, Vec<Block>)>,
    reported: bool,
}

impl State {
    pub(super) fn event(&mut self, event: Node<'_>, head: &mut Head) {
        let kind = event.get_str("type").unwrap_or_default();
        match &*kind {
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(event, head);
                head.terminal = true;
                return;
            }
            "error" => {
                // The event is the error itself, or holds it.
                head.error = Some(error_of(present(event, "error").unwrap_or(event), "error"));
                return;
            }
            _ => {}
        }
        if let Some(response) = present(event, "response") {
            head.id = boxed(response, "id").or(head.id.take());
            head.model = boxed(response, "model").or(head.model.take());
        }
        let Some(index) = event.get("output_index").and_then(|i| i.as_u64()) else {
            return;
        };
        let item = self.items.entry(index).or_insert_with(Item::new);
        match &*kind {
            "response.output_item.added" => item.replace(event),
            "response.output_item.done" => {
                item.replace(event);
                item.finish(head);
            }
            _ => item.grow(&kind, event, head),
        }
    }

    /// Fills in the blocks and the ids of the items they came from.
    pub(super) fn fill(&self, response: &mut Response) {
        for item in self.items.values() {
            let (id, blocks) = item.content();
            if let Some(id) = id {
                response.item_ids.push((id, response.blocks.len()));
            }
            response.blocks.extend(blocks);
        }
    }

    fn end(&mut self, event: Node<'_>, head: &mut Head) {
        let Some(body) = present(event, "response") else {
            return;
        };
        let output: Vec<Node<'_>> = body.get("output").into_iter().flat_map(|o| o.items()).collect();
        // Some servers end with an empty output; what was streamed then stands.
        if !output.is_empty() {
            let reported: Vec<u64> = self.reported();
            self.items.clear();
            for (index, json) in (0..).zip(output) {
                let mut item = Item::new();
                item.json = Growing::of(json);
                item.reported = reported.contains(&index);
                self.items.insert(index, item);
            }
        }
        for item in self.items.values_mut() {
            item.finish(head);
        }
        let mut whole = Response::default();
        self.fill(&mut whole);
        let said = read_head(body);
        head.id = said.id.or(head.id.take());
        head.model = said.model.or(head.model.take());
        head.stop_reason = said.stop_reason;
        head.error = said.error.or(head.error.take());
        head.usage = read_usage(body, &whole.blocks);
    }

    fn reported(&self) -> Vec<u64> {
        let reported = self.items.iter().filter(|(_, item)| item.reported);
        reported.map(|(index, _)| *index).collect()
    }
}

impl Item {
    fn new() -> Self {
        Item {
            json: Growing::null(),
            decoded: None,
            reported: false,
        }
    }

    fn replace(&mut self, event: Node<'_>) {
        if let Some(item) = event.get("item") {
            self.json = Growing::of(item);
            self.decoded = None;
        }
    }

    /// The item is whole: decode it once, and name the call if it is one.
    fn finish(&mut self, head: &mut Head) {
        let content = self.content();
        if let [Block::ToolUse(call)] = &content.1[..]
            && !std::mem::replace(&mut self.reported, true)
        {
            head.finished.push(FinishedToolUse::of(call));
        }
        self.decoded = Some(content);
    }

    fn content(&self) -> (Option<Box<str>>, Vec<Block>) {
        if let Some(decoded) = &self.decoded {
            return decoded.clone();
        }
        let json = self.json.to_json();
        match Doc::parse_str(&json) {
            Ok(doc) if doc.root().is_object() => (boxed(doc.root(), "id"), decode_item(doc.root())),
            _ => (None, Vec::new()),
        }
    }

    /// An event about a piece of the item: `response.<piece>.delta`, `.done` or `.added`.
    fn grow(&mut self, kind: &str, event: Node<'_>, head: &mut Head) {
        self.decoded = None;
        let name = kind.strip_prefix("response.").unwrap_or(kind);
        let Some((piece, step)) = name.rsplit_once('.') else {
            return;
        };
        // (list of parts, type of the part, member that grows)
        let (list, part_type, member) = match piece {
            "content_part" => ("content", "", ""),
            "output_text" => ("content", "output_text", "text"),
            "refusal" => ("content", "refusal", "refusal"),
            "reasoning_text" => ("content", "reasoning_text", "text"),
            "output_text.annotation" => ("content", "output_text", "annotations"),
            "reasoning_summary_part" => ("summary", "", ""),
            "reasoning_summary_text" => ("summary", "summary_text", "text"),
            "function_call_arguments" | "mcp_call_arguments" => ("", "", "arguments"),
            "custom_tool_call_input" => ("", "", "input"),
            "code_interpreter_call_code" => ("", "", "code"),
            // A piece nobody knows grows in a member of its own name.
            other => ("", "", other),
        };
        let place = if list.is_empty() {
            Some(&mut self.json)
        } else {
            let index = event
                .get(&format!("{list}_index"))
                .and_then(|i| i.as_u64())
                .unwrap_or(0);
            self.json.member(list).and_then(|list| list.element(index))
        };
        if let Some(place) = place {
            if !part_type.is_empty() {
                place.set_if_missing("type", part_type);
            }
            apply(place, member, step, event);
        }
        if step == "done" && matches!(member, "arguments" | "input") {
            self.finish(head);
        }
    }
}

/// One step of a piece: a delta grows `member`, the end or the start of a piece sets it.
fn apply(place: &mut Growing, member: &str, step: &str, event: Node<'_>) {
    if let (true, Some(part)) = (member.is_empty(), event.get("part")) {
        *place = Growing::of(part);
        return;
    }
    match step {
        "delta" => {
            if let (Some(delta), Some(member)) = (event.get("delta"), place.member(member)) {
                member.merge(delta);
            }
        }
        "done" => {
            if let (Some(whole), Some(member)) = (event.get(member), place.member(member)) {
                *member = Growing::of(whole);
            }
        }
        "added" => {
            if let (Some(annotation), Some(member)) = (event.get("annotation"), place.member(member)) {
                member.push(annotation);
            }
        }
        _ => {}
    }
}
