//! The providers' formats.
//!
//! The only crate that knows vendor JSON and server-sent events; nothing is re-serialised on the way.
//!
//! Requests: [`provider`] says which endpoint a path is, [`read_request`] reads a body into the core model, its chain and its
//! parts, [`read_last_messages`] what one ends with, [`hints`] what the client says about itself, [`auxiliary`] whether a call is a turn. Answers: [`sse`] cuts a byte
//! stream into events, [`stream`] turns events into the answer so far, [`response`] reads bodies that came whole;
//! [`deltas`] finds the texts that a stream spells in pieces; [`usage`] counts tokens in one convention, [`prompt`] is a request as a provider's cache sees it, [`mod@reuse`] says which calls may share an answer and [`replay`] gives it in another framing, [`skeleton`] is what is left where no text may be kept. [`Split`] is how a body is kept. [`edit`] changes members of a
//! body and nothing else, [`exchange`] is the format of import and export.

mod anthropic;
mod assemble;
pub mod auxiliary;
pub mod blank;
mod body;
mod chat;
mod cut;
pub mod deltas;
pub mod detect;
pub mod edit;
mod end;
pub mod exchange;
mod gemini;
mod grown;
pub mod hints;
pub mod inject;
mod members;
pub mod prompt;
pub mod provider;
pub mod replay;
pub mod response;
mod responses;
pub mod reuse;
pub mod skeleton;
mod split;
pub mod sse;
pub mod stream;
mod stream_split;
pub mod usage;

pub use body::{Memo, RequestBody, read_request};
pub use cut::TEXT_MIN;
pub use end::{LastMessages, read_last_messages};
pub use grown::{Grown, GrownRequest};
pub use split::{Split, split_response};
