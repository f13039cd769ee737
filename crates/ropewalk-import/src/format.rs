//! Which format a file has, by its first lines, or by how it begins.

use std::path::Path;

use ropewalk_core::json::Doc;
use ropewalk_wire::exchange::ExchangeLine;

use crate::chatgpt::ChatGpt;
use crate::claude_ai::ClaudeAi;
use crate::claude_code::{ClaudeCode, FileFacts};
use crate::codex::Codex;
use crate::exchanges::Exchanges;
use crate::har::Har;
use crate::llm::Llm;
use crate::reader::{LineReader, WholeReader};
use crate::recognise;

/// A kind of file that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Exchanges,
    ClaudeCode,
    Codex,
    Llm,
    ChatGpt,
    ClaudeAi,
    Har,
}

/// How a format is read.
pub enum Reader {
    Lines(Box<dyn LineReader>),
    Whole(Box<dyn WholeReader>),
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reader::Lines(_) => "Lines",
            Reader::Whole(_) => "Whole",
        })
    }
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Exchanges => "exchanges",
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::Llm => "llm",
            Format::ChatGpt => "chatgpt",
            Format::ClaudeAi => "claude-ai",
            Format::Har => "har",
        }
    }

    /// The format that a line is of, if it says so. Formats that are one document are recognised by [`Format::of_document`].
    pub fn of_line(line: &[u8]) -> Option<Self> {
        if ExchangeLine::is_exchange(line) {
            return Some(Format::Exchanges);
        }
        let doc = Doc::parse(line).ok()?;
        let root = doc.root();
        if Codex::is_line(root) {
            return Some(Format::Codex);
        }
        ClaudeCode::is_line(root).then_some(Format::ClaudeCode)
    }

    /// The format of a file that is one document, by what it begins with: a database by its tables, a list by the members of its first
    /// element, an archive by what is in it. `None` for a file of lines, and for whatever cannot be looked at.
    pub fn of_document(path: &Path) -> Option<Self> {
        recognise::document(path)
    }

    /// Whether a file that only grew can be read on from where it was read to: each line stands for itself.
    pub fn lines_stand_alone(self) -> bool {
        self == Format::Exchanges
    }

    /// A reader for one file.
    pub fn reader(self, path: &Path, name: &str) -> Reader {
        match self {
            Format::Exchanges => Reader::Lines(Box::new(Exchanges::new(name))),
            Format::ClaudeCode => Reader::Lines(Box::new(ClaudeCode::new(FileFacts::of(path, name)))),
            Format::Codex => Reader::Lines(Box::new(Codex::new(name))),
            Format::Llm => Reader::Whole(Box::new(Llm::new(name))),
            Format::ChatGpt => Reader::Whole(Box::new(ChatGpt::new(name))),
            Format::ClaudeAi => Reader::Whole(Box::new(ClaudeAi::new(name))),
            Format::Har => Reader::Whole(Box::new(Har::new(name))),
        }
    }
}
