//! Anthropic Messages: the answer around its blocks.

use ropewalk_core::json::Node;
use ropewalk_core::model::{Block, Provider, Response};

use super::Decoded;
use crate::cut::Texts;
use crate::members::{boxed, present};
use crate::{anthropic, usage};

pub(crate) fn decode(message: Node<'_>) -> Decoded {
    let content = message.get("content");
    let is_message = content.is_some_and(|c| c.is_array());
    let response = Response {
        id: boxed(message, "id"),
        model: boxed(message, "model"),
        blocks: content.into_iter().flat_map(|c| c.items()).map(decode_block).collect(),
        stop_reason: boxed(message, "stop_reason"),
        // A token count is a body too, but nobody pays for what it counts.
        usage: present(message, "usage").map(|u| usage::read(Provider::Anthropic, u)),
        complete: is_message || message.get("input_tokens").is_some(),
        ..Response::default()
    };
    response.into()
}

pub(crate) fn decode_block(block: Node<'_>) -> Block {
    anthropic::block(block, &Texts::default())
}
