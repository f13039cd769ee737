//! A line of Claude Code's log, as far as it matters.

use bytes::Bytes;
use jiff::Timestamp;
use ropewalk_core::json::{Doc, JsonError, Node};
use ropewalk_store::Micros;

/// Longest title or notice that is kept with a record.
const TEXT_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    Assistant,
    /// Context and notices between messages: attachments, boundaries.
    Between,
    Title(Titled),
}

/// What a title is for, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Titled {
    /// For what ends with a record.
    Record,
    /// For the session, by the client.
    ByClient,
    /// For the session, by the person.
    ByUser,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) uuid: Option<Box<str>>,
    pub(super) parent: Option<Box<str>>,
    /// Of a boundary: what the session went on from.
    pub(super) logical_parent: Option<Box<str>>,
    pub(super) session: Option<Box<str>>,
    pub(super) agent: Option<Box<str>>,
    pub(super) at: Option<Micros>,
    pub(super) is_sidechain: bool,
    /// An answer that no model gave and no request repeats: the notice of a failed call.
    pub(super) is_error_notice: bool,
    pub(super) cwd: Option<Box<str>>,
    pub(super) text: Option<String>,
    pub(super) message: Option<Message>,
    /// Of a boundary: messages that stay behind the summary, and the summary's record.
    pub(super) preserved: Option<(Box<str>, Vec<Box<str>>)>,
}

/// What was said.
#[derive(Debug)]
pub(super) struct Message {
    /// The whole message, and its content in it.
    pub(super) json: Bytes,
    pub(super) content: Bytes,
    pub(super) id: Option<Box<str>>,
    pub(super) request_id: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
    pub(super) has_ended: bool,
    pub(super) blocks: Vec<Block>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    Call(Option<Box<str>>),
    Result(Option<Box<str>>),
    Other,
}

/// What a line is.
#[derive(Debug)]
pub(super) enum Read {
    Line(Box<Line>),
    /// Nothing of a conversation; the name of its kind.
    Nothing(String),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("no JSON: {0}")]
    Json(#[from] JsonError),
    #[error("not an object")]
    NoObject,
    #[error("the line has no type")]
    NoType,
    #[error("`timestamp` is no time")]
    Time,
}

impl Line {
    pub(super) fn read(number: u64, bytes: &[u8]) -> Result<Read, LineError> {
        let doc = Doc::parse(bytes)?;
        let root = doc.root();
        if !root.is_object() {
            return Err(LineError::NoObject);
        }
        let kind = root.get_str("type").ok_or(LineError::NoType)?;
        let text = |name: &str| root.get_str(name).map(|text| Box::<str>::from(&*text));
        let flag = |name: &str| root.get(name).and_then(|value| value.as_bool()) == Some(true);
        let (known, title) = match &*kind {
            "user" => (Kind::User, None),
            "assistant" => (Kind::Assistant, None),
            "attachment" | "system" | "progress" => (Kind::Between, root.get_str("content")),
            "summary" => (Kind::Title(Titled::Record), root.get_str("summary")),
            "ai-title" => (
                Kind::Title(Titled::ByClient),
                root.get_str("aiTitle").or_else(|| root.get_str("title")),
            ),
            "custom-title" => (Kind::Title(Titled::ByUser), root.get_str("customTitle")),
            other => return Ok(Read::Nothing(other.chars().take(64).collect())),
        };
        let at = root.get_str("timestamp").map(|text| text.parse::<Timestamp>());
        let at = at.transpose().map_err(|_| LineError::Time)?;
        let is_synthetic = |message: &Message| message.model.as_deref() == Some("<synthetic>");
        let message = root.get("message").filter(|message| message.is_object());
        let mut message = message.map(|message| read_message(message, text("requestId")));
        if let Some(message) = &mut message {
            // Some exports name the model beside the message.
            message.model = message.model.take().or_else(|| text("model"));
        }
        Ok(Read::Line(Box::new(Line {
            number,
            kind: known,
            // A title names the record that it was made at, and has no name of its own.
            uuid: text("uuid").or_else(|| text("leafUuid").filter(|_| known == Kind::Title(Titled::Record))),
            parent: text("parentUuid"),
            logical_parent: text("logicalParentUuid"),
            session: text("sessionId"),
            agent: text("agentId"),
            at: at.map(|at| Micros(at.as_microsecond())),
            is_sidechain: flag("isSidechain"),
            is_error_notice: flag("isApiErrorMessage") && message.as_ref().is_some_and(is_synthetic),
            cwd: text("cwd"),
            text: title.map(|title| title[..title.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()),
            message,
            preserved: preserved(root),
        })))
    }

    pub(super) fn is_synthetic(&self) -> bool {
        let model = self.message.as_ref().and_then(|message| message.model.as_deref());
        model == Some("<synthetic>")
    }
}

fn read_message(message: Node<'_>, request_id: Option<Box<str>>) -> Message {
    let text = |name: &str| message.get_str(name).map(|text| Box::<str>::from(&*text));
    let content = message.get("content");
    let items = content.filter(|content| content.is_array());
    let id = |block: Node<'_>, name: &str| block.get_str(name).map(|id| Box::<str>::from(&*id));
    let block = |block: Node<'_>| match block.get_str("type").as_deref() {
        Some("tool_use") => Block::Call(id(block, "id")),
        Some("tool_result") => Block::Result(id(block, "tool_use_id")),
        _ => Block::Other,
    };
    let blocks = match items {
        Some(items) => items.items().map(block).collect(),
        None => vec![Block::Other],
    };
    let json = Bytes::copy_from_slice(message.raw().as_bytes());
    let start = message.range().start;
    let content = content.map_or_else(Bytes::new, |content| {
        json.slice(content.range().start - start..content.range().end - start)
    });
    Message {
        content,
        id: text("id"),
        request_id,
        model: text("model"),
        has_ended: message.get("stop_reason").is_some_and(|reason| reason.is_string()),
        blocks,
        json,
    }
}

fn preserved(root: Node<'_>) -> Option<(Box<str>, Vec<Box<str>>)> {
    let preserved = root.get("compactMetadata")?.get("preservedMessages")?;
    let anchor = preserved.get_str("anchorUuid")?;
    let uuids = preserved.get("uuids")?.items();
    let uuids = uuids.filter_map(|uuid| Some(Box::<str>::from(&*uuid.as_str()?)));
    Some(((&*anchor).into(), uuids.collect()))
}
