//! References, followed and completed.

use rmcp::schemars::{self, JsonSchema};
use ropewalk_core::reference::Reference;
use ropewalk_engine::view::{ResolvedView, Suggestion};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::bounded;
use crate::bounds;
use crate::problem::Problem;
use crate::source::Owned;

/// As many as the proxy resolves in one request.
const REFERENCES_MAX: usize = 10;

/// Characters of one message.
const TEXT_CHARS_MAX: usize = bounds::SAID_CHARS_MAX / REFERENCES_MAX;

const SUGGESTIONS: usize = 20;
const SUGGESTIONS_MAX: usize = 100;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveReferences {
    /// As they are written, as in @conversation_react_optimization_83p6_message_m1hn4w or @conv_react_optimization_83p6_msg_5.
    /// 10 at most.
    pub references: Vec<String>,
    /// Only what was known then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub as_of: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Resolved {
    pub references: Vec<ShownReference>,
}

/// A reference with as much of its message as an answer may have. What the proxy would add is whole.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShownReference {
    #[serde(flatten)]
    pub reference: ResolvedView,
    /// Of `text`.
    pub chars_left_out: usize,
}

impl ShownReference {
    fn of(mut reference: ResolvedView) -> Self {
        let mut chars_left_out = 0;
        if let Some(message) = &mut reference.message {
            (message.text, chars_left_out) = bounds::cut(&message.text, 0, TEXT_CHARS_MAX);
        }
        ShownReference {
            reference,
            chars_left_out,
        }
    }
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Suggestions {
    pub suggestions: Vec<Suggestion>,
    pub next_cursor: Option<String>,
}

pub async fn resolve_references<S: Store>(owned: &Owned<S>, asked: &ResolveReferences) -> Result<Resolved, Problem> {
    if asked.references.len() > REFERENCES_MAX {
        return Err(Problem::bad_request("more than 10 references").hint("ask for 10 at a time"));
    }
    let mut references = Vec::with_capacity(asked.references.len());
    for written in &asked.references {
        // What does not look like a reference names nothing either; the others are still answered.
        references.push(match resolve(owned, written).await {
            Ok(resolved) => resolved,
            Err(problem) if problem.status == http::StatusCode::BAD_REQUEST => {
                ShownReference::of(ResolvedView::unknown(written))
            }
            Err(problem) => return Err(problem),
        });
    }
    Ok(Resolved { references })
}

pub async fn resolve<S: Store>(owned: &Owned<S>, written: &str) -> Result<ShownReference, Problem> {
    let parsed: Reference = written
        .parse()
        .map_err(|error: ropewalk_core::reference::ReferenceParseError| Problem::bad_request(error.to_string()))?;
    Ok(ShownReference::of(match owned.view() {
        Some(view) => view.resolved(&parsed, written).await?,
        None => ResolvedView::unknown(written),
    }))
}

pub async fn suggestions<S: Store>(
    owned: &Owned<S>,
    typed: &str,
    limit: Option<usize>,
    cursor: Option<&str>,
) -> Result<Suggestions, Problem> {
    let Some(view) = owned.view() else {
        return Ok(Suggestions::default());
    };
    let limit = bounded(limit, SUGGESTIONS, SUGGESTIONS_MAX);
    let mut suggestions = view.references(typed, cursor, limit + 1).await?;
    let is_more = suggestions.len() > limit;
    suggestions.truncate(limit);
    let last = suggestions.last().filter(|_| is_more);
    let next_cursor = last.map(|last| last.reference.as_ref().unwrap_or(&last.friendly_id).clone());
    for suggestion in &mut suggestions {
        suggestion.text = bounds::title(suggestion.text.take());
    }
    Ok(Suggestions {
        suggestions,
        next_cursor,
    })
}
