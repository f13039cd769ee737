//! What one message says.

use ropewalk_core::json::Node;
use ropewalk_store::Micros;

use crate::exported::{seconds, text};
use crate::reader::Sink;
use crate::shape::{Call, CallResult, Input, Media, Part, Source, literal};

/// A message that says something.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) parent: Option<usize>,
    pub(super) kind: Kind,
    pub(super) parts: Vec<Part>,
    pub(super) at: Option<Micros>,
    pub(super) model: Option<String>,
    pub(super) stop_reason: Option<&'static str>,
    pub(super) is_cut_off: bool,
    /// The assistant speaks on behind it.
    pub(super) goes_on: bool,
    /// Somebody else speaks behind it.
    pub(super) is_answered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    System,
    User,
    Assistant,
    Tool,
}

impl Message {
    /// `None` for one that says nothing: placeholders, empty system messages.
    pub(super) fn read(id: &str, message: Node<'_>, parent: Option<usize>, sink: &mut dyn Sink) -> Option<Self> {
        let author = message.get("author");
        let role = author.and_then(|author| author.get_str("role")).unwrap_or_default();
        let content = message.get("content")?;
        let metadata = message.get("metadata");
        let mut kind = match &*role {
            "user" => Kind::User,
            "assistant" => Kind::Assistant,
            "tool" => Kind::Tool,
            "system" => Kind::System,
            other => {
                sink.skipped(&format!("message of role {}", crate::exported::shown(other)));
                return None;
            }
        };
        let content_type = content.get_str("content_type").unwrap_or("text".into());
        let mut parts = said(&content_type, content, sink);
        if content_type.ends_with("_editable_context") {
            // What the user has set for all conversations is a prompt of the system's, whoever sends it.
            kind = Kind::System;
        }
        match kind {
            Kind::Assistant => parts = to_tool(id, message, parts),
            Kind::Tool => parts = from_tool(author, parts),
            Kind::User => parts.extend(metadata.into_iter().flat_map(|metadata| attachments(metadata, content))),
            Kind::System => {}
        }
        if parts.is_empty() {
            return None;
        }
        let finish = metadata.and_then(|metadata| metadata.get("finish_details"));
        let finish = finish.and_then(|finish| finish.get_str("type")).unwrap_or_default();
        let status = message.get_str("status").unwrap_or_default();
        Some(Message {
            id: id.to_owned(),
            parent,
            kind,
            parts,
            at: message.get("create_time").and_then(seconds),
            model: metadata.and_then(|metadata| text(metadata, "model_slug")),
            stop_reason: match &*finish {
                "stop" => Some("stop"),
                "max_tokens" => Some("length"),
                _ => None,
            },
            is_cut_off: finish == "interrupted" || matches!(&*status, "in_progress" | "finished_partial_completion"),
            goes_on: false,
            is_answered: false,
        })
    }

    pub(super) fn has_call(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }
}

/// The content, whoever says it.
fn said(content_type: &str, content: Node<'_>, sink: &mut dyn Sink) -> Vec<Part> {
    let member = |name: &str| content.get(name).filter(is_said).map(|text| text.raw().to_owned());
    match content_type {
        "text" | "multimodal_text" => {
            let parts = content.get("parts").into_iter().flat_map(|parts| parts.items());
            parts.filter_map(|part| piece(part, sink)).collect()
        }
        "code" | "execution_output" | "system_error" | "tether_quote" => {
            member("text").map(Part::Text).into_iter().collect()
        }
        "tether_browsing_display" => {
            let said = member("result").or_else(|| member("summary"));
            said.map(Part::Text).into_iter().collect()
        }
        "thoughts" => {
            let thoughts = content
                .get("thoughts")
                .into_iter()
                .flat_map(|thoughts| thoughts.items());
            let told = thoughts.filter_map(|thought| {
                let said = ["content", "summary"]
                    .iter()
                    .find_map(|name| thought.get(name).filter(is_said));
                said.or(Some(thought).filter(is_said))
            });
            told.map(|text| Part::Thinking(text.raw().to_owned())).collect()
        }
        "reasoning_recap" => member("content").map(Part::Thinking).into_iter().collect(),
        "user_editable_context" => {
            let said = ["user_profile", "user_instructions"]
                .iter()
                .filter_map(|name| member(name));
            said.map(Part::Text).collect()
        }
        "model_editable_context" => member("model_set_context").map(Part::Text).into_iter().collect(),
        other => {
            sink.skipped(&format!("content of type {}", crate::exported::shown(other)));
            Vec::new()
        }
    }
}

