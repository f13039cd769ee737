//! OpenAI Responses: the output items of an answer.

use ropewalk_core::json::Node;
use ropewalk_core::model::{Block, Message, Provider, Response, Usage};

use super::{Decoded, error_of};
use crate::cut::Texts;
use crate::members::{attach, boxed, present};
use crate::{responses, usage};

pub(crate) fn decode(body: Node<'_>) -> Decoded {
    let mut response = head(body);
    let output = body.get("output");
    for item in output.into_iter().flat_map(|o| o.items()) {
        push_item(item, &mut response);
    }
    response.usage = read_usage(body, &response.blocks);
    response.complete = match body.get_str("status") {
        Some(status) => is_terminal(&status),
        // The answer of the compaction call has no status.
        None => output.is_some_and(|o| o.is_array()),
    };
    response.into()
}

/// The members beside the items, which stream events carry as well.
pub(crate) fn head(body: Node<'_>) -> Response {
    let details = present(body, "incomplete_details");
    let reason = details.and_then(|d| boxed(d, "reason"));
    let status = boxed(body, "status").filter(|status| is_terminal(status));
    Response {
        id: boxed(body, "id"),
        model: boxed(body, "model"),
        stop_reason: reason.or(status),
        error: present(body, "error").map(|error| error_of(error, "failed")),
        ..Response::default()
    }
}

fn is_terminal(status: &str) -> bool {
    matches!(status, "completed" | "incomplete" | "failed")
}

/// Searches are items, not a member of the usage.
pub(crate) fn read_usage(body: Node<'_>, blocks: &[Block]) -> Option<Usage> {
    let mut counted = usage::read(Provider::OpenAiResponses, present(body, "usage")?);
    let is_search = |block: &&Block| matches!(block, Block::Other { kind, .. } if &**kind == "web_search_call");
    counted.web_searches = blocks.iter().filter(is_search).count() as u64;
    Some(counted)
}

pub(crate) fn push_item(item: Node<'_>, response: &mut Response) {
    if let Some(id) = boxed(item, "id") {
        response.item_ids.push((id, response.blocks.len()));
    }
    response.blocks.extend(decode_item(item));
}

/// The blocks of an item. What a message says beside them goes to the first.
pub(crate) fn decode_item(item: Node<'_>) -> Vec<Block> {
    let Message { mut blocks, extra, .. } = responses::message(item, &Texts::default());
    attach(&mut blocks, extra);
    blocks
}
