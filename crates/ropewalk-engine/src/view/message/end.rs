//! What a request ends with, read without what stands before it.

use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::Message;
use ropewalk_store::Store;
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_wire::read_last_messages;

use super::Placed;
use crate::detail::Kept;
use crate::view::{Result, View};

/// Bytes that are read first at least. System prompt and tools may stand behind the messages; then more are.
const END_BYTES_MIN: usize = 8 << 10;

/// Where the last messages of a request begin.
pub(crate) struct Ending {
    /// The node before them.
    pub(crate) before: NodeHash,
    pub(crate) messages: Vec<Placed>,
}

impl<S: Store> View<'_, S> {
    /// The messages of a request behind its first blocks, of which there is at least one, without its answer. `None` where its end
    /// alone does not tell, and where no message begins there.
    pub(crate) async fn decode_behind(&self, row: &ExchangeRow, blocks: usize) -> Result<Option<Ending>> {
        // With the message before, so that none is left out that has no block in the chain and stands between.
        let wanted = (row.depth as usize).saturating_sub(blocks) + 1;
        let Some(mut ending) = self.decode_last(row, wanted).await? else {
            return Ok(None);
        };
        let Some(first) = ending.messages.iter().position(|placed| placed.first_step >= blocks) else {
            return Ok(None);
        };
        let behind = ending.messages.split_off(first);
        let before = ending.messages.last().and_then(|placed| placed.node);
        let ends_there = ending
            .messages
            .last()
            .is_some_and(|placed| placed.first_step + placed.nodes.len() == blocks);
        Ok(before.filter(|_| ends_there).map(|before| Ending {
            before,
            messages: behind,
        }))
    }

    /// The last messages of a request that have at least so many blocks in the chain, without its answer. `None` where they are all of
    /// it, or where its end alone does not tell: what was read is compared with the chain.
    pub(crate) async fn decode_last(&self, row: &ExchangeRow, blocks: usize) -> Result<Option<Ending>> {
        let depth = row.depth as usize;
        // What lost something is not what its chain says.
        if row.hole.is_some() || blocks >= depth {
            return Ok(None);
        }
        let Some(provider) = Kept::of(row).provider(row) else {
            return Ok(None);
        };
        // As much as so many blocks have on average, and half as much again.
        let of_each = usize::try_from(row.request_length).unwrap_or(usize::MAX) / depth;
        let mut length = END_BYTES_MIN.max(of_each.saturating_mul(blocks).saturating_mul(3) / 2);
        let messages = loop {
            let end = self
                .store
                .body_end(self.owner, row.number, Half::Request, length)
                .await?;
            let Some(end) = end else { return Ok(None) };
            match read_last_messages(provider, &end.bytes, blocks) {
                Some(messages) => break messages,
                None if end.is_whole => return Ok(None),
                None => length = end.bytes.len().max(length).saturating_mul(4),
            }
        };
        let count: usize = messages.iter().map(|(_, values)| values.len()).sum();
        if count >= depth {
            return Ok(None);
        }
        let chain = self.store.chain_end(self.owner, row.number, count + 1).await?;
        let Some(before) = chain.first().copied().filter(|_| chain.len() == count + 1) else {
            return Ok(None);
        };
        let (mut last, mut done) = (before, depth - count);
        let mut placed = Vec::with_capacity(messages.len());
        for (message, values) in messages {
            let first_step = done;
            let mut nodes = Vec::with_capacity(values.len());
            for value in values {
                last = chain::node(last, value);
                nodes.push(last);
            }
            done += nodes.len();
            placed.push(Placed {
                message: Message::clone(&message),
                first_step,
                node: nodes.last().copied(),
                nodes,
                is_answer: false,
            });
        }
        // One hash over all of them: what is not the request's own end has another.
        let is_it = last == row.input_node;
        Ok(is_it.then_some(Ending {
            before,
            messages: placed,
        }))
    }
}
