//! Why a prompt was not read from the provider's cache, and what that cost.
//!
//! A turn is compared with the one that it goes on from. `rules` says what the provider kept of the turn before and what of it this turn
//! could have read, `compared` what stood in the way, in its order; both are pure. `money` prices the difference, `period`
//! sums up over many turns.
//!
//! Invariants: what could have been read is the provider's own count of what it kept for the turn before; only figures that say so are
//! estimates, made from bytes in proportion to the tokens of that very request. Where an answer says nothing of a cache, nothing is
//! explained.

mod compared;
mod money;
mod period;
mod rules;

use std::collections::BTreeSet;

use ropewalk_core::cost::PriceTable;
use ropewalk_store::Store;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, Status};
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_wire::prompt::{Prompt, tells_of_cache};
use serde::Serialize;
use utoipa::ToSchema;

use crate::detail::Kept;
use crate::link::decision::Linked;
use crate::view::{Result, View, ViewError, utc};

pub(super) use compared::{excerpt, proportion};
pub(super) use money::price;
pub use money::{Money, as_if_read, total_input};
pub use period::{ALARM_SHARE, CacheStats, CauseSums, Period};
pub use rules::{Cause, CauseKind, Difference};
use rules::{Judged, Turn};

/// Attempts that failed between a turn and the one that it is compared with.
const FAILED_MAX: usize = 64;

/// A table of prices that may be asked from anywhere.
pub type Prices<'p> = &'p (dyn PriceTable + Sync);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CacheOutcome)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything that could be read was.
    Hit,
    /// Some of it.
    Partial,
    Miss,
    /// The provider had kept nothing that this turn could have read.
    NothingToRead,
    /// There are no figures.
    NothingToExplain,
}

/// What became of one exchange's prompt.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CacheReport {
    pub v: u32,
    pub exchange_id: String,
    pub at: String,
    pub provider: String,
    pub model: Option<String>,
    pub outcome: Outcome,
    /// Why there is nothing to read or to explain.
    pub reason: Option<&'static str>,
    /// The turn before.
    pub compared_with: Option<String>,
    /// All that went to the model.
    pub prompt_tokens: u64,
    /// What the provider kept of the turn before, as far as this prompt is as long.
    pub readable_tokens: u64,
    pub read_tokens: u64,
    pub written_tokens: u64,
    /// Neither read nor written.
    pub input_tokens: u64,
    pub lost_tokens: u64,
    /// About how many tokens both prompts begin with.
    pub shared_tokens_estimate: Option<u64>,
    /// Prompts that are shorter are never kept.
    pub minimum_tokens: Option<u64>,
    /// What stood in the way first.
    pub cause: Option<Cause>,
    /// What would have stood in the way without it.
    pub also: Vec<Cause>,
    pub difference: Option<Difference>,
    #[serde(flatten)]
    pub money: Option<Money>,
}

impl CacheReport {
    fn new(row: &ExchangeRow, outcome: Outcome, reason: Option<&'static str>) -> Self {
        let usage = row.usage.unwrap_or_default();
        CacheReport {
            v: 1,
            exchange_id: row.id.clone(),
            at: utc(row.at),
            provider: row.provider.clone(),
            model: row.model.clone(),
            outcome,
            reason,
            compared_with: None,
            prompt_tokens: total_input(&usage),
            readable_tokens: 0,
            read_tokens: usage.cache_read_tokens,
            written_tokens: usage.cache_write_tokens,
            input_tokens: usage.input_tokens,
            lost_tokens: 0,
            shared_tokens_estimate: None,
            minimum_tokens: None,
            cause: None,
            also: Vec::new(),
            difference: None,
            money: None,
        }
    }

    fn judged(row: &ExchangeRow, before: &ExchangeRow, judged: Judged) -> Self {
        let read = row.usage.unwrap_or_default().cache_read_tokens;
        let lost = judged.lost;
        let outcome = match (judged.readable, lost) {
            (0, _) => Outcome::NothingToRead,
            (_, 0) => Outcome::Hit,
            _ if read > 0 => Outcome::Partial,
            _ => Outcome::Miss,
        };
        let mut causes = judged.causes.into_iter();
        CacheReport {
            compared_with: Some(before.id.clone()),
            readable_tokens: judged.readable,
            lost_tokens: lost,
            shared_tokens_estimate: Some(judged.shared),
            minimum_tokens: Some(judged.minimum),
            cause: causes.next(),
            also: causes.collect(),
            difference: judged.difference,
            ..CacheReport::new(row, outcome, None)
        }
    }
}

