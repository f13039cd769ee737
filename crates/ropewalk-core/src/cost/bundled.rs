//! Prices that are built in: what the table of the `genai-prices` crate says of the providers that we know. Needs no network.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

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
        let gaps = Gaps::known(served, &whole, amount);
        let estimate = gaps.tier || (gaps.detail && amount != NanoUsd(0)) || !served.usage_is_final;
        Some(Cost { amount, estimate })
    }
}

/// What the table does not know apart: it prices a count as something more general, and an unknown tier as the standard one. Both show in
/// that leaving it out changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gaps {
    tier: bool,
    detail: bool,
}

impl Gaps {
    fn find(served: &Served<'_>, whole: &genai_prices::Usage, amount: NanoUsd) -> Self {
        let tier = served.special_tier();
        let changes_nothing = |key: &UsageKey| {
            let mut without = whole.clone();
            without.remove(key).is_some() && calculate(served, &without, tier) == Some(amount)
        };
        Gaps {
            tier: tier.is_some() && calculate(served, whole, None) == Some(amount),
            detail: DETAILS.iter().any(changes_nothing),
        }
    }

    /// The same, found once for calls that are priced alike: it takes four times as long as the price itself.
    fn known(served: &Served<'_>, whole: &genai_prices::Usage, amount: NanoUsd) -> Self {
        static KNOWN: LazyLock<RwLock<HashMap<Alike, Gaps>>> = LazyLock::new(RwLock::default);
        let alike = Alike::of(served, whole);
        let known = KNOWN
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&alike)
            .copied();
        known.unwrap_or_else(|| {
            let found = Gaps::find(served, whole, amount);
            let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= ALIKE_MAX {
                known.clear();
            }
            known.insert(alike, found);
            found
        })
    }
}

/// Kinds of calls whose gaps are kept.
const ALIKE_MAX: usize = 4_096;

/// Prices change at full hours, and with the length of a prompt above multiples of so many tokens.
const HOUR_S: i64 = 60 * 60;
const STEP_TOKENS: f64 = 4_000.0;

/// What decides how a call is priced, but for how much it used.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Alike {
    provider: Provider,
    model: Box<str>,
    tier: Option<Box<str>>,
    hour: i64,
    input_steps: u64,
    details: [bool; 4],
}

impl Alike {
    fn of(served: &Served<'_>, whole: &genai_prices::Usage) -> Self {
        let input = whole.get(UsageKey::INPUT_TOKENS).unwrap_or_default();
        Alike {
            provider: served.provider,
            model: served.model.into(),
            tier: served.special_tier().map(Into::into),
            hour: served.at.as_second().div_euclid(HOUR_S),
            input_steps: ((input - 1.0).max(0.0) / STEP_TOKENS) as u64,
            details: DETAILS.map(|key| whole.get(key).is_some()),
        }
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

    /// Calls of any kind to a model, one after the other as they come: what is kept of one is right for the next.
    #[test]
    fn what_is_kept_of_gaps_is_what_they_are() {
        let models = [
            (Provider::Anthropic, "claude-sonnet-4-5"),
            (Provider::Anthropic, "claude-haiku-5-5"),
            (Provider::Anthropic, "claude-2"),
            (Provider::OpenAiResponses, "gpt-5.4"),
            (Provider::OpenAiChat, "gpt-4"),
            (Provider::Gemini, "gemini-2.5-pro"),
        ];
        let inputs = [
            0, 1, 3_999, 99_999, 100_000, 100_001, 128_001, 200_000, 200_001, 271_999, 272_001,
        ];
        let mut compared = 0;
        for (provider, model) in models {
            for at in ["2026-10-13T23:59:59Z", "2026-10-14T00:00:00Z", "2027-01-01T00:00:01Z"] {
                for (input_tokens, details) in inputs
                    .iter()
                    .flat_map(|input| (0_u64..16).map(move |bits| (*input, bits)))
                {
                    let bit = |at: u64| details >> at & 1;
                    let usage = counted(&Usage {
                        input_tokens,
                        output_tokens: 10,
                        cache_read_tokens: 1_000 * bit(0),
                        cache_write_tokens: 500 * bit(1),
                        cache_write_1h_tokens: 500 * bit(2),
                        web_searches: bit(3),
                        ..Usage::default()
                    });
                    for service_tier in [None, Some("batch"), Some("flex")] {
                        let served = Served {
                            provider,
                            model,
                            at: at.parse().unwrap(),
                            service_tier,
                            usage_is_final: true,
                        };
                        let Some(amount) = calculate(&served, &usage, service_tier) else {
                            continue;
                        };
                        compared += 1;
                        assert_eq!(
                            Gaps::known(&served, &usage, amount),
                            Gaps::find(&served, &usage, amount),
                            "{model} {at} {usage:?} {service_tier:?}"
                        );
                    }
                }
            }
        }
        assert!(compared > 3_000, "{compared} calls");
    }

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
