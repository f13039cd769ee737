//! What the exports of chat services have in common: a list of conversations in a file or an archive, each a tree of messages with a
//! title.

use std::io::BufRead;
use std::path::Path;

use bytes::Bytes;
use jiff::Timestamp;
use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::Provider;
use ropewalk_engine::logged::{LogMessage, LogTurn, Logged, MessageNumber};
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;
use ropewalk_store::log::{RecordKind, RecordRow, TitleBy};
use ropewalk_store::store::ID_MAX;

use crate::document::{self, Document, file_name};
use crate::elements::{ELEMENT_BYTES_MAX, Elements, Next};
use crate::reader::{Found, Sink};

/// Longest title that is kept.
const TITLE_BYTES_MAX: usize = 4 << 10;

/// Whether a file of an archive has conversations in it. Large exports are cut into several.
pub(crate) fn is_conversations(name: &str) -> bool {
    let name = file_name(name);
    name.starts_with("conversations") && name.ends_with(".json")
}

/// Reads a list, one element at a time, from a file or from the conversations of an archive.
pub(crate) fn each_element(
    path: &Path,
    way: &'static [&'static str],
    sink: &mut dyn Sink,
    mut take: impl FnMut(u64, Node<'_>, &mut dyn Sink) -> Found,
) -> Found {
    let document = match document::open(path) {
        Ok(document) => document,
        Err(error) => {
            sink.problem(0, format!("cannot be opened: {error}"));
            return Found::GoOn;
        }
    };
    let mut archive = match document {
        Document::Plain(reader) => return read(reader, way, "", sink, &mut take),
        Document::Archive(archive) => archive,
    };
    for name in archive.names() {
        if !is_conversations(&name) {
            sink.skipped(beside_conversations(&name).unwrap_or("another file of the archive"));
            continue;
        }
        let found = match archive.member(&name) {
            Ok(reader) => read(reader, way, &format!("{name}: "), sink, &mut take),
            Err(error) => {
                sink.problem(0, format!("{name}: cannot be unpacked: {error}"));
                Found::GoOn
            }
        };
        if found == Found::Stop {
            return Found::Stop;
        }
    }
    Found::GoOn
}

/// What the other files of an export are, by their names.
pub fn beside_conversations(name: &str) -> Option<&'static str> {
    match file_name(name) {
        "projects.json" => Some("projects.json: projects, no conversations"),
        "users.json" => Some("users.json: the account, no conversations"),
        "user.json" => Some("user.json: the account, no conversations"),
        "memories.json" => Some("memories.json: memories, no conversations"),
        "message_feedback.json" => Some("message_feedback.json: ratings, no conversations"),
        "shared_conversations.json" => Some("shared_conversations.json: links to conversations, not what they say"),
        "model_comparisons.json" => Some("model_comparisons.json: comparisons, no conversations"),
        "chat.html" => Some("chat.html: the same conversations for reading"),
        _ => None,
    }
}

fn read(
    reader: impl BufRead,
    way: &'static [&'static str],
    place: &str,
    sink: &mut dyn Sink,
    take: &mut impl FnMut(u64, Node<'_>, &mut dyn Sink) -> Found,
) -> Found {
    let mut elements = Elements::new(reader, way);
    let mut element = Vec::new();
    loop {
        let next = elements.next(&mut element);
        let number = elements.number();
        match next {
            Ok(Next::Element) => {}
            Ok(Next::End) => return Found::GoOn,
            Ok(Next::TooLong(length)) => {
                let most = ELEMENT_BYTES_MAX;
                sink.problem(
                    number,
                    format!("{place}element {number} has {length} bytes; {most} is the most"),
                );
                continue;
            }
            Err(error) => {
                sink.problem(number, format!("{place}behind element {number}: {error}"));
                return Found::GoOn;
            }
        }
        let found = match Doc::parse(&element) {
            Ok(doc) => {
                let found = take(number, doc.root(), sink);
                sink.forget_messages();
                found
            }
            Err(error) => {
                sink.problem(number, format!("{place}element {number} is no JSON: {error}"));
                Found::GoOn
            }
        };
        if found == Found::Stop {
            return Found::Stop;
        }
    }
}

/// Tells of one conversation after the other. Messages are numbered through the whole file.
#[derive(Debug)]
pub(crate) struct Teller {
    /// Of the file.
    name: String,
    provider: Provider,
    next_message: u32,
}

/// What all turns of a conversation share.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// Which element of the file.
    pub(crate) number: u64,
    pub(crate) id: String,
    pub(crate) begun: Micros,
    pub(crate) project: Option<String>,
}

