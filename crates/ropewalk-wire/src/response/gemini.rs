//! Gemini: the candidates of an answer.

use ropewalk_core::json::Node;
use ropewalk_core::model::{Provider, Response};

use super::{Alternative, Decoded};
use crate::cut::Texts;
use crate::gemini::Parts;
use crate::members::{boxed, present};
use crate::usage;

pub(crate) fn decode(body: Node<'_>) -> Decoded {
    let candidates = body.get("candidates");
    let mut alternatives = Vec::new();
    let mut searches = 0;
    for (position, candidate) in candidates.into_iter().flat_map(|list| list.items()).enumerate() {
        let mut parts = Parts::default();
        parts.push_content(candidate.get("content"), &Texts::default());
        searches += web_searches(candidate);
        alternatives.push(Alternative {
            index: candidate_index(candidate, position),
            blocks: parts.blocks(),
            stop_reason: boxed(candidate, "finishReason"),
        });
    }
    alternatives.sort_by_key(|candidate| candidate.index);
    let blocked = block_reason(body);
    let finished = alternatives.first().is_some_and(|first| first.stop_reason.is_some());
    let response = Response {
        id: boxed(body, "responseId"),
        model: boxed(body, "modelVersion"),
        usage: present(body, "usageMetadata").map(|u| {
            let mut counted = usage::read(Provider::Gemini, u);
            counted.web_searches = searches;
            counted
        }),
        complete: finished || blocked.is_some() || body.get("totalTokens").is_some(),
        stop_reason: blocked,
        ..Response::default()
    };
    Decoded::of_alternatives(response, alternatives)
}

/// A refused prompt has no candidates and no finish reason; this is its end.
pub(crate) fn block_reason(body: Node<'_>) -> Option<Box<str>> {
    boxed(present(body, "promptFeedback")?, "blockReason")
}

pub(crate) fn candidate_index(candidate: Node<'_>, position: usize) -> u64 {
    candidate
        .get("index")
        .and_then(|i| i.as_u64())
        .unwrap_or(position as u64)
}

pub(crate) fn web_searches(candidate: Node<'_>) -> u64 {
    let grounding = present(candidate, "groundingMetadata");
    let queries = grounding.and_then(|g| g.get("webSearchQueries"));
    queries.map_or(0, |list| list.items().count() as u64)
}
