//! What exchanges say that was not said before them: the messages that get names with them.

use std::collections::HashMap;
use std::sync::Arc;

use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Message, Role};
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;

use super::Namer;
use crate::link::RECORDED_BYTES_MAX;
use crate::link::outline::Outline;
use crate::view::ViewError;
use crate::view::message::{answer_message, kind_of, text_of};

/// What is kept of exchanges that were just recorded; the rest is read from the store, each with its whole history. More than an import
/// records between two times of linking: half of what linking keeps, and the answers once more.
const FRESH_MAX: usize = 16_384;
const FRESH_BYTES_MAX: u64 = RECORDED_BYTES_MAX / 2 * 3;

/// A message, as its name needs it.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) node: NodeHash,
    pub(crate) text: Arc<str>,
}

impl Said {
    /// What an answer says behind a request; `None` where it says nothing.
    pub(crate) fn of_answer(input: NodeHash, message: &Message) -> Option<Self> {
        let mut nodes = Vec::new();
        chain::extend(input, message, &mut nodes);
        Said::new(*nodes.last()?, message)
    }

    fn new(node: NodeHash, message: &Message) -> Option<Self> {
        let text = text_of(message);
        (!text.is_empty()).then(|| Said {
            node,
            text: text.into(),
        })
    }
}

/// Exchanges that were just recorded and have no names yet.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    exchanges: HashMap<ExchangeNumber, Recorded>,
    bytes: u64,
}

#[derive(Debug)]
struct Recorded {
    outline: Arc<Outline>,
    answer: Option<Said>,
    bytes: u64,
}

impl Fresh {
    pub(crate) fn keep(&mut self, number: ExchangeNumber, outline: Arc<Outline>, bytes: u64, answer: Option<Said>) {
        let bytes = bytes + answer.as_ref().map_or(0, |said| said.text.len() as u64);
        if self.exchanges.len() >= FRESH_MAX || self.bytes + bytes > FRESH_BYTES_MAX {
            *self = Fresh::default();
        }
        let recorded = Recorded { outline, answer, bytes };
        self.bytes += bytes;
        if let Some(old) = self.exchanges.insert(number, recorded) {
            self.bytes -= old.bytes;
        }
    }

    fn take(&mut self, number: ExchangeNumber) -> Option<Recorded> {
        let recorded = self.exchanges.remove(&number)?;
        self.bytes -= recorded.bytes;
        Some(recorded)
    }
}

impl<S: Store> Namer<'_, S> {
    /// The messages that come with an exchange: what was said since the last answer, and the answer. With the first exchange of a
    /// conversation come all before it.
    pub(super) async fn said(&mut self, row: &ExchangeRow, is_root: bool) -> Result<Vec<Said>, ViewError> {
        let (outline, answer) = match self.fresh.take(row.number) {
            Some(recorded) => (recorded.outline, recorded.answer),
            None => (self.outline(row).await?, self.read_answer(row).await?),
        };
        let from_end = outline.messages().rev();
        let new = from_end.take_while(|(_, message)| is_root || message.role != Role::Assistant);
        let named = new.filter_map(|(node, message)| {
            let is_named = matches!(kind_of(message), "user" | "assistant");
            Said::new(node.filter(|_| is_named)?, message)
        });
        let mut said: Vec<Said> = named.collect();
        said.reverse();
        said.extend(answer);
        Ok(said)
    }

    /// What the user says first in a conversation.
    pub(super) async fn first_text(&mut self, root: ExchangeNumber) -> Result<String, ViewError> {
        let outline = match self.fresh.exchanges.get(&root) {
            Some(recorded) => Arc::clone(&recorded.outline),
            None => match self.view.find_row(root).await? {
                Some(row) => self.outline(&row).await?,
                None => Arc::default(),
            },
        };
        Ok(outline.first_user_text().unwrap_or_default())
    }

    /// What an exchange was answered.
    pub(super) async fn answer(&mut self, row: &ExchangeRow) -> Result<Option<Said>, ViewError> {
        match self.fresh.exchanges.get(&row.number) {
            Some(recorded) => Ok(recorded.answer.clone()),
            None => self.read_answer(row).await,
        }
    }

    async fn outline(&self, row: &ExchangeRow) -> Result<Arc<Outline>, ViewError> {
        let read = self.view.read_request(row).await?;
        Ok(read.map(|read| Arc::new(Outline::of(&read))).unwrap_or_default())
    }

    async fn read_answer(&self, row: &ExchangeRow) -> Result<Option<Said>, ViewError> {
        let answer = self.view.read_answer(row).await?;
        Ok(answer.and_then(|answer| Said::of_answer(row.input_node, &answer_message(answer))))
    }
}