/// A turn, but for what its conversation says.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) id: String,
    /// Further ids in the file that it stands for.
    pub(crate) aliases: Vec<String>,
    pub(crate) at: Micros,
    pub(crate) ended_at: Option<Micros>,
    pub(crate) model: Option<String>,
    pub(crate) asked: Option<MessageNumber>,
    pub(crate) answer: String,
    pub(crate) cut_off: bool,
}

impl Teller {
    pub(crate) fn new(name: &str, provider: Provider) -> Self {
        Teller {
            name: name.to_owned(),
            provider,
            next_message: 0,
        }
    }

    /// Each of `messages` behind the one before; the last one's number.
    pub(crate) fn say(
        &mut self,
        behind: Option<MessageNumber>,
        messages: Vec<String>,
        sink: &mut dyn Sink,
    ) -> Option<MessageNumber> {
        let mut last = behind;
        for json in messages {
            // A sink that has had enough is asked again with the turn.
            let _ = sink.found(Logged::Message(LogMessage {
                behind: last,
                provider: self.provider,
                json: Bytes::from(json),
            }));
            last = Some(MessageNumber(self.next_message));
            self.next_message = self.next_message.saturating_add(1);
        }
        last
    }

    pub(crate) fn turn(&self, conversation: &Conversation, turn: Turn, sink: &mut dyn Sink) -> Found {
        if turn.id.is_empty() || turn.id.len() > ID_MAX {
            let problem = format!(
                "{}: an answer's id has {} bytes",
                shown(&conversation.id),
                turn.id.len()
            );
            sink.problem(conversation.number, problem);
            return Found::GoOn;
        }
        sink.found(Logged::Turn(Box::new(LogTurn {
            provider: self.provider,
            at: turn.at,
            ended_at: turn.ended_at,
            spawned_at: Vec::new(),
            model: turn.model,
            project: conversation.project.clone(),
            hints: session_hint(&conversation.id),
            request_id: None,
            asked: turn.asked,
            answer: Bytes::from(turn.answer),
            cut_off: turn.cut_off,
            // The services do not say what was used.
            is_estimate: false,
            provenance: Provenance {
                file: self.name.clone(),
                line: conversation.number,
                uuid: Some(turn.id.clone()),
                aliases: turn.aliases,
                log_begun: Some(conversation.begun),
            },
            id: turn.id,
        })))
    }

    /// The conversation's title, if it has one, as of the message that it stands at.
    pub(crate) fn title(
        &self,
        conversation: &Conversation,
        title: Option<&str>,
        at: Option<String>,
        sink: &mut dyn Sink,
    ) -> Found {
        match title_row(&self.name, conversation, title, at) {
            Some(row) => sink.found(Logged::Record(Box::new(row), None)),
            None => Found::GoOn,
        }
    }
}

/// How a conversation's id is said, so that what belongs together stays together.
pub(crate) fn session_hint(id: &str) -> Vec<(String, String)> {
    vec![("x-session-id".to_owned(), id.to_owned())]
}

pub(crate) fn title_row(
    file: &str,
    conversation: &Conversation,
    title: Option<&str>,
    stands_for: Option<String>,
) -> Option<RecordRow> {
    let title = title.map(str::trim).filter(|title| !title.is_empty())?;
    Some(RecordRow {
        session: conversation.id.clone(),
        uuid: TitleBy::Client(conversation.number).name(),
        parent: None,
        kind: RecordKind::Summary,
        is_sidechain: false,
        at: Some(conversation.begun),
        agent: None,
        message: None,
        node: None,
        tool_use: None,
        stands_for,
        text: Some(title[..title.floor_char_boundary(TITLE_BYTES_MAX)].to_owned()),
        file: file.to_owned(),
        line: conversation.number,
    })
}

/// A name from a file, short enough to be part of a message.
pub(crate) fn shown(name: &str) -> String {
    let short: String = name.chars().take(64).collect();
    format!("`{}`", short.escape_debug())
}

/// A time as RFC 3339 has it; one without a place is in UTC.
pub(crate) fn time(text: &str) -> Option<Micros> {
    let text = text.trim();
    let parsed = text
        .parse::<Timestamp>()
        .or_else(|_| format!("{text}Z").parse::<Timestamp>());
    Some(Micros(parsed.ok()?.as_microsecond()))
}

/// A time in seconds since 1970.
pub(crate) fn seconds(node: Node<'_>) -> Option<Micros> {
    let micros = node.as_f64()? * 1e6;
    let is_sane = micros.is_finite() && micros > 0.0 && micros < Timestamp::MAX.as_microsecond() as f64;
    is_sane.then_some(Micros(micros as i64))
}

/// A member that is a text with something in it.
pub(crate) fn text(node: Node<'_>, name: &str) -> Option<String> {
    node.get(name)?.to_text().filter(|text| !text.is_empty())
}
