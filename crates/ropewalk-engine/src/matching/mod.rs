//! Whether something was said before, and what was answered (seed 002).
//!
//! [`Asked`] is a list of messages in any provider's shape, with the system prompt, tools and options that came with it.
//! [`View::find_match`](crate::view::View::find_match) walks its chain to the deepest node that lies in recorded traffic: [`Match`] says
//! how deep that is, where it leaves what is known, and which answers are stored there ([`answer`]). `create` is the whole of the
//! seed's `find_or_create_from_messages`, which asks only where nothing is found.
//!
//! Messages decide which node it is. The system prompt, tools and the options that count decide whether an answer there is one to
//! exactly this input; the model decides nothing, unless a caller wants it to.

pub mod answer;
mod create;

use bytes::Bytes;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::model::{Provider, Role};
use ropewalk_core::projections::Projections;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{ExchangeRow, KnownNode, PAGE_MAX, Questions, Selection};
use ropewalk_store::{Micros, Store};
use ropewalk_wire::detect::detect;
use ropewalk_wire::provider::{Route, route};
use ropewalk_wire::{RequestBody, read_request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::view::message::text_of;
use crate::view::{Result, View, utc};

use answer::Manner;
pub use answer::{Answers, StoredAnswer};
pub use create::{FindOrCreateError, FoundOrCreated};

/// Answers at one node that are shown.
pub const ANSWERS_MAX: usize = 100;

/// How much of the first message that is not known a match repeats.
const EXCERPT_CHARS: usize = 200;

#[derive(Debug, thiserror::Error)]
pub enum UnreadableMessages {
    #[error("it is no request we know")]
    UnknownFormat,
    #[error("the request is no JSON object")]
    NoObject(#[source] ropewalk_core::json::JsonError),
    #[error("the request says nothing that could have been said before")]
    NoMessages,
}

/// What is looked for: a request's body, in any provider's shape.
#[derive(Debug)]
pub struct Asked {
    read: RequestBody,
    projections: Projections,
    /// Only answers of this model count as found.
    pub model: Option<String>,
    /// What was known then.
    pub as_of: Micros,
}

impl Asked {
    /// In the shape of a provider, or in the one that it looks like.
    pub fn read(body: &Bytes, provider: Option<Provider>) -> std::result::Result<Self, UnreadableMessages> {
        let provider = provider
            .or_else(|| detect(body, None))
            .ok_or(UnreadableMessages::UnknownFormat)?;
        let read = read_request(provider, body, None).map_err(UnreadableMessages::NoObject)?;
        if read.nodes().is_empty() {
            return Err(UnreadableMessages::NoMessages);
        }
        Ok(Asked {
            projections: Projections::of(&read.request, None),
            read,
            model: None,
            as_of: Micros::MAX,
        })
    }

    /// In the shape that a path says, as it would be asked for through the proxy.
    pub fn read_at(path: &str, body: &Bytes) -> std::result::Result<Self, UnreadableMessages> {
        let Route { endpoint, .. } = route(path);
        Self::read(
            body,
            Some(endpoint.provider().ok_or(UnreadableMessages::UnknownFormat)?),
        )
    }

    #[must_use]
    pub fn by_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    #[must_use]
    pub fn as_of(mut self, at: Micros) -> Self {
        self.as_of = at;
        self
    }

    fn counts(&self, answer: &StoredAnswer) -> bool {
        let is_model = self.model.is_none() || answer.model == self.model;
        is_model && answer.differs.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = MatchOutcome)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Exactly this was asked, and answered.
    Exact,
    /// The beginning is known, or all of it without an answer to exactly this.
    Partial,
    /// Nothing of it was ever said.
    None,
}

/// What is known of a list of messages.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Match {
    pub v: u32,
    pub outcome: Outcome,
    /// Blocks that count, and how many of them are known.
    pub blocks: usize,
    pub depth: usize,
    /// The deepest known node: the branch point, unless all of it is known.
    #[schema(value_type = Option<String>)]
    pub node: Option<NodeHash>,
    /// The node of the whole.
    #[schema(value_type = String)]
    pub input_node: NodeHash,
    pub prompt_hash: String,
    pub path_hash: String,
    /// The exchange that first brought the deepest known node.
    pub first_exchange_id: Option<String>,
    pub first_at: Option<String>,
    /// The newest exchange whose answer ends there: what these messages go on from.
    pub continues_exchange_id: Option<String>,
    /// The first that is not known.
    pub diverges: Option<Divergence>,
    /// At the deepest known node, newest first, those to exactly this input before all others.
    #[serde(flatten)]
    pub answers: Answers,
}

/// Where messages leave what is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Divergence {
    /// Among all messages of the request, from 0.
    pub message: usize,
    /// Among the blocks that count, from 0.
    pub block: usize,
    pub role: &'static str,
    /// How the message begins.
    pub text: String,
}

