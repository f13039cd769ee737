//! Prices that are built in: what the table of the `genai-prices` crate says of the providers that we know. Needs no network.

use std::sync::LazyLock;

use genai_prices::{Calculator, PriceRequest, UsageKey};

use crate::model::{Provider, Usage};

use super::{Cost, NanoUsd, PriceTable, Served};

// Written by `make prices`. Each is read when it is first needed: the crate's own table has fifty providers and takes as long as ten
// commands.
const ANTHROPIC: &str = include_str!("anthropic.json");
const OPENAI: &str = include_str!("openai.json");
const GOOGLE: &str = include_str!("google.json");

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
    let calculator = calculator(provider);
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
    calculate_with(calculator(served.provider), served, usage, tier)
}

fn calculate_with(
    calculator: &Calculator,
    served: &Served<'_>,
    usage: &genai_prices::Usage,
    tier: Option<&str>,
) -> Option<NanoUsd> {
    let request = PriceRequest::new(served.model, usage)
        .with_provider_id(provider_id(served.provider))
        .with_timestamp(served.at);
    let request = match tier {
        None => request,
        Some("batch") => request.with_price_context("processing", "batch"),
        Some(tier) => request.with_price_context("service_tier", tier),
    };
    let price = calculator.calculate(&request).ok()?;
    NanoUsd::from_usd(price.total_price)
}

fn calculator(provider: Provider) -> &'static Calculator {
    static OF_ANTHROPIC: LazyLock<Calculator> = LazyLock::new(|| read(&[ANTHROPIC]));
    static OF_OPENAI: LazyLock<Calculator> = LazyLock::new(|| read(&[OPENAI]));
    // Google serves models of Anthropic, at their prices.
    static OF_GOOGLE: LazyLock<Calculator> = LazyLock::new(|| read(&[GOOGLE, ANTHROPIC]));
    match provider {
        Provider::Anthropic => &OF_ANTHROPIC,
        Provider::OpenAiChat | Provider::OpenAiResponses => &OF_OPENAI,
        Provider::Gemini => &OF_GOOGLE,
    }
}

#[expect(clippy::expect_used, reason = "the table is built in, and tests read all of it")]
fn read(providers: &[&str]) -> Calculator {
    let table = format!("[{}]", providers.join(","));
    Calculator::from_json(table).expect("the built-in table of prices can be read")
}

fn provider_id(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "anthropic",
        Provider::OpenAiChat | Provider::OpenAiResponses => "openai",
        Provider::Gemini => "google",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_those_of_the_crate() {
        let theirs = Calculator::bundled();
        let mut compared = 0;
        for provider in [Provider::Anthropic, Provider::OpenAiResponses, Provider::Gemini] {
            let ids = ["anthropic", provider_id(provider)];
            let known = theirs.providers().filter(|known| ids.contains(&known.id()));
            for model in known.flat_map(|known| known.models()).map(|model| model.id()) {
                for at in ["2024-06-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-11-01T18:00:00Z"] {
                    let served = Served {
                        provider,
                        model,
                        at: at.parse().unwrap(),
                        service_tier: None,
                        usage_is_final: true,
                    };
                    for (input_tokens, tier) in [
                        (1_000, None),
                        (600_000, None),
                        (1_000, Some("batch")),
                        (1_000, Some("flex")),
                        (1_000, Some("priority")),
                    ] {
                        let usage = counted(&Usage {
                            input_tokens,
                            output_tokens: 300,
                            cache_read_tokens: 700,
                            cache_write_tokens: 50,
                            cache_write_1h_tokens: 20,
                            web_searches: 2,
                            ..Usage::default()
                        });
                        compared += 1;
                        assert_eq!(
                            calculate(&served, &usage, tier),
                            calculate_with(theirs, &served, &usage, tier),
                            "{model} {at} {input_tokens} {tier:?}: `make prices` writes the table anew"
                        );
                    }
                }
            }
        }
        assert!(compared > 3_000, "{compared} prices");
    }
}
