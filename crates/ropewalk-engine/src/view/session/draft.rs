//! A message before it has its place.

use jiff::Timestamp;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::hierarchy::{MessageKind, Part, Record, ToolOutput, tool_argument};
use ropewalk_core::json::Doc;
use ropewalk_store::Micros;
use ropewalk_store::facts::ExchangeNumber;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    /// With the parent's uuid as it is after all aliases.
    pub(super) record: Record,
    pub(super) declared_parent: Option<String>,
    pub(super) session: String,
    pub(super) agent: Option<String>,
    /// Of a tool operation: the call's id.
    pub(super) tool_use: Option<String>,
    /// Of a subagent's first message: the id of the call that started it.
    pub(super) spawned_by: Option<String>,
    /// The exchange whose answer it is, or is taken out of.
    pub(super) answer_of: Option<ExchangeNumber>,
    pub(super) source: Source,
    pub(super) said: Said,
}

/// Where what it says is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// In the draft already.
    Given,
    /// The whole answer of its exchange.
    Answer,
    /// The call of its exchange's answer: by its id, else the one of that position among the calls.
    Call(usize),
    /// Where a block ends in some recorded request.
    Node(NodeHash),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Said {
    pub(super) content: String,
    pub(super) data: Option<Value>,
    pub(super) brief: Brief,
    /// Of a tool's result.
    pub(super) is_error: bool,
}

/// What one line about a message needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Brief {
    /// The beginning of what was said, without calls.
    pub text: String,
    /// The calls: name, and the argument that tells most.
    pub calls: Vec<(String, Option<String>)>,
}

/// Characters of a text that one line may show.
const BRIEF_CHARS_MAX: usize = 200;

/// Calls that one line may show.
const BRIEF_CALLS_MAX: usize = 8;

impl Said {
    pub(super) fn of_text(content: String) -> Self {
        Said {
            brief: Brief::of_text(&content),
            content,
            ..Said::default()
        }
    }

    /// What a tool gave back.
    pub(super) fn of_output(output: ToolOutput, attached: Option<Value>) -> Self {
        Said {
            is_error: output.is_error,
            data: attached,
            ..Said::of_text(output.text)
        }
    }

    /// A tool operation: of a call, the block as JSON.
    pub(super) fn of_tool(kind: MessageKind, content: String) -> Self {
        match kind {
            MessageKind::ToolUse => Said {
                brief: Brief::of_call(&content),
                content,
                ..Said::default()
            },
            _ => Said::of_text(content),
        }
    }
}

impl Brief {
    pub(super) fn of_text(text: &str) -> Self {
        Brief {
            text: text.chars().take(BRIEF_CHARS_MAX).collect(),
            calls: Vec::new(),
        }
    }

    fn of_call(block: &str) -> Self {
        let doc = Doc::parse_str(block).ok();
        let part = doc.and_then(|doc| Part::from_json_block(doc.root()));
        Brief::of_parts(part.as_slice())
    }

    pub(super) fn of_parts(parts: &[Part]) -> Self {
        let mut brief = Brief::default();
        let mut left = BRIEF_CHARS_MAX;
        for part in parts {
            match part {
                Part::Text(text) if left > 0 && !text.is_empty() => {
                    if !brief.text.is_empty() {
                        brief.text.push(' ');
                    }
                    brief.text.extend(text.chars().take(left));
                    left = left.saturating_sub(text.chars().take(left).count());
                }
                Part::Call(call) if brief.calls.len() < BRIEF_CALLS_MAX => {
                    let argument = tool_argument(&call.input);
                    brief.calls.push((call.name.clone(), argument));
                }
                Part::Text(_) | Part::Call(_) => {}
            }
        }
        brief
    }
}

pub(super) fn record(
    uuid: String,
    parent_uuid: Option<String>,
    kind: MessageKind,
    flagged_sidechain: bool,
    in_subagent: bool,
    at: Option<Micros>,
) -> Record {
    Record {
        uuid,
        parent_uuid,
        kind,
        flagged_sidechain,
        in_subagent,
        at: at.and_then(|at| Timestamp::from_microsecond(at.0).ok()),
    }
}
