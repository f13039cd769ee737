//! A conversation's shape: its branches, and the agents that worked in it.

use std::collections::HashMap;

use rmcp::schemars::{self, JsonSchema};
use ropewalk_engine::view::{AgentView, ConversationView, Directory, utc};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::{Micros, Store};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::bounded;
use super::conversations::shown;
use crate::problem::Problem;
use crate::source::Owned;

const BRANCHES: usize = 50;
const BRANCHES_MAX: usize = 200;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConversationTree {
    /// A conversation by its friendly id or id, or anything in it: an exchange's id, a message's reference.
    pub name: String,
    /// Branches on a page: 50 unless you say, 200 at most.
    #[serde(default)]
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Only what was known then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub as_of: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Tree {
    pub conversation: ConversationView,
    /// In the order they began.
    pub branches: Vec<ShownBranch>,
    /// Of all pages together.
    pub total: usize,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ShownBranch {
    pub branch_id: String,
    pub branch_key: String,
    /// `main`, `edit`, `regeneration`, `compact` or `subtask`.
    pub kind: &'static str,
    /// The branch that it left.
    pub from_branch_key: Option<String>,
    pub first_exchange_id: String,
    pub started_at: String,
    /// The agent that begins with it.
    pub agent: Option<AgentView>,
}

pub async fn conversation_tree<S: Store>(owned: &Owned<S>, asked: &ConversationTree) -> Result<Tree, Problem> {
    let limit = bounded(asked.limit, BRANCHES, BRANCHES_MAX);
    let view = owned.view_to_find(&asked.name)?;
    let root = view.resolve_root(&asked.name).await?;
    let mut directory = Directory::default();
    let found = directory.conversation(&view, root).await?;
    let known = found.ok_or_else(|| Problem::not_found(&asked.name))?;
    let conversation = shown(view.conversation(&known.row).await?);
    let agents = view.agents(root, &mut directory).await?;
    let mut agents: HashMap<ExchangeNumber, AgentView> = agents.into_iter().map(|agent| (agent.first, agent)).collect();
    let mut branches: Vec<_> = known.branches.iter().collect();
    branches.sort_by_key(|(first, branch)| (branch.record.at, branch.record.depth, **first));
    let total = branches.len();
    let skipped = match &asked.cursor {
        Some(cursor) => {
            let at = branches.iter().position(|(_, branch)| branch.key == *cursor);
            at.ok_or_else(Problem::bad_cursor)? + 1
        }
        None => 0,
    };
    let page = branches.into_iter().skip(skipped).take(limit);
    let branches: Vec<ShownBranch> = page
        .map(|(first, branch)| {
            let left = branch.record.left.map(ExchangeNumber);
            ShownBranch {
                branch_id: branch.shown.clone(),
                branch_key: branch.key.clone(),
                kind: branch.record.kind.name(),
                from_branch_key: left.and_then(|left| Some(known.branches.get(&left)?.key.clone())),
                first_exchange_id: branch.record.id.clone(),
                started_at: utc(Micros(branch.record.at)),
                agent: agents.remove(first),
            }
        })
        .collect();
    let last = branches.last().map(|branch| branch.branch_key.clone());
    Ok(Tree {
        conversation,
        next_cursor: last.filter(|_| skipped + branches.len() < total),
        branches,
        total,
    })
}
