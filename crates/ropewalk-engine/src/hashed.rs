//! Every hash of a request, and of its response where there is one, without a store.

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, RULES_VERSION, ValueHash, sha256};
use ropewalk_core::model::{Block, Message, Provider, Response, Role};
use ropewalk_core::projections::Projections;
use ropewalk_wire::detect::detect;
use ropewalk_wire::response::decode_response;
use ropewalk_wire::{RequestBody, read_request};
use serde::Serialize;

/// What is hashed: one request, and its response if there is one.
#[derive(Debug)]
pub struct Hashed {
    pub id: Option<String>,
    pub provider: Provider,
    pub request: Bytes,
    /// Status, content type, body.
    pub response: Option<(u16, Option<String>, Vec<u8>)>,
    pub counts_tokens: bool,
}

impl Hashed {
    /// A request alone, in the shape that somebody says or that it has. `None` where it has none that is known.
    pub fn request(body: &Bytes, provider: Option<Provider>) -> Option<Self> {
        Some(Hashed {
            id: None,
            provider: provider.or_else(|| detect(body, None))?,
            request: body.clone(),
            response: None,
            counts_tokens: false,
        })
    }
}

/// The request is no JSON object: such a body is kept as it is and has no hashes but its SHA-256.
#[derive(Debug, thiserror::Error)]
#[error("the request is no JSON object: {0}")]
pub struct Unhashable(String);

#[derive(Debug, Serialize)]
pub struct Hashes {
    v: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    provider: &'static str,
    model: Option<String>,
    rules_version: u32,
    input_node: NodeHash,
    output_node: Option<NodeHash>,
    #[serde(flatten)]
    projections: Projections,
    request_sha256: String,
    response_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<Vec<Link>>,
}

/// One block of the chain.
#[derive(Debug, Serialize)]
struct Link {
    role: &'static str,
    kind: &'static str,
    value: ValueHash,
    node: NodeHash,
}

impl Hashed {
    /// All of them; with the chain, block by block, where that is wanted.
    pub fn hashes(&self, with_chain: bool) -> Result<Hashes, Unhashable> {
        let body = read_request(self.provider, &self.request, None).map_err(|error| Unhashable(error.to_string()))?;
        let response = self.response.as_ref().map(|(status, content_type, bytes)| {
            decode_response(self.provider, *status, content_type.as_deref(), bytes)
        });
        // A token count is no answer.
        let answer = response.filter(|_| !self.counts_tokens);
        let complete = answer
            .as_ref()
            .filter(|answer| answer.complete && answer.error.is_none());
        let projections = Projections::of(&body.request, answer.as_ref());
        let output_node = complete.map(|answer| extend(&body, answer));
        Ok(Hashes {
            v: 1,
            id: self.id.clone(),
            provider: self.provider.name(),
            model: body.request.model.as_deref().map(str::to_owned),
            rules_version: RULES_VERSION,
            input_node: body.input_node(),
            output_node,
            projections,
            request_sha256: hex::encode(sha256(&self.request)),
            response_sha256: self.response.as_ref().map(|(_, _, bytes)| hex::encode(sha256(bytes))),
            chain: with_chain.then(|| links(&body, complete)),
        })
    }
}

fn answer_message(answer: &Response) -> Message {
    Message {
        role: Role::Assistant,
        is_string: false,
        blocks: answer.blocks.clone(),
        extra: None,
    }
}

fn extend(body: &RequestBody, answer: &Response) -> NodeHash {
    chain::extend(body.input_node(), &answer_message(answer), &mut Vec::new())
}

fn links(body: &RequestBody, answer: Option<&Response>) -> Vec<Link> {
    let mut messages: Vec<Message> = body
        .request
        .messages
        .iter()
        .map(|message| (**message).clone())
        .collect();
    messages.extend(answer.map(answer_message));
    let mut last = body.start;
    let mut links = Vec::new();
    for message in &messages {
        for block in &message.blocks {
            let Some(value) = chain::value(message.role, block, &|_| None) else {
                continue;
            };
            last = chain::node(last, value);
            links.push(Link {
                role: message.role.name(),
                kind: kind(block),
                value,
                node: last,
            });
        }
    }
    links
}

fn kind(block: &Block) -> &'static str {
    match block {
        Block::Text { .. } => "text",
        Block::Thinking { .. } => "thinking",
        Block::ToolUse(_) => "tool_use",
        Block::ToolResult(_) => "tool_result",
        Block::Media(_) => "media",
        Block::Reference { .. } => "reference",
        Block::Other { .. } => "other",
    }
}
