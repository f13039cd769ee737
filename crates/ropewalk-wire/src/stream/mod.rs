//! The answer so far, from a stream in any chunking.
//!
//! [`Accumulator`] finds the framing by the first byte (events, a JSON array, or one plain object), cuts out the
//! events and hands them to the state of its format (`anthropic`, `chat`, `responses`, `gemini`). A state
//! rebuilds the JSON a body would have (`growing`) and decodes it with the decoders of [`crate::response`];
//! what has ended is decoded once and kept, so asking for the message costs its open block only.
//!
//! Invariants: the message does not depend on the chunking; `complete` is false before the terminal event,
//! after an error event, and whenever something was lost (an event that was too large or no JSON); at most
//! [`MAX_STREAM_BYTES`] are taken in.

pub(crate) mod anthropic;
mod chat;
mod elements;
mod gemini;
pub(crate) mod growing;
mod responses;

use ropewalk_core::json::{Doc, Node};
use ropewalk_core::model::{ApiError, Block, Provider, Response, ToolUse, Usage};

use crate::response::{Alternative, Decoded, decode_document};
use crate::sse;
use elements::Elements;

/// Event data one message may have. The longest answers have about 20 MiB, most of it the wrapping of deltas.
pub const MAX_STREAM_BYTES: usize = 128 << 20;

/// A tool call whose block has ended in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedToolUse {
    /// Gemini gives none; the order of reports is the order in the answer.
    pub id: Option<Box<str>>,
    pub name: Box<str>,
}

impl FinishedToolUse {
    fn of(call: &ToolUse) -> Self {
        FinishedToolUse {
            id: call.id.clone(),
            name: call.name.clone(),
        }
    }
}

/// What the events say beside the blocks.
#[derive(Debug, Default)]
struct Head {
    id: Option<Box<str>>,
    model: Option<Box<str>>,
    stop_reason: Option<Box<str>>,
    usage: Option<Usage>,
    error: Option<ApiError>,
    terminal: bool,
    finished: Vec<FinishedToolUse>,
}

/// Takes the bytes of an answer and always knows the message so far.
#[derive(Debug)]
pub struct Accumulator {
    framing: Framing,
    reader: Reader,
}

#[derive(Debug)]
enum Framing {
    /// Nothing but white space has come.
    Unknown,
    Events(Box<sse::Parser>),
    Elements(Elements),
}

/// The state behind the framing.
#[derive(Debug)]
struct Reader {
    provider: Provider,
    state: State,
    head: Head,
    /// The answer was one plain object after all.
    whole: Option<Box<Decoded>>,
    bytes: usize,
    lost: bool,
}

#[derive(Debug)]
enum State {
    Anthropic(anthropic::State),
    Chat(chat::State),
    Responses(responses::State),
    Gemini(gemini::State),
}

impl Accumulator {
    pub fn new(provider: Provider) -> Self {
        let state = match provider {
            Provider::Anthropic => State::Anthropic(anthropic::State::default()),
            Provider::OpenAiChat => State::Chat(chat::State::default()),
            Provider::OpenAiResponses => State::Responses(responses::State::default()),
            Provider::Gemini => State::Gemini(gemini::State::default()),
        };
        Accumulator {
            framing: Framing::Unknown,
            reader: Reader {
                provider,
                state,
                head: Head::default(),
                whole: None,
                bytes: 0,
                lost: false,
            },
        }
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        if let Framing::Unknown = self.framing {
            // White space and the bytes of a byte order mark tell nothing.
            let Some(start) = bytes
                .iter()
                .position(|b| !b.is_ascii_whitespace() && !b"\xef\xbb\xbf".contains(b))
            else {
                return;
            };
            bytes = &bytes[start..];
            self.framing = match bytes[0] {
                b'{' | b'[' => Framing::Elements(Elements::default()),
                _ => Framing::Events(Box::default()),
            };
        }
        let reader = &mut self.reader;
        match &mut self.framing {
            Framing::Unknown => {}
            Framing::Events(parser) => {
                parser.push(bytes, |event| reader.data(&event.data));
                reader.lost |= parser.dropped_events() > 0;
            }
            Framing::Elements(elements) => {
                elements.push(bytes, |element, in_array| reader.element(element, in_array));
                reader.lost |= elements.lost_something();
            }
        }
    }

