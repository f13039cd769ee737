//! Agents, each with whoever started it.

use ropewalk_engine::view::{AgentView, Directory};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use super::conversations::{read_cursor, write_cursor};
use crate::problem::Problem;
use crate::source::Owned;

const CONVERSATIONS: usize = 20;
const CONVERSATIONS_MAX: usize = 100;

const AGENTS: usize = 200;
const AGENTS_MAX: usize = 500;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAgents {
    /// Only those of the conversation that this names.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// How many of them; otherwise of how many conversations, the one that went on last first.
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    pub as_of: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ListedAgents {
    pub agents: Vec<AgentView>,
    pub next_cursor: Option<String>,
}

pub async fn agents<S: Store>(owned: &Owned<S>, asked: &ListAgents) -> Result<ListedAgents, Problem> {
    let mut directory = Directory::default();
    let mut listed = ListedAgents::default();
    if let Some(reference) = &asked.reference {
        let view = owned.view_to_find(reference)?;
        let root = view.resolve_root(reference).await?;
        let mut agents = view.agents(root, &mut directory).await?;
        if let Some(cursor) = &asked.cursor {
            let last = agents.iter().position(|agent| agent.id == *cursor);
            agents.drain(..=last.ok_or_else(Problem::bad_cursor)?);
        }
        let limit = bounded(asked.limit, AGENTS, AGENTS_MAX);
        let is_more = agents.len() > limit;
        agents.truncate(limit);
        listed.next_cursor = agents.last().filter(|_| is_more).map(|last| last.id.clone());
        listed.agents = agents;
    } else if let Some(view) = owned.view() {
        let limit = bounded(asked.limit, CONVERSATIONS, CONVERSATIONS_MAX);
        let before = match &asked.cursor {
            Some(cursor) => Some(read_cursor(&view, cursor).await?),
            None => None,
        };
        let mut rows = view.conversations_before(before, limit + 1).await?;
        let is_more = rows.len() > limit;
        rows.truncate(limit);
        listed.next_cursor = rows.last().filter(|_| is_more).map(write_cursor);
        for row in rows {
            listed.agents.extend(view.agents(row.root, &mut directory).await?);
        }
    }
    Ok(listed)
}
