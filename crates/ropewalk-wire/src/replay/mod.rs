//! An answer that was given once, as another client wants to read it.
//!
//! A stored stream answers a plain request and the other way round. [`reframe`] writes an answer in the asked [`Framing`]: byte for
//! byte where that is how it came, else put together from events (`whole`) or taken apart into them (`events`), as the
//! provider would have. What was written is read again and compared with what was stored; an answer that does not say the same in
//! another framing has no other framing.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use bytes::Bytes;
use ropewalk_core::json::Doc;
use ropewalk_core::model::{Provider, Request};

use crate::provider::Endpoint;
use crate::response::{Decoded, decode, is_stream};
use crate::sse;

/// How an answer lies in its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One JSON object.
    Plain,
    /// Events. Chat Completions count tokens in one of their own, for clients that ask for it.
    Events { counts_tokens: bool },
    /// One JSON array of what the events would be: Gemini without `alt=sse`.
    Array,
}

impl Framing {
    /// The framing that a request asks for.
    pub fn asked(endpoint: &Endpoint<'_>, request: &Request) -> Self {
        match endpoint {
            Endpoint::GeminiStream { sse: true, .. } => Framing::Events { counts_tokens: true },
            Endpoint::GeminiStream { sse: false, .. } => Framing::Array,
            Endpoint::GeminiGenerate { .. } => Framing::Plain,
            _ if request.stream => Framing::Events {
                counts_tokens: request.provider != Provider::OpenAiChat || chat::asks_for_usage(request),
            },
            _ => Framing::Plain,
        }
    }

    fn of_body(provider: Provider, content_type: Option<&str>, body: &[u8]) -> Self {
        if !is_stream(provider, content_type, body) {
            return Framing::Plain;
        }
        match body.trim_ascii_start().first() {
            Some(b'[') => Framing::Array,
            _ => Framing::Events {
                counts_tokens: provider != Provider::OpenAiChat || chat::has_usage_event(body),
            },
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Framing::Plain | Framing::Array => "application/json",
            Framing::Events { .. } => "text/event-stream; charset=utf-8",
        }
    }
}

/// An answer in the asked framing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reframed {
    pub content_type: String,
    pub body: Bytes,
}

/// A complete, successful answer in another framing, or in its own. `None` where it cannot be said in that one.
pub fn reframe(provider: Provider, content_type: Option<&str>, body: &Bytes, asked: Framing) -> Option<Reframed> {
    let stored = decode(provider, 200, content_type, body);
    if !stored.response.complete || stored.response.error.is_some() {
        return None;
    }
    let framing = Framing::of_body(provider, content_type, body);
    if framing == asked {
        return Some(Reframed {
            content_type: content_type.unwrap_or(asked.content_type()).to_owned(),
            body: body.clone(),
        });
    }
    let text = std::str::from_utf8(body).ok()?;
    let written = match (framing, asked) {
        (Framing::Plain, _) => taken_apart(provider, text, asked)?,
        (_, Framing::Plain) => put_together(provider, framing, text)?,
        // Only whether tokens are counted can differ between two streams of events.
        (Framing::Events { .. }, Framing::Events { counts_tokens: false }) => chat::without_usage(text),
        (Framing::Events { .. }, Framing::Events { counts_tokens: true }) => return None,
        (Framing::Events { .. }, Framing::Array) => format!("[{}]", datas(text).join(",\r\n")),
        (Framing::Array, Framing::Events { .. }) => gemini::events_of_array(text)?,
        (Framing::Array, Framing::Array) => return None,
    };
    let read = decode(provider, 200, Some(asked.content_type()), written.as_bytes());
    // White space is told in events, where it is not within a text, otherwise than in a whole.
    let says_the_same = is_same(&read, &stored)
        || is_same(&said(provider, asked, &written), &said(provider, framing, text)) && read.response.complete;
    says_the_same.then(|| Reframed {
        content_type: asked.content_type().to_owned(),
        body: written.into(),
    })
}

fn is_same(written: &Decoded, stored: &Decoded) -> bool {
    written.response.blocks == stored.response.blocks
        && written.response.stop_reason == stored.response.stop_reason
        && written.alternatives == stored.alternatives
        && written.response.complete
}

/// What an answer says, whatever white space it is written with.
fn said(provider: Provider, framing: Framing, text: &str) -> Decoded {
    let minified = match framing {
        Framing::Plain | Framing::Array => minified(text),
        Framing::Events { .. } => {
            let events = datas(text).into_iter().map(|data| event("", &data));
            events.chain([event("", "[DONE]")]).collect()
        }
    };
    decode(provider, 200, Some(framing.content_type()), minified.as_bytes())
}

fn put_together(provider: Provider, framing: Framing, text: &str) -> Option<String> {
    match provider {
        Provider::Anthropic => anthropic::whole(&datas(text)),
        Provider::OpenAiChat => chat::whole(&datas(text)),
        Provider::OpenAiResponses => responses::whole(&datas(text)),
        Provider::Gemini if framing == Framing::Array => gemini::whole(&gemini::elements(text)?),
        Provider::Gemini => gemini::whole(&datas(text)),
    }
}

fn taken_apart(provider: Provider, text: &str, asked: Framing) -> Option<String> {
    let doc = Doc::parse_str(text).ok()?;
    let root = doc.root();
    match (provider, asked) {
        (Provider::Anthropic, _) => anthropic::events(root),
        (Provider::OpenAiChat, Framing::Events { counts_tokens }) => chat::events(root, counts_tokens),
        (Provider::OpenAiResponses, _) => responses::events(root),
        (Provider::Gemini, Framing::Array) => Some(format!("[{}]", minified(text))),
        (Provider::Gemini, _) => Some(event("", text)),
        (Provider::OpenAiChat, _) => None,
    }
}

/// What the events say, one after the other, without the mark that ends a Chat stream.
fn datas(text: &str) -> Vec<String> {
    let mut datas = Vec::new();
    let mut parser = sse::Parser::new();
    parser.push(text.as_bytes(), |event| datas.push(event.data.into_owned()));
    datas.retain(|data| data != "[DONE]");
    datas
}

/// One event. Data is one line, because many clients read no more of it.
fn event(name: &str, json: &str) -> String {
    let data = minified(json);
    match name {
        "" => format!("data: {data}\r\n\r\n"),
        name => format!("event: {name}\ndata: {data}\n\n"),
    }
}

/// JSON without the white space around its tokens.
fn minified(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        if !in_string && matches!(c, ' ' | '\n' | '\r' | '\t') {
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
        out.push(c);
    }
    out
}

/// An object out of names and JSON texts.
fn object<'m>(members: impl IntoIterator<Item = (&'m str, String)>) -> String {
    let members = members.into_iter().map(|(name, json)| {
        let name = ropewalk_core::json::quote(name, ropewalk_core::json::Style::Plain);
        format!("{name}:{json}")
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}
