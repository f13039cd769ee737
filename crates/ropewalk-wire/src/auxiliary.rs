//! What kind of call a request is.
//!
//! Clients make calls beside the conversation: for a title, to count tokens, to search, to find out whether
//! a key works. They carry the session's id and would otherwise look like turns. The rules look at the path,
//! at what the client says, and at the shape of the request, in this order, and give their reason.
//!
//! Invariant: a request that no rule knows is a turn. A missed helper call shows as a stray turn, a mistaken
//! one would hide a real turn; so every rule asks for more than one sign.

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{Block, Message, Provider, Request, Role};

use crate::hints::Hints;
use crate::provider::Endpoint;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestKind {
    Turn,
    Title,
    CountTokens,
    WebSearch,
    /// A question beside the conversation, which leaves no trace in it.
    SideQuestion,
    QuotaProbe,
    Prewarm,
    /// Asks for a summary to continue from.
    Compaction,
    /// Asks a small model how to go on: which model to take, who speaks next.
    Router,
}

impl RequestKind {
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Turn => "turn",
            RequestKind::Title => "title",
            RequestKind::CountTokens => "count_tokens",
            RequestKind::WebSearch => "web_search",
            RequestKind::SideQuestion => "side_question",
            RequestKind::QuotaProbe => "quota_probe",
            RequestKind::Prewarm => "prewarm",
            RequestKind::Compaction => "compaction",
            RequestKind::Router => "router",
        }
    }

    /// Neither a turn nor a compaction, which has rules of its own.
    pub fn is_auxiliary(self) -> bool {
        !matches!(self, RequestKind::Turn | RequestKind::Compaction)
    }
}

/// A kind with the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    pub kind: RequestKind,
    pub reason: &'static str,
}

/// Longest text of a call that only wants to know whether it would be answered.
const PROBE_CHARS_MAX: usize = 16;
/// How much of the last user text's end is searched for the instruction to summarise.
const INSTRUCTION_TAIL_CHARS: usize = 800;

pub fn classify(endpoint: &Endpoint<'_>, request: &Request, hints: &Hints) -> Classified {
    let found = by_endpoint(endpoint)
        .or_else(|| by_hint(hints))
        .or_else(|| by_shape(request))
        .unwrap_or((RequestKind::Turn, "no rule for helper calls applies"));
    Classified {
        kind: found.0,
        reason: found.1,
    }
}

type Found = Option<(RequestKind, &'static str)>;

fn by_endpoint(endpoint: &Endpoint<'_>) -> Found {
    match endpoint {
        Endpoint::CountTokens(_) => Some((RequestKind::CountTokens, "the path counts tokens")),
        Endpoint::ResponsesCompact => Some((RequestKind::Compaction, "the path compacts")),
        _ => None,
    }
}

/// Words of other meaning decide nothing: the shape does.
fn by_hint(hints: &Hints) -> Found {
    match hints.request_kind.as_deref()? {
        "turn" => Some((RequestKind::Turn, "the client says it is a turn")),
        "compaction" | "compact" => Some((RequestKind::Compaction, "the client says it compacts")),
        "prewarm" => Some((RequestKind::Prewarm, "the client says it warms up")),
        "title" => Some((RequestKind::Title, "the client says it asks for a title")),
        "side_question" => Some((RequestKind::SideQuestion, "the client says it is a side question")),
        _ => None,
    }
}

fn by_shape(request: &Request) -> Found {
    if request.option("generate") == Some("false") {
        return Some((RequestKind::Prewarm, "`generate` is false"));
    }
    if is_forced_web_search(request) {
        return Some((RequestKind::WebSearch, "one message and one tool, a forced web search"));
    }
    if let Some(reason) = title_reason(request) {
        return Some((RequestKind::Title, reason));
    }
    if is_probe(request) {
        return Some((
            RequestKind::QuotaProbe,
            "one short message and at most one token to answer",
        ));
    }
    if is_router(request) {
        return Some((
            RequestKind::Router,
            "the answer's schema names the next model or speaker",
        ));
    }
    if let Some(reason) = side_question_reason(request) {
        return Some((RequestKind::SideQuestion, reason));
    }
    compaction_reason(request).map(|reason| (RequestKind::Compaction, reason))
}

fn is_forced_web_search(request: &Request) -> bool {
    let [tool] = &request.tools[..] else {
        return false;
    };
    let is_search = |json: &str| {
        let doc = Doc::parse_str(json).ok();
        doc.is_some_and(|doc| {
            doc.root()
                .get_str("type")
                .is_some_and(|kind| kind.starts_with("web_search"))
        })
    };
    let is_forced = with_option(request, "tool_choice", |choice| {
        let by_name = choice.get("name").is_some_and(|name| name.is(&tool.name));
        by_name
            || choice
                .get_str("type")
                .is_some_and(|kind| kind.starts_with("web_search"))
    });
    is_search(&tool.json) && is_forced && is_one_message(request)
}

fn title_reason(request: &Request) -> Option<&'static str> {
    if !request.tools.is_empty() || conversation(request).any(|message| message.role != Role::User) {
        return None;
    }
    let text = conversation(request).map(texts).collect::<Vec<_>>().join("\n");
    let text = text.trim();
    if text.starts_with("Generate a title for this conversation") {
        return Some("no tools, and the text asks for a title of the conversation");
    }
    let is_quoted = text.starts_with("<session>") && text.ends_with("</session>");
    let wants_title = schema_has(request, &["title"]);
    (is_quoted && wants_title).then_some("no tools, a quoted session, and a schema with a title")
}

