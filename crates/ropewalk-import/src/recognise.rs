//! Which document a file is. Only its beginning is read, whatever its size.

use std::fs::File;
use std::io::{BufRead, Read as _};
use std::path::Path;

use crate::chatgpt::ChatGpt;
use crate::claude_ai::ClaudeAi;
use crate::document::{self, Document};
use crate::elements::Elements;
use crate::exported::is_conversations;
use crate::format::Format;
use crate::har::Har;
use crate::llm::Llm;

/// How far a list is looked at. What tells one from the other stands before the messages of its first conversation.
const START_BYTES: u64 = 1 << 20;

pub(crate) fn document(path: &Path) -> Option<Format> {
    if begins_with(path, Llm::MAGIC)? {
        return Llm::is_database(path).then_some(Format::Llm);
    }
    let mut archive = match document::open(path).ok()? {
        Document::Plain(reader) => return json(reader),
        Document::Archive(archive) => archive,
    };
    let names = archive.names();
    names
        .iter()
        .filter(|name| is_conversations(name))
        .find_map(|name| json(archive.member(name).ok()?))
}

fn begins_with(path: &Path, magic: &[u8]) -> Option<bool> {
    let mut start = Vec::new();
    File::open(path)
        .ok()?
        .take(magic.len() as u64)
        .read_to_end(&mut start)
        .ok()?;
    Some(start == magic)
}

/// A list of conversations, one conversation, or a HAR. A line of a log begins like the latter two, with other members.
fn json(reader: impl BufRead) -> Option<Format> {
    let elements = Elements::new(reader.take(START_BYTES), &[]);
    match elements
        .first_member_of(&[ChatGpt::MEMBER, ClaudeAi::MEMBER, Har::WAY[0]])
        .ok()??
    {
        ChatGpt::MEMBER => Some(Format::ChatGpt),
        ClaudeAi::MEMBER => Some(Format::ClaudeAi),
        _ => Some(Format::Har),
    }
}
