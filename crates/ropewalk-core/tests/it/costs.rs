//! Money: integers, dated prices, and no guess that looks like a fact.

use jiff::Timestamp;
use proptest::prelude::*;
use ropewalk_core::cost::{
    BundledPrices, Cost, NanoUsd, OverriddenPrices, PriceOverride, PriceTable, Served, context_window,
};
use ropewalk_core::model::{Provider, Usage};

fn served<'a>(provider: Provider, model: &'a str, at: &str) -> Served<'a> {
    let at: Timestamp = at.parse().unwrap();
    Served {
        provider,
        model,
        at,
        service_tier: None,
        usage_is_final: true,
    }
}

fn sonnet() -> Served<'static> {
    served(Provider::Anthropic, "claude-sonnet-4-0", "2026-11-01T00:00:00Z")
}

fn fact(nanos: u64) -> Option<Cost> {
    Some(Cost {
        amount: NanoUsd(nanos),
        estimate: false,
    })
}

fn estimate(nanos: u64) -> Option<Cost> {
    Some(Cost {
        amount: NanoUsd(nanos),
        estimate: true,
    })
}

#[test]
fn cached_tokens_and_both_kinds_of_cache_writes_are_priced_apart() {
    // Per million: 3 input, 15 output, 0.3 read, 3.75 write for 5 minutes, 6 write for an hour.
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        cache_read_tokens: 10_000,
        cache_write_tokens: 3000,
        cache_write_1h_tokens: 1000,
        reasoning_tokens: 50,
        web_searches: 0,
    };
    let nanos = 3_000_000 + 1_500_000 + 3_000_000 + 7_500_000 + 6_000_000;
    assert_eq!(BundledPrices.price(&sonnet(), &usage), fact(nanos));
}

#[test]
fn one_cached_token_is_not_rounded_away() {
    let usage = Usage {
        cache_read_tokens: 1,
        ..Usage::default()
    };
    let cost = BundledPrices.price(&sonnet(), &usage).unwrap();
    assert_eq!(cost.amount, NanoUsd(300));
    assert_eq!(cost.amount.to_micros(), 0);
    assert_eq!(cost.amount.to_string(), "0.000000300");
    assert_eq!(BundledPrices.price(&sonnet(), &Usage::default()), fact(0));
}

#[test]
fn a_model_that_nobody_knows_has_no_cost() {
    let usage = Usage {
        input_tokens: 1000,
        ..Usage::default()
    };
    let at = "2026-11-01T00:00:00Z";
    for model in ["local-model", "", "claude-sonnet-4-0"] {
        assert_eq!(
            BundledPrices.price(&served(Provider::OpenAiChat, model, at), &usage),
            None,
            "{model}"
        );
    }
}

#[test]
fn long_inputs_have_their_own_tier() {
    let served = served(Provider::OpenAiResponses, "gpt-5.4", "2026-11-01T00:00:00Z");
    let usage = |cache_read_tokens| Usage {
        input_tokens: 1000,
        cache_read_tokens,
        ..Usage::default()
    };
    assert_eq!(
        BundledPrices.price(&served, &usage(271_000)),
        fact(2_500_000 + 67_750_000)
    );
    assert_eq!(
        BundledPrices.price(&served, &usage(271_001)),
        fact(5_000_000 + 135_500_500)
    );
}

#[test]
fn a_tier_of_service_counts_where_it_is_known_and_is_an_estimate_where_not() {
    let usage = Usage {
        input_tokens: 1_000_000,
        ..Usage::default()
    };
    let price = |at: &str, tier: &'static str| {
        let served = served(Provider::OpenAiChat, "gpt-5", at);
        BundledPrices.price(
            &Served {
                service_tier: Some(tier),
                ..served
            },
            &usage,
        )
    };
    let late = "2026-11-01T00:00:00Z";
    assert_eq!(price(late, "default"), fact(1_250_000_000));
    assert_eq!(price(late, "flex"), fact(625_000_000));
    assert_eq!(price(late, "batch"), fact(625_000_000));
    assert_eq!(price(late, "priority"), fact(2_500_000_000));
    assert_eq!(price(late, "imaginary"), estimate(1_250_000_000));
    assert_eq!(
        price("2026-01-01T00:00:00Z", "flex"),
        estimate(1_250_000_000),
        "before the rates were known"
    );
}

#[test]
fn what_has_no_price_of_its_own_makes_an_estimate() {
    let usage = Usage {
        input_tokens: 100,
        cache_write_tokens: 50,
        cache_write_1h_tokens: 50,
        ..Usage::default()
    };
    let served = served(Provider::OpenAiChat, "gpt-5", "2026-11-01T00:00:00Z");
    assert!(BundledPrices.price(&served, &usage).unwrap().estimate);
    let cut_off = Served {
        usage_is_final: false,
        ..sonnet()
    };
    let output = Usage {
        output_tokens: 10,
        ..Usage::default()
    };
    assert_eq!(BundledPrices.price(&cut_off, &output), estimate(150_000));
}

