//! Conversations, newest first.

use rmcp::schemars::{self, JsonSchema};
use ropewalk_engine::view::chosen::{Chosen, Wanted};
use ropewalk_engine::view::{ConversationView, Cursor, View};
use ropewalk_store::derived::{ConversationRow, Conversations};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::{Micros, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{bounded, exchanges, time};
use crate::bounds;
use crate::problem::Problem;
use crate::source::Owned;

const LISTED: usize = 20;
const LISTED_MAX: usize = 100;

/// Exchanges of a conversation that a filter looks at; what is behind them is what came before.
const LOOKED_AT_MAX: usize = 4_096;

#[derive(Debug, Default, Deserialize, JsonSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListConversations {
    /// Only those that went on since then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub since: Option<String>,
    /// Only those whose last exchange was before then.
    #[serde(default)]
    pub until: Option<String>,
    /// Only those with an exchange of a model whose name has this in it.
    #[serde(default)]
    pub model: Option<String>,
    /// Only those in which an agent whose name has this in it worked.
    #[serde(default)]
    pub agent: Option<String>,
    /// Only those of this project.
    #[serde(default)]
    pub project: Option<String>,
    /// Only those that cost as much, in dollars.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Only those with these words in the title or in what was said; the best matches, where there are many.
    #[serde(default)]
    pub grep: Option<String>,
    /// Only those with a branch of that id or key.
    #[serde(default)]
    pub branch: Option<String>,
    /// Only those with an exchange that has any hash that begins with these digits.
    #[serde(default)]
    pub hash: Option<String>,
    /// Conversations on a page: 20 unless you say, 100 at most; with a filter there may be fewer although more follow.
    #[serde(default)]
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Only what was known then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub as_of: Option<String>,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Listed {
    pub conversations: Vec<ConversationView>,
    pub next_cursor: Option<String>,
}

pub async fn conversations<S: Store>(owned: &Owned<S>, asked: &ListConversations) -> Result<Listed, Problem> {
    let (since, until) = (time(asked.since.as_deref())?, time(asked.until.as_deref())?);
    let limit = bounded(asked.limit, LISTED, LISTED_MAX);
    let Some(view) = owned.view() else {
        return Ok(Listed::default());
    };
    let before = match &asked.cursor {
        Some(cursor) => Some(read_cursor(&view, cursor).await?),
        None => until.map(|until| (Micros(until.0.saturating_add(1)), ExchangeNumber(0))),
    };
    let mut rows = view.conversations_before(before, limit + 1).await?;
    // They come by the time of their last exchange.
    rows.retain(|row| since.is_none_or(|since| row.last_at >= since));
    let is_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| is_more).map(write_cursor);
    let wanted = Wanted {
        words: asked.grep.clone(),
        branch: asked.branch.clone(),
        hash: exchanges::hash(asked.hash.as_deref())?,
        ..Wanted::default()
    };
    let chosen = Chosen::new(&view, wanted).await?;
    let mut conversations = Vec::with_capacity(rows.len());
    for row in &rows {
        if !matches(&view, row, asked).await? {
            continue;
        }
        let conversation = view.conversation(row).await?;
        let title = conversation.title.as_deref();
        if chosen.has_conversation(&view, row.root, title).await? {
            conversations.push(shown(conversation));
        }
    }
    Ok(Listed {
        conversations,
        next_cursor,
    })
}

/// Whether it is one of those that were asked for. What its exchanges say is only read where it is asked for.
async fn matches<S: Store>(
    view: &View<'_, S>,
    row: &ConversationRow,
    asked: &ListConversations,
) -> Result<bool, Problem> {
    if let Some(cost) = asked.cost
        && view.conversation(row).await?.cost_usd < cost
    {
        return Ok(false);
    }
    let wanted =
        [&asked.model, &asked.agent, &asked.project].map(|wanted| wanted.as_deref().filter(|text| !text.is_empty()));
    let mut is_met = wanted.map(|wanted| wanted.is_none());
    let has = |text: Option<&str>, wanted: Option<&str>| {
        wanted.is_some_and(|wanted| text.is_some_and(|text| text.to_lowercase().contains(&wanted.to_lowercase())))
    };
    let [model, agent, project] = wanted;
    let (mut after, mut read) = (None, 0);
    while is_met.contains(&false) && read < LOOKED_AT_MAX {
        let links = view.links_in(row.root, after).await?;
        let Some(last) = links.last() else { break };
        after = Some((last.at, last.exchange));
        read += links.len();
        for exchange in view.rows(links.iter().map(|link| link.exchange).collect()).await? {
            is_met[0] |= has(exchange.model.as_deref(), model);
            is_met[1] |= has(exchange.agent.as_deref(), agent);
            is_met[2] |= exchange.project.is_some() && exchange.project.as_deref() == project;
        }
    }
    Ok(!is_met.contains(&false))
}

/// With a title that is no novel.
pub(super) fn shown(mut conversation: ConversationView) -> ConversationView {
    conversation.title = bounds::title(conversation.title);
    conversation
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTitle {
    pub title: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Titled {
    pub v: u32,
    pub friendly_id: String,
    pub title: String,
}

/// Another title for a conversation, whose friendly id stays.
pub async fn retitle<S: Store>(owned: &Owned<S>, name: &str, body: &[u8]) -> Result<Titled, Problem> {
    let unreadable = |_| Problem::bad_request("this says no title").hint("send {\"title\": …}");
    let NewTitle { title } = serde_json::from_slice(body).map_err(unreadable)?;
    let title = bounds::cut(title.trim(), 0, bounds::TITLE_CHARS_MAX).0;
    if title.is_empty() {
        return Err(Problem::bad_request("a title has to say something"));
    }
    let friendly_id = owned.view_to_find(name)?.set_title(name, &title).await?;
    Ok(Titled {
        v: 1,
        friendly_id,
        title,
    })
}

pub(super) fn write_cursor(row: &ConversationRow) -> String {
    format!("{}.{}", row.last_at.0, hex::encode(row.id))
}

/// By the conversation's id: numbers of the store tell how much others have.
pub(super) async fn read_cursor<S: Store>(view: &View<'_, S>, cursor: &str) -> Result<Cursor, Problem> {
    let mut id = [0; 16];
    let read = cursor.split_once('.').and_then(|(at, digits)| {
        hex::decode_to_slice(digits, &mut id).ok()?;
        at.parse().ok().map(Micros)
    });
    let at = read.ok_or_else(Problem::bad_cursor)?;
    let which = Conversations::Ids(vec![id]);
    let rows = view.store.conversations(view.owner, which).await?;
    let row = rows.first().ok_or_else(Problem::bad_cursor)?;
    Ok((at, row.root))
}
