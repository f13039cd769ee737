//! The names of what one exchange added, as seed 003 sends them when a stream has ended.

use ropewalk_core::model::Role;
use ropewalk_store::Store;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use super::{MessageView, Placed, message_uuid, message_view};
use crate::view::{Result, View};

/// Blocks at the end of a request among which what it adds is looked for first.
const NEWEST_BLOCKS: usize = 16;

/// A turn's two messages. What it did not add has no name: a turn of tool results has no message of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct MessageIds {
    pub user_message_id: Option<String>,
    pub response_message_id: Option<String>,
    pub user_message_short_hash: Option<String>,
    pub response_message_short_hash: Option<String>,
}

impl<S: Store> View<'_, S> {
    /// Of an exchange in a conversation; the ids are those that its messages have there.
    pub async fn message_ids(&self, row: &ExchangeRow, conversation_id: &str) -> Result<MessageIds> {
        let newest = self.newest(row).await?;
        let mut added = newest.as_slice();
        let mut answer = None;
        if let Some((last, before)) = added.split_last()
            && last.is_answer
            && row.output_node.is_some()
        {
            (answer, added) = (Some(message_view(last, None)), before);
        }
        let views = added.iter().rev().map(|placed| message_view(placed, None));
        let user = views
            .take_while(|message| message.role != "assistant")
            .find(|message| message.kind == "user");
        let mut messages: Vec<MessageView> = user.into_iter().chain(answer).collect();
        if let Some(link) = self.find_link(row.number).await? {
            self.add_names(link.conversation, &mut messages).await?;
        }
        let id = |message: &MessageView| {
            message
                .node
                .map(|node| message_uuid(conversation_id, &node.to_string()))
        };
        let mut ids = MessageIds::default();
        for message in messages {
            let id = id(&message);
            match message.role {
                "assistant" => (ids.response_message_id, ids.response_message_short_hash) = (id, message.short_hash),
                _ => (ids.user_message_id, ids.user_message_short_hash) = (id, message.short_hash),
            }
        }
        Ok(ids)
    }

    /// The last messages of an exchange: its answer, and at least what stands between it and the one before.
    async fn newest(&self, row: &ExchangeRow) -> Result<Vec<Placed>> {
        let ending = self.decode_last(row, NEWEST_BLOCKS).await?;
        let is_enough = |placed: &[Placed]| placed.iter().any(|placed| placed.message.role == Role::Assistant);
        match ending.filter(|ending| is_enough(&ending.messages)) {
            Some(ending) => {
                let mut newest = ending.messages;
                newest.extend(self.placed_answer(row, row.depth as usize).await?);
                Ok(newest)
            }
            None => self.decode(row).await,
        }
    }
}
