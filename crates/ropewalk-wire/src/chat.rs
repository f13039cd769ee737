//! OpenAI Chat Completions.

use std::sync::Arc;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{
    Block, Media, MediaKind, MediaSource, Message, Role, Tool, ToolContent, ToolInput, ToolResult, ToolUse,
};

use crate::cut::Texts;
use crate::members::{blocks, boxed, extra, other, present};

/// Where servers that speak this format put their reasoning.
const REASONING_MEMBERS: [&str; 2] = ["reasoning_content", "reasoning"];
const ASSISTANT_MEMBERS: [&str; 7] = [
    "role",
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
];

pub(crate) fn message(node: Node<'_>, texts: &Texts) -> Option<Message> {
    match &*node.get_str("role")? {
        "user" => Some(plain(Role::User, node, texts)),
        "assistant" => Some(assistant(node, texts)),
        "system" | "developer" => Some(plain(Role::System, node, texts)),
        "tool" | "function" => Some(tool_result(node, texts)),
        _ => None,
    }
}

fn plain(role: Role, node: Node<'_>, texts: &Texts) -> Message {
    let content = node.get("content");
    Message {
        role,
        is_string: content.is_some_and(|content| content.is_string()),
        blocks: content.map(|content| blocks(content, texts, block)).unwrap_or_default(),
        extra: extra(node, &["role", "content"]),
    }
}

/// An answer, as a client replays it or as the provider gave it: reasoning, text, refusal, calls.
pub(crate) fn assistant(node: Node<'_>, texts: &Texts) -> Message {
    let content = node.get("content");
    let mut found = Vec::new();
    let reasoning = REASONING_MEMBERS.iter().find_map(|name| {
        let text = texts.text(node.get(name)?)?;
        (!text.is_empty()).then_some((*name, text))
    });
    if let Some((kind, text)) = reasoning {
        let kind = kind.into();
        found.push(Block::Thinking {
            text,
            kind,
            extra: None,
        });
    }
    found.extend(content.map(|content| blocks(content, texts, block)).unwrap_or_default());
    let refusal = node
        .get("refusal")
        .filter(|refusal| refusal.literal().is_some_and(|text| !text.is_empty()));
    found.extend(refusal.map(refusal_block));
    let calls = node.get("tool_calls").into_iter().flat_map(|calls| calls.items());
    found.extend(calls.map(|call| tool_call(call, texts)));
    if let Some(call) = present(node, "function_call") {
        found.push(function_call(None, call, extra(call, &["name", "arguments"]), texts));
    }
    // A string beside calls is a block among blocks.
    let is_string = content.is_some_and(|content| content.is_string()) && found.len() <= 1;
    found.retain(|block| !matches!(block, Block::Text { text, .. } if text.is_empty()));
    Message {
        role: Role::Assistant,
        is_string,
        blocks: found,
        extra: extra(node, &ASSISTANT_MEMBERS),
    }
}

pub(crate) fn refusal_block(refusal: Node<'_>) -> Block {
    Block::Other {
        kind: "refusal".into(),
        json: format!("{{\"type\":\"refusal\",\"refusal\":{}}}", refusal.raw()).into(),
    }
}

fn tool_call(node: Node<'_>, texts: &Texts) -> Block {
    match node.get("function").or_else(|| node.get("custom")) {
        Some(function) => function_call(
            boxed(node, "id"),
            function,
            extra(node, &["id", "type", "index", "function", "custom"]),
            texts,
        ),
        None => other(&node.get_str("type").unwrap_or_default(), node),
    }
}

fn function_call(id: Option<Box<str>>, function: Node<'_>, extra: Option<Box<str>>, texts: &Texts) -> Block {
    Block::ToolUse(ToolUse {
        id,
        name: boxed(function, "name").unwrap_or_default(),
        input: match function.get("input") {
            Some(input) => texts
                .text(input)
                .map_or_else(|| arguments("{}".into()), ToolInput::Text),
            None => arguments(
                function
                    .get("arguments")
                    .and_then(|text| texts.text(text))
                    .unwrap_or_default(),
            ),
        },
        extra,
    })
}

