//! Just enough of Anthropic's format to read the messages of the fixtures into the model.

use ropewalk_core::json::Node;
use ropewalk_core::model::{Block, Message, Role, ToolContent, ToolInput, ToolResult, ToolUse};

pub(crate) fn message(node: Node<'_>) -> Message {
    let role = match &*node.get_str("role").unwrap() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => Role::System,
    };
    let content = node.get("content").unwrap();
    let blocks = match content.as_str() {
        Some(text) => vec![text_block(&text)],
        None => content.items().map(block).collect(),
    };
    Message {
        role,
        is_string: content.is_string(),
        blocks,
        extra: None,
    }
}

pub(crate) fn text_block(text: &str) -> Block {
    Block::Text {
        text: text.into(),
        extra: None,
    }
}

fn block(node: Node<'_>) -> Block {
    let text = |key: &str| node.get_str(key).unwrap_or_default();
    match &*text("type") {
        "text" => text_block(&text("text")),
        "thinking" => Block::Thinking {
            text: text("thinking").into(),
            kind: "thinking".into(),
            extra: None,
        },
        "tool_use" => Block::ToolUse(ToolUse {
            id: Some(text("id").into()),
            name: text("name").into(),
            input: ToolInput::Json(node.get("input").unwrap().raw().into()),
            extra: None,
        }),
        "tool_result" => Block::ToolResult(ToolResult {
            tool_use_id: Some(text("tool_use_id").into()),
            name: None,
            is_error: false,
            content: tool_content(node.get("content")),
            extra: None,
        }),
        kind => Block::Other {
            kind: kind.into(),
            json: node.raw().into(),
        },
    }
}

fn tool_content(node: Option<Node<'_>>) -> ToolContent {
    match node {
        None => ToolContent::Absent,
        Some(node) => match node.as_str() {
            Some(text) => ToolContent::Text(text.into()),
            None => ToolContent::Blocks {
                blocks: node.items().map(block).collect(),
                json: node.raw().into(),
            },
        },
    }
}
