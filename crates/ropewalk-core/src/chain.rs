//! The chain: every block hashed after everything before it.
//!
//! A *value* is one block with its role; a *node* is a value after its predecessors. The exact bytes are
//! in docs/hashing.md and frozen by golden values. Every field is either of fixed width or preceded by its length,
//! and every kind has its own letter, so no two different sequences meet by concatenation.
//!
//! Outside the chain, on purpose: the system prompt, tools, model, options, messages of role system,
//! thinking, and blocks that normalise to nothing.

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

use crate::hash::{NodeHash, ValueHash, sha256};
use crate::json::{self, Doc};
use crate::model::{
    Block, ChainStart, Media, MediaKind, MediaSource, Message, Role, ToolContent, ToolInput, ToolResult, ToolUse,
};
use crate::normalise::normalise;

const VALUE_TAG: &[u8] = b"v1:value\0";
const NODE_TAG: &[u8] = b"v1:node\0";
const ROOT_TAG: &[u8] = b"v1:root\0";

/// A block's place in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub value: ValueHash,
    pub node: NodeHash,
}

/// The node before the first block.
pub fn root(start: &ChainStart) -> NodeHash {
    let mut bytes = Bytes::tagged(ROOT_TAG);
    match start {
        ChainStart::Root => bytes.field(b""),
        ChainStart::Previous(id) => bytes.field(format!("prev:{id}").as_bytes()),
    }
    NodeHash(bytes.sha256())
}

/// The node of a value after `parent`.
pub fn node(parent: NodeHash, value: ValueHash) -> NodeHash {
    let mut hasher = Sha256::new();
    hasher.update(NODE_TAG);
    hasher.update(parent.0);
    hasher.update(value.0);
    NodeHash(hasher.finalize().into())
}

/// SHA-256 of a text's normalised form. `known` is the digest of the text itself, if the caller has it
/// already: most texts are normal as they are, and their digest also names their part.
pub fn text_digest(text: &str, known: Option<[u8; 32]>) -> Option<[u8; 32]> {
    let normal = normalise(text);
    if normal.is_empty() {
        return None;
    }
    match known {
        Some(digest) if normal.len() == text.len() => Some(digest),
        _ => Some(sha256(normal.as_bytes())),
    }
}

/// The value of a block, or `None` if it has no place in the chain. `known` gives the SHA-256 of texts
/// that were hashed before.
pub fn value(role: Role, block: &Block, known: &dyn Fn(&str) -> Option<[u8; 32]>) -> Option<ValueHash> {
    if role == Role::System {
        return None;
    }
    let mut bytes = Bytes::tagged(VALUE_TAG);
    bytes.byte(if role == Role::Assistant { b'a' } else { b'u' });
    match block {
        Block::Thinking { .. } => return None,
        Block::Text { text, .. } => {
            bytes.byte(b't');
            bytes.fixed(&text_digest(text, known(text))?);
        }
        Block::ToolUse(call) => tool_use(call, &mut bytes),
        Block::ToolResult(result) => tool_result(result, known, &mut bytes),
        Block::Media(media) => {
            bytes.byte(b'm');
            media_fields(media, &mut bytes);
        }
        Block::Reference { id } => {
            bytes.byte(b'i');
            bytes.field(id.as_bytes());
        }
        Block::Other { json, .. } => {
            bytes.byte(b'o');
            bytes.fixed(&sha256(canonical(json).as_bytes()));
        }
    }
    Some(ValueHash(bytes.sha256()))
}

/// Whether a block has a place in the chain: whether [`value`] gives one, without hashing.
pub fn has_value(role: Role, block: &Block) -> bool {
    let is_said = match block {
        Block::Thinking { .. } => false,
        // A text that does not begin with a reminder is not empty without its reminders.
        Block::Text { text, .. } => {
            text.trim_start()
                .starts_with(|first: char| first.is_ascii_alphanumeric())
                || !normalise(text).is_empty()
        }
        Block::ToolUse(_) | Block::ToolResult(_) | Block::Media(_) | Block::Reference { .. } | Block::Other { .. } => {
            true
        }
    };
    is_said && role != Role::System
}

