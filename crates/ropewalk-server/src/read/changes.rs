//! What changed around a conversation: system prompts and tools.

use ropewalk_engine::view::{Context, ContextChange};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use crate::bounds::cut;
use crate::problem::Problem;
use crate::source::Owned;

const CHANGES: usize = 100;
const CHANGES_MAX: usize = 500;

/// Characters of a system prompt or a list of tools; what is compared fits on a screen somewhere.
const TEXT_CHARS_MAX: usize = 200_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListChanges {
    /// Only those of this exchange, with their texts.
    pub exchange: Option<String>,
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    pub as_of: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ListedChanges {
    /// In the order of the exchanges. Changes that do not count, such as those of a date, are left out.
    pub changes: Vec<ShownChange>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ShownChange {
    #[serde(flatten)]
    pub change: ContextChange,
    /// The system prompt, or the tools, one a line. Only where one exchange was asked for.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Characters of both that are not given.
    pub chars_left_out: usize,
}

pub async fn changes<S: Store>(owned: &Owned<S>, name: &str, asked: &ListChanges) -> Result<ListedChanges, Problem> {
    let limit = bounded(asked.limit, CHANGES, CHANGES_MAX);
    let view = owned.view_to_find(name)?;
    let root = view.resolve_root(name).await?;
    let mut all = view.context_changes(root).await?;
    all.retain(|change| change.what != Context::SystemPromptNoise);
    if let Some(exchange) = &asked.exchange {
        all.retain(|change| change.exchange_id == *exchange);
    }
    let key = |change: &ContextChange| format!("{}.{}", change.exchange_id, u8::from(change.what == Context::Tools));
    let first = match &asked.cursor {
        None => 0,
        Some(cursor) => {
            let at = all.iter().position(|change| key(change) == *cursor);
            at.ok_or_else(Problem::bad_cursor)? + 1
        }
    };
    let is_more = all.len() > first + limit;
    let mut changes = Vec::new();
    let mut last = None;
    for change in all.into_iter().skip(first).take(limit) {
        last = Some(key(&change));
        let mut shown = ShownChange {
            change,
            before: None,
            after: None,
            chars_left_out: 0,
        };
        if asked.exchange.is_some() {
            let (before, after) = view.context_texts(&shown.change).await?;
            for (whole, text) in [(before, &mut shown.before), (after, &mut shown.after)] {
                let (kept, left_out) = cut(&whole, 0, TEXT_CHARS_MAX);
                *text = Some(kept);
                shown.chars_left_out += left_out;
            }
        }
        changes.push(shown);
    }
    Ok(ListedChanges {
        changes,
        next_cursor: last.filter(|_| is_more),
    })
}
