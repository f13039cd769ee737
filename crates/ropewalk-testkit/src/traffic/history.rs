//! A conversation as its client remembers it, in no provider's format.

/// Shortest text that is a sign of its origin although the blocks before it differ.
const ANCHOR_CHARS_MIN: usize = 100;

#[derive(Debug, Clone)]
pub(super) enum Block {
    Text(String),
    Thinking(String),
    Call(Call),
    Result { id: String, text: String, is_error: bool },
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: &'static str,
    pub(super) input: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
}

#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) by: Speaker,
    pub(super) blocks: Vec<Block>,
    /// The recorded exchange whose answer this is, or whose summary it embeds.
    pub(super) recorded_in: Option<usize>,
    /// The provider's name of the answer.
    pub(super) answer_id: String,
}

impl Said {
    pub(super) fn user(blocks: Vec<Block>) -> Self {
        Said {
            by: Speaker::User,
            blocks,
            recorded_in: None,
            answer_id: String::new(),
        }
    }

    /// Whether a user typed it: it can be edited, and a client may decorate it.
    pub(super) fn is_prompt(&self) -> bool {
        self.by == Speaker::User && matches!(self.blocks[..], [Block::Text(_)])
    }

    /// Whether it shows where it comes from even after a changed history.
    fn is_anchor(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            Block::Text(text) => text.chars().count() >= ANCHOR_CHARS_MIN,
            Block::Call(_) => true,
            Block::Thinking(_) | Block::Result { .. } => false,
        })
    }
}

/// The exchange that a request with this history can be linked to by what it contains.
pub(super) fn recorded_origin(history: &[Said], is_changed: bool) -> Option<usize> {
    let said = history.iter().rev().filter(|said| !is_changed || said.is_anchor());
    said.filter_map(|said| said.recorded_in).next()
}
