//! What was asked before, and what was answered.

use bytes::Bytes;
use rmcp::schemars::{self, JsonSchema};
use ropewalk_core::model::Provider;
use ropewalk_engine::matching::{Answers, Asked, Match};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::time;
use crate::bounds::{SAID_CHARS_MAX, cut};
use crate::problem::Problem;
use crate::source::Owned;

/// Characters of one answer.
const ANSWER_CHARS_MAX: usize = 20_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct MatchRequest {
    /// A request as a provider takes it: `messages` (or `input`, or `contents`), and `system`, `tools` and options where they count.
    pub request: Map<String, Value>,
    #[serde(flatten)]
    pub how: MatchOptions,
}

/// How something is looked for.
#[derive(Debug, Default, Deserialize, JsonSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MatchOptions {
    /// Whose shape the request has; told from the request unless you say.
    #[serde(default)]
    #[param(inline)]
    pub format: Option<Format>,
    /// Only answers of this model count as found.
    #[serde(default)]
    pub model: Option<String>,
    /// Only what was known then, as in 2026-03-01T10:00:00Z.
    #[serde(default)]
    pub as_of: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    Anthropic,
    Chat,
    Responses,
    Gemini,
}

impl Format {
    pub(super) fn provider(self) -> Provider {
        match self {
            Format::Anthropic => Provider::Anthropic,
            Format::Chat => Provider::OpenAiChat,
            Format::Responses => Provider::OpenAiResponses,
            Format::Gemini => Provider::Gemini,
        }
    }
}

/// Answers within bounds.
#[derive(Debug, Serialize, ToSchema)]
pub struct Bounded<T> {
    #[serde(flatten)]
    pub found: T,
    /// Answers whose words or blocks were cut, by their places.
    pub answers_cut: Vec<usize>,
}

pub async fn match_request<S: Store>(owned: &Owned<S>, asked: &MatchRequest) -> Result<Bounded<Match>, Problem> {
    let body = serde_json::to_vec(&asked.request).unwrap_or_default();
    match_body(owned, &body.into(), &asked.how).await
}

/// The same with the request as it would be sent.
pub async fn match_body<S: Store>(
    owned: &Owned<S>,
    body: &Bytes,
    how: &MatchOptions,
) -> Result<Bounded<Match>, Problem> {
    let mut asked = Asked::read(body, how.format.map(Format::provider))?;
    asked.model.clone_from(&how.model);
    asked.as_of = time(how.as_of.as_deref())?.unwrap_or(asked.as_of);
    let mut found = match owned.view() {
        Some(view) => view.find_match(&asked).await?,
        None => Match::nothing(&asked),
    };
    let answers_cut = bound(&mut found.answers);
    Ok(Bounded { found, answers_cut })
}

/// All answers to the input of one exchange.
pub async fn answers<S: Store>(owned: &Owned<S>, name: &str) -> Result<Bounded<Answers>, Problem> {
    let view = owned.view_to_find(name)?;
    let row = view.resolve_exchange(name).await?;
    let mut found = view.answers_to(&row).await?;
    let answers_cut = bound(&mut found);
    Ok(Bounded { found, answers_cut })
}

/// Cuts what is long, and leaves out answers that no longer fit.
fn bound(answers: &mut Answers) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut left = SAID_CHARS_MAX;
    let mut shown = 0;
    for (at, answer) in answers.answers.iter_mut().enumerate() {
        let (content, behind) = cut(&answer.content, 0, ANSWER_CHARS_MAX);
        let Some(rest) = left.checked_sub(content.chars().count()) else {
            break;
        };
        left = rest;
        answer.content = content;
        // Blocks repeat the words, and have what tools were called with.
        let blocks = serde_json::to_string(&answer.blocks).unwrap_or_default();
        let fits = blocks.len() <= left && behind == 0;
        if fits {
            left -= blocks.len();
        } else {
            answer.blocks.clear();
            cuts.push(at);
        }
        shown += 1;
    }
    answers.answers_left_out += answers.answers.len() - shown;
    answers.answers.truncate(shown);
    cuts
}

#[cfg(test)]
mod tests {
    use ropewalk_engine::matching::StoredAnswer;
    use ropewalk_engine::view::exchange::UsageView;

    use super::*;

    fn answer(chars: usize) -> StoredAnswer {
        let content = "é".repeat(chars);
        StoredAnswer {
            exchange_id: String::new(),
            at: String::new(),
            ended_at: None,
            provider: String::new(),
            model: None,
            options: std::collections::BTreeMap::new(),
            differs: Vec::new(),
            blocks: vec![serde_json::json!({"type": "text", "text": content})],
            content,
            response_hash: None,
            output_node: None,
            usage: UsageView::default(),
            cost_usd: None,
            latency_ms: None,
            reuse: "none",
        }
    }

    #[test]
    fn answers_are_cut_and_left_out_and_both_is_said() {
        let mut answers = Answers {
            answers: vec![
                answer(10),
                answer(ANSWER_CHARS_MAX + 1),
                answer(SAID_CHARS_MAX),
                answer(SAID_CHARS_MAX),
                answer(1),
            ],
            answers_left_out: 7,
        };
        assert_eq!(bound(&mut answers), [1, 2]);
        assert_eq!(answers.answers_left_out, 9);
        let [whole, cut, same] = &answers.answers[..] else {
            panic!("{} are left", answers.answers.len());
        };
        assert_eq!((whole.blocks.len(), whole.content.chars().count()), (1, 10));
        for answer in [cut, same] {
            assert_eq!(
                (answer.blocks.len(), answer.content.chars().count()),
                (0, ANSWER_CHARS_MAX)
            );
        }
    }
}