impl<S: Store> View<'_, S> {
    /// What became of an exchange's prompt in the provider's cache.
    pub async fn explain_cache(&self, row: &ExchangeRow, prices: Prices<'_>) -> Result<CacheReport> {
        let link = self.find_link(row.number).await?;
        let link = link.ok_or_else(|| ViewError::NotLinked { id: row.id.clone() })?;
        let nothing = |reason| Ok(CacheReport::new(row, Outcome::NothingToExplain, Some(reason)));
        if row.usage.is_none() || row.status == Status::Error {
            return nothing("the provider counted nothing");
        }
        if !self.has_cache_figures(row).await? {
            return nothing("the provider says nothing of a cache");
        }
        let first = |reason| Ok(CacheReport::new(row, Outcome::NothingToRead, Some(reason)));
        if link.kind() == LinkKind::Auxiliary {
            return first("a call beside the conversation");
        }
        let Some(before) = self.turn_before(&link).await? else {
            return first("the first turn");
        };
        let (Some(then), Some(now)) = (self.as_sent(&before).await?, self.as_sent(row).await?) else {
            return nothing("the request cannot be read");
        };
        let judged = rules::judge(&then, &now);
        let mut report = CacheReport::judged(row, &before, judged);
        report.money = self.money(row, report.lost_tokens, prices).await?;
        Ok(report)
    }

    /// The nearest exchange before it, of the same agent, that a provider answered.
    async fn turn_before(&self, link: &Linked) -> Result<Option<ExchangeRow>> {
        let mut next = link.decision.parent;
        for _ in 0..FAILED_MAX {
            let Some(number) = next else { return Ok(None) };
            let (Some(row), Some(parent)) = (self.find_row(number).await?, self.find_link(number).await?) else {
                return Ok(None);
            };
            if parent.agent != link.agent {
                return Ok(None);
            }
            if is_answered(&row) {
                return Ok(Some(row));
            }
            next = parent.decision.parent;
        }
        Ok(None)
    }

    async fn has_cache_figures(&self, row: &ExchangeRow) -> Result<bool> {
        let usage = row.usage.unwrap_or_default();
        if usage.cache_read_tokens > 0 || usage.cache_write_tokens > 0 {
            return Ok(true);
        }
        let Some(provider) = Kept::of(row).provider(row) else {
            return Ok(false);
        };
        let body = self.store.body(self.owner, row.number, Half::Response).await?;
        Ok(body.is_some_and(|body| tells_of_cache(provider, &body)))
    }

    /// A request as the provider got it.
    pub(super) async fn prompt_sent(&self, row: &ExchangeRow) -> Result<Option<Prompt>> {
        Ok(self.prompts_sent(&[row]).await?.pop().flatten())
    }

    /// Of several, which may share much.
    pub(super) async fn prompts_sent(&self, rows: &[&ExchangeRow]) -> Result<Vec<Option<Prompt>>> {
        let numbers: Vec<ExchangeNumber> = rows.iter().map(|row| row.number).collect();
        let mut bodies = self.store.bodies(self.owner, numbers.clone(), Half::Sent).await?;
        let as_asked: Vec<usize> = (0..rows.len()).filter(|at| bodies[*at].is_none()).collect();
        let asked = as_asked.iter().map(|at| numbers[*at]).collect();
        let asked = self.store.bodies(self.owner, asked, Half::Request).await?;
        for (at, body) in as_asked.into_iter().zip(asked) {
            bodies[at] = body;
        }
        let prompts = rows.iter().zip(bodies).map(|(row, body)| {
            let provider = Kept::of(row).provider(row)?;
            Prompt::read(provider, &body?)
        });
        Ok(prompts.collect())
    }

    async fn as_sent(&self, row: &ExchangeRow) -> Result<Option<Turn>> {
        let kept = Kept::of(row);
        let (Some(provider), Some(prompt)) = (kept.provider(row), self.prompt_sent(row).await?) else {
            return Ok(None);
        };
        Ok(Some(Turn {
            provider,
            at: row.at,
            upstream: row.provider.clone(),
            model: row.model.clone().unwrap_or_default(),
            betas: betas(&kept),
            usage: row.usage.unwrap_or_default(),
            prompt,
        }))
    }
}

fn is_answered(row: &ExchangeRow) -> bool {
    row.usage.is_some() && row.status != Status::Error
}

/// What the client asked to try out, in no order.
fn betas(kept: &Kept) -> BTreeSet<String> {
    let headers = ["anthropic-beta", "openai-beta"];
    let said = headers.iter().filter_map(|name| kept.request_headers.get(*name));
    let names = said.flat_map(|value| value.split(','));
    names
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}
