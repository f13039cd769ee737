//! Conversations with their sums: the row of `log`.

use ropewalk_store::Store;
use ropewalk_store::derived::{ConversationRow, Conversations};
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

    /// Its friendly id, and its title: the one that people gave it, else its log's, else the one it has from what was said.
    pub(crate) async fn called(&self, row: &ConversationRow) -> Result<(Option<String>, Option<String>)> {
        let (friendly_id, chosen) = match self.name_of(row.root).await? {
            Some(name) => (Some(name.friendly_id), name.title),
            None => (None, None),
        };
        let title = match chosen {
            Some(title) => Some(title),
            None => self.logged_title(row.root).await?,
        };
        Ok((friendly_id, title.or(ConversationRecord::read(row)?.title)))
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
        let (friendly_id, title) = self.called(row).await?;
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
