//! A path to be read elsewhere: what was said up to a node, in Anthropic's shape whoever the provider was.

use ropewalk_core::json::{Doc, Style, quote};
use ropewalk_core::model::{Block, Media, MediaKind, MediaSource, Message, Role, ToolContent, ToolInput, Usage};
use ropewalk_store::store::ExchangeRow;
use ropewalk_store::{Micros, Store};

use crate::detail::Kept;
use crate::view::message::starts_over;
use crate::view::{Result, View, ViewError};

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Spoken {
    pub role: Role,
    /// A string or an array of blocks, as JSON.
    pub content: String,
    pub at: Option<Micros>,
    /// Of an answer that was recorded.
    pub answer: Option<Answered>,
    pub project: Option<String>,
    pub client_version: Option<String>,
}

/// What is known of an answer beside what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub exchange: String,
    pub id: Option<String>,
    pub request_id: Option<String>,
    pub model: Option<String>,
    pub stop_reason: Option<String>,
    pub usage: Option<Usage>,
}

/// How far back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To the very beginning.
    Everything,
    /// As far as the model sees: not past a compaction.
    Context,
}

impl<S: Store> View<'_, S> {
    /// What was said up to the answer of an exchange.
    pub async fn transcript(&self, row: &ExchangeRow, reach: Reach) -> Result<Vec<Spoken>> {
        let link = self.find_link(row.number).await?;
        let link = link.ok_or_else(|| ViewError::NotLinked { id: row.id.clone() })?;
        let path = self.path_to(link).await?;
        let first = match reach {
            Reach::Everything => 0,
            Reach::Context => path.iter().rposition(starts_over).unwrap_or(0),
        };
        let mut spoken = Vec::new();
        for (message, row) in self.said_on(&path[first..]).await? {
            if message.role != Role::System && !message.blocks.is_empty() {
                spoken.push(self.spoken(&message, row.as_ref()).await?);
            }
        }
        Ok(spoken)
    }

    async fn spoken(&self, message: &Message, row: Option<&ExchangeRow>) -> Result<Spoken> {
        let is_answer = message.role == Role::Assistant;
        let kept = row.map(Kept::of);
        let mut answer = None;
        if let Some(row) = row.filter(|_| is_answer) {
            let said = self.read_answer(row).await?;
            let text = |text: Option<&Box<str>>| text.map(|text| text.to_string());
            let request_id = kept
                .as_ref()
                .and_then(|kept| kept.response_headers.get("request-id").cloned());
            answer = Some(Answered {
                exchange: row.id.clone(),
                id: text(said.as_ref().and_then(|said| said.id.as_ref())),
                request_id: request_id.filter(|_| row.provider == "anthropic"),
                model: row.model.clone(),
                stop_reason: text(said.as_ref().and_then(|said| said.stop_reason.as_ref())),
                usage: row.usage,
            });
        }
        let at = row.map(|row| match is_answer {
            true => row.ended_at.unwrap_or(row.at),
            false => row.at,
        });
        Ok(Spoken {
            role: message.role,
            content: content(message),
            at,
            answer,
            project: row.and_then(|row| row.project.clone()),
            client_version: kept.and_then(|kept| kept.hints.get("client_version").cloned()),
        })
    }
}

fn content(message: &Message) -> String {
    match &message.blocks[..] {
        [Block::Text { text, .. }] if message.is_string => quoted(text),
        blocks => array(blocks),
    }
}

fn array(blocks: &[Block]) -> String {
    let blocks: Vec<String> = blocks.iter().map(anthropic).collect();
    format!("[{}]", blocks.join(","))
}

fn quoted(text: &str) -> String {
    quote(text, Style::Plain)
}

/// A block as Anthropic writes it. As text, so that members stay in their order.
fn anthropic(block: &Block) -> String {
    match block {
        Block::Text { text, extra } => object("text", &[("text", quoted(text))], extra.as_deref()),
        Block::Thinking { text, kind, extra } => match &**kind {
            "redacted_thinking" => object("redacted_thinking", &[], extra.as_deref()),
            _ => object("thinking", &[("thinking", quoted(text))], extra.as_deref()),
        },
        Block::ToolUse(call) => {
            let input = match &call.input {
                ToolInput::Json(text) if Doc::parse_str(text).is_ok_and(|doc| doc.root().is_object()) => {
                    text.to_string()
                }
                ToolInput::Json(text) => format!("{{\"input\":{}}}", quoted(text)),
                ToolInput::Text(text) => format!("{{\"input\":{}}}", quoted(text)),
            };
            let id = quoted(call.id.as_deref().unwrap_or_default());
            let members = [("id", id), ("name", quoted(&call.name)), ("input", input)];
            object("tool_use", &members, call.extra.as_deref())
        }
        Block::ToolResult(result) => {
            let content = match &result.content {
                ToolContent::Absent => quoted(""),
                ToolContent::Text(text) => quoted(text),
                ToolContent::Blocks { blocks, .. } => array(blocks),
            };
            let id = quoted(result.tool_use_id.as_deref().unwrap_or_default());
            let mut members = vec![("tool_use_id", id), ("content", content)];
            if result.is_error {
                members.push(("is_error", "true".to_owned()));
            }
            object("tool_result", &members, result.extra.as_deref())
        }
        Block::Media(media) => media_json(media),
        Block::Reference { id } => object("text", &[("text", quoted(&format!("[item {id}]")))], None),
        Block::Other { json, .. } => json.to_string(),
    }
}

fn media_json(media: &Media) -> String {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Document | MediaKind::Audio => "document",
    };
    let media_type = ("media_type", quoted(media.media_type.as_deref().unwrap_or_default()));
    let source = match &media.source {
        MediaSource::Base64(data) => object("base64", &[media_type, ("data", quoted(data))], None),
        MediaSource::Text(text) => object("text", &[media_type, ("data", quoted(text))], None),
        MediaSource::Url(url) => object("url", &[("url", quoted(url))], None),
        MediaSource::FileId(id) => object("file", &[("file_id", quoted(id))], None),
        MediaSource::Missing => "null".to_owned(),
    };
    object(kind, &[("source", source)], media.extra.as_deref())
}

/// With the members that nobody interprets, but for marks of the cache, which belong to a request.
fn object(kind: &str, members: &[(&str, String)], extra: Option<&str>) -> String {
    let mut json = format!("{{\"type\":{}", quoted(kind));
    for (name, value) in members {
        json.push_str(&format!(",{}:{value}", quoted(name)));
    }
    let doc = extra.and_then(|extra| Doc::parse_str(extra).ok());
    for (name, value) in doc.iter().flat_map(|doc| doc.root().members()) {
        let is_known = name.is("type") || name.is("cache_control") || members.iter().any(|(known, _)| name.is(known));
        if !is_known {
            json.push_str(&format!(",{}:{}", name.raw(), value.raw()));
        }
    }
    json.push('}');
    json
}
