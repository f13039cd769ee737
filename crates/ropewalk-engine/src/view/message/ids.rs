//! The names of what one exchange added, as seed 003 sends them when a stream has ended.

use ropewalk_store::Store;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use super::{MessageView, message_uuid};
use crate::view::{Result, View};

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
        let messages = self.messages_of(row).await?;
        let mut added = messages.as_slice();
        let answer = match added.split_last() {
            Some((last, before)) if last.role == "assistant" && row.output_node.is_some() => {
                added = before;
                Some(last)
            }
            _ => None,
        };
        let newest = added.iter().rev().take_while(|message| message.role != "assistant");
        let user = newest.into_iter().find(|message| message.kind == "user");
        let id = |message: &MessageView| {
            message
                .node
                .map(|node| message_uuid(conversation_id, &node.to_string()))
        };
        let hash = |message: &MessageView| message.short_hash.clone();
        Ok(MessageIds {
            user_message_id: user.and_then(id),
            response_message_id: answer.and_then(id),
            user_message_short_hash: user.and_then(hash),
            response_message_short_hash: answer.and_then(hash),
        })
    }
}
