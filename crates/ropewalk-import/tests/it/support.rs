//! What a reader told, as lines; and files to read.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ropewalk_engine::RawExchange;
use ropewalk_engine::logged::{LogTurn, Logged};
use ropewalk_import::{Format, Found, Reader, Sink};
use ropewalk_testkit::captures::workspace_root;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

/// Everything that came.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) messages: Vec<(Option<u32>, String)>,
    pub(crate) turns: Vec<LogTurn>,
    pub(crate) titles: Vec<(String, String)>,
    pub(crate) exchanges: Vec<RawExchange>,
    pub(crate) problems: Vec<(u64, String)>,
    pub(crate) skipped: Vec<String>,
    /// Stops after so many.
    pub(crate) turns_max: Option<usize>,
    /// Messages that may not be stood behind any more.
    pub(crate) forgotten: usize,
}

impl Sink for Collected {
    fn found(&mut self, found: Logged) -> Found {
        match found {
            Logged::Message(message) => {
                let behind = message.behind.map(|number| number.0);
                assert!(behind.is_none_or(|behind| (self.forgotten..self.messages.len()).contains(&(behind as usize))));
                self.messages
                    .push((behind, String::from_utf8(message.json.to_vec()).unwrap()));
            }
            Logged::Turn(turn) => {
                let asked = turn.asked.map(|number| number.0 as usize);
                assert!(asked.is_none_or(|asked| (self.forgotten..self.messages.len()).contains(&asked)));
                self.turns.push(*turn);
            }
            Logged::Record(row, _) => self
                .titles
                .push((row.session.clone(), row.text.clone().unwrap_or_default())),
            Logged::Exchange { raw, .. } => self.exchanges.push(*raw),
        }
        match self
            .turns_max
            .is_some_and(|max| self.turns.len() + self.exchanges.len() >= max)
        {
            true => Found::Stop,
            false => Found::GoOn,
        }
    }

    fn problem(&mut self, line: u64, message: String) {
        self.problems.push((line, message));
    }

    fn skipped(&mut self, what: &str) {
        self.skipped.push(what.to_owned());
    }

    fn forget_messages(&mut self) {
        self.forgotten = self.messages.len();
    }
}

impl Collected {
    pub(crate) fn turn(&self, id: &str) -> &LogTurn {
        let found = self.turns.iter().find(|turn| turn.id == id);
        found.unwrap_or_else(|| panic!("no turn {id} among {:?}", self.ids()))
    }

    pub(crate) fn ids(&self) -> Vec<&str> {
        self.turns.iter().map(|turn| &*turn.id).collect()
    }

    /// The messages of a turn's request, oldest first.
    pub(crate) fn request(&self, id: &str) -> Vec<Value> {
        let mut at = self.turn(id).asked.map(|number| number.0);
        let mut messages = Vec::new();
        while let Some(number) = at {
            let (behind, json) = &self.messages[number as usize];
            messages.push(serde_json::from_str(json).unwrap());
            at = *behind;
        }
        messages.reverse();
        messages
    }

    pub(crate) fn answer(&self, id: &str) -> Value {
        serde_json::from_slice(&self.turn(id).answer).unwrap()
    }

    pub(crate) fn exchange(&self, id: &str) -> (Value, Value) {
        let found = self.exchanges.iter().find(|raw| raw.id == id).unwrap();
        let response = found.response_body.as_deref().unwrap();
        (
            serde_json::from_slice(&found.request_body).unwrap(),
            serde_json::from_slice(response).unwrap(),
        )
    }
}

pub(crate) fn fixture(name: &str) -> PathBuf {
    workspace_root().join("fixtures/import").join(name)
}

pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
}

pub(crate) fn read(format: Format, path: &Path) -> Collected {
    let mut collected = Collected::default();
    read_into(format, path, &mut collected);
    collected
}

pub(crate) fn read_into(format: Format, path: &Path, collected: &mut Collected) {
    let Reader::Whole(mut reader) = format.reader(path, "the file") else {
        panic!("{} is a format of lines", format.name());
    };
    assert!(!reader.needs_bytes());
    let _ = reader.read(path, &[], collected);
}

/// A folder that ends with the test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn zip(&self, name: &str, members: &[(&str, &str)]) -> PathBuf {
        let path = self.path(name);
        let mut archive = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
        for (member, text) in members {
            archive
                .start_file(*member, zip::write::SimpleFileOptions::default())
                .unwrap();
            archive.write_all(text.as_bytes()).unwrap();
        }
        archive.finish().unwrap();
        path
    }

    /// A database from the SQL of a fixture.
    pub(crate) fn database(&self, name: &str) -> PathBuf {
        let path = self.path("logs.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(&text(name)).unwrap();
        path
    }
}

/// What was read of a text in that format.
pub(crate) fn read_text(format: Format, text: &str) -> Collected {
    let folder = Folder::new();
    read(format, &folder.file("file", text))
}
