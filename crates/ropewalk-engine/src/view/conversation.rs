//! Conversations with their sums: the row of `log`.

use std::collections::HashMap;

use ropewalk_store::Store;
use ropewalk_store::derived::{ConversationRow, Conversations};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::names::{NameRow, Names};
use serde::Serialize;
use utoipa::ToSchema;

use crate::link::decision::BranchKind;
use crate::link::settle::{BranchRecord, ConversationRecord};
use crate::view::{Cursor, Result, View, usd, utc, uuid_text};

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ConversationView {
    pub v: u32,
    pub conversation_id: String,
    pub friendly_id: Option<String>,
    pub owner: String,
    pub title: Option<String>,
    pub started_at: String,
    pub last_at: String,
    pub exchanges: u64,
    pub turns: u64,
    pub branches: u64,
    pub agents: u64,
    pub tokens: Tokens,
    pub cost_usd: f64,
    /// Ids of the exchanges that nothing recorded precedes. More than one where recording was interrupted.
    pub roots: Vec<String>,
}

/// What a conversation is called.
#[derive(Debug, Clone, Default)]
pub(crate) struct Called {
    pub(crate) friendly_id: Option<String>,
    /// The one that people gave it, else its log's, else the one it has from what was said.
    pub(crate) title: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct Tokens {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
}

impl Tokens {
    /// All that went to the model.
    pub fn sent(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
    }
}

impl<S: Store> View<'_, S> {
    /// Conversations, newest first, behind a cursor.
    pub async fn conversations_before(&self, before: Option<Cursor>, limit: usize) -> Result<Vec<ConversationRow>> {
        let page = Conversations::Newest { before, limit };
        Ok(self.store.conversations(self.owner, page).await?)
    }

    /// What some conversations are called, in their order.
    pub(crate) async fn called(&self, rows: &[ConversationRow]) -> Result<Vec<Called>> {
        let roots: Vec<ExchangeNumber> = rows.iter().map(|row| row.root).collect();
        let names = self.store.names(self.owner, Names::OfConversations(roots)).await?;
        let names: HashMap<ExchangeNumber, NameRow> = names.into_iter().map(|name| (name.exchange, name)).collect();
        let has_logs = self.has_logs().await?;
        let mut called = Vec::with_capacity(rows.len());
        for row in rows {
            // One that began otherwise before has the name that it had then.
            let name = match names.get(&row.root) {
                Some(name) => Some(name.clone()),
                None => self.name_of(row.root).await?,
            };
            let (friendly_id, mut title) = name.map_or((None, None), |name| (Some(name.friendly_id), name.title));
            if title.is_none() && has_logs {
                title = self.logged_title(row.root).await?;
            }
            called.push(Called {
                friendly_id,
                title: title.or(ConversationRecord::read(row)?.title),
            });
        }
        Ok(called)
    }

    pub async fn conversation(&self, row: &ConversationRow) -> Result<ConversationView> {
        let record = ConversationRecord::read(row)?;
        let mut roots = Vec::new();
        for branch in self.store.branches(self.owner, row.root).await? {
            let is_root = branch.first == row.root;
            let branch = BranchRecord::read(&branch)?;
            if is_root || branch.kind == BranchKind::Main {
                roots.push((branch.at, branch.depth, branch.id));
            }
        }
        roots.sort();
        let Called { friendly_id, title } = self.called(std::slice::from_ref(row)).await?.pop().unwrap_or_default();
        Ok(ConversationView {
            v: 1,
            conversation_id: uuid_text(&row.id),
            friendly_id,
            owner: self.owner_name.clone(),
            title,
            started_at: utc(row.started_at),
            last_at: utc(row.last_at),
            exchanges: record.exchanges,
            turns: record.turns,
            branches: record.branches,
            agents: record.agents,
            tokens: Tokens {
                input_tokens: record.input_tokens,
                output_tokens: record.output_tokens,
                cache_read_tokens: record.cache_read_tokens,
                cache_write_tokens: record.cache_write_tokens,
            },
            cost_usd: usd(record.cost_nano_usd),
            roots: roots.into_iter().map(|(_, _, id)| id).collect(),
        })
    }
}
