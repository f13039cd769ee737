//! OpenAI Chat Completions: the choices of an answer.

use ropewalk_core::json::Node;
use ropewalk_core::model::{Block, Message, Provider, Response};

use super::{Alternative, Decoded};
use crate::cut::Texts;
use crate::members::{attach, boxed, present};
use crate::{chat, usage};

pub(crate) fn decode(body: Node<'_>) -> Decoded {
    let choices = body.get("choices");
    let mut alternatives: Vec<Alternative> = choices
        .into_iter()
        .flat_map(|list| list.items())
        .enumerate()
        .map(|(position, choice)| Alternative {
            index: choice.get("index").and_then(|i| i.as_u64()).unwrap_or(position as u64),
            blocks: choice.get("message").map(decode_message).unwrap_or_default(),
            stop_reason: boxed(choice, "finish_reason"),
        })
        .collect();
    alternatives.sort_by_key(|choice| choice.index);
    let response = Response {
        id: boxed(body, "id"),
        model: boxed(body, "model"),
        usage: present(body, "usage").map(|u| usage::read(Provider::OpenAiChat, u)),
        complete: choices.is_some_and(|list| list.is_array()),
        ..Response::default()
    };
    Decoded::of_alternatives(response, alternatives)
}

/// The blocks of an assistant message. What the message says beside them goes to the first.
pub(crate) fn decode_message(message: Node<'_>) -> Vec<Block> {
    let Message { mut blocks, extra, .. } = chat::assistant(message, &Texts::default());
    attach(&mut blocks, extra);
    blocks
}
