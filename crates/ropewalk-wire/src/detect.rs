//! Which format a body is in, when nobody says.
//!
//! Recorded traffic has a path, which decides. This is for bodies given alone: members that only one format has decide; between
//! Anthropic and Chat Completions, which share most of theirs, an answer decides if there is one.

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::Provider;

/// The format of a request, with the help of its answer where there is one.
pub fn detect(request: &[u8], response: Option<&[u8]>) -> Option<Provider> {
    let doc = Doc::parse(request).ok()?;
    let root = doc.root();
    if root.get("contents").is_some() {
        return Some(Provider::Gemini);
    }
    if root.get("input").is_some() {
        return Some(Provider::OpenAiResponses);
    }
    root.get("messages")?;
    let by_answer = response
        .and_then(|body| std::str::from_utf8(body).ok())
        .and_then(by_answer);
    Some(by_answer.unwrap_or_else(|| {
        if is_chat(root) {
            Provider::OpenAiChat
        } else {
            Provider::Anthropic
        }
    }))
}

/// An answer says what it is in its first event or its first members.
fn by_answer(body: &str) -> Option<Provider> {
    let payload = body.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or(body);
    let doc = Doc::parse_str(payload).ok()?;
    let root = doc.root();
    if root.get("choices").is_some() {
        return Some(Provider::OpenAiChat);
    }
    let kind = root.get_str("type").unwrap_or_default();
    matches!(&*kind, "message" | "message_start" | "error").then_some(Provider::Anthropic)
}

fn is_chat(root: Node<'_>) -> bool {
    const ONLY_CHAT: [&str; 9] = [
        "max_completion_tokens",
        "response_format",
        "stream_options",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "n",
        "parallel_tool_calls",
        "reasoning_effort",
    ];
    if root.get("system").is_some() || root.get("stop_sequences").is_some() {
        return false;
    }
    if ONLY_CHAT.iter().any(|name| root.get(name).is_some()) {
        return true;
    }
    let has_functions = || {
        root.get("tools")
            .is_some_and(|tools| tools.items().any(|tool| tool.get("function").is_some()))
    };
    let messages = || root.get("messages").into_iter().flat_map(|messages| messages.items());
    has_functions()
        || messages().any(|message| {
            let role = message.get_str("role").unwrap_or_default();
            matches!(&*role, "tool" | "function" | "developer") || message.get("tool_calls").is_some()
        })
        || messages().next().is_some_and(|first| first.get("role").is_some_and(|role| role.is("system")))
        // Anthropic requires it.
        || root.get("max_tokens").is_none()
}
