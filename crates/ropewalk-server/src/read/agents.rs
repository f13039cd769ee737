//! Agents, each with whoever started it.

use ropewalk_engine::view::{AgentView, Directory};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use crate::problem::Problem;
use crate::source::Owned;

const CONVERSATIONS: usize = 20;
const CONVERSATIONS_MAX: usize = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListAgents {
    /// Only those of the conversation that this names.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Otherwise those of so many conversations, the one that went on last first.
    pub limit: Option<usize>,
    pub as_of: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ListedAgents {
    pub agents: Vec<AgentView>,
}

pub async fn agents<S: Store>(owned: &Owned<S>, asked: &ListAgents) -> Result<ListedAgents, Problem> {
    let mut directory = Directory::default();
    let mut listed = ListedAgents::default();
    if let Some(reference) = &asked.reference {
        let view = owned.view_to_find(reference)?;
        let root = view.resolve_root(reference).await?;
        listed.agents = view.agents(root, &mut directory).await?;
    } else if let Some(view) = owned.view() {
        let limit = bounded(asked.limit, CONVERSATIONS, CONVERSATIONS_MAX);
        for row in view.conversations_before(None, limit).await? {
            listed.agents.extend(view.agents(row.root, &mut directory).await?);
        }
    }
    Ok(listed)
}
