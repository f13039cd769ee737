//! Gemini: every chunk is a small answer; parts are appended, counts replaced.

use std::collections::BTreeMap;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, Provider};

use super::growing::Growing;
use super::{FinishedToolUse, Head};
use crate::cut::Texts;
use crate::gemini::Parts;
use crate::members::{boxed, present};
use crate::response::gemini::{block_reason, candidate_index, web_searches};
use crate::response::{Alternative, error_of};
use crate::usage;

#[derive(Debug, Default)]
pub(super) struct State {
    candidates: BTreeMap<u64, Candidate>,
    usage: Option<Growing>,
}

#[derive(Debug, Default)]
struct Candidate {
    parts: Parts,
    finish_reason: Option<Box<str>>,
    web_searches: u64,
}

impl State {
    pub(super) fn event(&mut self, chunk: Node<'_>, head: &mut Head) {
        if let Some(error) = present(chunk, "error") {
            head.error = Some(error_of(error, "error"));
            return;
        }
        head.id = boxed(chunk, "responseId").or(head.id.take());
        head.model = boxed(chunk, "modelVersion").or(head.model.take());
        let candidates = chunk.get("candidates").into_iter().flat_map(|list| list.items());
        for (position, part) in candidates.enumerate() {
            let index = candidate_index(part, position);
            let is_first = self.candidates.keys().next().is_none_or(|first| index <= *first);
            let candidate = self.candidates.entry(index).or_default();
            candidate.parts.push_content(part.get("content"), &Texts::default());
            candidate.web_searches = web_searches(part).max(candidate.web_searches);
            candidate.finish_reason = boxed(part, "finishReason").or(candidate.finish_reason.take());
            if is_first {
                report_calls(part, head);
            }
        }
        let first = self.candidates.values().next();
        let finished = first.and_then(|candidate| candidate.finish_reason.clone());
        head.stop_reason = finished.or_else(|| block_reason(chunk)).or(head.stop_reason.take());
        head.terminal = head.stop_reason.is_some();
        self.count(chunk, head);
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        self.candidates
            .values()
            .next()
            .map(|first| first.parts.blocks())
            .unwrap_or_default()
    }

    pub(super) fn alternatives(&self) -> Vec<Alternative> {
        let others = self.candidates.iter().skip(1);
        let to_alternative = |(index, candidate): (&u64, &Candidate)| Alternative {
            index: *index,
            blocks: candidate.parts.blocks(),
            stop_reason: candidate.finish_reason.clone(),
        };
        others.map(to_alternative).collect()
    }

    /// Chunks repeat the counts, the early ones without the members that come last.
    fn count(&mut self, chunk: Node<'_>, head: &mut Head) {
        if let Some(counts) = present(chunk, "usageMetadata") {
            let merged = self.usage.get_or_insert_with(Growing::null);
            for (key, value) in counts.members() {
                let key = key.as_str().unwrap_or_default();
                if let Some(member) = merged.member(&key) {
                    *member = Growing::of(value);
                }
            }
        }
        let Some(json) = self.usage.as_ref().map(Growing::to_json) else {
            return;
        };
        head.usage = Doc::parse_str(&json).ok().map(|doc| {
            let mut counted = usage::read(Provider::Gemini, doc.root());
            counted.web_searches = self.candidates.values().map(|c| c.web_searches).sum();
            counted
        });
    }
}

/// A call comes in one part, so it has ended when it is seen.
fn report_calls(candidate: Node<'_>, head: &mut Head) {
    let mut parts = Parts::default();
    parts.push_content(candidate.get("content"), &Texts::default());
    for block in parts.blocks() {
        if let Block::ToolUse(call) = &block {
            head.finished.push(FinishedToolUse::of(call));
        }
    }
}
