//! Where forwarding ends and recording begins.
//!
//! Forwarding sends [`Event`]s, a few for each exchange, through a [`Tee`]; the worker at its other end takes them in batches.
//! Sending never waits. A body asks [`Tee::poll_room`] before it reads on, so the queue is bounded in bytes and what slows down
//! is the one stream that would overfill it, never the thread it runs on.
//!
//! The worker's side: [`Worker`] (the thread), `exchange` (what it knows of one exchange, and when that becomes a record), `body`
//! and `marks` (parts of that), `kept` (which headers and parameters may be written), [`scrub`] and `redacting` (what a body may not say).

mod body;
mod event;
mod exchange;
mod kept;
mod marks;
mod metadata;
mod queue;
mod redacting;
pub mod scrub;
mod worker;

pub use event::{Ending, Event, ExchangeKey, Head, Keep, Released, ResponseHead};
pub use queue::{Inbox, Tee, channel};
pub use redacting::Redacting;
pub use scrub::{BodyOf, Half, KeepAsItIs, Scrub, ScrubBody};
pub use worker::Worker;
