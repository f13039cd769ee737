//! All answers to one input, across models and options.

use std::collections::BTreeMap;

use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Provider, Request};
use ropewalk_core::prompt_path::request_options;
use ropewalk_store::Micros;
use ropewalk_store::Store;
use ropewalk_store::facts::{HashKind, Status};
use ropewalk_store::store::{Asked as At, ExchangeRow, PAGE_MAX, Questions};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{ANSWERS_MAX, Asked};
use crate::detail::Kept;
use crate::view::exchange::UsageView;
use crate::view::message::{answer_message, block_json, text_of};
use crate::view::{Result, View, hash_of, usd, utc};

/// Options of a request that are longer are not shown.
const OPTION_BYTES_MAX: usize = 256;

/// A recorded answer, with how it was asked for.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct StoredAnswer {
    pub exchange_id: String,
    pub at: String,
    pub ended_at: Option<String>,
    pub provider: String,
    pub model: Option<String>,
    /// As they were asked for.
    pub options: BTreeMap<String, Value>,
    /// In what it was asked for otherwise: `system`, `tools`, `options`. Empty for an answer to exactly this input.
    pub differs: Vec<&'static str>,
    /// What was said, then a line for each tool call.
    pub content: String,
    pub blocks: Vec<Value>,
    pub response_hash: Option<String>,
    #[schema(value_type = Option<String>)]
    pub output_node: Option<NodeHash>,
    pub usage: UsageView,
    pub cost_usd: Option<f64>,
    pub latency_ms: Option<i64>,
    /// `hit` where it was taken from the store.
    pub reuse: &'static str,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Answers {
    pub answers: Vec<StoredAnswer>,
    /// Complete answers that are not shown.
    pub answers_left_out: usize,
}

/// How something was asked for, beside its messages and its model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Manner {
    system: Option<String>,
    tools: Option<String>,
    options: Vec<(&'static str, String)>,
}

impl Manner {
    fn of_row(row: &ExchangeRow, request: Option<&Request>) -> Self {
        Manner {
            system: hash_of(row, HashKind::SystemRaw),
            tools: hash_of(row, HashKind::Tools),
            options: request.map(request_options).unwrap_or_default(),
        }
    }

    pub(super) fn of_asked(asked: &Asked) -> Self {
        Manner {
            system: Some(asked.projections.system_raw_hash.clone()),
            tools: Some(asked.projections.tools_hash.clone()),
            options: request_options(&asked.read.request),
        }
    }

    fn differences(&self, other: &Manner) -> Vec<&'static str> {
        let all = [
            ("system", self.system != other.system),
            ("tools", self.tools != other.tools),
            ("options", self.options != other.options),
        ];
        let differing = all.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(name, _)| name).collect()
    }
}

impl<S: Store> View<'_, S> {
    /// All complete answers to the input of one exchange, newest first, its own included; compared with how it was asked for.
    pub async fn answers_to(&self, row: &ExchangeRow) -> Result<Answers> {
        let questions = Questions {
            nodes: vec![At::of(row.input_node)],
            limit: PAGE_MAX,
            ..Questions::default()
        };
        let mut known = self.store.look_up(self.owner, questions, Micros::MAX).await?;
        let numbers = known
            .nodes
            .pop()
            .flatten()
            .map(|node| node.as_input)
            .unwrap_or_default();
        let rows = self.rows(numbers).await?;
        let request = self.read_request(row).await?;
        let manner = Manner::of_row(row, request.as_ref().map(|read| &read.request));
        self.answers_in(rows, &manner).await
    }

    pub(super) async fn answers_in(&self, mut rows: Vec<ExchangeRow>, manner: &Manner) -> Result<Answers> {
        rows.retain(|row| row.status == Status::Complete && row.output_node.is_some());
        rows.sort_by_key(|row| std::cmp::Reverse((row.ended_at, row.number)));
        let answers_left_out = rows.len().saturating_sub(ANSWERS_MAX);
        rows.truncate(ANSWERS_MAX);
        let mut answers = Vec::with_capacity(rows.len());
        for row in &rows {
            answers.push(self.stored_answer(row, manner).await?);
        }
        // Stable, so the newest stay first.
        answers.sort_by_key(|answer| !answer.differs.is_empty());
        Ok(Answers {
            answers,
            answers_left_out,
        })
    }

    async fn stored_answer(&self, row: &ExchangeRow, asked: &Manner) -> Result<StoredAnswer> {
        let read = self.read_request(row).await?;
        let request = read.as_ref().map(|read| &read.request);
        let message = self.read_answer(row).await?.map(answer_message);
        let manner = Manner::of_row(row, request);
        Ok(StoredAnswer {
            exchange_id: row.id.clone(),
            at: utc(row.at),
            ended_at: row.ended_at.map(utc),
            provider: row.provider.clone(),
            model: row.model.clone(),
            options: request.map(shown_options).unwrap_or_default(),
            differs: asked.differences(&manner),
            content: message.as_ref().map(text_of).unwrap_or_default(),
            blocks: message.map_or_else(Vec::new, |message| message.blocks.iter().map(block_json).collect()),
            response_hash: hash_of(row, HashKind::Response),
            output_node: row.output_node,
            usage: UsageView::of(row.usage.as_ref()),
            cost_usd: row.cost_nano_usd.map(usd),
            latency_ms: row.ended_at.map(|ended| (ended.0 - row.at.0) / 1_000),
            reuse: Kept::of(row).reuse(),
        })
    }
}

/// What was asked for beside the messages, as far as the model sees it and it is short.
fn shown_options(request: &Request) -> BTreeMap<String, Value> {
    let mut shown = BTreeMap::new();
    for (name, json) in &request.options {
        // Gemini keeps its options in one member.
        let is_config = request.provider == Provider::Gemini && name.to_lowercase().starts_with("generation");
        let is_shown = json.len() <= OPTION_BYTES_MAX && !ropewalk_wire::reuse::is_unseen(request.provider, name);
        match serde_json::from_str(json) {
            Ok(Value::Object(members)) if is_config => shown.extend(members),
            Ok(value) if is_shown => {
                shown.insert(name.to_string(), value);
            }
            _ => {}
        }
    }
    shown
}
