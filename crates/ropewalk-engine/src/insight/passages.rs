//! What people and models said in a conversation, in their own words: no tools, no reminders.

use ropewalk_core::model::{Block, Role};
use ropewalk_core::normalise::normalise;
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;

use crate::view::message::answer_message;
use crate::view::{Cursor, Directory, Result, View};

/// Words of a conversation that are looked at, in bytes; the first.
const BYTES_MAX: usize = 1 << 20;

/// Conversations that are read at once.
const PAGE: usize = 256;

/// Something that was said in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) role: Role,
    pub(super) text: String,
}

impl<S: Store> View<'_, S> {
    /// The passages of a conversation's active path, as far as its last turn repeats them.
    pub(super) async fn passages(&self, root: ExchangeNumber) -> Result<Vec<Passage>> {
        let mut passages = Vec::new();
        let Some(tip) = self.tip(root, &mut Directory::default()).await? else {
            return Ok(passages);
        };
        let Some(row) = self.find_row(tip.exchange).await? else {
            return Ok(passages);
        };
        let mut left = BYTES_MAX;
        let mut add = |role: Role, blocks: &[Block]| {
            for block in blocks {
                let Block::Text { text, .. } = block else { continue };
                let text = normalise(text);
                if !text.is_empty() && text.len() <= left {
                    left -= text.len();
                    let text = text.into_owned();
                    passages.push(Passage { role, text });
                }
            }
        };
        if let Some(read) = self.read_request(&row).await? {
            let said = read.messages().filter(|(message, _)| message.role != Role::System);
            said.for_each(|(message, _)| add(message.role, &message.blocks));
        }
        if let Some(answer) = self.read_answer(&row).await? {
            let message = answer_message(answer);
            add(message.role, &message.blocks);
        }
        Ok(passages)
    }

    /// Roots of conversations, newest first, behind a cursor; with the cursor behind them.
    pub(super) async fn roots_before(&self, before: Option<Cursor>) -> Result<Option<(Vec<ExchangeNumber>, Cursor)>> {
        let rows = self.conversations_before(before, PAGE).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        let cursor = (last.last_at, last.root);
        Ok(Some((rows.iter().map(|row| row.root).collect(), cursor)))
    }
}
