//! Tool operations as messages of their own, taken out of the record of the assistant that asked for them.

use crate::json::{Doc, Kind, Node, Style, quote, to_compact_js};
use crate::model::{Block, ToolContent, ToolInput, ToolResult, ToolUse};

use super::MessageKind;
use super::names::{call_name, result_name};

/// How much of a command its summary shows, in characters.
const COMMAND_CHARS_MAX: usize = 60;

/// What an assistant's record holds, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Call(ToolCall),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: Option<String>,
    pub name: String,
    /// The arguments as JSON text.
    pub input: String,
    /// The whole block as compact JSON, members in the order received.
    pub json: String,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    pub tool_use_id: Option<String>,
    pub text: String,
    /// The client said that the tool failed.
    pub is_error: bool,
}

/// A tool operation as a message. Always a sidechain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolMessage {
    pub uuid: String,
    pub parent_uuid: String,
    pub kind: MessageKind,
    pub content: String,
    pub is_error: bool,
}

/// An assistant's record, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// What the assistant message shows: its texts, then a summary of each call, one a line.
    pub content: String,
    /// Each call, followed by its result if there is one.
    pub messages: Vec<ToolMessage>,
    /// Positions of outputs that answer no call of this record.
    pub unpaired: Vec<usize>,
}

impl Part {
    /// Parts of a content array as it was logged; a bare string is one text.
    pub fn from_json(content: Node<'_>) -> Vec<Part> {
        if let Some(text) = content.as_str() {
            return vec![Part::Text(text.into_owned())];
        }
        content.items().filter_map(Part::from_json_block).collect()
    }

    /// One block; `None` for what is neither text nor a call.
    pub fn from_json_block(block: Node<'_>) -> Option<Part> {
        match &*block.get_str("type")? {
            "text" => block.get_str("text").map(|text| Part::Text(text.into_owned())),
            "tool_use" => Some(Part::Call(ToolCall {
                id: block.get_str("id").map(|id| id.into_owned()),
                name: block.get_str("name").unwrap_or_default().into_owned(),
                input: block.get("input").map_or("{}", |input| input.raw()).to_owned(),
                json: to_compact_js(block),
            })),
            _ => None,
        }
    }

    /// Parts of a recorded answer. A stream has no order of members, so the block is written as the
    /// provider documents it.
    pub fn from_blocks(blocks: &[Block]) -> Vec<Part> {
        let part = |block: &Block| match block {
            Block::Text { text, .. } => Some(Part::Text(text.to_string())),
            Block::ToolUse(call) => Some(Part::Call(ToolCall::from_model(call))),
            _ => None,
        };
        blocks.iter().filter_map(part).collect()
    }
}

impl ToolCall {
    fn from_model(call: &ToolUse) -> Self {
        let input = match &call.input {
            ToolInput::Json(json) => {
                Doc::parse_str(json).map_or_else(|_| json_string(json), |doc| to_compact_js(doc.root()))
            }
            ToolInput::Text(text) => json_string(text),
        };
        let id = call.id.as_deref().map(|id| format!("\"id\":{},", json_string(id)));
        let json = format!(
            "{{\"type\":\"tool_use\",{}\"name\":{},\"input\":{input}}}",
            id.unwrap_or_default(),
            json_string(&call.name)
        );
        ToolCall {
            id: call.id.as_deref().map(str::to_owned),
            name: call.name.to_string(),
            input,
            json,
        }
    }
}

impl ToolOutput {
    /// A result's text: the string, or the texts of its blocks, one a line.
    pub fn from_model(result: &ToolResult) -> Self {
        let text = match &result.content {
            ToolContent::Absent => String::new(),
            ToolContent::Text(text) => text.to_string(),
            ToolContent::Blocks { blocks, .. } => {
                let texts = blocks.iter().filter_map(|block| match block {
                    Block::Text { text, .. } => Some(&**text),
                    _ => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        };
        ToolOutput {
            tool_use_id: result.tool_use_id.as_deref().map(str::to_owned),
            text,
            is_error: result.is_error,
        }
    }
}

/// Takes the calls out of the record `uuid` and pairs them with their outputs.
pub fn extract(uuid: &str, parts: &[Part], outputs: &[ToolOutput]) -> Extracted {
    let calls: Vec<&ToolCall> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) => None,
        })
        .collect();
    let (paired, unpaired) = pair(&calls, outputs);
    let mut messages = Vec::new();
    for (i, (call, output)) in calls.iter().zip(paired).enumerate() {
        let tool = call_name(uuid, i);
        messages.push(ToolMessage {
            uuid: tool.clone(),
            parent_uuid: uuid.to_owned(),
            kind: MessageKind::ToolUse,
            content: call.json.clone(),
            is_error: false,
        });
        if let Some(output) = output {
            messages.push(ToolMessage {
                uuid: result_name(uuid, i),
                parent_uuid: tool,
                kind: MessageKind::ToolResult,
                content: outputs[output].text.clone(),
                is_error: outputs[output].is_error,
            });
        }
    }
    Extracted {
        content: shown(parts, &calls),
        messages,
        unpaired,
    }
}

