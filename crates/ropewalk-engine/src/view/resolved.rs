//! What a reference comes to, as programs read it: the line of `resolve --json`, and the answers of the API and of MCP.

use ropewalk_core::reference::Reference;
use ropewalk_store::Store;
use ropewalk_store::derived::Conversations;
use serde::Serialize;
use utoipa::ToSchema;

use crate::view::{Resolution, Result, View, uuid_text};

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ResolvedView {
    pub v: u32,
    pub reference: String,
    pub resolved: bool,
    /// It names several messages of one conversation.
    pub ambiguous: bool,
    /// How many it names.
    #[serde(skip)]
    pub count: usize,
    #[serde(flatten)]
    pub message: Option<QuotedMessage>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct QuotedMessage {
    pub conversation_id: Option<String>,
    pub friendly_id: String,
    pub index: u64,
    pub short_hash: Option<String>,
    pub role: &'static str,
    pub exchange_id: String,
    pub text: String,
    /// As the proxy would add it to a request.
    pub injected: String,
}

impl ResolvedView {
    /// Of nobody, or of another.
    pub fn unknown(written: &str) -> Self {
        ResolvedView {
            v: 1,
            reference: written.to_owned(),
            resolved: false,
            ambiguous: false,
            count: 0,
            message: None,
        }
    }
}

impl<S: Store> View<'_, S> {
    pub async fn resolved(&self, reference: &Reference, written: &str) -> Result<ResolvedView> {
        let unknown = ResolvedView::unknown(written);
        let message = match self.find_message(reference, written).await? {
            Resolution::Found(message) => message,
            Resolution::Unknown => return Ok(unknown),
            Resolution::Ambiguous(count) => {
                return Ok(ResolvedView {
                    ambiguous: true,
                    count,
                    ..unknown
                });
            }
        };
        let which = Conversations::Of(vec![message.conversation]);
        let rows = self.store.conversations(self.owner, which).await?;
        Ok(ResolvedView {
            reference: message.written.clone(),
            resolved: true,
            count: 1,
            message: Some(QuotedMessage {
                conversation_id: rows.first().map(|row| uuid_text(&row.id)),
                role: message.role(),
                injected: message.injected(),
                friendly_id: message.friendly_id,
                index: message.index,
                short_hash: message.short_hash,
                exchange_id: message.row.id,
                text: message.text,
            }),
            ..unknown
        })
    }
}
