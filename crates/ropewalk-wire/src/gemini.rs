//! Gemini generateContent.

use std::sync::Arc;

use ropewalk_core::json::{self, Node};
use ropewalk_core::model::{
    Block, Media, MediaKind, MediaSource, Message, Role, Tool, ToolContent, ToolInput, ToolResult, ToolUse,
};

use crate::cut::Texts;
use crate::members::{boxed, extra, other};

pub(crate) fn message(node: Node<'_>, texts: &Texts) -> Message {
    let role = match node.get_str("role").as_deref() {
        Some("model") => Role::Assistant,
        Some("system") => Role::System,
        _ => Role::User,
    };
    let blocks = if role == Role::Assistant {
        let mut joined = Parts::default();
        joined.push_content(Some(node), texts);
        joined.blocks()
    } else {
        parts(node, texts)
    };
    Message {
        role,
        is_string: false,
        blocks,
        extra: extra(node, &["role", "parts"]),
    }
}

/// The parts of what a user or the system says, each a block.
pub(crate) fn parts(content: Node<'_>, texts: &Texts) -> Vec<Block> {
    let parts = content.get("parts").into_iter().flat_map(|parts| parts.items());
    let one_by_one = parts.flat_map(|part| {
        let mut parts = Parts::default();
        parts.push(part, texts);
        parts.blocks()
    });
    one_by_one.collect()
}

/// The parts of an answer, joined as they come. A stream cuts one text into many parts, a body gives it as one, and a
/// client may replay either; neighbouring texts are therefore one block.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Text {
        is_thought: bool,
        texts: Vec<Arc<str>>,
        extra: Option<Box<str>>,
    },
    Block(Block),
}

impl Parts {
    pub(crate) fn push_content(&mut self, content: Option<Node<'_>>, texts: &Texts) {
        let parts = content.and_then(|content| content.get("parts"));
        for part in parts.into_iter().flat_map(|parts| parts.items()) {
            self.push(part, texts);
        }
    }

    fn push(&mut self, part: Node<'_>, texts: &Texts) {
        let Some(new_text) = part.get("text").and_then(|text| texts.text(text)) else {
            self.pieces.push(Piece::Block(block(part, texts)));
            return;
        };
        let is_new_thought = part.get("thought").and_then(|flag| flag.as_bool()) == Some(true);
        let new_extra = extra(part, &["text", "thought"]);
        // A part with a signature ends its text: what follows is another part even in a body.
        if let Some(Piece::Text {
            is_thought,
            texts,
            extra: extra @ None,
        }) = self.pieces.last_mut()
            && *is_thought == is_new_thought
        {
            texts.push(new_text);
            *extra = new_extra;
            return;
        }
        self.pieces.push(Piece::Text {
            is_thought: is_new_thought,
            texts: vec![new_text],
            extra: new_extra,
        });
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        self.pieces.iter().map(Piece::block).collect()
    }
}

impl Piece {
    fn block(&self) -> Block {
        match self {
            Piece::Block(block) => block.clone(),
            Piece::Text {
                is_thought,
                texts,
                extra,
            } => {
                let text = match &texts[..] {
                    [only] => Arc::clone(only),
                    many => many.concat().into(),
                };
                let extra = extra.clone();
                if *is_thought {
                    Block::Thinking {
                        text,
                        kind: "thought".into(),
                        extra,
                    }
                } else {
                    Block::Text { text, extra }
                }
            }
        }
    }
}

/// A part that is no text.
fn block(node: Node<'_>, texts: &Texts) -> Block {
    let either = |camel: &str, snake: &str| node.get(camel).or_else(|| node.get(snake));
    if let Some(call) = either("functionCall", "function_call") {
        return Block::ToolUse(ToolUse {
            id: boxed(call, "id"),
            name: boxed(call, "name").unwrap_or_default(),
            input: ToolInput::Json(call.get("args").map_or("{}", |args| args.raw()).into()),
            extra: extra(node, &["functionCall", "function_call"]),
        });
    }
    if let Some(result) = either("functionResponse", "function_response") {
        let response = result.get("response");
        return Block::ToolResult(ToolResult {
            tool_use_id: boxed(result, "id"),
            name: boxed(result, "name"),
            is_error: response.is_some_and(|response| response.get("error").is_some()),
            content: response.map_or(ToolContent::Absent, |response| {
                ToolContent::Text(json::to_compact_js(response).into())
            }),
            extra: extra(node, &["functionResponse", "function_response"]),
        });
    }
    // A part of another kind is named by its first member, as `executableCode` is.
    media(node, texts).unwrap_or_else(|| {
        let first = node.members().next();
        other(&first.and_then(|(key, _)| key.as_str()).unwrap_or_default(), node)
    })
}

fn media(node: Node<'_>, texts: &Texts) -> Option<Block> {
    const KNOWN: [&str; 4] = ["inlineData", "inline_data", "fileData", "file_data"];
    let inline = node.get("inlineData").or_else(|| node.get("inline_data"));
    let file = node.get("fileData").or_else(|| node.get("file_data"));
    let holder = inline.or(file)?;
    let member = |camel: &str, snake: &str| boxed(holder, camel).or_else(|| boxed(holder, snake));
    let media_type = member("mimeType", "mime_type");
    let source = match inline {
        Some(inline) => inline
            .get("data")
            .and_then(|data| texts.text(data))
            .map(MediaSource::Base64),
        None => member("fileUri", "file_uri").map(MediaSource::Url),
    };
    let kind = match media_type.as_deref() {
        Some(kind) if kind.starts_with("image/") => MediaKind::Image,
        Some(kind) if kind.starts_with("audio/") => MediaKind::Audio,
        _ => MediaKind::Document,
    };
    Some(Block::Media(Media {
        kind,
        media_type,
        source: source.unwrap_or(MediaSource::Missing),
        extra: extra(node, &KNOWN),
    }))
}

/// One entry of the tool list: its declarations, or the built-in tool it switches on.
pub(crate) fn tools(node: Node<'_>, found: &mut Vec<Arc<Tool>>) {
    let declared = node
        .get("functionDeclarations")
        .or_else(|| node.get("function_declarations"));
    let mut push = |name: Option<Box<str>>, json: Node<'_>| {
        found.push(Arc::new(Tool {
            name: name.unwrap_or_default(),
            json: json.raw().into(),
        }));
    };
    match declared {
        Some(declared) => declared.items().for_each(|tool| push(boxed(tool, "name"), tool)),
        None => push(
            node.members().next().and_then(|(key, _)| key.to_text().map(Box::from)),
            node,
        ),
    }
}
