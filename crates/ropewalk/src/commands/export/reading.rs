//! What the formats for reading elsewhere have in common: one path, redacted by the rules of today.

use bytes::Bytes;
use ropewalk_core::json::Doc;
use ropewalk_engine::redact::{Redactor, TagKey};
use ropewalk_engine::view::View;
use ropewalk_engine::view::transcript::{Reach, Spoken};

use crate::any_store::AnyStore;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;
use crate::secret;

/// A path, ready to be written.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) title: String,
    pub(super) conversation: String,
    /// The exchange that the path ends with.
    pub(super) tip: String,
    pub(super) spoken: Vec<Spoken>,
}

/// How a format writes a path, and how much of it.
pub(super) struct Written {
    pub(super) reach: Reach,
    pub(super) text: fn(&Reading) -> String,
}

pub(super) async fn write(
    context: &Context,
    references: &[String],
    written: Written,
    mut out: Out,
) -> Result<(), Failure> {
    let [reference] = references else {
        let message = format!("this format writes one path, and {} were named", references.len());
        return Err(
            Failure::new(Kind::Usage, message).hint("name one conversation or exchange; `ropewalk log` lists them")
        );
    };
    let store = context.read().await?;
    let view = context.view_to_find(&store).await?;
    let mut reading = read(&view, reference, written.reach).await?;
    let redactor = context.config.serving.redactor()?;
    let key = TagKey::of_owner(&secret::key(context.config.data_folder()?)?, &view.owner_name);
    reading.title = redacted(&redactor, &key, &reading.title);
    for spoken in &mut reading.spoken {
        spoken.content = redacted(&redactor, &key, &spoken.content);
    }
    out.bytes((written.text)(&reading).as_bytes())?;
    out.finish()
}

async fn read(view: &View<'_, AnyStore>, reference: &str, reach: Reach) -> Result<Reading, Failure> {
    let row = view.resolve_exchange(reference).await?;
    let spoken = view.transcript(&row, reach).await?;
    if spoken.is_empty() {
        return Err(
            Failure::new(Kind::NotFound, format!("nothing was said up to `{reference}`"))
                .hint("`ropewalk show` says what is recorded of it"),
        );
    }
    let root = view.resolve_root(reference).await?;
    let conversation = view.find_conversation(root).await?;
    let title = conversation
        .as_ref()
        .and_then(|conversation| conversation.title.clone());
    Ok(Reading {
        title: title.unwrap_or_else(|| "(no words)".to_owned()),
        conversation: conversation.map_or_else(|| row.id.clone(), |conversation| conversation.conversation_id),
        tip: row.id,
        spoken,
    })
}

fn redacted(redactor: &Redactor, key: &TagKey, text: &str) -> String {
    let bytes = redactor.body(&Bytes::copy_from_slice(text.as_bytes()), key).bytes;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Something that was said, for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
    /// Name and arguments, as they were written.
    Call(String, String),
    /// What a tool gave, and whether it failed.
    Result(String, bool),
    /// A picture or a document, which is only named.
    Attached(String),
}

/// The pieces of a message, in order.
pub(super) fn pieces(content: &str) -> Vec<Piece> {
    let Ok(doc) = Doc::parse_str(content) else {
        return Vec::new();
    };
    let root = doc.root();
    if let Some(text) = root.as_str() {
        return vec![Piece::Text(text.into_owned())];
    }
    root.items().filter_map(piece).collect()
}

fn piece(block: ropewalk_core::json::Node<'_>) -> Option<Piece> {
    let text = |name: &str| block.get_str(name).unwrap_or_default().into_owned();
    Some(match &*block.get_str("type")? {
        "text" => Piece::Text(text("text")),
        "thinking" => Piece::Thinking(text("thinking")),
        "redacted_thinking" => Piece::Thinking("(encrypted)".to_owned()),
        "tool_use" => {
            let input = block.get("input").map_or("{}", |input| input.raw());
            Piece::Call(text("name"), input.to_owned())
        }
        "tool_result" => {
            let content = block.get("content").map_or("", |content| content.raw());
            let texts = pieces(content).into_iter().filter_map(|piece| match piece {
                Piece::Text(text) => Some(text),
                Piece::Attached(what) => Some(format!("[{what}]")),
                _ => None,
            });
            let is_error = block.get("is_error").and_then(|flag| flag.as_bool()) == Some(true);
            Piece::Result(texts.collect::<Vec<_>>().join("\n"), is_error)
        }
        other => Piece::Attached(other.to_owned()),
    })
}

/// Arguments one a line, as far as they are an object.
pub(super) fn arguments(input: &str) -> String {
    let Ok(doc) = Doc::parse_str(input) else {
        return input.to_owned();
    };
    let lines = doc.root().members().map(|(name, value)| {
        let name = name.as_str().unwrap_or_default().into_owned();
        let value = value
            .as_str()
            .map_or_else(|| value.raw().to_owned(), |text| text.into_owned());
        format!("{name}: {value}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
