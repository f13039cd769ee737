//! Claude Code's logs: `~/.claude/projects/<folder>/<session>.jsonl`, and its subagents beside them.
//!
//! A line is a record with a parent; an answer is spread over several lines with one message id, and the results of parallel calls
//! hang off the lines of their calls. Read `line` (a line), then `tree` (from records to messages and turns), then `records` (seed 004's
//! rows).
//!
//! Lines are taken in as they come and told of when the file pauses, because parents may come later in the file, or never. An answer
//! that grows after it was told of is told of again; whoever records it knows which telling is better.

mod line;
mod records;
mod tree;

use std::path::Path;

use ropewalk_core::json::Doc;

use crate::reader::{Found, LineReader, Sink};
use line::{Line, Read};
use tree::Tree;

/// Bytes of lines that are held back before what is complete is told.
const HELD_BYTES_MAX: usize = 8 << 20;

/// Reads one file.
#[derive(Debug)]
pub struct ClaudeCode {
    tree: Tree,
    held: usize,
}

/// What is known of a file from outside.
#[derive(Debug, Clone, Default)]
pub struct FileFacts {
    /// As people know it.
    pub name: String,
    /// Of a subagent's file: what its `.meta.json` says.
    pub agent_type: Option<String>,
    /// The call that started it.
    pub spawned_by: Option<String>,
}

impl FileFacts {
    /// Looks at what lies beside a file.
    pub fn of(path: &Path, name: &str) -> Self {
        let mut facts = FileFacts {
            name: name.to_owned(),
            ..FileFacts::default()
        };
        let meta = path.with_extension("meta.json");
        let is_agent = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("agent-"));
        let meta = is_agent.then(|| std::fs::read(meta).ok()).flatten();
        if let Some(doc) = meta.as_deref().and_then(|meta| Doc::parse(meta).ok()) {
            let text = |name: &str| doc.root().get_str(name).map(|text| text.into_owned());
            facts.agent_type = text("agentType");
            facts.spawned_by = text("toolUseId");
        }
        facts
    }
}

impl ClaudeCode {
    pub fn new(facts: FileFacts) -> Self {
        ClaudeCode {
            tree: Tree::new(facts),
            held: 0,
        }
    }

    /// Whether a line is one of these logs.
    pub fn is_line(root: ropewalk_core::json::Node<'_>) -> bool {
        let has = |name: &str| root.get(name).is_some();
        let kind = root.get_str("type");
        let is_known = |kind: &str| {
            let with_session = [
                "user",
                "assistant",
                "system",
                "attachment",
                "queue-operation",
                "mode",
                "last-prompt",
            ];
            let alone = [
                "summary",
                "file-history-snapshot",
                "ai-title",
                "custom-title",
                "permission-mode",
            ];
            (with_session.contains(&kind) && has("sessionId")) || alone.contains(&kind)
        };
        kind.is_some_and(|kind| is_known(&kind))
    }
}

impl LineReader for ClaudeCode {
    fn line(&mut self, number: u64, line: &[u8], sink: &mut dyn Sink) -> Found {
        match Line::read(number, line) {
            Ok(Read::Line(read)) => {
                self.held += line.len();
                self.tree.add(*read);
            }
            Ok(Read::Nothing(kind)) => sink.skipped(&kind),
            Err(error) => sink.problem(number, error.to_string()),
        }
        if self.held < HELD_BYTES_MAX {
            return Found::GoOn;
        }
        self.held = 0;
        self.tree.tell(false, sink)
    }

    fn pause(&mut self, sink: &mut dyn Sink) -> Found {
        self.held = 0;
        self.tree.tell(true, sink)
    }
}
