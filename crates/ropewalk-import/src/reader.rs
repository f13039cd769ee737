//! What a reader of files is handed, and what it gives.

use std::path::Path;

use ropewalk_engine::logged::Logged;

/// Takes what a reader finds. A reader stops when it is told to.
pub trait Sink {
    fn found(&mut self, found: Logged) -> Found;

    /// A line (or an element, counted from 1) that cannot be read. The rest goes on.
    fn problem(&mut self, line: u64, message: String);

    /// Something that has no place in a conversation, by its name: an unknown kind of line, a notice.
    fn skipped(&mut self, what: &str);

    /// Nothing that follows stands behind a message that came so far, so that those need not be kept. Numbers go on.
    fn forget_messages(&mut self) {}
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Found {
    GoOn,
    Stop,
}

/// Reads a file of lines, which may grow while it is read and be followed afterwards.
pub trait LineReader: Send {
    /// A whole line without its end. Lines are counted from 1.
    fn line(&mut self, number: u64, line: &[u8], sink: &mut dyn Sink) -> Found;

    /// Nothing more is there for now: tells of everything that it held back. More lines may follow.
    fn pause(&mut self, sink: &mut dyn Sink) -> Found;
}

/// Reads a file that is one document: an export, a database.
pub trait WholeReader: Send {
    /// `bytes` are the decompressed file, or nothing where [`needs_bytes`](Self::needs_bytes) says so.
    fn read(&mut self, path: &Path, bytes: &[u8], sink: &mut dyn Sink) -> Found;

    /// A database is read where it lies.
    fn needs_bytes(&self) -> bool {
        true
    }
}
