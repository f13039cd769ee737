//! One call as the database has it, and the exchange that it was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::Provider;
use ropewalk_engine::{RawExchange, Witness};
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;
use ropewalk_store::store::ID_MAX;
use ropewalk_wire::provider::path_of;

use super::database::{Database, DatabaseError, ROW_BYTES_MAX, Result, Values};
use crate::exported::{session_hint, time};
use crate::shape::{self, Answer, Context, Literal, Media, Role, Said, Source, Tool, Usage, literal};

/// Longest time that a call is believed to have taken, in milliseconds.
const DURATION_MS_MAX: i64 = 7 * 24 * 3_600_000;

/// A call of a model.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) conversation: Option<String>,
    pub(super) begun: Option<Micros>,
    pub(super) provider: Provider,
    pub(super) at: Option<Micros>,
    pub(super) duration_ms: Option<i64>,
    pub(super) model: Option<String>,
    pub(super) said: Vec<Said>,
    pub(super) context: Context,
    pub(super) answer: Answer,
}

impl Call {
    /// What both schemas know of a call.
    pub(super) fn read(database: &Database, row: &Values) -> Result<Self> {
        let raw = row.text("response_json");
        let raw = raw.as_deref().and_then(|json| Doc::parse_str(json).ok());
        let raw = raw.as_ref().map(Doc::root);
        let asked = row.text("model");
        let provider = provider(raw, asked.as_deref().unwrap_or_default());
        let model = asked.map(|model| own_name(provider, &model).to_owned());
        let served = row
            .text("resolved_model")
            .or_else(|| raw?.get("model")?.to_text())
            .or(model.clone());
        let mut context = Context {
            model: model.as_deref().map(literal),
            options: members(row.text("options_json").as_deref()),
            ..Context::default()
        };
        if let Some(schema) = row.text("schema_id") {
            let found = database.beside("schemas", &["content"], "WHERE t.id = ?1", &schema)?;
            context.schema = found
                .first()
                .and_then(|row| row.text("content"))
                .filter(|json| is_json(json));
        }
        let answer = Answer {
            id: raw.and_then(|raw| id_of(raw)),
            model: served.as_deref().map(literal),
            stop_reason: raw.and_then(|raw| stop_reason(provider, raw)),
            usage: usage(row),
            parts: Vec::new(),
        };
        Ok(Call {
            id: row.text("id").unwrap_or_default(),
            conversation: None,
            begun: None,
            provider,
            at: row.text("datetime_utc").and_then(|text| time(&text)),
            duration_ms: row.number("duration_ms"),
            model,
            said: Vec::new(),
            context,
            answer,
        })
    }

    /// As it was on the wire, but for what the database does not know.
    pub(super) fn exchange(&self, file: &str, row: i64) -> std::result::Result<RawExchange, String> {
        if self.id.is_empty() || self.id.len() > ID_MAX {
            return Err(format!("its id has {} bytes", self.id.len()));
        }
        let at = self.at.ok_or("`datetime_utc` is no time")?;
        let duration = self
            .duration_ms
            .filter(|duration| (0..=DURATION_MS_MAX).contains(duration))
            .unwrap_or(0);
        let mut context = self.context.clone();
        let mut said = &self.said[..];
        // What the system says first is the prompt, which has a place of its own with these.
        if matches!(self.provider, Provider::Anthropic | Provider::Gemini)
            && let Some((first, rest)) = said.split_first()
            && first.role == Role::System
            && context.system.is_none()
        {
            context.system = shape::joined(shape::texts(&first.parts), "\n\n");
            said = rest;
        }
        let messages: Vec<String> = said
            .iter()
            .flat_map(|said| shape::messages(self.provider, said))
            .collect();
        let size: usize = messages.iter().map(String::len).sum();
        if size as u64 > ROW_BYTES_MAX {
            return Err(format!("what was said has {size} bytes; {ROW_BYTES_MAX} is the most"));
        }
        let session = self.conversation.as_deref().map(session_hint).unwrap_or_default();
        Ok(RawExchange {
            id: self.id.clone(),
            at,
            ended_at: Some(Micros(at.0.saturating_add(duration * 1_000))),
            spawned_at: Vec::new(),
            method: "POST".to_owned(),
            path: path_of(self.provider, self.model.as_deref()),
            request_headers: session,
            request_body: Bytes::from(shape::request(self.provider, &messages, &context)),
            sent_body: None,
            names: Default::default(),
            status: Some(200),
            response_headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            response_body: Some(Bytes::from(shape::answer(self.provider, &self.answer))),
            cut_off: false,
            witness: Witness::default(),
            provenance: Some(Provenance {
                file: file.to_owned(),
                line: row.unsigned_abs(),
                uuid: Some(self.id.clone()),
                aliases: Vec::new(),
                log_begun: Some(self.begun.unwrap_or(at)),
            }),
        })
    }
}

