//! Anthropic Messages.

use ropewalk_core::json::Node;
use ropewalk_core::model::{
    Block, Media, MediaKind, MediaSource, Message, Role, Tool, ToolContent, ToolInput, ToolResult, ToolUse,
};

use crate::cut::Texts;
use crate::members::{blocks, boxed, extra, other};

pub(crate) fn message(node: Node<'_>, texts: &Texts) -> Option<Message> {
    let role = match &*node.get_str("role")? {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        _ => return None,
    };
    let content = node.get("content");
    let is_string = content.is_some_and(|content| content.is_string());
    Some(Message {
        role,
        is_string,
        blocks: content.map(|content| blocks(content, texts, block)).unwrap_or_default(),
        extra: extra(node, &["role", "content"]),
    })
}

pub(crate) fn block(node: Node<'_>, texts: &Texts) -> Block {
    if let Some(text) = texts.text(node) {
        return Block::Text { text, extra: None };
    }
    let kind = node.get_str("type").unwrap_or_default();
    known_block(&kind, node, texts).unwrap_or_else(|| other(&kind, node))
}

/// A block of a type we interpret, if it has the members that make it one.
fn known_block(kind: &str, node: Node<'_>, texts: &Texts) -> Option<Block> {
    Some(match kind {
        "text" => Block::Text {
            text: texts.text(node.get("text")?)?,
            extra: extra(node, &["type", "text"]),
        },
        "thinking" => Block::Thinking {
            text: texts.text(node.get("thinking")?)?,
            kind: kind.into(),
            extra: extra(node, &["type", "thinking"]),
        },
        "redacted_thinking" => Block::Thinking {
            text: texts.text(node.get("data")?)?,
            kind: kind.into(),
            extra: extra(node, &["type", "data"]),
        },
        "tool_use" => Block::ToolUse(ToolUse {
            id: boxed(node, "id"),
            name: boxed(node, "name")?,
            input: ToolInput::Json(node.get("input").map_or("{}", |input| input.raw()).into()),
            extra: extra(node, &["type", "id", "name", "input"]),
        }),
        "tool_result" => Block::ToolResult(ToolResult {
            tool_use_id: boxed(node, "tool_use_id"),
            name: None,
            is_error: node.get("is_error").and_then(|flag| flag.as_bool()).unwrap_or(false),
            content: tool_content(node.get("content"), texts),
            extra: extra(node, &["type", "tool_use_id", "is_error", "content"]),
        }),
        "image" => Block::Media(media(MediaKind::Image, node, texts)),
        "document" => Block::Media(media(MediaKind::Document, node, texts)),
        _ => return None,
    })
}

pub(crate) fn tool_content(content: Option<Node<'_>>, texts: &Texts) -> ToolContent {
    let Some(content) = content.filter(|content| !content.is_null()) else {
        return ToolContent::Absent;
    };
    match texts.text(content) {
        Some(text) => ToolContent::Text(text),
        None if content.is_array() => ToolContent::Blocks {
            blocks: blocks(content, texts, block),
            json: content.raw().into(),
        },
        None => ToolContent::Text(content.raw().into()),
    }
}

fn media(kind: MediaKind, node: Node<'_>, texts: &Texts) -> Media {
    let source = node.get("source");
    let member = |name: &str| source.and_then(|source| source.get(name));
    let source_kind = source.and_then(|source| source.get_str("type")).unwrap_or_default();
    let found = match &*source_kind {
        "base64" => member("data")
            .and_then(|data| texts.text(data))
            .map(MediaSource::Base64),
        "text" => member("data").and_then(|data| texts.text(data)).map(MediaSource::Text),
        "url" => source.and_then(|source| boxed(source, "url")).map(MediaSource::Url),
        "file" => source
            .and_then(|source| boxed(source, "file_id"))
            .map(MediaSource::FileId),
        _ => None,
    };
    let known: &[&str] = if found.is_some() {
        &["type", "source"]
    } else {
        &["type"]
    };
    Media {
        kind,
        media_type: source.and_then(|source| boxed(source, "media_type")),
        source: found.unwrap_or(MediaSource::Missing),
        extra: extra(node, known),
    }
}

pub(crate) fn tool(node: Node<'_>) -> Tool {
    Tool {
        name: boxed(node, "name").or_else(|| boxed(node, "type")).unwrap_or_default(),
        json: node.raw().into(),
    }
}
