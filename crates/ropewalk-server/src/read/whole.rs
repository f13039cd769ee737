//! Messages as they are, for programs that show them: along a conversation's active path, and as seed 004's session.
//!
//! Which messages there are, and in which order, is only known when all of a conversation was looked at. So that is kept while pages of it
//! are asked for, until something changes.

use ropewalk_engine::view::session::Amount;
use ropewalk_engine::view::{MessageView, SessionMessages, SessionTree};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use super::kept::{Kept, Weighed};
use super::messages::named;
use crate::problem::Problem;
use crate::source::Owned;

const MESSAGES: usize = 100;
const MESSAGES_MAX: usize = 500;

/// Of a page; one message always fits.
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
    #[schema(value_type = Vec<MessageView>)]
    pub messages: Vec<Box<RawValue>>,
    /// Of all pages together.
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// The messages of a path as they are sent, by their uuids.
#[derive(Debug)]
pub struct Written(Vec<(String, Box<RawValue>)>);

impl Weighed for Written {
    fn bytes(&self) -> usize {
        let each = |(uuid, json): &(String, Box<RawValue>)| uuid.len() + json.get().len() + 64;
        self.0.iter().map(each).sum()
    }
}

impl Weighed for SessionTree {
    fn bytes(&self) -> usize {
        SessionTree::bytes(self)
    }
}

/// Conversations that were asked for last.
#[derive(Debug, Default)]
pub struct Shapes {
    paths: Kept<Written>,
    trees: Kept<SessionTree>,
}

pub async fn messages<S: Store>(
    owned: &Owned<S>,
    shapes: &Shapes,
    name: &str,
    asked: &Paged,
) -> Result<WholeMessages, Problem> {
    let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
    let view = owned.view_to_find(name)?;
    let written = async {
        let (_, all) = named(&view, name).await?;
        let each = |message: MessageView| Some((message.uuid.clone(), serde_json::value::to_raw_value(&message).ok()?));
        Ok(Written(all.into_iter().filter_map(each).collect()))
    };
    let Written(all) = &*shapes.paths.get(owned, name, asked.as_of.as_deref(), written).await?;
    let total = all.len();
    let first = match &asked.cursor {
        None => 0,
        Some(cursor) => {
            let at = all.iter().position(|(uuid, _)| uuid == cursor);
            at.ok_or_else(Problem::bad_cursor)? + 1
        }
    };
    let mut bytes = 0;
    let page = all[first..].iter().take(limit).take_while(|(_, json)| {
        let is_first = bytes == 0;
        bytes += json.get().len();
        is_first || bytes <= PAGE_BYTES_MAX
    });
    let messages: Vec<Box<RawValue>> = page.map(|(_, json)| json.clone()).collect();
    let end = first + messages.len();
    let last = all[first..end].last().map(|(uuid, _)| uuid.clone());
    Ok(WholeMessages {
        next_cursor: last.filter(|_| end < total),
        messages,
        total,
    })
}

pub async fn session_messages<S: Store>(
    owned: &Owned<S>,
    shapes: &Shapes,
    session: &str,
    asked: &Paged,
) -> Result<SessionMessages, Problem> {
    let limit = bounded(asked.limit, MESSAGES, MESSAGES_MAX);
    let view = owned.view_to_find(session)?;
    let tree = async { Ok(view.session(session).await?) };
    let tree = shapes.trees.get(owned, session, asked.as_of.as_deref(), tree).await?;
    let after = asked.cursor.as_deref();
    Ok(view.session_messages(&tree, after, limit, Amount::Everything).await?)
}
