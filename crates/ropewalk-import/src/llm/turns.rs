//! The schema of 0.32 and later: messages are stored once, each behind its parent, and a turn names where its request and its answer end.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ropewalk_core::json::{Doc, Node};
use ropewalk_store::Micros;

use super::Told;
use super::call::{self, Call, attachment, attachments};
use super::database::{Database, DatabaseError, Result, Values};
use crate::exported::{text, time};
use crate::reader::Found;
use crate::shape::{self, CallResult, Input, Part, Role, Said, literal};

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
    "thread_id",
    "parent_message_hash",
    "tip_message_hash",
];

/// Most messages in a request.
const CHAIN_MAX: usize = 100_000;

/// Text of messages that is kept for the next turn, which mostly repeats it.
const KEPT_BYTES_MAX: usize = 64 << 20;

pub(super) fn are_in(database: &Database) -> bool {
    database.has("turns", &["id", "thread_id", "parent_message_hash", "tip_message_hash"])
        && database.has("messages", &["hash", "parent_hash", "role"])
        && database.has("parts", &["id", "message_hash", "position", "type"])
}

pub(super) fn read(database: &Database, told: &mut Told<'_>) -> Found {
    if !are_in(database) {
        return Found::GoOn;
    }
    let rows = match database.row_numbers("turns", "rowid") {
        Ok(rows) => rows,
        Err(error) => {
            told.sink.problem(0, format!("turns: {error}"));
            return Found::GoOn;
        }
    };
    let mut turns = Turns {
        database,
        kept: HashMap::new(),
        kept_bytes: 0,
        threads: HashSet::new(),
    };
    for row in rows {
        if turns.turn(row, told) == Found::Stop {
            return Found::Stop;
        }
    }
    Found::GoOn
}

struct Turns<'d> {
    database: &'d Database,
    kept: HashMap<String, Rc<Message>>,
    kept_bytes: usize,
    /// Whose names were told.
    threads: HashSet<String>,
}

#[derive(Debug)]
struct Message {
    parent: Option<String>,
    said: Said,
}

