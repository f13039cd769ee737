//! OpenAI Responses: a flat list of items, in which a message is only one kind.

use ropewalk_core::json::{self, Node};
use ropewalk_core::model::{
    Block, Media, MediaKind, MediaSource, Message, Role, ToolContent, ToolInput, ToolResult, ToolUse,
};

use crate::chat;
use crate::cut::Texts;
use crate::members::{blocks, boxed, extra};

/// Members that change between the answer and its replay, or after a compaction, and say nothing.
const VOLATILE: [&str; 3] = ["id", "status", "type"];

/// One input or output item as a message.
pub(crate) fn message(node: Node<'_>, texts: &Texts) -> Message {
    let kind = node.get_str("type").unwrap_or("message".into());
    if kind == "message" {
        return message_item(node, texts);
    }
    let (role, block) = item(&kind, node, texts);
    Message {
        role,
        is_string: false,
        blocks: vec![block],
        extra: None,
    }
}

fn message_item(node: Node<'_>, texts: &Texts) -> Message {
    let content = node.get("content");
    Message {
        role: role(node).unwrap_or(Role::User),
        is_string: content.is_some_and(|content| content.is_string()),
        blocks: content.map(|content| blocks(content, texts, block)).unwrap_or_default(),
        extra: extra(node, &["id", "status", "type", "role", "content"]),
    }
}

fn role(node: Node<'_>) -> Option<Role> {
    match &*node.get_str("role")? {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "system" | "developer" => Some(Role::System),
        _ => None,
    }
}

fn item(kind: &str, node: Node<'_>, texts: &Texts) -> (Role, Block) {
    match kind {
        "function_call" | "custom_tool_call" => (Role::Assistant, call(node, texts)),
        "function_call_output" | "custom_tool_call_output" => (Role::User, call_output(node, texts)),
        "reasoning" => (Role::Assistant, reasoning(node, texts)),
        "item_reference" => {
            let id = boxed(node, "id").unwrap_or_default();
            (Role::Assistant, Block::Reference { id })
        }
        _ => (role(node).unwrap_or(Role::Assistant), other(kind, node)),
    }
}

fn call(node: Node<'_>, texts: &Texts) -> Block {
    let text = |name: &str| node.get(name).and_then(|text| texts.text(text));
    Block::ToolUse(ToolUse {
        id: boxed(node, "call_id"),
        name: boxed(node, "name").unwrap_or_default(),
        input: match text("input") {
            Some(input) => ToolInput::Text(input),
            None => chat::arguments(text("arguments").unwrap_or_default()),
        },
        extra: extra(node, &["id", "status", "type", "call_id", "name", "input", "arguments"]),
    })
}

fn call_output(node: Node<'_>, texts: &Texts) -> Block {
    let output = node.get("output");
    Block::ToolResult(ToolResult {
        tool_use_id: boxed(node, "call_id"),
        name: None,
        is_error: false,
        content: match output {
            Some(output) if output.is_array() => ToolContent::Blocks {
                blocks: blocks(output, texts, block),
                json: output.raw().into(),
            },
            Some(output) => texts.text(output).map_or(ToolContent::Absent, ToolContent::Text),
            None => ToolContent::Absent,
        },
        extra: extra(node, &["id", "status", "type", "call_id", "output"]),
    })
}

fn reasoning(node: Node<'_>, texts: &Texts) -> Block {
    let summary = node.get("summary").into_iter().flat_map(|summary| summary.items());
    let spoken: Vec<_> = summary.filter_map(|part| texts.text(part.get("text")?)).collect();
    Block::Thinking {
        text: spoken.join("\n").into(),
        kind: "reasoning".into(),
        extra: extra(node, &["id", "status", "type", "summary"]),
    }
}

/// An item we do not interpret, without what changes between turns.
fn other(kind: &str, node: Node<'_>) -> Block {
    let skip = |key: &str, value: Node<'_>| value.is_null() || VOLATILE.contains(&key) && key != "type";
    Block::Other {
        kind: kind.into(),
        json: json::to_sorted(node, &skip).into(),
    }
}

fn block(node: Node<'_>, texts: &Texts) -> Block {
    let kind = node.get_str("type").unwrap_or_default();
    let text = |name: &str| node.get(name).and_then(|text| texts.text(text));
    let known = match &*kind {
        "input_text" | "output_text" | "text" | "summary_text" => text("text").map(|text| Block::Text {
            text,
            extra: extra(node, &["type", "text"]),
        }),
        "refusal" => node.get("refusal").map(chat::refusal_block),
        "input_image" => Some(Block::Media(image(node, texts))),
        "input_file" => Some(Block::Media(chat::file_media(node, node, texts))),
        _ => None,
    };
    known.unwrap_or_else(|| other(&kind, node))
}

fn image(node: Node<'_>, texts: &Texts) -> Media {
    let extra = extra(node, &["type", "image_url", "file_id"]);
    match node.get("image_url").and_then(|url| texts.text(url)) {
        Some(url) => chat::media_from_url(MediaKind::Image, &url, extra),
        None => Media {
            kind: MediaKind::Image,
            media_type: None,
            source: boxed(node, "file_id").map_or(MediaSource::Missing, MediaSource::FileId),
            extra,
        },
    }
}
