//! Conversations, newest first.

use rmcp::schemars::{self, JsonSchema};
use ropewalk_engine::view::{ConversationView, Cursor, View};
use ropewalk_store::derived::{ConversationRow, Conversations};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::{Micros, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{bounded, time};
use crate::bounds;
use crate::problem::Problem;
use crate::source::Owned;

const LISTED: usize = 20;
const LISTED_MAX: usize = 100;

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
    /// Conversations on a page: 20 unless you say, 100 at most.
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
    let mut conversations = Vec::with_capacity(rows.len());
    for row in &rows {
        conversations.push(shown(view.conversation(row).await?));
    }
    Ok(Listed {
        conversations,
        next_cursor,
    })
}

/// With a title that is no novel.
pub(super) fn shown(mut conversation: ConversationView) -> ConversationView {
    conversation.title = bounds::title(conversation.title);
    conversation
}

fn write_cursor(row: &ConversationRow) -> String {
    format!("{}.{}", row.last_at.0, hex::encode(row.id))
}

/// By the conversation's id: numbers of the store tell how much others have.
async fn read_cursor<S: Store>(view: &View<'_, S>, cursor: &str) -> Result<Cursor, Problem> {
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