fn is_probe(request: &Request) -> bool {
    let asks_for_one = ["max_tokens", "max_output_tokens", "max_completion_tokens"]
        .iter()
        .any(|name| request.option(name) == Some("1"))
        || with_option(request, "generationConfig", |config| {
            config.get("maxOutputTokens").and_then(|n| n.as_u64()) == Some(1)
        });
    let Some(only) = conversation(request).next().filter(|_| is_one_message(request)) else {
        return false;
    };
    let is_text = only.blocks.iter().all(|block| matches!(block, Block::Text { .. }));
    asks_for_one
        && is_text
        && only.role == Role::User
        && request.tools.is_empty()
        && texts(only).trim().chars().count() <= PROBE_CHARS_MAX
}

fn is_router(request: &Request) -> bool {
    request.provider == Provider::Gemini
        && request.tools.is_empty()
        && schema_has(request, &["model_choice", "complexity_score", "next_speaker"])
}

/// The client wraps such a question in a reminder that says so.
fn side_question_reason(request: &Request) -> Option<&'static str> {
    let text = texts(last_user(request)?);
    let reminder = text.split("<system-reminder>").skip(1);
    let mut spans = reminder.map(|span| span.split("</system-reminder>").next().unwrap_or_default());
    let says_so = spans.any(|span| {
        start_of(span.trim_start(), 200)
            .to_lowercase()
            .contains("side question")
    });
    says_so.then_some("a reminder in the last message calls it a side question")
}

fn compaction_reason(request: &Request) -> Option<&'static str> {
    // A summary needs something to summarise.
    conversation(request).nth(1)?;
    let text = texts(last_user(request)?);
    let tail = tail_of(text.trim_end(), INSTRUCTION_TAIL_CHARS).to_lowercase();
    if tail.contains("<analysis>") && tail.contains("<summary>") {
        return Some("the last message ends by asking for an analysis and a summary");
    }
    let text_only = tail.contains("respond with text only") || tail.contains("plain text only");
    if text_only && text.to_lowercase().contains("summary") {
        return Some("the last message ends by asking for a summary in text only");
    }
    if tail.contains("<state_snapshot>") {
        return Some("the last message asks for a snapshot of the state");
    }
    let start = start_of(text.trim_start(), 200).to_lowercase();
    let opens_so = [
        "create a detailed summary of the conversation",
        "context checkpoint compaction",
    ];
    let opens = opens_so.iter().any(|words| start.contains(words));
    opens.then_some("the last message begins by asking for a summary of the conversation")
}

/// Messages that are part of the conversation: no context in between.
fn conversation(request: &Request) -> impl DoubleEndedIterator<Item = &Message> {
    let messages = request.messages.iter().map(|message| &**message);
    messages.filter(|message| message.role != Role::System)
}

fn is_one_message(request: &Request) -> bool {
    let mut messages = conversation(request);
    messages.next().is_some() && messages.next().is_none()
}

/// The last message of the conversation, if the user said it.
fn last_user(request: &Request) -> Option<&Message> {
    conversation(request)
        .next_back()
        .filter(|message| message.role == Role::User)
}

fn texts(message: &Message) -> String {
    let text_of = |block: &Block| match block {
        Block::Text { text, .. } => Some(text.to_string()),
        _ => None,
    };
    message.blocks.iter().filter_map(text_of).collect::<Vec<_>>().join("\n")
}

fn start_of(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

fn tail_of(text: &str, chars: usize) -> &str {
    let mut starts = text.char_indices().rev();
    starts
        .nth(chars.saturating_sub(1))
        .map_or(text, |(start, _)| &text[start..])
}

fn with_option(request: &Request, name: &str, check: impl Fn(Node<'_>) -> bool) -> bool {
    let doc = request.option(name).and_then(|json| Doc::parse_str(json).ok());
    doc.is_some_and(|doc| check(doc.root()))
}

/// Whether the JSON schema of the answer has one of these properties, in any provider's place for it.
fn schema_has(request: &Request, properties: &[&str]) -> bool {
    let paths: [(&str, &[&str]); 8] = [
        ("output_config", &["format", "schema"]),
        ("output_format", &["schema"]),
        ("response_format", &["json_schema", "schema"]),
        ("text", &["format", "schema"]),
        ("generationConfig", &["responseJsonSchema"]),
        ("generationConfig", &["responseSchema"]),
        ("responseJsonSchema", &[]),
        ("responseSchema", &[]),
    ];
    paths.iter().any(|(option, path)| {
        with_option(request, option, |value| {
            let schema = path.iter().try_fold(value, |node, key| node.get(key));
            let declared = schema.and_then(|schema| schema.get("properties"));
            declared.is_some_and(|list| properties.iter().any(|name| list.get(name).is_some()))
        })
    })
}

#[cfg(test)]
mod tests;
