//! Who brought each system block and each tool.

use ropewalk_engine::insight::blame::{Blame, Scope, Timeline};
use ropewalk_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::problem::Problem;
use crate::source::Owned;

/// Exactly one of them.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimelineOf {
    #[serde(rename = "ref")]
    reference: Option<String>,
    agent_type: Option<String>,
    project: Option<String>,
    client: Option<String>,
    pub(crate) as_of: Option<String>,
}

pub async fn blame<S: Store>(owned: &Owned<S>, reference: &str) -> Result<Blame, Problem> {
    let view = owned.view_to_find(reference)?;
    let row = view.resolve_exchange(reference).await?;
    Ok(view.blame(&row, owned.prices()).await?)
}

pub async fn timeline<S: Store>(owned: &Owned<S>, asked: &TimelineOf) -> Result<Timeline, Problem> {
    let wants_one = || {
        Problem::bad_request("one of `ref`, `agent_type`, `project` and `client` says whose changes").hint(
            "`ref` is an exchange, `agent_type` a whole hash, `client` a name with its version: claude-code/2.1.197",
        )
    };
    let hash;
    let row;
    let view = owned.view();
    let scope = match (&asked.reference, &asked.agent_type, &asked.project, &asked.client) {
        (Some(reference), None, None, None) => {
            row = owned.view_to_find(reference)?.resolve_exchange(reference).await?;
            Scope::Path(&row)
        }
        (None, Some(digits), None, None) => {
            hash = hex::decode(digits)
                .ok()
                .filter(|hash| !hash.is_empty())
                .ok_or_else(wants_one)?;
            Scope::AgentType(&hash)
        }
        (None, None, Some(project), None) => Scope::Project(project),
        (None, None, None, Some(client)) => Scope::Client(client),
        _ => return Err(wants_one()),
    };
    match view {
        Some(view) => Ok(view.timeline(scope, owned.prices()).await?),
        None => Ok(Timeline::default()),
    }
}
