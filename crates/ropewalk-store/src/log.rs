//! What a client's own log adds to the exchanges: the tree of its records (seed 004), and how far its files were read.
//!
//! Both are derived from files that may be gone by now, so they are kept; both can be dropped and read again from the files
//! without a loss to any exchange. A row that is saved again replaces the one of its name, but for [`RecordRow::outranks`].

use ropewalk_core::hash::NodeHash;

use crate::facts::Micros;
use crate::packed::{read_record, write_record};
use crate::store::Result;

/// What a record is in the tree of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    User,
    Assistant,
    ToolUse,
    ToolResult,
    /// A title; never a node of the tree.
    Summary,
    /// Context and notices of the client: attachments, boundaries.
    Other,
    /// A record that was taken apart; [`RecordRow::stands_for`] is what took its place.
    Absorbed,
}

impl RecordKind {
    pub const ALL: [RecordKind; 7] = [
        RecordKind::User,
        RecordKind::Assistant,
        RecordKind::ToolUse,
        RecordKind::ToolResult,
        RecordKind::Summary,
        RecordKind::Other,
        RecordKind::Absorbed,
    ];

    pub fn is_tool(self) -> bool {
        matches!(self, RecordKind::ToolUse | RecordKind::ToolResult)
    }
}

/// Names of titles begin so: they lie before all other records of their session, and are found without reading those.
const TITLE: &str = "!title_";

/// Who calls a session so, or a part of it. An earlier one outranks those below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TitleBy<'t> {
    /// The person, in that line.
    User(u64),
    /// The client, in that line.
    Client(u64),
    /// The client, for what ends with that record.
    Record(&'t str),
}

impl TitleBy<'_> {
    /// The name of the title's record; of those by line the newest comes first.
    pub fn name(self) -> String {
        match self {
            TitleBy::User(line) => format!("{TITLE}0{:016x}", u64::MAX - line),
            TitleBy::Client(line) => format!("{TITLE}1{:016x}", u64::MAX - line),
            TitleBy::Record(uuid) => format!("{TITLE}2{uuid}"),
        }
    }
}

/// A record of a log, or a tool operation that was taken out of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordRow {
    pub session: String,
    /// Unique in its session. A tool operation has `{assistant}_tool_{i}` or `{assistant}_result_{i}`.
    pub uuid: String,
    pub parent: Option<String>,
    pub kind: RecordKind,
    pub is_sidechain: bool,
    pub at: Option<Micros>,
    /// The subagent whose record it is.
    pub agent: Option<String>,
    /// The provider's id of the answer that it is a piece of; the exchange has it among its items' keys.
    pub message: Option<String>,
    /// Where in the chains what it says ends; an exchange that has the node has its text.
    pub node: Option<NodeHash>,
    /// Of a tool operation the call's id; of a subagent's first record the call that started it.
    pub tool_use: Option<String>,
    /// Of an absorbed record what took its place; of a boundary the record that the session went on from.
    pub stands_for: Option<String>,
    /// What it says, where no exchange says it: a title, a notice. Bounded by whoever writes it.
    pub text: Option<String>,
    pub file: String,
    pub line: u64,
}

impl RecordRow {
    /// A tool operation that is taken out of this record.
    #[must_use]
    pub fn tool_operation(&self, kind: RecordKind, uuid: String, parent: Option<String>, call: Option<String>) -> Self {
        RecordRow {
            uuid,
            parent,
            kind,
            is_sidechain: true,
            tool_use: call,
            stands_for: None,
            text: None,
            ..self.clone()
        }
    }

    /// Of a title, how little it counts beside others.
    pub fn title_rank(&self) -> char {
        let rank = self.uuid.strip_prefix(TITLE).and_then(|behind| behind.chars().next());
        // Records of titles had other names once, and all were of one kind.
        rank.unwrap_or('2')
    }

    /// Whether this row stays where two of one name come: any rule will do that knows no order of arrival.
    pub fn outranks(&self, other: &RecordRow) -> bool {
        self < other
    }

    /// All but its session and uuid, as it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        write_record(self)
    }

    pub fn from_bytes(session: String, uuid: String, bytes: &[u8]) -> Result<Self> {
        read_record(session, uuid, bytes)
    }
}

/// How far a file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedFile {
    pub path: String,
    pub size: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub modified: i64,
    /// SHA-256 over the end of what was read.
    pub tail: [u8; 32],
    /// Whole lines up to here were read.
    pub offset: u64,
    /// Lines in them that could not be read.
    pub problems: u64,
}

/// Which files.
#[derive(Debug, Clone)]
pub enum Files {
    /// Those of these paths that were read, in the order of the question.
    Named(Vec<String>),
    /// In the order of their paths, behind `after`.
    All { after: Option<String>, limit: usize },
}

/// What to save, all or nothing.
#[derive(Debug, Clone, Default)]
pub struct LogChanges {
    /// Sessions whose records are dropped first.
    pub replaced: Vec<String>,
    pub records: Vec<RecordRow>,
    pub files: Vec<ImportedFile>,
}

impl LogChanges {
    /// Whether readers see it although no exchange comes with it: another title, or a session that is read again.
    pub(crate) fn is_seen(&self) -> bool {
        let mut records = self.records.iter();
        !self.replaced.is_empty() || records.any(|record| record.kind == RecordKind::Summary)
    }
}

/// Which records.
#[derive(Debug, Clone)]
pub enum Records {
    /// Of a session, in the order of their uuids, behind `after`.
    OfSession {
        session: String,
        after: Option<String>,
        limit: usize,
    },
    /// Those of these (session, uuid) that there are, in no order, as many as a page holds.
    Named(Vec<(String, String)>),
    /// In the order of (session, uuid), behind `after`.
    All {
        after: Option<(String, String)>,
        limit: usize,
    },
}

impl Records {
    /// The titles of a session, those that count most first; behind them whatever else the session has.
    pub fn titles_first(session: String, limit: usize) -> Self {
        Records::OfSession {
            session,
            after: Some(TITLE.to_owned()),
            limit,
        }
    }
}