    /// The message so far.
    pub fn message(&self) -> Response {
        self.reader.message()
    }

    /// Choices or candidates beside the message, so far.
    pub fn alternatives(&self) -> Vec<Alternative> {
        match (&self.reader.whole, &self.reader.state) {
            (Some(whole), _) => whole.alternatives.clone(),
            (None, State::Chat(state)) => state.alternatives(),
            (None, State::Gemini(state)) => state.alternatives(),
            (None, _) => Vec::new(),
        }
    }

    /// Whether the terminal event has come and nothing was lost before it.
    pub fn is_complete(&self) -> bool {
        self.reader.is_complete()
    }

    /// The tool calls that have ended since this was last asked, in the order of the answer.
    pub fn finished_tool_uses(&mut self) -> Vec<FinishedToolUse> {
        std::mem::take(&mut self.reader.head.finished)
    }

    /// The stream has ended, by its terminal event or not.
    pub fn finish(self) -> Decoded {
        Decoded {
            response: self.message(),
            alternatives: self.alternatives(),
        }
    }
}

impl Reader {
    fn data(&mut self, data: &str) {
        let data = data.trim();
        if data.is_empty() {
            return;
        }
        if data == "[DONE]" {
            // Only Chat ends this way; elsewhere gateways append it behind the real end.
            self.head.terminal |= matches!(self.state, State::Chat(_));
            return;
        }
        match Doc::parse_str(data) {
            Ok(doc) => self.event(doc.root(), data.len()),
            Err(_) => self.lost = true,
        }
    }

    fn element(&mut self, element: &[u8], in_array: bool) {
        let Ok(doc) = Doc::parse(element) else {
            self.lost = true;
            return;
        };
        if in_array {
            self.event(doc.root(), element.len());
        } else {
            let whole = decode_document(self.provider, doc.root());
            for block in &whole.response.blocks {
                if let Block::ToolUse(call) = block {
                    self.head.finished.push(FinishedToolUse::of(call));
                }
            }
            self.whole = Some(Box::new(whole));
        }
    }

    fn event(&mut self, event: Node<'_>, width: usize) {
        self.bytes = self.bytes.saturating_add(width);
        if self.bytes > MAX_STREAM_BYTES {
            self.lost = true;
            return;
        }
        match &mut self.state {
            State::Anthropic(state) => state.event(event, &mut self.head),
            State::Chat(state) => state.event(event, &mut self.head),
            State::Responses(state) => state.event(event, &mut self.head),
            State::Gemini(state) => state.event(event, &mut self.head),
        }
    }

    fn is_complete(&self) -> bool {
        match &self.whole {
            Some(whole) => whole.response.complete && !self.lost,
            None => self.head.terminal && !self.lost && (self.head.error.is_none() || self.error_is_the_end()),
        }
    }

    /// `response.failed` is a terminal event that says why; any other error cuts the answer off.
    fn error_is_the_end(&self) -> bool {
        matches!(self.state, State::Responses(_))
    }

    fn message(&self) -> Response {
        if let Some(whole) = &self.whole {
            let mut response = whole.response.clone();
            response.complete = self.is_complete();
            return response;
        }
        let mut response = Response {
            id: self.head.id.clone(),
            model: self.head.model.clone(),
            stop_reason: self.head.stop_reason.clone(),
            usage: self.head.usage,
            error: self.head.error.clone(),
            complete: self.is_complete(),
            ..Response::default()
        };
        match &self.state {
            State::Anthropic(state) => response.blocks = state.blocks(),
            State::Chat(state) => response.blocks = state.blocks(),
            State::Responses(state) => state.fill(&mut response),
            State::Gemini(state) => response.blocks = state.blocks(),
        }
        response
    }
}

#[cfg(test)]
mod tests;
