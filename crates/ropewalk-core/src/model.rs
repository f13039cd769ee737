//! What a request and a response say, whoever the provider is.
//!
//! The shape is Anthropic's, because it is the widest: messages made of blocks, tool results inside user
//! messages. The other formats map into it without loss: what we interpret has a field, what we do not
//! stays beside it as JSON text (`extra`, [`Block::Other`]). The exact bytes live in parts, not here.

use std::sync::Arc;

use crate::shared_list::SharedList;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    Anthropic,
    OpenAiChat,
    OpenAiResponses,
    Gemini,
}

impl Provider {
    /// The company, as `log` shows it.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAiChat | Provider::OpenAiResponses => "openai",
            Provider::Gemini => "gemini",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    User,
    Assistant,
    /// Context inside the message list: kept, shown, never part of the chain.
    System,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    /// The content came as a bare string rather than as blocks.
    pub is_string: bool,
    pub blocks: Vec<Block>,
    /// Members of the message we do not interpret, as a JSON object.
    pub extra: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    Text {
        text: Arc<str>,
        extra: Option<Box<str>>,
    },
    /// Reasoning in any form: `thinking`, `redacted_thinking`, Responses `reasoning`, Gemini thoughts.
    Thinking {
        text: Arc<str>,
        /// The provider's name of the block.
        kind: Box<str>,
        extra: Option<Box<str>>,
    },
    ToolUse(ToolUse),
    ToolResult(ToolResult),
    Media(Media),
    /// Responses `item_reference`: the recorded item of that id stands here.
    Reference {
        id: Box<str>,
    },
    /// Anything else, as it was written.
    Other {
        kind: Box<str>,
        json: Box<str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUse {
    /// What the result refers to. Gemini gives none.
    pub id: Option<Box<str>>,
    pub name: Box<str>,
    pub input: ToolInput,
    pub extra: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolInput {
    /// JSON text as received, well-formed.
    Json(Box<str>),
    /// Free text (Responses custom tools), or arguments that are no JSON (a stream that was cut off).
    Text(Arc<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub tool_use_id: Option<Box<str>>,
    /// Only Gemini names the function instead of the call.
    pub name: Option<Box<str>>,
    pub is_error: bool,
    pub content: ToolContent,
    pub extra: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolContent {
    /// No content member at all.
    Absent,
    Text(Arc<str>),
    /// `json` is the array as received; seed 000 hashes it.
    Blocks {
        blocks: Vec<Block>,
        json: Box<str>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    pub kind: MediaKind,
    pub media_type: Option<Box<str>>,
    pub source: MediaSource,
    pub extra: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    Image,
    Document,
    Audio,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// Base64 as sent. Shared with the part that stores it.
    Base64(Arc<str>),
    /// A document given as plain text.
    Text(Arc<str>),
    Url(Box<str>),
    FileId(Box<str>),
    /// No source we know; `extra` has what was sent.
    Missing,
}

/// One tool of the request's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub name: Box<str>,
    pub json: Box<str>,
}

/// Where the chain starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ChainStart {
    #[default]
    Root,
    /// Responses `previous_response_id`.
    Previous(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub provider: Provider,
    pub model: Option<Box<str>>,
    pub stream: bool,
    pub start: ChainStart,
    /// The system prompt's blocks, before the first message.
    pub system: Vec<Arc<Block>>,
    pub tools: Vec<Arc<Tool>>,
    pub messages: SharedList<Arc<Message>>,
    /// Every other top-level member: name and JSON text, in the order sent.
    pub options: Vec<(Box<str>, Box<str>)>,
}

impl Request {
    /// JSON text of a top-level member that is neither model, stream, system, tools nor messages.
    pub fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(key, _)| &**key == name);
        found.map(|(_, json)| &**json)
    }
}

/// Tokens, as the provider counted them, in one convention: `input_tokens` never includes cached ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    /// All cache writes; the two lifetimes are priced apart.
    pub cache_write_tokens: u64,
    pub cache_write_1h_tokens: u64,
    /// Part of `output_tokens`.
    pub reasoning_tokens: u64,
    pub web_searches: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The provider's id of the answer.
    pub id: Option<Box<str>>,
    pub model: Option<Box<str>>,
    pub blocks: Vec<Block>,
    /// Ids of output items (Responses), to resolve `item_reference`: (id, index into `blocks` of its first block).
    pub item_ids: Vec<(Box<str>, usize)>,
    pub stop_reason: Option<Box<str>>,
    pub usage: Option<Usage>,
    pub error: Option<ApiError>,
    /// The terminal event arrived (or the body is whole). Nothing else may be trusted as an answer.
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub kind: Box<str>,
    pub message: Box<str>,
}
