//! Answers that came whole, and the choice between whole and streamed.
//!
//! Blocks are read by the decoders that read the requests which replay them, and [`crate::stream`] rebuilds the JSON of
//! a block from its deltas and reads it with the same. So the stream of a message accumulates to what its body
//! decodes to, and both to what the next request says.
//!
//! Invariants: nothing panics, whatever the bytes; an error body has `error` and is not `complete`.

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
pub(crate) mod responses;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{ApiError, Block, Provider, Response};

use crate::members::present;
use crate::stream::Accumulator;

/// Longest error message that is kept, in characters: some servers answer with a whole page.
pub const MAX_ERROR_CHARS: usize = 2_000;

/// Characters of a body that is no JSON which are quoted in its description.
const EXCERPT_CHARS: usize = 120;

/// An answer with what was sampled beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decoded {
    pub response: Response,
    /// Further choices (Chat) or candidates (Gemini), in the order of their index.
    pub alternatives: Vec<Alternative>,
}

/// A choice that is not the message. It stands apart because the history never contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    pub index: u64,
    pub blocks: Vec<Block>,
    pub stop_reason: Option<Box<str>>,
}

impl From<Response> for Decoded {
    fn from(response: Response) -> Self {
        Decoded {
            response,
            alternatives: Vec::new(),
        }
    }
}

impl Decoded {
    /// The first of the alternatives becomes the message.
    pub(crate) fn of_alternatives(mut response: Response, mut alternatives: Vec<Alternative>) -> Self {
        if !alternatives.is_empty() {
            let first = alternatives.remove(0);
            response.blocks = first.blocks;
            response.stop_reason = first.stop_reason.or(response.stop_reason);
        }
        Decoded { response, alternatives }
    }
}

/// Reads an answer, streamed or not.
pub fn decode_response(provider: Provider, status: u16, content_type: Option<&str>, body: &[u8]) -> Response {
    decode(provider, status, content_type, body).response
}

/// Like [`decode_response`], with the alternatives.
pub fn decode(provider: Provider, status: u16, content_type: Option<&str>, body: &[u8]) -> Decoded {
    let mut decoded = if is_stream(provider, content_type, body) {
        let mut accumulator = Accumulator::new(provider);
        accumulator.push(body);
        let decoded = accumulator.finish();
        // An error page under the wrong content type: there was not one event in it.
        let has_nothing = decoded == Decoded::default() && !body.trim_ascii().is_empty();
        if has_nothing && !looks_like_events(body) {
            Decoded::from(undecodable("not an event stream", body))
        } else {
            decoded
        }
    } else {
        match Doc::parse(body) {
            Ok(doc) => decode_document(provider, doc.root()),
            Err(error) => Decoded::from(undecodable(&error.to_string(), body)),
        }
    };
    if status >= 400 {
        fail(&mut decoded.response, status, body);
    }
    decoded
}

/// Reads a body that is one JSON value.
pub(crate) fn decode_document(provider: Provider, root: Node<'_>) -> Decoded {
    if let Some(error) = find_error(provider, root) {
        return Decoded::from(Response {
            error: Some(error),
            ..Response::default()
        });
    }
    if !root.is_object() {
        return Decoded::from(undecodable("not an object", root.raw().as_bytes()));
    }
    match provider {
        Provider::Anthropic => anthropic::decode(root),
        Provider::OpenAiChat => chat::decode(root),
        Provider::OpenAiResponses => responses::decode(root),
        Provider::Gemini => gemini::decode(root),
    }
}

/// By the content type; a recorder may have lost it, then by how the body begins.
pub(crate) fn is_stream(provider: Provider, content_type: Option<&str>, body: &[u8]) -> bool {
    let declared = content_type.is_some_and(|name| name.to_ascii_lowercase().contains("text/event-stream"));
    let start = body_start(body);
    let is_array = provider == Provider::Gemini && start.starts_with(b"[");
    let is_document = start.starts_with(b"{");
    looks_like_events(body) || is_array || (declared && !is_document)
}

fn looks_like_events(body: &[u8]) -> bool {
    let fields: [&[u8]; 5] = [b"event:", b"data:", b":", b"id:", b"retry:"];
    let start = body_start(body);
    fields.iter().any(|field| start.starts_with(field))
}

fn body_start(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.trim_ascii_start()
}

/// A failed call is never an answer, whatever its body looks like.
fn fail(response: &mut Response, status: u16, body: &[u8]) {
    response.complete = false;
    if response.error.is_some() && Doc::parse(body).is_ok() {
        return;
    }
    let doc = Doc::parse(body).ok();
    let said = doc.as_ref().and_then(|doc| {
        let root = doc.root();
        root.get_str("detail").or_else(|| root.get_str("message"))
    });
    let message = said.map_or_else(|| excerpt(body), |text| limit(&text, MAX_ERROR_CHARS));
    response.error = Some(ApiError {
        kind: format!("http_{status}").into(),
        message: message.into(),
    });
}

/// The error of a body in any provider's shape; Gemini may wrap it in a list.
fn find_error(provider: Provider, root: Node<'_>) -> Option<ApiError> {
    let root = if root.is_array() { root.items().next()? } else { root };
    // A Responses object has an `error` of its own, which belongs to an otherwise readable answer.
    if provider == Provider::OpenAiResponses && (root.get("output").is_some() || root.get("status").is_some()) {
        return None;
    }
    present(root, "error").map(|error| error_of(error, "error"))
}

/// Reads an `error` member: an object with a type, code or status, or a bare text.
pub(crate) fn error_of(error: Node<'_>, default_kind: &str) -> ApiError {
    // A flat error event has the type `error`, which names nothing.
    let names_something = |kind: &std::borrow::Cow<'_, str>| !kind.is_empty() && kind != "error";
    let kind = ["type", "status", "code"]
        .iter()
        .find_map(|name| error.get_str(name).filter(names_something));
    let message = error.as_str().or_else(|| error.get_str("message"));
    ApiError {
        kind: limit(kind.as_deref().unwrap_or(default_kind), EXCERPT_CHARS).into(),
        message: limit(message.as_deref().unwrap_or_default(), MAX_ERROR_CHARS).into(),
    }
}

fn undecodable(why: &str, body: &[u8]) -> Response {
    let (kind, message) = if body.trim_ascii().is_empty() {
        ("empty_body", "the body is empty".to_owned())
    } else {
        ("unreadable_body", format!("{why}: {}", excerpt(body)))
    };
    Response {
        error: Some(ApiError {
            kind: kind.into(),
            message: message.into(),
        }),
        ..Response::default()
    }
}

fn excerpt(body: &[u8]) -> String {
    // Four bytes per character at most: the rest need not be looked at.
    let start = &body[..body.len().min(EXCERPT_CHARS * 4)];
    limit(&String::from_utf8_lossy(start), EXCERPT_CHARS)
}

fn limit(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