fn overridden(json: &str) -> OverriddenPrices<BundledPrices> {
    let overrides: Vec<PriceOverride> = serde_json::from_str(json).unwrap();
    OverriddenPrices::new(overrides, BundledPrices)
}

#[test]
fn the_override_of_the_day_wins_and_the_table_answers_for_the_rest() {
    let prices = overridden(
        r#"[{"model":"local-*","from":"2026-03-01","rates":{"input":2,"output":4}},
            {"model":"local-*","rates":{"input":1,"output":1}}]"#,
    );
    let usage = Usage {
        input_tokens: 1_000_000,
        ..Usage::default()
    };
    let price = |model, at| prices.price(&served(Provider::OpenAiChat, model, at), &usage);
    assert_eq!(price("local-1", "2026-02-28T23:59:59Z"), fact(1_000_000_000));
    assert_eq!(price("local-1", "2026-03-01T00:00:00Z"), fact(2_000_000_000));
    assert_eq!(price("gpt-5", "2026-03-01T00:00:00Z"), fact(1_250_000_000));
    assert_eq!(price("other", "2026-03-01T00:00:00Z"), None);
}

#[test]
fn an_override_without_a_needed_rate_gives_an_estimate() {
    let prices = overridden(r#"[{"model":"m","rates":{"input":1,"output":1,"cache_write_5m":1.25}}]"#);
    let served = served(Provider::Anthropic, "m", "2026-03-01T00:00:00Z");
    let of = |usage: Usage| prices.price(&served, &usage);
    assert_eq!(
        of(Usage {
            cache_write_tokens: 1000,
            ..Usage::default()
        }),
        fact(1_250_000)
    );
    assert_eq!(
        of(Usage {
            cache_read_tokens: 1000,
            ..Usage::default()
        }),
        estimate(1_000_000)
    );
    let hour = Usage {
        cache_write_tokens: 1000,
        cache_write_1h_tokens: 1000,
        ..Usage::default()
    };
    assert_eq!(of(hour), estimate(1_250_000));
    assert_eq!(
        of(Usage {
            web_searches: 1,
            ..Usage::default()
        }),
        estimate(0)
    );
}

#[test]
fn an_override_has_tiers_by_input() {
    let prices = overridden(
        r#"[{"model":"m","rates":{"input":1,"output":1},
            "tiers":[{"above_input_tokens":100,"rates":{"input":2,"output":3}}]}]"#,
    );
    let served = served(Provider::Gemini, "m", "2026-03-01T00:00:00Z");
    let of = |input_tokens| {
        prices.price(
            &served,
            &Usage {
                input_tokens,
                output_tokens: 1,
                ..Usage::default()
            },
        )
    };
    assert_eq!(of(100), fact(100_000 + 1000));
    assert_eq!(of(101), fact(202_000 + 3000));
}

#[test]
fn a_price_is_a_number_of_dollars() {
    for rate in ["-1", "1e300", "\"1\""] {
        let json = format!(r#"[{{"model":"m","rates":{{"input":{rate},"output":1}}}}]"#);
        assert!(serde_json::from_str::<Vec<PriceOverride>>(&json).is_err(), "{rate}");
    }
}

proptest! {
    #[test]
    fn any_usage_has_a_price_and_more_never_costs_less(
        tokens in prop::array::uniform6(0..=u64::MAX),
        extra in 0..1_000_000_u64,
    ) {
        let prices = overridden(r#"[{"model":"m","rates":{"input":1,"output":5,"cache_read":0.1}}]"#);
        let served = served(Provider::Anthropic, "m", "2026-03-01T00:00:00Z");
        let usage = Usage {
            input_tokens: tokens[0],
            output_tokens: tokens[1],
            cache_read_tokens: tokens[2],
            cache_write_tokens: tokens[3],
            cache_write_1h_tokens: tokens[4],
            web_searches: tokens[5],
            reasoning_tokens: 0,
        };
        let more = Usage { output_tokens: usage.output_tokens.saturating_add(extra), ..usage };
        let cost = prices.price(&served, &usage).unwrap();
        prop_assert!(prices.price(&served, &more).unwrap().amount >= cost.amount);
        // Absurd counts have to be survived by the built-in table as well.
        let _ = BundledPrices.price(&sonnet(), &usage);
    }
}

#[test]
fn a_model_has_its_window_and_an_unknown_one_has_none() {
    assert_eq!(
        context_window(Provider::Anthropic, "claude-opus-4-5-20251101"),
        Some(200_000)
    );
    assert_eq!(context_window(Provider::OpenAiResponses, "gpt-5-mini"), Some(400_000));
    assert_eq!(context_window(Provider::Anthropic, "a-model-of-nobody"), None);
}