fn is_said(node: &Node<'_>) -> bool {
    node.literal().is_some_and(|text| !text.is_empty())
}

/// One of a message's parts: a text, or something with a type.
fn piece(part: Node<'_>, sink: &mut dyn Sink) -> Option<Part> {
    if part.is_string() {
        return is_said(&part).then(|| Part::Text(part.raw().to_owned()));
    }
    let pointer = || text(part, "asset_pointer");
    let content_type = part.get_str("content_type").unwrap_or_default();
    let media_type = match &*content_type {
        "image_asset_pointer" => "image/*",
        "audio_asset_pointer" => "audio/*",
        "audio_transcription" => {
            return part
                .get("text")
                .filter(is_said)
                .map(|text| Part::Text(text.raw().to_owned()));
        }
        // A voice call: the pointers inside it name what was recorded.
        "real_time_user_audio_video_asset_pointer" => {
            let audio = part
                .get("audio_asset_pointer")
                .and_then(|audio| text(audio, "asset_pointer"));
            return audio.map(|pointer| media("audio/*", pointer));
        }
        other => {
            sink.skipped(&format!("part of type {}", crate::exported::shown(other)));
            return None;
        }
    };
    pointer().map(|pointer| media(media_type, pointer))
}

/// Pictures are named by a URL of the service's own, other files by an id; what is in them is not in the list.
fn media(media_type: &str, pointer: String) -> Part {
    let source = match media_type.starts_with("image/") {
        true => Source::Url(pointer),
        false => Source::File(pointer),
    };
    Part::Media(Media {
        media_type: media_type.to_owned(),
        source,
        file_name: None,
    })
}

/// Files that were sent along, but for pictures, which stand among the parts as well.
fn attachments(metadata: Node<'_>, content: Node<'_>) -> Vec<Part> {
    let pointers = content.get("parts").into_iter().flat_map(|parts| parts.items());
    let pointers: Vec<String> = pointers.filter_map(|part| text(part, "asset_pointer")).collect();
    let files = metadata.get("attachments").into_iter().flat_map(|files| files.items());
    let files = files.filter_map(|file| {
        let id = text(file, "id")?;
        let is_shown = pointers.iter().any(|pointer| pointer.rsplit('/').next() == Some(&id));
        (!is_shown).then(|| {
            Part::Media(Media {
                media_type: text(file, "mime_type").unwrap_or_default(),
                source: Source::File(id),
                file_name: text(file, "name").as_deref().map(literal),
            })
        })
    });
    files.collect()
}

/// What the assistant says to a tool is a call of it, named after the message: the export has no other name for it.
fn to_tool(id: &str, message: Node<'_>, parts: Vec<Part>) -> Vec<Part> {
    let Some(tool) = text(message, "recipient").filter(|recipient| recipient != "all") else {
        return parts;
    };
    let (texts, mut others): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| matches!(part, Part::Text(_)));
    let said = texts.iter().find_map(|part| match part {
        Part::Text(text) => ropewalk_core::json::Doc::parse_str(text).ok()?.root().to_text(),
        _ => None,
    });
    others.push(Part::Call(Call {
        id: Some(literal(id)),
        name: literal(&tool),
        input: Input::of_text(&said.unwrap_or_default()),
    }));
    others
}

fn from_tool(author: Option<Node<'_>>, parts: Vec<Part>) -> Vec<Part> {
    let mut result = CallResult {
        id: None,
        name: author.and_then(|author| text(author, "name")).as_deref().map(literal),
        text: None,
        media: Vec::new(),
        is_error: false,
    };
    let mut texts = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text),
            Part::Media(file) => result.media.push(file),
            Part::Thinking(_) | Part::Call(_) | Part::Result(_) => {}
        }
    }
    result.text = crate::shape::joined(texts.iter(), "\n");
    match (&result.text, &result.media[..]) {
        (None, []) => Vec::new(),
        _ => vec![Part::Result(result)],
    }
}
