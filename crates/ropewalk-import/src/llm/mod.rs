//! llm's database of logs (`logs.db`), in both of its schemas.
//!
//! Read `database` first (a database of somebody else's), then `call` (what one call is made of), then the two schemas: `turns` (0.32
//! and later: a tree of messages, each stored once) and `responses` (before: one row a call, in conversations). A database
//! that was migrated has both; a call that both tell of is the newer one's.
//!
//! The log knows what others do not: system prompt, tools, options, schema. So each call is told as a whole exchange, with all of it.

mod call;
mod database;
mod responses;
mod turns;

use std::path::Path;

use crate::exported::{Conversation, title_row};
use crate::reader::{Found, Sink, WholeReader};
use call::Call;
use database::Database;
use ropewalk_engine::logged::Logged;
use ropewalk_store::Micros;

/// Reads one database.
#[derive(Debug)]
pub struct Llm {
    name: String,
}

impl Llm {
    pub fn new(name: &str) -> Self {
        Llm { name: name.to_owned() }
    }

    /// What every SQLite database begins with.
    pub const MAGIC: &'static [u8] = b"SQLite format 3\0";

    /// Whether a database has tables of llm's.
    pub fn is_database(path: &Path) -> bool {
        Database::open(path).is_ok_and(|database| turns::are_in(&database) || responses::are_in(&database))
    }
}

impl WholeReader for Llm {
    fn read(&mut self, path: &Path, _: &[u8], sink: &mut dyn Sink) -> Found {
        let database = match Database::open(path) {
            Ok(database) => database,
            Err(error) => {
                sink.problem(0, error.to_string());
                return Found::GoOn;
            }
        };
        if database.misses_changes {
            sink.problem(
                0,
                "the newest changes lie in the -wal file beside it and cannot be read here".to_owned(),
            );
        }
        let mut told = Told { name: &self.name, sink };
        if !turns::are_in(&database) && !responses::are_in(&database) {
            told.sink.problem(0, "a database, but none of llm's".to_owned());
            return Found::GoOn;
        }
        match turns::read(&database, &mut told) {
            Found::GoOn => responses::read(&database, &mut told),
            Found::Stop => Found::Stop,
        }
    }

    fn needs_bytes(&self) -> bool {
        false
    }
}

/// Where calls go.
struct Told<'t> {
    name: &'t str,
    sink: &'t mut dyn Sink,
}

impl Told<'_> {
    fn call(&mut self, row: i64, call: &Call) -> Found {
        match call.exchange(self.name, row) {
            Ok(raw) => self.sink.found(Logged::Exchange {
                owner: None,
                raw: Box::new(raw),
            }),
            Err(problem) => {
                self.problem(row, &call.id, &problem);
                Found::GoOn
            }
        }
    }

    /// The name of a conversation.
    fn title(&mut self, row: i64, id: &str, title: Option<&str>, begun: Option<Micros>) -> Found {
        let conversation = Conversation {
            number: row.unsigned_abs(),
            id: id.to_owned(),
            begun: begun.unwrap_or(Micros(0)),
            project: None,
        };
        match title_row(self.name, &conversation, title, None) {
            Some(row) => self.sink.found(Logged::Record(Box::new(row), None)),
            None => Found::GoOn,
        }
    }

    fn problem(&mut self, row: i64, id: &str, problem: &str) {
        let id = crate::exported::shown(id);
        self.sink
            .problem(row.unsigned_abs(), format!("row {row}, call {id}: {problem}"));
    }
}
