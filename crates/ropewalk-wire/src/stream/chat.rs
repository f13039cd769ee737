//! OpenAI Chat Completions: every chunk is a delta of one or more choices.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, Provider};

use super::growing::Growing;
use super::{FinishedToolUse, Head};
use crate::members::{boxed, present};
use crate::response::chat::decode_message;
use crate::response::{Alternative, error_of};
use crate::usage;

#[derive(Debug, Default)]
pub(super) struct State {
    choices: BTreeMap<u64, Choice>,
}

#[derive(Debug)]
struct Choice {
    message: Growing,
    finish_reason: Option<Box<str>>,
    /// Index of the call whose arguments are being sent; the ones before it have ended.
    open_call: Option<u64>,
    begun_calls: usize,
    reported_calls: usize,
    decoded: Option<Vec<Block>>,
}

impl State {
    pub(super) fn event(&mut self, chunk: Node<'_>, head: &mut Head) {
        if let Some(error) = present(chunk, "error") {
            head.error = Some(error_of(error, "error"));
        }
        if head.id.is_none() {
            head.id = boxed(chunk, "id").filter(|id| !id.is_empty());
        }
        if head.model.is_none() {
            head.model = boxed(chunk, "model").filter(|model| !model.is_empty());
        }
        if let Some(counted) = present(chunk, "usage") {
            head.usage = Some(usage::read(Provider::OpenAiChat, counted));
        }
        let choices = chunk.get("choices").into_iter().flat_map(|choices| choices.items());
        for (position, part) in (0..).zip(choices) {
            let index = part.get("index").and_then(|i| i.as_u64()).unwrap_or(position);
            self.choices.entry(index).or_insert_with(Choice::new).part(part);
        }
        if let Some(first) = self.choices.values_mut().next() {
            head.stop_reason = first.finish_reason.clone();
            first.report(head);
        }
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        self.choices.values().next().map(Choice::blocks).unwrap_or_default()
    }

    pub(super) fn alternatives(&self) -> Vec<Alternative> {
        let others = self.choices.iter().skip(1);
        let to_alternative = |(index, choice): (&u64, &Choice)| Alternative {
            index: *index,
            blocks: choice.blocks(),
            stop_reason: choice.finish_reason.clone(),
        };
        others.map(to_alternative).collect()
    }
}

impl Choice {
    fn new() -> Self {
        Choice {
            message: Growing::null(),
            finish_reason: None,
            open_call: None,
            begun_calls: 0,
            reported_calls: 0,
            decoded: None,
        }
    }

    fn part(&mut self, part: Node<'_>) {
        // Some servers send the whole message in the last chunk; it is no delta then.
        if let Some(delta) = present(part, "delta") {
            self.decoded = None;
            self.message.merge(delta);
            let calls = delta.get("tool_calls").into_iter().flat_map(|calls| calls.items());
            for index in calls.filter_map(|call| call.get("index")?.as_u64()) {
                if self.open_call.is_none_or(|open| index > open) {
                    self.open_call = Some(index);
                    self.begun_calls += 1;
                }
            }
        }
        if let Some(reason) = boxed(part, "finish_reason") {
            self.finish_reason = Some(reason);
            self.decoded = Some(self.build());
        }
    }

    /// Names the calls that have ended: those in front of the open one, or all at the end.
    fn report(&mut self, head: &mut Head) {
        let ended = match &self.finish_reason {
            Some(_) => usize::MAX,
            None => self.begun_calls.saturating_sub(1),
        };
        if ended <= self.reported_calls {
            return;
        }
        let blocks = self.blocks();
        let calls = blocks.iter().filter_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            _ => None,
        });
        for call in calls.take(ended).skip(self.reported_calls) {
            head.finished.push(FinishedToolUse::of(call));
            self.reported_calls += 1;
        }
    }

    fn blocks(&self) -> Vec<Block> {
        self.decoded.clone().unwrap_or_else(|| self.build())
    }

    fn build(&self) -> Vec<Block> {
        let json = self.message.to_json();
        let doc = Doc::parse_str(&json).ok();
        doc.map(|doc| decode_message(doc.root())).unwrap_or_default()
    }
}
