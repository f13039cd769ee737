//! What many rows share: conversations with their branches, and agents.
//!
//! A directory lives as long as one answer is being put together. It is bounded: beyond [`CONVERSATIONS_MAX`]
//! conversations it starts again, which costs time and changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use ropewalk_core::agent_identity::conversation_hash;
use ropewalk_store::Store;
use ropewalk_store::derived::{ConversationRow, Conversations, LinkKind, Links};
use ropewalk_store::facts::{ExchangeNumber, HashKind};
use ropewalk_store::names::NameRow;
use ropewalk_store::store::ExchangeRow;

use crate::link::decision::Linked;
use crate::link::settle::{AgentRecord, BranchRecord};
use crate::view::path::Paths;
use crate::view::{Result, View, digest, hash_of};

/// Conversations that are kept at once.
const CONVERSATIONS_MAX: usize = 256;

/// Attempts at an agent's first turn that are looked at.
const ATTEMPTS_MAX: usize = 16;

#[derive(Debug)]
pub struct Conversation {
    pub row: ConversationRow,
    /// What it is called in references, once that is minted.
    pub name: Option<NameRow>,
    pub branches: HashMap<ExchangeNumber, Branch>,
}

#[derive(Debug)]
pub struct Branch {
    pub shown: String,
    /// Stays when the branch is shown under another name.
    pub key: String,
    pub record: BranchRecord,
}

/// An agent's names and hashes, the same in all of its exchanges.
#[derive(Debug)]
pub struct Agent {
    pub record: AgentRecord,
    pub parent_id: Option<String>,
    /// Frozen at its first exchange.
    pub type_hash: Option<String>,
    pub first_user_hash: Option<String>,
    pub first_response_hash: Option<String>,
    /// `None` until the first answer is whole.
    pub conversation_hash: Option<String>,
}

#[derive(Debug, Default)]
pub struct Directory {
    conversations: HashMap<ExchangeNumber, Option<Arc<Conversation>>>,
    agents: HashMap<ExchangeNumber, Option<Arc<Agent>>>,
    pub(super) paths: Paths,
}

impl Directory {
    /// A conversation by its root.
    pub async fn conversation<S: Store>(
        &mut self,
        view: &View<'_, S>,
        root: ExchangeNumber,
    ) -> Result<Option<Arc<Conversation>>> {
        if let Some(known) = self.conversations.get(&root) {
            return Ok(known.clone());
        }
        if self.conversations.len() >= CONVERSATIONS_MAX {
            self.conversations.clear();
            self.agents.clear();
        }
        let rows = view
            .store
            .conversations(view.owner, Conversations::Of(vec![root]))
            .await?;
        let mut found = None;
        if let Some(row) = rows.into_iter().next() {
            let mut branches = HashMap::new();
            for branch in view.store.branches(view.owner, root).await? {
                let record = BranchRecord::read(&branch)?;
                let key = branch_key(&view.owner_name, &record.id);
                let shown = branch.shown;
                branches.insert(branch.first, Branch { shown, key, record });
            }
            let name = view.name_of(root).await?;
            found = Some(Arc::new(Conversation { row, name, branches }));
        }
        self.conversations.insert(root, found.clone());
        Ok(found)
    }

    /// An agent by its first exchange.
    pub async fn agent<S: Store>(
        &mut self,
        view: &View<'_, S>,
        conversation: &Conversation,
        first: ExchangeNumber,
    ) -> Result<Option<Arc<Agent>>> {
        if let Some(known) = self.agents.get(&first) {
            return Ok(known.clone());
        }
        let record_of = |first: ExchangeNumber| conversation.branches.get(&first)?.record.agent.clone();
        let mut found = None;
        if let Some(record) = record_of(first) {
            let parent = record.parent.and_then(|parent| record_of(ExchangeNumber(parent)));
            found = Some(Arc::new(agent(view, first, record, parent).await?));
        }
        self.agents.insert(first, found.clone());
        Ok(found)
    }
}

async fn agent<S: Store>(
    view: &View<'_, S>,
    first: ExchangeNumber,
    record: AgentRecord,
    parent: Option<AgentRecord>,
) -> Result<Agent> {
    let row = view.find_row(first).await?;
    let hash = |kind| row.as_ref().and_then(|row| hash_of(row, kind));
    let (type_hash, first_user_hash) = (hash(HashKind::AgentType), hash(HashKind::FirstUser));
    let first_response_hash = match hash(HashKind::FirstResponse) {
        Some(hash) => Some(hash),
        None => answer_of_another_attempt(view, first).await?,
    };
    let hashes = (&type_hash, &first_user_hash, &first_response_hash);
    let conversation_hash = match hashes {
        (Some(kind), Some(user), Some(answer)) => Some(conversation_hash(kind, user, answer)),
        _ => None,
    };
    Ok(Agent {
        record,
        parent_id: parent.map(|parent| parent.id),
        type_hash,
        first_user_hash,
        first_response_hash,
        conversation_hash,
    })
}

/// Where the first attempt failed, a retry has the first answer.
async fn answer_of_another_attempt<S: Store>(view: &View<'_, S>, first: ExchangeNumber) -> Result<Option<String>> {
    let mut attempts = vec![first];
    let mut looked_at = 0;
    while let Some(attempt) = attempts.get(looked_at).copied() {
        looked_at += 1;
        let children = view.store.links(view.owner, Links::Children(vec![attempt])).await?;
        let retries = children.into_iter().filter(|link| link.kind == LinkKind::Retry);
        let retries: Vec<ExchangeNumber> = retries.map(|link| link.exchange).collect();
        let mut rows: Vec<ExchangeRow> = view.rows(retries.clone()).await?;
        rows.sort_by_key(|row| (row.at, row.number));
        if let Some(hash) = rows.iter().find_map(|row| hash_of(row, HashKind::FirstResponse)) {
            return Ok(Some(hash));
        }
        attempts.extend(retries);
        attempts.truncate(ATTEMPTS_MAX);
    }
    Ok(None)
}

/// Made from the branch's first exchange, so it stays whatever the branch is shown as.
fn branch_key(owner: &str, first: &str) -> String {
    hex::encode(&digest(&["v1:branch", owner, first])[..8])
}

impl Conversation {
    pub fn branch_of(&self, link: &Linked) -> Option<&Branch> {
        self.branches.get(&link.branch)
    }
}
