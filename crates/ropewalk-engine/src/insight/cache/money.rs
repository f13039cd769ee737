//! What a prompt cost, and what it would have cost had the cache been read.

use jiff::Timestamp;
use ropewalk_core::cost::{Cost, NanoUsd, Served};
use ropewalk_core::model::Usage;
use ropewalk_store::Store;
use ropewalk_store::facts::Status;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use super::Prices;
use crate::detail::Kept;
use crate::prepare::service_tier;
use crate::view::{Result, View, usd};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
#[schema(as = CacheMoney)]
pub struct Money {
    pub cost_usd: f64,
    pub would_have_cost_usd: f64,
    pub lost_usd: f64,
    /// Some price is not certain.
    pub cost_is_estimate: bool,
    #[serde(skip)]
    pub lost: NanoUsd,
}

/// All that went to the model, cached or not.
pub fn total_input(usage: &Usage) -> u64 {
    usage
        .input_tokens
        .saturating_add(usage.cache_read_tokens)
        .saturating_add(usage.cache_write_tokens)
}

/// The same tokens with `lost` of them read from the cache. What is lost stands at the prompt's beginning, so it was written first: those
/// for an hour stand before those for five minutes, and what was not written at all comes last.
pub fn as_if_read(usage: &Usage, lost: u64) -> Usage {
    let long = usage.cache_write_1h_tokens.min(usage.cache_write_tokens);
    let from_long = lost.min(long);
    let from_short = (lost - from_long).min(usage.cache_write_tokens - long);
    let from_input = (lost - from_long - from_short).min(usage.input_tokens);
    Usage {
        input_tokens: usage.input_tokens - from_input,
        cache_read_tokens: usage
            .cache_read_tokens
            .saturating_add(from_long + from_short)
            .saturating_add(from_input),
        cache_write_tokens: usage.cache_write_tokens - from_long - from_short,
        cache_write_1h_tokens: long - from_long,
        ..*usage
    }
}

impl<S: Store> View<'_, S> {
    /// `None` where no table knows the model.
    pub(super) async fn money(&self, row: &ExchangeRow, lost: u64, prices: Prices<'_>) -> Result<Option<Money>> {
        let Some(usage) = row.usage else { return Ok(None) };
        let tier = match self.read_request(row).await? {
            Some(read) => service_tier(&read.request),
            None => None,
        };
        let price = |usage: &Usage| price(row, tier.as_deref(), usage, prices);
        let (Some(cost), Some(would)) = (price(&usage), price(&as_if_read(&usage, lost))) else {
            return Ok(None);
        };
        let lost = NanoUsd(cost.amount.0.saturating_sub(would.amount.0));
        Ok(Some(Money {
            cost_usd: cost.amount.to_usd(),
            would_have_cost_usd: would.amount.to_usd(),
            lost_usd: usd(lost.0),
            cost_is_estimate: cost.estimate || would.estimate,
            lost,
        }))
    }
}

/// What a usage costs at the time and of the model that an exchange was answered by.
pub(crate) fn price(row: &ExchangeRow, tier: Option<&str>, usage: &Usage, prices: Prices<'_>) -> Option<Cost> {
    let kept = Kept::of(row);
    let served = Served {
        provider: kept.provider(row)?,
        model: kept.served_model.as_deref().or(row.model.as_deref())?,
        at: Timestamp::from_microsecond(row.ended_at.unwrap_or(row.at).0).ok()?,
        service_tier: tier,
        usage_is_final: row.status == Status::Complete,
    };
    prices.price(&served, usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_was_written_first_and_for_longest() {
        let usage = Usage {
            input_tokens: 10,
            cache_read_tokens: 5,
            cache_write_tokens: 100,
            cache_write_1h_tokens: 40,
            output_tokens: 7,
            ..Usage::default()
        };
        let split = |lost| {
            let then = as_if_read(&usage, lost);
            assert_eq!(total_input(&then), total_input(&usage));
            assert_eq!(then.output_tokens, 7);
            (
                then.cache_read_tokens,
                then.cache_write_1h_tokens,
                then.cache_write_tokens,
                then.input_tokens,
            )
        };
        assert_eq!(split(0), (5, 40, 100, 10));
        assert_eq!(split(30), (35, 10, 70, 10));
        assert_eq!(split(60), (65, 0, 40, 10));
        assert_eq!(split(105), (110, 0, 0, 5));
        assert_eq!(split(u64::MAX), (115, 0, 0, 0));
    }
}
