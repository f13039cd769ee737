//! JSON as it was written.
//!
//! `serde_json::Value` forgets what identity needs: the order of members, the digits of a number,
//! where a value stood in the bytes. [`Doc`] keeps all of it: one flat tape of entries over the
//! untouched text, built in one pass and walked through [`Node`]. Nothing is decoded until asked for.
//!
//! Read [`tape`](self) first (`Doc`, `Node`), then `string` (decoding and the escaping styles that
//! let a decoded text give back its literal), then `canonical` (the three written forms that hashes use).
//!
//! Invariants: a `Doc` never changes a byte; duplicate members are all kept and [`Node::get`] answers
//! with the last one, as JavaScript and Python do; nesting is bounded by [`MAX_DEPTH`].

mod canonical;
mod string;
mod tape;

pub use canonical::{to_compact_js, to_python, to_sorted};
pub use string::{Literal, Mapped, Style, encode_into, quote};
pub use tape::{Doc, JsonError, Kind, MAX_DEPTH, Node, parse_value_at};