impl Match {
    /// Nothing of these messages is known.
    pub fn nothing(asked: &Asked) -> Self {
        Match {
            v: 1,
            outcome: Outcome::None,
            blocks: asked.read.nodes().len(),
            depth: 0,
            node: None,
            input_node: asked.read.input_node(),
            prompt_hash: asked.projections.prompt_hash.clone(),
            path_hash: asked.projections.path_hash.clone(),
            first_exchange_id: None,
            first_at: None,
            continues_exchange_id: None,
            diverges: divergence(&asked.read, 0),
            answers: Answers::default(),
        }
    }
}

impl<S: Store> View<'_, S> {
    /// How much of these messages is known, and what was answered.
    pub async fn find_match(&self, asked: &Asked) -> Result<Match> {
        let questions = Questions {
            chains: vec![asked.read.nodes().to_vec()],
            limit: PAGE_MAX,
            ..Questions::default()
        };
        let mut answers = self.store.look_up(self.owner, questions, asked.as_of).await?;
        let mut found = Match::nothing(asked);
        let Some(known) = answers.deepest.pop().flatten() else {
            return Ok(found);
        };
        found.outcome = Outcome::Partial;
        found.depth = known.index + 1;
        found.node = asked.read.nodes().get(known.index).copied();
        found.diverges = divergence(&asked.read, found.depth);
        let first = self.rows_as_of(vec![known.first], asked.as_of).await?.pop();
        found.first_at = first.as_ref().map(|row| utc(row.at));
        found.first_exchange_id = first.map(|row| row.id);
        let ending = self.rows_as_of(known.as_output.clone(), asked.as_of).await?;
        found.continues_exchange_id = newest(&ending).map(|row| row.id.clone());
        let answering = self.answering(&known, asked).await?;
        found.answers = self.answers_in(answering, &Manner::of_asked(asked)).await?;
        if found.diverges.is_none() && found.answers.answers.iter().any(|answer| asked.counts(answer)) {
            found.outcome = Outcome::Exact;
        }
        Ok(found)
    }

    /// The exchanges whose answers are wanted: those that were asked up to the node, or, where the messages end with an answer,
    /// those that gave it.
    async fn answering(&self, known: &KnownNode, asked: &Asked) -> Result<Vec<ExchangeRow>> {
        let ends_with_answer = asked.read.request.messages.last().map(|message| message.role) == Some(Role::Assistant);
        let is_whole = known.index + 1 == asked.read.nodes().len();
        let numbers = match known.as_input.is_empty() && ends_with_answer && is_whole {
            true => known.as_output.clone(),
            false => known.as_input.clone(),
        };
        self.rows_as_of(numbers, asked.as_of).await
    }

    pub(crate) async fn rows_as_of(&self, numbers: Vec<ExchangeNumber>, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self
            .store
            .exchanges(self.owner, Selection::Numbers(numbers), as_of)
            .await?)
    }
}

fn newest(rows: &[ExchangeRow]) -> Option<&ExchangeRow> {
    rows.iter().max_by_key(|row| (row.ended_at, row.number))
}

/// The message that holds the block of that index in the chain; `None` behind the last one.
fn divergence(read: &RequestBody, block: usize) -> Option<Divergence> {
    let mut done = 0;
    for (index, (message, count)) in read.messages().enumerate() {
        done += count;
        if block < done {
            let text = text_of(message);
            return Some(Divergence {
                message: index,
                block,
                role: message.role.name(),
                text: text.chars().take(EXCERPT_CHARS).collect(),
            });
        }
    }
    None
}
