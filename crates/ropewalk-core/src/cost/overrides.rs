//! Prices from the configuration, dated, in front of another table.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;

use crate::model::Usage;

use super::{Cost, NanoUsd, PriceTable, Served};

/// Nano-dollars per million units; dollars per million in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub struct UsdPerMillion(NanoUsd);

#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a price: a number of dollars per million, zero or more, is expected")]
pub struct PriceError(f64);

impl TryFrom<f64> for UsdPerMillion {
    type Error = PriceError;

    fn try_from(usd: f64) -> Result<Self, PriceError> {
        NanoUsd::from_usd(usd).map(UsdPerMillion).ok_or(PriceError(usd))
    }
}

/// Prices per million tokens. What is left out is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub input: UsdPerMillion,
    pub output: UsdPerMillion,
    pub cache_read: Option<UsdPerMillion>,
    pub cache_write_5m: Option<UsdPerMillion>,
    pub cache_write_1h: Option<UsdPerMillion>,
    /// Per million searches.
    pub web_search: Option<UsdPerMillion>,
}

/// Other rates for the whole request once its input is longer than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Tier {
    pub above_input_tokens: u64,
    pub rates: Rates,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceOverride {
    /// The model's name; `*` stands for anything.
    pub model: String,
    /// First day (UTC) on which it holds; always, if left out.
    pub from: Option<Date>,
    pub rates: Rates,
    #[serde(default)]
    pub tiers: Vec<Tier>,
}

/// The configuration's prices, and another table for everything else.
#[derive(Debug, Clone)]
pub struct OverriddenPrices<T> {
    overrides: Vec<PriceOverride>,
    table: T,
}

impl<T: PriceTable> OverriddenPrices<T> {
    pub fn new(overrides: Vec<PriceOverride>, table: T) -> Self {
        Self { overrides, table }
    }

    /// The override that began last; of several from one day the last one listed.
    fn find(&self, served: &Served<'_>) -> Option<&PriceOverride> {
        let day = served.at.to_zoned(TimeZone::UTC).date();
        let holds = |price: &&PriceOverride| {
            matches_pattern(&price.model, served.model) && price.from.is_none_or(|from| from <= day)
        };
        self.overrides.iter().filter(holds).max_by_key(|price| price.from)
    }
}

impl<T: PriceTable> PriceTable for OverriddenPrices<T> {
    fn price(&self, served: &Served<'_>, usage: &Usage) -> Option<Cost> {
        let Some(found) = self.find(served) else {
            return self.table.price(served, usage);
        };
        let mut cost = charge(rates_for(found, usage), usage);
        // An override knows one tier of service only.
        cost.estimate |= served.special_tier().is_some() || !served.usage_is_final;
        Some(cost)
    }
}

fn rates_for<'a>(price: &'a PriceOverride, usage: &Usage) -> &'a Rates {
    let input = usage
        .input_tokens
        .saturating_add(usage.cache_read_tokens)
        .saturating_add(usage.cache_write_tokens);
    let reached = price.tiers.iter().filter(|tier| input > tier.above_input_tokens);
    reached
        .max_by_key(|tier| tier.above_input_tokens)
        .map_or(&price.rates, |tier| &tier.rates)
}

/// A rate that is missing is taken from the nearest one, and makes the sum an estimate.
fn charge(rates: &Rates, usage: &Usage) -> Cost {
    let writes_1h = usage.cache_write_1h_tokens.min(usage.cache_write_tokens);
    let lines = [
        (usage.input_tokens, Some(rates.input), None),
        (usage.output_tokens, Some(rates.output), None),
        (usage.cache_read_tokens, rates.cache_read, Some(rates.input)),
        (
            usage.cache_write_tokens - writes_1h,
            rates.cache_write_5m,
            Some(rates.input),
        ),
        (
            writes_1h,
            rates.cache_write_1h,
            rates.cache_write_5m.or(Some(rates.input)),
        ),
        (usage.web_searches, rates.web_search, None),
    ];
    // Millionths of a nano-dollar, rounded once at the end.
    let mut sum = 0_u128;
    let mut estimate = false;
    for (count, rate, nearest) in lines.into_iter().filter(|(count, _, _)| *count > 0) {
        estimate |= rate.is_none();
        let rate = rate.or(nearest).map_or(0, |UsdPerMillion(NanoUsd(nanos))| nanos);
        sum = sum.saturating_add(u128::from(count) * u128::from(rate));
    }
    let nanos = sum.saturating_add(500_000) / 1_000_000;
    Cost {
        amount: NanoUsd(u64::try_from(nanos).unwrap_or(u64::MAX)),
        estimate,
    }
}

/// Whether the whole text fits the pattern, in which `*` stands for any run of characters.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, text, fits) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("gpt-5*", "gpt-5-mini", true),
            ("*", "", true),
            ("claude-*-4-*", "claude-opus-4-1", true),
            ("claude-*-4-*", "claude-opus-5", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*mini", "gpt-5-mini-2", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }
}
