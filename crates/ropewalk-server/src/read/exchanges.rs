//! Exchanges, oldest first; one with the decision that gave it its place; its bytes.

use ropewalk_engine::view::chosen::{Chosen, Wanted, digits};
use ropewalk_engine::view::explain::{Envelope, Explanation};
use ropewalk_engine::view::{Cursor, Directory, ExchangeView, Target, View};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_store::{Micros, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{bounded, time};
use crate::problem::Problem;
use crate::source::Owned;

const LISTED: usize = 50;
const LISTED_MAX: usize = 200;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListExchanges {
    /// Only those of the conversation that this names.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    pub since: Option<String>,
    pub until: Option<String>,
    /// Only those where these words were said; the best matches, where there are many.
    pub grep: Option<String>,
    /// Only those of a model whose name has this in it.
    pub model: Option<String>,
    /// Only those on the branch of that id or key.
    pub branch: Option<String>,
    /// Only those of the agent of that id or name.
    pub agent: Option<String>,
    /// Only those with any hash that begins with these digits.
    pub hash: Option<String>,
    /// On a page; with a filter there may be fewer although more follow.
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    pub as_of: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct ListedExchanges {
    pub exchanges: Vec<ExchangeView>,
    pub next_cursor: Option<String>,
}

pub async fn exchanges<S: Store>(owned: &Owned<S>, asked: &ListExchanges) -> Result<ListedExchanges, Problem> {
    let (since, until) = (time(asked.since.as_deref())?, time(asked.until.as_deref())?);
    let limit = bounded(asked.limit, LISTED, LISTED_MAX);
    let view = match (&asked.reference, owned.view()) {
        (Some(reference), _) => owned.view_to_find(reference)?,
        (None, Some(view)) => view,
        (None, None) => return Ok(ListedExchanges::default()),
    };
    let after = match &asked.cursor {
        Some(cursor) => Some(read_cursor(&view, cursor).await?),
        None => since.map(|since| (Micros(since.0.saturating_sub(1)), ExchangeNumber(i64::MAX))),
    };
    // One more tells whether there is a next page.
    let mut rows = match &asked.reference {
        None => view.rows_after(after, limit + 1).await?,
        Some(reference) => {
            let root = view.resolve_root(reference).await?;
            rows_in(&view, root, after, limit + 1).await?
        }
    };
    rows.retain(|row| until.is_none_or(|until| row.at <= until));
    let is_more = rows.len() > limit;
    rows.truncate(limit);
    let chosen = Chosen::new(&view, wanted(asked)?).await?;
    let shown = view.exchanges(&rows, &mut Directory::default()).await?;
    let both = rows.iter().zip(shown);
    Ok(ListedExchanges {
        exchanges: both
            .filter(|(row, exchange)| chosen.has(row.number, exchange))
            .map(|(_, exchange)| exchange)
            .collect(),
        next_cursor: rows.last().filter(|_| is_more).map(|row| row.id.clone()),
    })
}

fn wanted(asked: &ListExchanges) -> Result<Wanted, Problem> {
    Ok(Wanted {
        words: asked.grep.clone(),
        model: asked.model.clone(),
        branch: asked.branch.clone(),
        agent: asked.agent.clone(),
        hash: hash(asked.hash.as_deref())?,
    })
}

pub(super) fn hash(typed: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(typed) = typed else { return Ok(None) };
    let unreadable = || Problem::bad_request("this is no beginning of a hash").hint("hex digits: hash=8182");
    digits(typed).map(Some).ok_or_else(unreadable)
}

/// The exchanges of a conversation, in the order of their requests.
async fn rows_in<S: Store>(
    view: &View<'_, S>,
    root: ExchangeNumber,
    mut after: Option<Cursor>,
    limit: usize,
) -> Result<Vec<ExchangeRow>, Problem> {
    let mut numbers = Vec::new();
    while numbers.len() < limit {
        let links = view.links_in(root, after).await?;
        let Some(last) = links.last() else { break };
        after = Some((last.at, last.exchange));
        numbers.extend(links.iter().map(|link| link.exchange));
    }
    numbers.truncate(limit);
    let mut rows = view.rows(numbers).await?;
    rows.sort_by_key(|row| (row.at, row.number));
    Ok(rows)
}

/// By the exchange's id: numbers of the store tell how much others have.
async fn read_cursor<S: Store>(view: &View<'_, S>, cursor: &str) -> Result<Cursor, Problem> {
    match view.resolve(cursor).await {
        Ok(Target::Exchange(row)) => Ok((row.at, row.number)),
        _ => Err(Problem::bad_cursor()),
    }
}

/// What `ropewalk explain` says, and what the bodies were sent with.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explained {
    #[serde(flatten)]
    pub explanation: Explanation,
    pub envelope: Envelope,
}

pub async fn explained<S: Store>(owned: &Owned<S>, name: &str) -> Result<Explained, Problem> {
    let (view, row) = named(owned, name).await?;
    Ok(Explained {
        explanation: view.explain(&row).await?,
        envelope: Envelope::of(&row),
    })
}

/// What was recorded of a side, byte for byte.
pub async fn bytes<S: Store>(owned: &Owned<S>, name: &str, half: &str) -> Result<Vec<u8>, Problem> {
    let half = match half {
        "request" => Half::Request,
        "sent" => Half::Sent,
        "response" => Half::Response,
        _ => return Err(Problem::bad_request("it is `request`, `sent` or `response`")),
    };
    let (view, row) = named(owned, name).await?;
    let found = view.store.body(view.owner, row.number, half).await?;
    found.ok_or_else(|| Problem::not_found(name))
}

async fn named<'o, S: Store>(owned: &'o Owned<S>, name: &str) -> Result<(View<'o, S>, ExchangeRow), Problem> {
    let view = owned.view_to_find(name)?;
    match view.resolve(name).await? {
        Target::Exchange(row) => Ok((view, *row)),
        Target::Message(message) => Ok((view, message.row)),
        Target::Conversation(_) => Err(Problem::not_found(name)),
    }
}
