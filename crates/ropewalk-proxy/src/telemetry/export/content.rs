//! What was said, in the shape of the GenAI conventions.
//!
//! From the store, so it is the redacted text. A request replays its whole conversation; of that the newest messages go with a
//! span, as many as there is room for.

use ropewalk_engine::view::{MessageView, View, ViewError};
use ropewalk_store::Store;
use ropewalk_store::store::ExchangeRow;
use serde_json::{Value, json};

/// Room for either half of an exchange.
const HALF_BYTES_MAX: usize = 64 << 10;

/// Longest single text; the rest of it is `[…]`.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Both as JSON.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
}

impl Content {
    pub(super) async fn read<S: Store>(view: &View<'_, S>, row: &ExchangeRow) -> Result<Self, ViewError> {
        let mut messages = view.messages_of(row).await?;
        let output = messages.pop_if(|last| row.output_node.is_some() && last.role == "assistant");
        Ok(Content {
            input: (!messages.is_empty()).then(|| newest(&messages)),
            output: output.map(|answer| newest(&[answer])),
        })
    }
}

/// The last messages that fit, at least one.
fn newest(messages: &[MessageView]) -> String {
    let mut kept = Vec::new();
    let mut bytes = 0;
    for message in messages.iter().rev() {
        let json = json!({"role": role(message), "parts": parts(message)}).to_string();
        bytes += json.len();
        if bytes > HALF_BYTES_MAX && !kept.is_empty() {
            break;
        }
        kept.push(json);
    }
    kept.reverse();
    format!("[{}]", kept.join(","))
}

fn role(message: &MessageView) -> &str {
    match message.kind {
        "tool_result" => "tool",
        _ => message.role,
    }
}

fn parts(message: &MessageView) -> Vec<Value> {
    /// A message with more is no conversation.
    const PARTS_MAX: usize = 256;
    let mut left = HALF_BYTES_MAX;
    let mut parts = Vec::new();
    for block in message.blocks.iter().take(PARTS_MAX) {
        let part = part(block);
        let bytes = part.to_string().len();
        if bytes > left && !parts.is_empty() {
            parts.push(json!({"type": "omitted"}));
            break;
        }
        left = left.saturating_sub(bytes);
        parts.push(part);
    }
    parts
}

/// A block as [`ropewalk_engine::view::message`] writes it.
fn part(block: &Value) -> Value {
    match block["type"].as_str() {
        Some("text") => json!({"type": "text", "content": cut(&block["text"])}),
        Some("thinking") => json!({"type": "reasoning", "content": cut(&block["text"])}),
        Some("tool_use") => {
            json!({"type": "tool_call", "id": block["id"], "name": cut(&block["name"]), "arguments": bounded(&block["input"])})
        }
        Some("tool_result") => {
            json!({"type": "tool_call_response", "id": block["tool_use_id"], "response": cut(&block["content"])})
        }
        // Pictures and documents are named, not carried.
        Some(kind) => json!({"type": kind, "media_type": block["media_type"]}),
        None => json!({"type": "other"}),
    }
}

/// As it is if it is short, else the beginning of its text.
fn bounded(value: &Value) -> Value {
    let text = value.to_string();
    match text.len() <= TEXT_BYTES_MAX {
        true => value.clone(),
        false => cut(&Value::String(text)),
    }
}

fn cut(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            let kept = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
            Value::String(format!("{kept} […]"))
        }
        _ => value.clone(),
    }
}