/// Arguments are JSON inside a string. What is no JSON (a model's mistake, a stream cut off) stays text.
pub(crate) fn arguments(text: Arc<str>) -> ToolInput {
    if Doc::parse_str(&text).is_ok() {
        ToolInput::Json((&*text).into())
    } else {
        ToolInput::Text(text)
    }
}

fn tool_result(node: Node<'_>, texts: &Texts) -> Message {
    let content = match node.get("content") {
        Some(content) if content.is_array() => ToolContent::Blocks {
            blocks: blocks(content, texts, block),
            json: content.raw().into(),
        },
        Some(content) => texts.text(content).map_or(ToolContent::Absent, ToolContent::Text),
        None => ToolContent::Absent,
    };
    let result = ToolResult {
        tool_use_id: boxed(node, "tool_call_id"),
        name: boxed(node, "name"),
        is_error: false,
        content,
        extra: extra(node, &["role", "content", "tool_call_id", "name"]),
    };
    Message {
        role: Role::User,
        is_string: false,
        blocks: vec![Block::ToolResult(result)],
        extra: None,
    }
}

fn block(node: Node<'_>, texts: &Texts) -> Block {
    let kind = node.get_str("type").unwrap_or_default();
    let known = match &*kind {
        "text" => node
            .get("text")
            .and_then(|text| texts.text(text))
            .map(|text| Block::Text {
                text,
                extra: extra(node, &["type", "text"]),
            }),
        "image_url" => node.get("image_url").map(|image| {
            let url = image.get("url").or(Some(image)).and_then(|url| texts.text(url));
            Block::Media(media_from_url(
                MediaKind::Image,
                &url.unwrap_or_default(),
                extra(node, &["type", "image_url"]),
            ))
        }),
        "input_audio" => node.get("input_audio").map(|audio| {
            Block::Media(Media {
                kind: MediaKind::Audio,
                media_type: boxed(audio, "format").map(|format| format!("audio/{format}").into()),
                source: audio
                    .get("data")
                    .and_then(|data| texts.text(data))
                    .map_or(MediaSource::Missing, MediaSource::Base64),
                extra: extra(node, &["type", "input_audio"]),
            })
        }),
        "file" => node.get("file").map(|file| Block::Media(file_media(file, node, texts))),
        _ => None,
    };
    known.unwrap_or_else(|| other(&kind, node))
}

/// A file given by data, by id, or by URL; `holder` is the block around it.
pub(crate) fn file_media(file: Node<'_>, holder: Node<'_>, texts: &Texts) -> Media {
    const KNOWN: [&str; 6] = ["type", "file", "file_data", "file_id", "file_url", "filename"];
    let extra = extra(holder, &KNOWN);
    if let Some(data) = file.get("file_data").and_then(|data| texts.text(data)) {
        return media_from_url(MediaKind::Document, &data, extra);
    }
    let source = boxed(file, "file_id").map(MediaSource::FileId);
    let source = source.or_else(|| boxed(file, "file_url").map(MediaSource::Url));
    Media {
        kind: MediaKind::Document,
        media_type: None,
        source: source.unwrap_or(MediaSource::Missing),
        extra,
    }
}

/// A `data:` URL is data with its media type; any other is a URL.
pub(crate) fn media_from_url(kind: MediaKind, url: &str, extra: Option<Box<str>>) -> Media {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, data)) => Media {
            kind,
            media_type: Some(media_type.into()),
            source: MediaSource::Base64(data.into()),
            extra,
        },
        None => Media {
            kind,
            media_type: None,
            source: MediaSource::Url(url.into()),
            extra,
        },
    }
}

/// One entry of the tool list; namespaces are opened.
pub(crate) fn tools(node: Node<'_>, found: &mut Vec<Arc<Tool>>) {
    if let Some(inner) = node.get("tools").filter(|inner| inner.is_array()) {
        for tool in inner.items() {
            tools(tool, found);
        }
        return;
    }
    let named = node.get("function").and_then(|function| boxed(function, "name"));
    let name = named.or_else(|| boxed(node, "name")).or_else(|| boxed(node, "type"));
    found.push(Arc::new(Tool {
        name: name.unwrap_or_default(),
        json: node.raw().into(),
    }));
}
