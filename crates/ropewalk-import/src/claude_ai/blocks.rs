//! The blocks of a message, as the API has them: what only the service writes is left out.

use ropewalk_core::json::Node;
use ropewalk_store::Micros;

use crate::exported::{shown, text, time};
use crate::reader::Sink;
use crate::shape::literal;

/// Members of a block that the API has as well, by its type.
const MEMBERS: [(&str, &[&str]); 6] = [
    ("text", &["type", "text"]),
    ("thinking", &["type", "thinking", "signature"]),
    ("redacted_thinking", &["type", "data"]),
    ("tool_use", &["type", "id", "name", "input"]),
    ("tool_result", &["type", "tool_use_id", "content", "is_error"]),
    ("image", &["type", "source"]),
];

/// Blocks that are about the conversation and not part of it.
const NOTICES: [&str; 2] = ["token_budget", "flag"];

/// A piece of an answer: one call of the model, or what its tools gave.
pub(super) enum Step {
    Answer {
        content: Vec<String>,
        ended_at: Option<Micros>,
    },
    Results {
        content: Vec<String>,
        ended_at: Option<Micros>,
    },
}

/// A message of the user with its files; `None` where there is nothing in it.
pub(super) fn of_human(message: Node<'_>, sink: &mut dyn Sink) -> Option<String> {
    let mut content: Vec<String> = list(message, "attachments").filter_map(attachment).collect();
    content.extend(files(message));
    content.extend(blocks(message, sink).into_iter().map(|(_, _, block)| block));
    (!content.is_empty()).then(|| self::message("user", &content))
}

/// An answer in the steps that it was made in.
pub(super) fn of_assistant(message: Node<'_>, sink: &mut dyn Sink) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (kind, at, block) in blocks(message, sink) {
        let is_result = kind == "tool_result";
        match steps.last_mut() {
            Some(Step::Results { content, ended_at }) if is_result => {
                content.push(block);
                *ended_at = at.or(*ended_at);
            }
            Some(Step::Answer { content, ended_at }) if !is_result => {
                content.push(block);
                *ended_at = at.or(*ended_at);
            }
            _ if is_result => steps.push(Step::Results {
                content: vec![block],
                ended_at: at,
            }),
            _ => steps.push(Step::Answer {
                content: vec![block],
                ended_at: at,
            }),
        }
    }
    steps
}

/// The type of each block, when it ended, and its JSON.
fn blocks(message: Node<'_>, sink: &mut dyn Sink) -> Vec<(String, Option<Micros>, String)> {
    let mut found = Vec::new();
    for block in list(message, "content") {
        let kind = text(block, "type").unwrap_or_default();
        if NOTICES.contains(&&*kind) {
            continue;
        }
        let at = text(block, "stop_timestamp").and_then(|text| time(&text));
        match clean(&kind, block) {
            Some(clean) => found.push((kind, at, clean)),
            None => sink.skipped(&format!("block of type {}", shown(&kind))),
        }
    }
    // Older exports have the text alone.
    let said = message
        .get("text")
        .filter(|text| text.literal().is_some_and(|text| !text.is_empty()));
    if found.is_empty()
        && let Some(said) = said
    {
        found.push((
            "text".to_owned(),
            None,
            format!("{{\"type\":\"text\",\"text\":{}}}", said.raw()),
        ));
    }
    found
}

/// A block with the members of the API only. `None` for one that has nothing to say, or of a type that is not known.
fn clean(kind: &str, block: Node<'_>) -> Option<String> {
    let voice = || block.get("text").filter(|text| text.is_string());
    if kind == "voice_note" {
        return Some(format!("{{\"type\":\"text\",\"text\":{}}}", voice()?.raw()));
    }
    let (_, known) = MEMBERS.iter().find(|(known, _)| *known == kind)?;
    let kept = known.iter().filter_map(|name| {
        let value = block.get(name).filter(|value| !value.is_null())?;
        let value = match (kind, *name, value.is_array()) {
            ("tool_result", "content", true) => result_content(value),
            _ => value.raw().to_owned(),
        };
        Some(format!("\"{name}\":{value}"))
    });
    let kept: Vec<String> = kept.collect();
    // The type alone says nothing.
    (kept.len() > 1).then(|| format!("{{{}}}", kept.join(",")))
}

/// What a tool gave: texts and pictures as the API has them, anything else as it is.
fn result_content(content: Node<'_>) -> String {
    let blocks = content.items().map(|block| {
        let kind = text(block, "type").unwrap_or_default();
        clean(&kind, block).unwrap_or_else(|| block.raw().to_owned())
    });
    format!("[{}]", blocks.collect::<Vec<_>>().join(","))
}

/// A text file, with what was read out of it.
fn attachment(file: Node<'_>) -> Option<String> {
    let content = file.get("extracted_content").filter(|content| content.is_string())?;
    let title = title(file);
    Some(format!(
        "{{\"type\":\"document\",\"source\":{{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":{}}}{title}}}",
        content.raw()
    ))
}

/// Other files, which are named and not in the export.
fn files(message: Node<'_>) -> Vec<String> {
    let newer = list(message, "files_v2").next().is_some();
    let files = list(message, if newer { "files_v2" } else { "files" });
    let named = files.filter_map(|file| {
        let id = text(file, "file_uuid")
            .or_else(|| text(file, "uuid"))
            .or_else(|| text(file, "file_name"))?;
        let is_image = file.get("file_kind").is_some_and(|kind| kind.is("image"));
        let kind = if is_image { "image" } else { "document" };
        let (id, title) = (literal(&id), title(file));
        Some(format!(
            "{{\"type\":\"{kind}\",\"source\":{{\"type\":\"file\",\"file_id\":{id}}}{title}}}"
        ))
    });
    named.collect()
}

fn title(file: Node<'_>) -> String {
    let name = text(file, "file_name");
    name.map(|name| format!(",\"title\":{}", literal(&name)))
        .unwrap_or_default()
}

fn list<'d>(node: Node<'d>, name: &str) -> impl Iterator<Item = Node<'d>> + use<'d> {
    let list = node.get(name);
    list.into_iter().flat_map(|list| list.items())
}

pub(super) fn message(role: &str, content: &[String]) -> String {
    format!("{{\"role\":\"{role}\",\"content\":[{}]}}", content.join(","))
}

/// The answer whole.
pub(super) fn answer(content: &[String], model: Option<&str>, stop_reason: Option<&str>) -> String {
    let mut answer = "{\"type\":\"message\",\"role\":\"assistant\"".to_owned();
    for (name, value) in [("model", model), ("stop_reason", stop_reason)] {
        if let Some(value) = value {
            answer.push_str(&format!(",\"{name}\":{}", literal(value)));
        }
    }
    answer.push_str(&format!(",\"content\":[{}]}}", content.join(",")));
    answer
}
