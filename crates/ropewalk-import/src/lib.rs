//! What people already have: the logs and exports of clients, read into what the engine records.
//!
//! Read [`reader`] first: what a reader is handed and what it gives. Then [`source`] (which files there are, and their lines) and
//! [`format`](mod@format) (which reader a file needs), then a reader: of lines
//! [`claude_code`], [`codex`], [`exchanges`]; of documents [`chatgpt`], [`claude_ai`], [`llm`], [`har`]. A crate of its own so that the engine knows one way in, [`Logged`](ropewalk_engine::logged::Logged), and none of the many files.
//!
//! Invariants: nothing panics, whatever the bytes; what cannot be read is told with its line and the rest goes on; a file that is
//! read twice gives the same.

mod ancestry;
pub mod chatgpt;
pub mod claude_ai;
pub mod claude_code;
pub mod codex;
mod document;
mod elements;
pub mod exchanges;
mod exported;
pub mod format;
pub mod har;
pub mod llm;
pub mod reader;
mod recognise;
mod shape;
pub mod source;

pub use exported::beside_conversations;
pub use format::{Format, Reader};
pub use reader::{Found, LineReader, Sink, WholeReader};