impl Turns<'_> {
    fn turn(&mut self, row: i64, told: &mut Told<'_>) -> Found {
        let found = self.database.find("turns", COLUMNS, "WHERE t.rowid = ?1", &row);
        let values = match found {
            Ok(Some(values)) => values,
            Ok(None) => return Found::GoOn,
            Err(error) => {
                told.problem(row, "", &error.to_string());
                return Found::GoOn;
            }
        };
        let thread = values.text("thread_id");
        if let Some(thread) = thread.filter(|thread| self.threads.insert(thread.clone()))
            && self.thread(row, &thread, told) == Found::Stop
        {
            return Found::Stop;
        }
        match self.call(&values) {
            Ok(call) => told.call(row, &call),
            Err(error) => {
                told.problem(row, &values.text("id").unwrap_or_default(), &error.to_string());
                Found::GoOn
            }
        }
    }

    fn thread(&self, row: i64, id: &str, told: &mut Told<'_>) -> Found {
        let rows = self.database.beside("threads", &["name"], "WHERE t.id = ?1", &id);
        let name = rows.ok().and_then(|rows| rows.first()?.text("name"));
        told.title(row, id, name.as_deref(), self.begun(id))
    }

    fn begun(&self, thread: &str) -> Option<Micros> {
        let rows = self
            .database
            .beside("threads", &["datetime_utc"], "WHERE t.id = ?1", &thread);
        rows.ok()?.first()?.text("datetime_utc").and_then(|text| time(&text))
    }

    fn call(&mut self, values: &Values) -> Result<Call> {
        let mut call = Call::read(self.database, values)?;
        let thread = values.text("thread_id");
        call.begun = thread.as_deref().and_then(|thread| self.begun(thread));
        call.conversation = thread;
        call.context.tools = call::tools(self.database, "turn_tools", "turn_id", &call.id)?;
        let asked = values.text("parent_message_hash");
        call.said = self
            .chain(asked.as_deref(), None)?
            .iter()
            .map(|message| message.said.clone())
            .collect();
        let tip = values
            .text("tip_message_hash")
            .filter(|tip| asked.as_ref() != Some(tip));
        let answered = self.chain(tip.as_deref(), asked.as_deref())?;
        call.answer.parts = answered.iter().flat_map(|message| message.said.parts.clone()).collect();
        Ok(call)
    }

    /// The messages up to one, oldest first, behind another.
    fn chain(&mut self, last: Option<&str>, behind: Option<&str>) -> Result<Vec<Rc<Message>>> {
        let (mut chain, mut seen) = (Vec::new(), HashSet::new());
        let mut at = last.map(str::to_owned);
        while let Some(hash) = at.filter(|hash| Some(&**hash) != behind) {
            if chain.len() == CHAIN_MAX || !seen.insert(hash.clone()) {
                return Err(DatabaseError::Endless);
            }
            let Some(message) = self.message(&hash)? else {
                return Err(DatabaseError::NoMessage);
            };
            at = message.parent.clone();
            chain.push(message);
        }
        chain.reverse();
        Ok(chain)
    }

    fn message(&mut self, hash: &str) -> Result<Option<Rc<Message>>> {
        if let Some(known) = self.kept.get(hash) {
            return Ok(Some(Rc::clone(known)));
        }
        let row = self
            .database
            .find("messages", &["parent_hash", "role"], "WHERE t.hash = ?1", &hash)?;
        let Some(row) = row else { return Ok(None) };
        let columns = &["id", "type", "tool_name", "text", "payload"];
        let rows = self
            .database
            .beside("parts", columns, "WHERE t.message_hash = ?1 ORDER BY t.position", &hash)?;
        let mut parts = Vec::new();
        let mut bytes = hash.len();
        for row in &rows {
            bytes += ["text", "payload"]
                .iter()
                .filter_map(|name| row.text(name))
                .map(|text| text.len())
                .sum::<usize>();
            parts.extend(self.part(row)?);
        }
        let role = match row.text("role").as_deref() {
            Some("system") => Role::System,
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let message = Rc::new(Message {
            parent: row.text("parent_hash"),
            said: Said { role, parts },
        });
        if self.kept_bytes + bytes > KEPT_BYTES_MAX {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += bytes;
        self.kept.insert(hash.to_owned(), Rc::clone(&message));
        Ok(Some(message))
    }

    fn part(&self, row: &Values) -> Result<Vec<Part>> {
        let payload = row.text("payload");
        let payload = payload.as_deref().and_then(|json| Doc::parse_str(json).ok());
        let payload = payload.as_ref().map(Doc::root);
        let member = |name: &str| payload.and_then(|payload| text(payload, name));
        let said = match row.text("text") {
            Some(text) => Some(text),
            None => payload.map(|payload| self.text(payload)).transpose()?.flatten(),
        };
        let id = member("tool_call_id").as_deref().map(literal);
        let name = member("name").or_else(|| row.text("tool_name"));
        Ok(match row.text("type").as_deref() {
            Some("text") => said.map(|text| Part::Text(literal(&text))).into_iter().collect(),
            Some("reasoning") => said.map(|text| Part::Thinking(literal(&text))).into_iter().collect(),
            Some("tool_call") => {
                let arguments = payload.and_then(|payload| payload.get("arguments"));
                vec![Part::Call(shape::Call {
                    id,
                    name: literal(&name.unwrap_or_default()),
                    input: Input::Json(arguments.map_or_else(|| "{}".to_owned(), |json| json.raw().to_owned())),
                })]
            }
            Some("tool_result") => vec![Part::Result(CallResult {
                id,
                name: name.as_deref().map(literal),
                text: member("output").as_deref().map(literal),
                media: attachments(
                    self.database,
                    "part_attachments",
                    "part_id",
                    &row.number("id").unwrap_or(-1),
                )?,
                is_error: member("exception").is_some(),
            })],
            Some("attachment") => {
                let id = payload
                    .and_then(|payload| payload.get("attachment"))
                    .and_then(|file| text(file, "id"));
                let file = id.map(|id| attachment(self.database, &id)).transpose()?.flatten();
                file.map(Part::Media).into_iter().collect()
            }
            _ => Vec::new(),
        })
    }

    /// A text that is put together of literals and fragments.
    fn text(&self, payload: Node<'_>) -> Result<Option<String>> {
        let Some(pieces) = payload.get("text_ref") else {
            return Ok(text(payload, "text"));
        };
        let mut whole = String::new();
        for piece in pieces.items() {
            if let Some(said) = text(piece, "literal") {
                whole.push_str(&said);
            } else if let Some(number) = piece.get("fragment").and_then(|number| number.as_u64()) {
                let number = i64::try_from(number).unwrap_or(-1);
                let rows = self
                    .database
                    .beside("fragments", &["content"], "WHERE t.id = ?1", &number)?;
                whole.push_str(&rows.first().and_then(|row| row.text("content")).unwrap_or_default());
            }
            if whole.len() as u64 > super::database::ROW_BYTES_MAX {
                return Err(DatabaseError::TooLong(whole.len() as u64));
            }
        }
        Ok(Some(whole))
    }
}
