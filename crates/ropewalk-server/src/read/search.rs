//! Words in what was said.

use std::collections::HashMap;

use rmcp::schemars::{self, JsonSchema};
use ropewalk_engine::view::{Directory, utc};
use ropewalk_store::Store;
use ropewalk_store::facts::{ExchangeNumber, TextSource};
use ropewalk_store::store::{PAGE_MAX, SearchQuery};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{bounded, time};
use crate::problem::Problem;
use crate::source::Owned;

const HITS: usize = 10;
const HITS_MAX: usize = 50;

/// Words of a search; more is no question anybody asks.
const QUERY_CHARS_MAX: usize = 1_000;

/// How the store marks the words that were found.
const MARKS: [char; 2] = ['\u{2}', '\u{3}'];

#[derive(Debug, Default, Deserialize, JsonSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Search {
    /// Words that must all occur; put a phrase in double quotes. Fewer words find more.
    pub query: String,
    /// Only what one side said.
    #[serde(default)]
    #[param(inline)]
    pub said_by: Option<SaidBy>,
    /// Only exchanges with this model.
    #[serde(default)]
    pub model: Option<String>,
    /// Only what was said since then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub since: Option<String>,
    /// Hits on a page: 10 unless you say, 50 at most.
    #[serde(default)]
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Only what was known then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub as_of: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaidBy {
    User,
    Assistant,
    ToolInput,
    ToolResult,
}

impl SaidBy {
    fn source(self) -> TextSource {
        match self {
            SaidBy::User => TextSource::User,
            SaidBy::Assistant => TextSource::Assistant,
            SaidBy::ToolInput => TextSource::ToolInput,
            SaidBy::ToolResult => TextSource::ToolResult,
        }
    }
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Hits {
    pub hits: Vec<FoundText>,
    /// Texts that were recorded and cannot be found yet.
    pub not_searchable_yet: u64,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct FoundText {
    pub exchange_id: String,
    pub conversation_id: Option<String>,
    pub friendly_id: Option<String>,
    pub branch_id: Option<String>,
    pub at: String,
    pub model: Option<String>,
    pub said_by: &'static str,
    pub snippet: String,
}

pub async fn search<S: Store>(owned: &Owned<S>, asked: &Search) -> Result<Hits, Problem> {
    let (limit, skipped) = (bounded(asked.limit, HITS, HITS_MAX), offset(asked.cursor.as_deref())?);
    if asked.query.trim().is_empty() || asked.query.chars().count() > QUERY_CHARS_MAX {
        return Err(Problem::bad_request("a search has words, and not too many"));
    }
    let query = SearchQuery {
        text: asked.query.clone(),
        source: asked.said_by.map(SaidBy::source),
        model: asked.model.clone(),
        since: time(asked.since.as_deref())?,
        // One more tells whether there is a next page. What is behind a page of the store is no good match.
        limit: skipped.saturating_add(limit + 1).min(PAGE_MAX),
    };
    let Some(view) = owned.view() else {
        return Ok(Hits::default());
    };
    // Before the search: what becomes searchable in between is then counted, not kept silent about.
    let not_searchable_yet = view.store.search_lag(view.owner).await?.waiting;
    let mut hits = view.store.search(view.owner, query).await?;
    hits.drain(..skipped.min(hits.len()));
    let is_more = hits.len() > limit;
    hits.truncate(limit);
    let rows = view.rows(hits.iter().map(|hit| hit.exchange).collect()).await?;
    let exchanges = view.exchanges(&rows, &mut Directory::default()).await?;
    let both = rows.iter().zip(exchanges);
    let known: HashMap<ExchangeNumber, _> = both.map(|(row, exchange)| (row.number, (row.at, exchange))).collect();
    let found = hits.iter().filter_map(|hit| {
        let (at, exchange) = known.get(&hit.exchange)?;
        Some(FoundText {
            exchange_id: exchange.id.clone(),
            conversation_id: exchange.conversation_id.clone(),
            friendly_id: exchange.friendly_id.clone(),
            branch_id: exchange.branch_id.clone(),
            at: utc(*at),
            model: exchange.model.clone(),
            said_by: hit.source.name(),
            snippet: hit.snippet.replace(MARKS, ""),
        })
    });
    Ok(Hits {
        hits: found.collect(),
        not_searchable_yet,
        next_cursor: is_more.then(|| (skipped + limit).to_string()),
    })
}

/// How many hits the pages before had.
fn offset(cursor: Option<&str>) -> Result<usize, Problem> {
    match cursor {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| Problem::bad_cursor()),
    }
}
