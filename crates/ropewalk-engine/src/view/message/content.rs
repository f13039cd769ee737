//! What a message says, as text and as JSON in one shape for all providers.

use ropewalk_core::hierarchy::tool_summary;
use ropewalk_core::model::{Block, MediaKind, MediaSource, Message, Role, ToolContent, ToolInput};
use ropewalk_core::normalise::normalise;
use serde_json::{Value, json};

/// The text of a message: what was said, then a line for each tool call; for tool results what the tools said.
pub fn text_of(message: &Message) -> String {
    let mut lines: Vec<String> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { text, .. } if message.role == Role::System => lines.push(text.to_string()),
            Block::Text { text, .. } => lines.push(normalise(text).into_owned()),
            Block::ToolResult(result) => lines.push(result_text(&result.content)),
            Block::Media(media) => lines.push(format!("[{}]", media_kind(media.kind))),
            Block::ToolUse(_) | Block::Thinking { .. } | Block::Reference { .. } | Block::Other { .. } => {}
        }
    }
    lines.extend(message.blocks.iter().filter_map(|block| match block {
        Block::ToolUse(call) => Some(tool_summary(&call.name, input_text(&call.input))),
        _ => None,
    }));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

pub(super) fn has_tool_result(message: &Message) -> bool {
    message.blocks.iter().any(|block| matches!(block, Block::ToolResult(_)))
}

pub(super) fn is_only_reminders(block: &Block) -> bool {
    matches!(block, Block::Text { text, .. } if normalise(text).is_empty())
}

/// A block in our own shape, which is close to Anthropic's.
pub fn block_json(block: &Block) -> Value {
    match block {
        Block::Text { text, .. } => json!({"type": "text", "text": &**text}),
        Block::Thinking { text, kind, .. } => json!({"type": "thinking", "kind": &**kind, "text": &**text}),
        Block::ToolUse(call) => {
            let input = match &call.input {
                ToolInput::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(&**text)),
                ToolInput::Text(text) => json!(&**text),
            };
            json!({"type": "tool_use", "id": call.id.as_deref(), "name": &*call.name, "input": input})
        }
        Block::ToolResult(result) => json!({
            "type": "tool_result",
            "tool_use_id": result.tool_use_id.as_deref(),
            "name": result.name.as_deref(),
            "is_error": result.is_error,
            "content": result_text(&result.content),
        }),
        Block::Media(media) => {
            let source = match &media.source {
                MediaSource::Base64(data) => json!({"base64_length": data.len()}),
                MediaSource::Text(text) => json!({"text": &**text}),
                MediaSource::Url(url) => json!({"url": &**url}),
                MediaSource::FileId(id) => json!({"file_id": &**id}),
                MediaSource::Missing => Value::Null,
            };
            json!({"type": media_kind(media.kind), "media_type": media.media_type.as_deref(), "source": source})
        }
        Block::Reference { id } => json!({"type": "reference", "id": &**id}),
        Block::Other { kind, json } => {
            let value: Value = serde_json::from_str(json).unwrap_or(Value::Null);
            json!({"type": "other", "kind": &**kind, "json": value})
        }
    }
}

fn media_kind(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "image",
        MediaKind::Document => "document",
        MediaKind::Audio => "audio",
    }
}

fn input_text(input: &ToolInput) -> &str {
    match input {
        ToolInput::Json(text) => text,
        ToolInput::Text(text) => text,
    }
}

fn result_text(content: &ToolContent) -> String {
    match content {
        ToolContent::Absent => String::new(),
        ToolContent::Text(text) => text.to_string(),
        ToolContent::Blocks { blocks, .. } => {
            let texts = blocks.iter().filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.to_string()),
                Block::Media(media) => Some(format!("[{}]", media_kind(media.kind))),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}