/// By what the provider answered, else by the model's name. Whatever else there is speaks the format of Chat Completions.
fn provider(raw: Option<Node<'_>>, model: &str) -> Provider {
    let has = |name: &str| raw.is_some_and(|raw| raw.get(name).is_some());
    let is = |name: &str, value: &str| raw.is_some_and(|raw| raw.get(name).is_some_and(|found| found.is(value)));
    if is("type", "message") || model.starts_with("anthropic/") || model.starts_with("claude-") {
        Provider::Anthropic
    } else if is("object", "response") {
        Provider::OpenAiResponses
    } else if has("candidates") || has("usageMetadata") || has("modelVersion") || model.starts_with("gemini") {
        Provider::Gemini
    } else {
        Provider::OpenAiChat
    }
}

/// The provider's name for a model; plugins put their own in front.
fn own_name(provider: Provider, model: &str) -> &str {
    let prefix = match provider {
        Provider::Anthropic => "anthropic/",
        Provider::Gemini => "gemini/",
        Provider::OpenAiChat | Provider::OpenAiResponses => "openai/",
    };
    model.strip_prefix(prefix).unwrap_or(model)
}

fn id_of(raw: Node<'_>) -> Option<Literal> {
    let id = raw.get("id").or_else(|| raw.get("responseId"))?;
    id.is_string().then(|| id.raw().to_owned())
}

fn stop_reason(provider: Provider, raw: Node<'_>) -> Option<Literal> {
    let name = match provider {
        Provider::Anthropic => "stop_reason",
        Provider::OpenAiChat => "finish_reason",
        Provider::OpenAiResponses => "status",
        Provider::Gemini => "finishReason",
    };
    let reason = raw.get(name).filter(|reason| reason.is_string())?;
    Some(reason.raw().to_owned())
}

/// `None` where the database counted nothing.
fn usage(row: &Values) -> Option<Usage> {
    let count = |name: &str| row.number(name).map(|count| count.max(0).unsigned_abs());
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        details: members(row.text("token_details").as_deref()),
    })
}

/// Name and JSON of an object's members.
pub(super) fn members(json: Option<&str>) -> Vec<(Literal, String)> {
    let doc = json.and_then(|json| Doc::parse_str(json).ok());
    let members = doc.as_ref().into_iter().flat_map(|doc| doc.root().members());
    let members = members.filter(|(_, value)| !value.is_null());
    members
        .map(|(name, value)| (name.raw().to_owned(), value.raw().to_owned()))
        .collect()
}

pub(super) fn is_json(text: &str) -> bool {
    Doc::parse_str(text).is_ok()
}

/// Columns of a file that was sent along.
const ATTACHMENT: &[&str] = &["type", "path", "url", "content"];

/// Files that belong to a row, in order. What lies under a path today may not be what was sent, so it is not read.
pub(super) fn attachments(
    database: &Database,
    table: &'static str,
    column: &str,
    owner: &dyn rusqlite::ToSql,
) -> Result<Vec<Media>> {
    if !database.has(table, &["attachment_id", column, "order"]) || !database.has("attachments", &["id"]) {
        return Ok(Vec::new());
    }
    let condition =
        format!("JOIN \"{table}\" a ON a.attachment_id = t.id WHERE a.\"{column}\" = ?1 ORDER BY a.\"order\"");
    let files = database.beside("attachments", ATTACHMENT, &condition, owner)?;
    Ok(files.iter().filter_map(media).collect())
}

/// A file by its id.
pub(super) fn attachment(database: &Database, id: &str) -> Result<Option<Media>> {
    if !database.has("attachments", &["id"]) {
        return Ok(None);
    }
    let file = database.find("attachments", ATTACHMENT, "WHERE t.id = ?1", &id)?;
    Ok(file.as_ref().and_then(media))
}

fn media(row: &Values) -> Option<Media> {
    let content = row
        .bytes("content")
        .map(|content| Source::Base64(STANDARD.encode(content)));
    let source = content
        .or_else(|| row.text("url").map(Source::Url))
        .or_else(|| row.text("path").map(Source::File))?;
    Some(Media {
        media_type: row.text("type").unwrap_or_default(),
        source,
        file_name: None,
    })
}

/// Tools that a call was given.
pub(super) fn tools(
    database: &Database,
    table: &'static str,
    column: &str,
    owner: &dyn rusqlite::ToSql,
) -> std::result::Result<Vec<Tool>, DatabaseError> {
    if !database.has(table, &["tool_id", column]) || !database.has("tools", &["id", "name"]) {
        return Ok(Vec::new());
    }
    let condition = format!("JOIN \"{table}\" a ON a.tool_id = t.id WHERE a.\"{column}\" = ?1 ORDER BY t.id");
    let rows = database.beside("tools", &["name", "description", "input_schema"], &condition, owner)?;
    let tools = rows.iter().filter_map(|row| {
        Some(Tool {
            name: literal(&row.text("name")?),
            description: row.text("description").as_deref().map(literal),
            schema: row
                .text("input_schema")
                .filter(|json| is_json(json))
                .unwrap_or_else(|| "{}".to_owned()),
        })
    });
    Ok(tools.collect())
}