fn shown(parts: &[Part], calls: &[&ToolCall]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::Call(_) => None,
    });
    let summaries = calls.iter().map(|call| tool_summary(&call.name, &call.input));
    texts.chain(summaries).collect::<Vec<_>>().join("\n")
}

/// The output of each call, and the outputs left over. An id decides; position only pairs what has none.
fn pair(calls: &[&ToolCall], outputs: &[ToolOutput]) -> (Vec<Option<usize>>, Vec<usize>) {
    let mut paired = vec![None; calls.len()];
    let mut left = Vec::new();
    let mut without_id = Vec::new();
    for (at, output) in outputs.iter().enumerate() {
        let Some(id) = output.tool_use_id.as_deref() else {
            without_id.push(at);
            continue;
        };
        match calls.iter().position(|call| call.id.as_deref() == Some(id)) {
            // A repeated result says the same again.
            Some(call) => paired[call] = paired[call].or(Some(at)),
            None => left.push(at),
        }
    }
    let mut without_id = without_id.into_iter();
    for slot in paired.iter_mut().filter(|slot| slot.is_none()) {
        *slot = without_id.next();
    }
    left.extend(without_id);
    left.sort_unstable();
    (paired, left)
}

/// One line that says what a call does. A call without the argument that its line needs is only named.
pub fn tool_summary(name: &str, input: &str) -> String {
    let doc = Doc::parse_str(input).ok();
    let arguments = doc.as_ref().map(Doc::root);
    let known = arguments.and_then(|arguments| known_summary(name, arguments));
    known.unwrap_or_else(|| format!("🔧 Using tool: {name}"))
}

/// Arguments that tell most about a call, the best first.
const TELLING_ARGUMENTS: [&str; 10] = [
    "file_path",
    "notebook_path",
    "path",
    "pattern",
    "command",
    "query",
    "url",
    "description",
    "prompt",
    "message",
];

/// The argument that tells most about a call, whatever the tool: its only text, else by name.
pub fn tool_argument(input: &str) -> Option<String> {
    let doc = Doc::parse_str(input).ok()?;
    let root = doc.root();
    // A search in a folder is told by what it looks for.
    let pattern = root.get_str("pattern");
    let named = || TELLING_ARGUMENTS.iter().find_map(|name| root.get_str(name));
    let only = || {
        let mut members = root.members();
        let first = members.next()?.1.as_str()?;
        members.next().is_none().then_some(first)
    };
    pattern.or_else(named).or_else(only).map(|text| text.into_owned())
}

fn known_summary(name: &str, arguments: Node<'_>) -> Option<String> {
    let text = |key: &str| arguments.get_str(key);
    let count = |key: &str| {
        Some(
            arguments
                .get(key)
                .filter(|list| list.kind() == Kind::Array)?
                .items()
                .count(),
        )
    };
    let summary = match name {
        "Read" => format!("📄 Reading file: {}", text("file_path")?),
        "Write" => format!("✏️ Writing to file: {}", text("file_path")?),
        "Edit" => format!("✏️ Editing file: {}", text("file_path")?),
        "MultiEdit" => format!("✏️ Multiple edits ({}) to: {}", count("edits")?, text("file_path")?),
        "LS" => format!("📁 Listing directory: {}", text("path")?),
        "Glob" => format!("🔍 Finding files matching: {}", text("pattern")?),
        "Grep" => format!("🔍 Searching for: {}", text("pattern")?),
        "Bash" => format!("💻 Running command: {}", first_chars(&text("command")?)),
        "WebSearch" => format!("🌐 Web search: {}", text("query")?),
        "WebFetch" => format!("🌐 Fetching: {}", text("url")?),
        "NotebookRead" => format!("📓 Reading notebook: {}", text("notebook_path")?),
        "NotebookEdit" => format!("📓 Editing notebook: {}", text("notebook_path")?),
        "TodoWrite" => format!("📝 Updating todo list ({} items)", count("todos")?),
        "Task" | "Agent" => format!("🤖 Running agent task: {}", text("description")?),
        "ExitPlanMode" => "📋 Exiting plan mode".to_owned(),
        _ => return None,
    };
    Some(summary)
}

fn first_chars(command: &str) -> String {
    match command.char_indices().nth(COMMAND_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &command[..end]),
        None => command.to_owned(),
    }
}

fn json_string(text: &str) -> String {
    quote(text, Style::Plain)
}
