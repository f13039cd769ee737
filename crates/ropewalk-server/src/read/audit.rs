//! What was changed, and when: what `ropewalk audit` prints of one owner's data.

use ropewalk_store::Micros;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{bounded, time};
use crate::problem::Problem;
use crate::source::{Source, Whose};

const LISTED: usize = 50;
const LISTED_MAX: usize = 500;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListNoted {
    /// Only what was changed since then.
    pub since: Option<String>,
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ListedNoted {
    /// The newest first.
    pub changes: Vec<Noted>,
    pub next_cursor: Option<String>,
}

/// A change of an owner's data.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Noted {
    /// When.
    pub at: String,
    /// Who did it, as the server's system calls them.
    pub user: Option<String>,
    /// What was done, by the name of the command.
    pub verb: String,
    /// What it was done to, by its id.
    pub about: Option<String>,
    /// Counts, and the like.
    pub detail: Value,
}

/// Which of them: no older than one time, older than another, so many.
#[derive(Debug, Clone, Copy)]
pub struct Period {
    pub since: Option<Micros>,
    pub before: Option<Micros>,
    pub most: usize,
}

pub async fn noted<S: Source>(whose: Whose<S>, asked: &ListNoted) -> Result<ListedNoted, Problem> {
    let most = bounded(asked.limit, LISTED, LISTED_MAX);
    let period = Period {
        since: time(asked.since.as_deref())?,
        before: time(asked.cursor.as_deref()).map_err(|_| Problem::bad_cursor())?,
        // One more tells whether there is a next page.
        most: most + 1,
    };
    // The log is a file.
    let read = tokio::task::spawn_blocking(move || whose.noted(period)).await;
    let mut changes = read.map_err(|_| Problem::unavailable())?;
    let is_more = changes.len() > most;
    changes.truncate(most);
    Ok(ListedNoted {
        next_cursor: changes.last().filter(|_| is_more).map(|last| last.at.clone()),
        changes,
    })
}
