//! Prices that are built in: the table of the `genai-prices` crate. Needs no network.

use genai_prices::{Calculator, PriceRequest, UsageKey};

use crate::model::{Provider, Usage};

use super::{Cost, NanoUsd, PriceTable, Served};

/// The built-in table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BundledPrices;

impl PriceTable for BundledPrices {
    fn price(&self, served: &Served<'_>, usage: &Usage) -> Option<Cost> {
        let whole = counted(usage);
        let amount = calculate(served, &whole, served.special_tier())?;
        // The table prices what it does not know apart as something more general, and an unknown tier as
        // the standard one. Both show in that leaving the detail out changes nothing.
        let unknown_tier = served.special_tier().is_some() && calculate(served, &whole, None) == Some(amount);
        let unknown_detail = DETAILS.iter().any(|key| {
            let mut without = whole.clone();
            without.remove(key).is_some() && calculate(served, &without, served.special_tier()) == Some(amount)
        });
        let estimate = unknown_tier || (unknown_detail && amount != NanoUsd(0)) || !served.usage_is_final;
        Some(Cost { amount, estimate })
    }
}

/// How many tokens a model takes at once, by the same table: dated as its prices are. `None` for one that it does not know.
pub fn context_window(provider: Provider, model: &str) -> Option<u64> {
    let usage = genai_prices::Usage::default();
    let request = PriceRequest::new(model, &usage).with_provider_id(provider_id(provider));
    let calculator = Calculator::bundled();
    let found = calculator.calculate(&request).ok()?;
    let mut providers = calculator.providers();
    let known = providers.find(|known| known.id() == found.provider_id)?;
    let mut models = known.models();
    models.find(|known| known.id() == found.model_id)?.context_window()
}

/// Counts that have a price of their own. Cache writes of an hour stand before all writes: without the
/// detail they are writes of five minutes.
const DETAILS: [UsageKey; 4] = [
    UsageKey::CACHE_READ_TOKENS,
    UsageKey::CACHE_WRITE_1H_TOKENS,
    UsageKey::CACHE_WRITE_TOKENS,
    UsageKey::WEB_SEARCHES,
];

/// Our counts in the table's convention: the input includes everything cached.
fn counted(usage: &Usage) -> genai_prices::Usage {
    let input = usage
        .input_tokens
        .saturating_add(usage.cache_read_tokens)
        .saturating_add(usage.cache_write_tokens);
    let counts = [
        (UsageKey::INPUT_TOKENS, input),
        (UsageKey::OUTPUT_TOKENS, usage.output_tokens),
        (UsageKey::CACHE_READ_TOKENS, usage.cache_read_tokens),
        (UsageKey::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
        (
            UsageKey::CACHE_WRITE_1H_TOKENS,
            usage.cache_write_1h_tokens.min(usage.cache_write_tokens),
        ),
        (UsageKey::WEB_SEARCHES, usage.web_searches),
    ];
    counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(key, count)| (key, count as f64))
        .collect()
}

fn calculate(served: &Served<'_>, usage: &genai_prices::Usage, tier: Option<&str>) -> Option<NanoUsd> {
    let request = PriceRequest::new(served.model, usage)
        .with_provider_id(provider_id(served.provider))
        .with_timestamp(served.at);
    let request = match tier {
        None => request,
        Some("batch") => request.with_price_context("processing", "batch"),
        Some(tier) => request.with_price_context("service_tier", tier),
    };
    let price = Calculator::bundled().calculate(&request).ok()?;
    NanoUsd::from_usd(price.total_price)
}

fn provider_id(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "anthropic",
        Provider::OpenAiChat | Provider::OpenAiResponses => "openai",
        Provider::Gemini => "google",
    }
}
