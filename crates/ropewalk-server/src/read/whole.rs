//! Messages as they are, for programs that show them: along a conversation's active path, and as seed 004's session.

use ropewalk_engine::view::session::Amount;
use ropewalk_engine::view::{MessageView, SessionMessages};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use super::messages::named;
use crate::problem::Problem;
use crate::source::Owned;

const MESSAGES: usize = 100;
const MESSAGES_MAX: usize = 500;

/// Of what the messages of a page say; one message always fits.
const PAGE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Paged {
    pub limit: Option<usize>,
    /// What the page before named as the next.
    pub cursor: Option<String>,
    pub as_of: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WholeMessages {
    pub messages: Vec<MessageView>,
    /// Of all pages together.
    pub total: usize,
    pub next_cursor: Option<String>,
}

pub async fn messages<S: Store>(owned: &Owned<S>, name: &str, asked: &Paged) -> Result<WholeMessages, Problem> {
    let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
    let view = owned.view_to_find(name)?;
    let (_, all) = named(&view, name).await?;
    let total = all.len();
    let first = match &asked.cursor {
        None => 0,
        Some(cursor) => {
            let at = all.iter().position(|message| message.uuid == *cursor);
            at.ok_or_else(Problem::bad_cursor)? + 1
        }
    };
    let mut bytes = 0;
    let page = all.into_iter().skip(first).take(limit).take_while(|message| {
        let is_first = bytes == 0;
        bytes += message.content.len().max(1);
        is_first || bytes <= PAGE_BYTES_MAX
    });
    let messages: Vec<MessageView> = page.collect();
    let last = messages.last().map(|message| message.uuid.clone());
    Ok(WholeMessages {
        next_cursor: last.filter(|_| first + messages.len() < total),
        messages,
        total,
    })
}

pub async fn session_messages<S: Store>(
    owned: &Owned<S>,
    session: &str,
    asked: &Paged,
) -> Result<SessionMessages, Problem> {
    let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
    let view = owned.view_to_find(session)?;
    let mut tree = view.session(session).await?;
    let after = asked.cursor.as_deref();
    Ok(view
        .session_messages(&mut tree, after, limit, Amount::Everything)
        .await?)
}
