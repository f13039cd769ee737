//! The schema before 0.32: a row for each call, in conversations whose order is the history.

use super::Told;
use super::call::{self, Call, attachments};
use super::database::{Database, DatabaseError, Result, Values};
use crate::reader::Found;
use crate::shape::{self, CallResult, Input, Part, Role, Said, literal};
use ropewalk_core::model::Provider;
use ropewalk_store::Micros;

const COLUMNS: &[&str] = &[
    "id",
    "model",
    "resolved_model",
    "options_json",
    "schema_id",
    "response_json",
    "duration_ms",
    "datetime_utc",
    "input_tokens",
    "output_tokens",
    "token_details",
    "conversation_id",
    "prompt",
    "system",
    "response",
    "reasoning",
];

pub(super) fn are_in(database: &Database) -> bool {
    database.has(
        "responses",
        &["id", "model", "prompt", "response", "conversation_id", "datetime_utc"],
    )
}

pub(super) fn read(database: &Database, told: &mut Told<'_>) -> Found {
    if !are_in(database) {
        return Found::GoOn;
    }
    let rows = match database.row_numbers("responses", "conversation_id, rowid") {
        Ok(rows) => rows,
        Err(error) => {
            told.sink.problem(0, format!("responses: {error}"));
            return Found::GoOn;
        }
    };
    let mut history = History::default();
    for row in rows {
        let found = database.find("responses", COLUMNS, "WHERE t.rowid = ?1", &row);
        let values = match found {
            Ok(Some(values)) => values,
            Ok(None) => continue,
            Err(error) => {
                told.problem(row, "", &error.to_string());
                continue;
            }
        };
        let found = match history.call(database, &values, told, row) {
            Ok(Some(call)) => told.call(row, &call),
            Ok(None) => Found::GoOn,
            Err(error) => {
                told.problem(row, &values.text("id").unwrap_or_default(), &error.to_string());
                Found::GoOn
            }
        };
        if found == Found::Stop {
            return Found::Stop;
        }
    }
    Found::GoOn
}

/// A conversation up to its next call.
#[derive(Debug, Default)]
struct History {
    conversation: Option<String>,
    begun: Option<Micros>,
    said: Vec<Said>,
    system: Option<String>,
}

impl History {
    /// The next call; `None` for one that the newer tables tell of.
    fn call(&mut self, database: &Database, values: &Values, told: &mut Told<'_>, row: i64) -> Result<Option<Call>> {
        let conversation = values.text("conversation_id");
        let mut call = Call::read(database, values)?;
        if conversation.is_none() || conversation != self.conversation {
            *self = History {
                begun: call.at,
                conversation: conversation.clone(),
                ..History::default()
            };
            if let Some(id) = &conversation {
                let names = database.beside("conversations", &["name"], "WHERE t.id = ?1", id)?;
                let name = names.first().and_then(|row| row.text("name"));
                // A sink that has had enough is asked again with the call.
                let _ = told.title(row, id, name.as_deref(), call.at);
            }
        }
        call.conversation = conversation;
        call.begun = self.begun;
        // A prompt for the system holds until there is another one.
        self.system = system(database, values, &call.id)?.or(self.system.take());
        call.context.system = self.system.as_deref().map(literal);
        call.context.tools = call::tools(database, "tool_responses", "response_id", &call.id)?;
        self.said.push(asked(database, values, &call)?);
        call.said.clone_from(&self.said);
        call.answer.parts = answered(database, values, &call.id)?;
        self.said.push(Said {
            role: Role::Assistant,
            parts: call.answer.parts.clone(),
        });
        let is_told = database.has("turns", &["id"])
            && !database
                .beside("turns", &["id"], "WHERE t.id = ?1", &call.id)?
                .is_empty();
        Ok((!is_told).then_some(call))
    }
}

/// Results of tools, then the prompt with its fragments and files.
fn asked(database: &Database, values: &Values, call: &Call) -> Result<Said> {
    let id = &call.id;
    let mut parts = Vec::new();
    let columns = &["id", "name", "output", "tool_call_id", "exception"];
    for row in database.beside("tool_results", columns, "WHERE t.response_id = ?1 ORDER BY t.id", id)? {
        let number = row.number("id").unwrap_or(-1);
        parts.push(Part::Result(CallResult {
            id: row.text("tool_call_id").as_deref().map(literal),
            name: row.text("name").as_deref().map(literal),
            text: row.text("output").as_deref().map(literal),
            media: attachments(database, "tool_results_attachments", "tool_result_id", &number)?,
            is_error: row.text("exception").is_some(),
        }));
    }
    let mut pieces = fragments(database, "prompt_fragments", id)?;
    pieces.extend(values.text("prompt"));
    let prompt = (!pieces.is_empty()).then(|| Part::Text(literal(&pieces.join("\n"))));
    let files = attachments(database, "prompt_attachments", "response_id", id)?;
    let files = files.into_iter().map(Part::Media);
    // The plugin for Anthropic puts files before the text, the others behind it.
    match call.provider {
        Provider::Anthropic => parts.extend(files.chain(prompt)),
        _ => parts.extend(prompt.into_iter().chain(files)),
    }
    Ok(Said {
        role: Role::User,
        parts,
    })
}

fn answered(database: &Database, values: &Values, id: &str) -> Result<Vec<Part>> {
    let thinking = values.text("reasoning").map(|text| Part::Thinking(literal(&text)));
    let said = values.text("response").map(|text| Part::Text(literal(&text)));
    let mut parts: Vec<Part> = thinking.into_iter().chain(said).collect();
    let columns = &["name", "arguments", "tool_call_id"];
    for row in database.beside("tool_calls", columns, "WHERE t.response_id = ?1 ORDER BY t.id", &id)? {
        parts.push(Part::Call(shape::Call {
            id: row.text("tool_call_id").as_deref().map(literal),
            name: literal(&row.text("name").unwrap_or_default()),
            input: Input::of_text(row.text("arguments").as_deref().unwrap_or("{}")),
        }));
    }
    Ok(parts)
}

fn system(database: &Database, values: &Values, id: &str) -> Result<Option<String>> {
    let mut pieces = fragments(database, "system_fragments", id)?;
    pieces.extend(values.text("system"));
    let pieces: Vec<&str> = pieces
        .iter()
        .map(|piece| piece.trim())
        .filter(|piece| !piece.is_empty())
        .collect();
    Ok((!pieces.is_empty()).then(|| pieces.join("\n\n")))
}

fn fragments(database: &Database, table: &'static str, id: &str) -> std::result::Result<Vec<String>, DatabaseError> {
    if !database.has(table, &["response_id", "fragment_id", "order"]) || !database.has("fragments", &["id", "content"])
    {
        return Ok(Vec::new());
    }
    let condition = format!("JOIN \"{table}\" a ON a.fragment_id = t.id WHERE a.response_id = ?1 ORDER BY a.\"order\"");
    let rows = database.beside("fragments", &["content"], &condition, &id)?;
    Ok(rows.iter().filter_map(|row| row.text("content")).collect())
}
