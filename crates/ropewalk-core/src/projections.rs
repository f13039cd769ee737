//! All compatibility hashes of one exchange.
//!
//! They are computed from the body alone. What needs the store (the path through a recorded parent, the
//! type that was frozen at the start of a conversation) replaces the values here later.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::agent_identity::{
    agent_type_hash, conversation_hash, hash_first_assistant_response, hash_user_message, short, tool_set_hash,
};
use crate::hash::sha256_hex;
use crate::json::{Doc, Node, Style, quote, to_sorted};
use crate::model::{Block, Message, Request, Response, Role, Tool};
use crate::prompt_path::{RequestPath, StepHashes, response_hash};
use crate::shared_list::SharedList;
use crate::system_prompt::{system_hash, system_raw_hash};
use crate::text::strip_reminders;
use crate::transcript::{HashedTranscript, TranscriptHashes, message_hash};

/// Raised whenever a hash, or a key that linking looks an exchange up by, is made otherwise than before: `rebuild --projections` then
/// makes those of recorded exchanges again.
pub const PROJECTIONS_VERSION: u32 = 5;

/// Hex digits: 16 for the hashes of seed 001, 64 for all others.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Projections {
    /// Of the last message, whoever sent it.
    pub message_hash: Option<String>,
    pub current_message_hash: Option<String>,
    pub parent_message_hash: Option<String>,
    pub system_hash: String,
    pub system_raw_hash: String,
    pub toolset_hash: String,
    pub tools_hash: String,
    pub agent_type_hash: String,
    pub first_user_hash: String,
    /// `None` until the first answer is whole.
    pub first_response_hash: Option<String>,
    pub conversation_hash: Option<String>,
    pub prompt_hash: String,
    /// `None` without a complete, successful answer.
    pub response_hash: Option<String>,
    pub path_hash: String,
}

/// The messages of a turn with what hashing them came to. The next turn repeats most of them: what both begin with is hashed once.
#[derive(Debug, Clone)]
pub struct HashedMessages {
    messages: SharedList<Arc<Message>>,
    transcript: HashedTranscript,
    steps: StepHashes,
}

impl HashedMessages {
    /// How many messages both begin with: the same ones, not only equal ones.
    fn shared(&self, messages: &SharedList<Arc<Message>>) -> usize {
        let both = self.messages.iter().zip(messages);
        both.take_while(|(one, other)| Arc::ptr_eq(one, other)).count()
    }
}

impl Projections {
    pub fn of(request: &Request, response: Option<&Response>) -> Projections {
        Self::behind(request, response, None).0
    }

    /// Goes on behind what a turn before has of the same messages.
    pub fn behind(
        request: &Request,
        response: Option<&Response>,
        before: Option<&HashedMessages>,
    ) -> (Projections, HashedMessages) {
        let before = before.map(|before| (before, before.shared(&request.messages)));
        let messages = request.messages.iter().map(|message| &**message);
        let (hashes, transcript) =
            HashedTranscript::of(messages, before.map(|(before, shared)| (&before.transcript, shared)));
        let steps = StepHashes::of(request, before.map(|(before, shared)| (&before.steps, shared)));
        let projections = Self::of_grown(request, response, hashes, steps.request_path());
        let hashed = HashedMessages {
            messages: request.messages.clone(),
            transcript,
            steps,
        };
        (projections, hashed)
    }

    /// Of a request whose transcript and path were hashed as it grew.
    pub fn of_grown(
        request: &Request,
        response: Option<&Response>,
        transcript: TranscriptHashes,
        path: RequestPath,
    ) -> Projections {
        let system_hash = system_hash(&request.system);
        let toolset_hash = tool_set_hash(request.tools.iter().map(|tool| &*tool.name));
        let agent_type_hash = agent_type_hash(&short(&system_hash), &toolset_hash);
        let first_user_hash = hash_user_message(&first_user_text(request).unwrap_or_default());
        let first_response_hash =
            first_response_text(request, response).map(|text| hash_first_assistant_response(&text));
        Projections {
            message_hash: request.messages.last().map(|message| message_hash(message)),
            current_message_hash: transcript.current_message_hash,
            parent_message_hash: transcript.parent_message_hash,
            system_raw_hash: system_raw_hash(&request.system),
            tools_hash: tools_hash(request.tools.iter().map(|tool| &**tool)),
            conversation_hash: first_response_hash
                .as_deref()
                .map(|answer| conversation_hash(&agent_type_hash, &first_user_hash, answer)),
            response_hash: response.and_then(response_hash),
            prompt_hash: path.prompt_hash,
            path_hash: path.path_hash,
            system_hash,
            toolset_hash,
            agent_type_hash,
            first_user_hash,
            first_response_hash,
        }
    }
}

/// Texts of the first user message without reminders, joined by nothing.
pub fn first_user_text(request: &Request) -> Option<String> {
    let first = request.messages.iter().find(|message| message.role == Role::User)?;
    Some(texts(&first.blocks).map(strip_reminders).collect())
}

/// First text of the first answer: from the history if the request carries it, else from the response.
/// An answer without text has the empty one.
fn first_response_text(request: &Request, response: Option<&Response>) -> Option<String> {
    let messages = request.messages.iter();
    let conversation = messages.filter(|message| message.role != Role::System);
    let mut from_user = conversation.skip_while(|message| message.role != Role::User).peekable();
    from_user.peek()?;
    let behind = from_user.skip_while(|message| message.role == Role::User);
    // Only the first answer counts: one that was all tool calls keeps its hash when a later one has text.
    let mut answer = behind.take_while(|message| message.role == Role::Assistant).peekable();
    if answer.peek().is_some() {
        let text = answer.flat_map(|message| texts(&message.blocks)).next();
        return Some(text.unwrap_or_default().to_owned());
    }
    let response = response.filter(|response| response.complete && response.error.is_none())?;
    Some(texts(&response.blocks).next().unwrap_or_default().to_owned())
}

fn texts(blocks: &[Block]) -> impl Iterator<Item = &str> {
    blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(&**text),
        _ => None,
    })
}

/// SHA-256 over the tools as sent, one a line, so that a changed description shows.
pub fn tools_hash<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> String {
    let line =
        |tool: &Tool| Doc::parse_str(&tool.json).map_or_else(|_| tool.json.to_string(), |doc| tool_line(doc.root()));
    let lines: Vec<String> = tools.into_iter().map(line).collect();
    sha256_hex(&lines.join("\n"))
}

/// Sorted JSON without the tool's own `cache_control`. A parameter of that name, further down, stays.
fn tool_line(tool: Node<'_>) -> String {
    if !tool.is_object() {
        return to_sorted(tool, &|_, _| false);
    }
    let members: BTreeMap<String, Node<'_>> = tool
        .members()
        .map(|(key, value)| (key.to_text().unwrap_or_default(), value))
        .collect();
    let written = members
        .iter()
        .filter(|(key, _)| *key != "cache_control")
        .map(|(key, value)| format!("{}:{}", quote(key, Style::Plain), to_sorted(*value, &|_, _| false)));
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}