/// Appends the nodes of a message behind `parent`; returns the last one.
pub fn extend(parent: NodeHash, message: &Message, nodes: &mut Vec<NodeHash>) -> NodeHash {
    let mut last = parent;
    for block in &message.blocks {
        if let Some(value) = value(message.role, block, &|_| None) {
            last = node(last, value);
            nodes.push(last);
        }
    }
    last
}

fn tool_use(call: &ToolUse, bytes: &mut Bytes) {
    match &call.id {
        Some(id) => {
            bytes.byte(b'u');
            bytes.field(id.as_bytes());
            bytes.field(call.name.as_bytes());
        }
        None => {
            bytes.byte(b'c');
            bytes.field(call.name.as_bytes());
            let input = match &call.input {
                ToolInput::Json(json) => canonical(json),
                ToolInput::Text(text) => text.to_string(),
            };
            bytes.fixed(&sha256(input.as_bytes()));
        }
    }
}

fn tool_result(result: &ToolResult, known: &dyn Fn(&str) -> Option<[u8; 32]>, bytes: &mut Bytes) {
    bytes.byte(b'r');
    match (&result.tool_use_id, &result.name) {
        (Some(id), _) => {
            bytes.byte(b'i');
            bytes.field(id.as_bytes());
        }
        (None, name) => {
            bytes.byte(b'n');
            bytes.field(name.as_deref().unwrap_or_default().as_bytes());
        }
    }
    bytes.byte(u8::from(result.is_error));
    let text = |text: &str, bytes: &mut Bytes| {
        if let Some(digest) = text_digest(text, known(text)) {
            bytes.byte(b't');
            bytes.fixed(&digest);
        }
    };
    match &result.content {
        ToolContent::Absent => {}
        ToolContent::Text(content) => text(content, bytes),
        ToolContent::Blocks { blocks, .. } => {
            for block in blocks {
                match block {
                    Block::Text { text: content, .. } => text(content, bytes),
                    Block::Media(media) => {
                        bytes.byte(b'm');
                        media_fields(media, bytes);
                    }
                    Block::Other { json, .. } => {
                        bytes.byte(b'o');
                        bytes.fixed(&sha256(canonical(json).as_bytes()));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn media_fields(media: &Media, bytes: &mut Bytes) {
    bytes.byte(match media.kind {
        MediaKind::Image => b'i',
        MediaKind::Document => b'd',
        MediaKind::Audio => b'a',
    });
    bytes.field(media.media_type.as_deref().unwrap_or_default().as_bytes());
    match &media.source {
        MediaSource::Base64(data) => match base64::engine::general_purpose::STANDARD.decode(data.as_bytes()) {
            Ok(decoded) => {
                bytes.byte(b'd');
                bytes.fixed(&sha256(&decoded));
            }
            Err(_) => {
                bytes.byte(b'b');
                bytes.fixed(&sha256(data.as_bytes()));
            }
        },
        MediaSource::Text(text) => {
            bytes.byte(b't');
            bytes.fixed(&sha256(normalise(text).as_bytes()));
        }
        MediaSource::Url(url) => {
            bytes.byte(b'u');
            bytes.field(url.as_bytes());
        }
        MediaSource::FileId(id) => {
            bytes.byte(b'f');
            bytes.field(id.as_bytes());
        }
        MediaSource::Missing => {
            bytes.byte(b'-');
            bytes.field(media.extra.as_deref().map(canonical).unwrap_or_default().as_bytes());
        }
    }
}

/// Sorted JSON without `cache_control`, which moves every turn. Decoders have already taken out what a
/// format changes between turns (Responses ids, status, nulls).
fn canonical(json: &str) -> String {
    match Doc::parse_str(json) {
        Ok(doc) => json::to_sorted(doc.root(), &|key, _| key == "cache_control"),
        Err(_) => json.to_owned(),
    }
}

/// Collects a hash's input. Small inputs stay on one SHA-256 block, which is what the chain's speed is made of.
struct Bytes(Vec<u8>);

impl Bytes {
    fn tagged(tag: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(tag);
        Bytes(bytes)
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn fixed(&mut self, bytes: &[u8; 32]) {
        self.0.extend_from_slice(bytes);
    }

    /// Variable width: length first, as 8 bytes, most significant first.
    fn field(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn sha256(&self) -> [u8; 32] {
        sha256(&self.0)
    }
}
