//! What a part of a prompt has cost: its tokens, at the price of that place in each prompt it stood in.

use std::collections::HashMap;

use ropewalk_core::model::Usage;
use ropewalk_store::store::ExchangeRow;

use super::parts::ContextPart;
use crate::insight::cache::{Prices, price, total_input};

/// Prompts within such a step share their prices: long ones may cost more by the token.
const STEP_TOKENS: u64 = 20_000;

const DAY_US: i64 = 86_400_000_000;

/// Nano-dollars per token.
#[derive(Debug, Clone, Copy)]
struct Rates {
    read: f64,
    written: f64,
    plain: f64,
}

/// Prices by model, day and length of the prompt, each asked for once.
pub(super) struct Costs<'p> {
    prices: Prices<'p>,
    known: HashMap<(String, i64, u64), Option<Rates>>,
}

impl<'p> Costs<'p> {
    pub(super) fn new(prices: Prices<'p>) -> Self {
        Costs {
            prices,
            known: HashMap::new(),
        }
    }

    /// What a part cost in one exchange, in nano-dollars; `None` where no price is known. What is read stands first in a prompt, what is
    /// written behind it.
    pub(super) fn of(&mut self, part: &ContextPart, row: &ExchangeRow) -> Option<f64> {
        let usage = row.usage?;
        let rates = self.rates(row, &usage)?;
        let read_to = usage.cache_read_tokens;
        let rate = match part.tokens_before {
            start if start < read_to => rates.read,
            start if start < read_to.saturating_add(usage.cache_write_tokens) => rates.written,
            _ => rates.plain,
        };
        Some(rate * part.tokens as f64)
    }

    fn rates(&mut self, row: &ExchangeRow, usage: &Usage) -> Option<Rates> {
        let tokens = total_input(usage);
        let model = row.model.clone().unwrap_or_default();
        let place = (model, row.at.0.div_euclid(DAY_US), tokens / STEP_TOKENS);
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        let rates = rates(row, tokens, self.prices);
        self.known.insert(place, rates);
        rates
    }
}

/// Of a prompt of so many tokens, were all of them of one kind.
fn rates(row: &ExchangeRow, tokens: u64, prices: Prices<'_>) -> Option<Rates> {
    let tokens = tokens.max(1);
    let per_token = |usage: Usage| Some(price(row, None, &usage, prices)?.amount.0 as f64 / tokens as f64);
    Some(Rates {
        read: per_token(Usage {
            cache_read_tokens: tokens,
            ..Usage::default()
        })?,
        written: per_token(Usage {
            cache_write_tokens: tokens,
            ..Usage::default()
        })?,
        plain: per_token(Usage {
            input_tokens: tokens,
            ..Usage::default()
        })?,
    })
}
