//! Token counts in the one convention of [`Usage`].
//!
//! Anthropic counts cached tokens beside `input_tokens`; OpenAI and Gemini count them inside. Here
//! `input_tokens` never includes them, `output_tokens` always includes the reasoning. A count that is
//! missing, null or no number is zero; nothing overflows.

use ropewalk_core::json::Node;
use ropewalk_core::model::{Provider, Usage};

/// Reads the provider's usage object.
pub fn read(provider: Provider, usage: Node<'_>) -> Usage {
    match provider {
        Provider::Anthropic => anthropic(usage),
        Provider::OpenAiChat => openai(usage, "prompt_tokens", "completion_tokens"),
        Provider::OpenAiResponses => openai(usage, "input_tokens", "output_tokens"),
        Provider::Gemini => gemini(usage),
    }
}

fn anthropic(usage: Node<'_>) -> Usage {
    let lifetimes = usage.get("cache_creation");
    let short = count_in(lifetimes, "ephemeral_5m_input_tokens");
    let long = count_in(lifetimes, "ephemeral_1h_input_tokens");
    let written = count(usage, "cache_creation_input_tokens");
    Usage {
        input_tokens: count(usage, "input_tokens"),
        output_tokens: count(usage, "output_tokens"),
        cache_read_tokens: count(usage, "cache_read_input_tokens"),
        // The total and the split come apart in some answers; the larger one lost nothing.
        cache_write_tokens: written.max(short.saturating_add(long)),
        cache_write_1h_tokens: long,
        reasoning_tokens: count_in(usage.get("output_tokens_details"), "thinking_tokens"),
        web_searches: count_in(usage.get("server_tool_use"), "web_search_requests"),
    }
}

fn openai(usage: Node<'_>, input: &str, output: &str) -> Usage {
    let input_details = usage.get(&format!("{input}_details"));
    let output_details = usage.get(&format!("{output}_details"));
    // Servers that speak OpenAI's format without the details give the cache hit beside the total.
    let cached = count_in(input_details, "cached_tokens").max(count(usage, "prompt_cache_hit_tokens"));
    let written = count_in(input_details, "cache_write_tokens");
    Usage {
        input_tokens: count(usage, input).saturating_sub(cached).saturating_sub(written),
        output_tokens: count(usage, output),
        cache_read_tokens: cached,
        cache_write_tokens: written,
        cache_write_1h_tokens: 0,
        reasoning_tokens: count_in(output_details, "reasoning_tokens"),
        web_searches: 0,
    }
}

fn gemini(usage: Node<'_>) -> Usage {
    let cached = count(usage, "cachedContentTokenCount");
    let thoughts = count(usage, "thoughtsTokenCount");
    let prompt = count(usage, "promptTokenCount").saturating_sub(cached);
    Usage {
        input_tokens: prompt.saturating_add(count(usage, "toolUsePromptTokenCount")),
        output_tokens: count(usage, "candidatesTokenCount").saturating_add(thoughts),
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        reasoning_tokens: thoughts,
        web_searches: 0,
    }
}

fn count_in(object: Option<Node<'_>>, key: &str) -> u64 {
    object.map_or(0, |object| count(object, key))
}

fn count(object: Node<'_>, key: &str) -> u64 {
    let Some(value) = object.get(key) else {
        return 0;
    };
    // `12.0` is a count too; a negative or huge one saturates in the cast.
    value
        .as_u64()
        .or_else(|| value.as_f64().map(|number| number as u64))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ropewalk_core::json::Doc;

    #[track_caller]
    fn check(provider: Provider, json: &str, expected: Usage) {
        let doc = Doc::parse_str(json).unwrap();
        assert_eq!(read(provider, doc.root()), expected);
    }

    #[test]
    fn anthropic_counts_the_cache_outside() {
        check(
            Provider::Anthropic,
            r#"{"input_tokens":3,"output_tokens":42,"cache_creation_input_tokens":100,"cache_read_input_tokens":7,
                "cache_creation":{"ephemeral_5m_input_tokens":60,"ephemeral_1h_input_tokens":40},
                "server_tool_use":{"web_search_requests":2}}"#,
            Usage {
                input_tokens: 3,
                output_tokens: 42,
                cache_read_tokens: 7,
                cache_write_tokens: 100,
                cache_write_1h_tokens: 40,
                reasoning_tokens: 0,
                web_searches: 2,
            },
        );
    }

    #[test]
    fn openai_counts_the_cache_inside() {
        let expected = Usage {
            input_tokens: 6,
            output_tokens: 9,
            cache_read_tokens: 5,
            reasoning_tokens: 2,
            ..Usage::default()
        };
        check(
            Provider::OpenAiChat,
            r#"{"prompt_tokens":11,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":5},
                "completion_tokens_details":{"reasoning_tokens":2}}"#,
            expected,
        );
        check(
            Provider::OpenAiResponses,
            r#"{"input_tokens":11,"output_tokens":9,"input_tokens_details":{"cached_tokens":5},
                "output_tokens_details":{"reasoning_tokens":2}}"#,
            expected,
        );
    }

    #[test]
    fn gemini_counts_thoughts_beside_the_candidates() {
        check(
            Provider::Gemini,
            r#"{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"toolUsePromptTokenCount":1}"#,
            Usage {
                input_tokens: 7,
                output_tokens: 5,
                cache_read_tokens: 4,
                reasoning_tokens: 2,
                ..Usage::default()
            },
        );
    }

    #[test]
    fn hostile_counts_neither_panic_nor_wrap() {
        check(
            Provider::OpenAiChat,
            r#"{"prompt_tokens":1,"completion_tokens":-5,"prompt_tokens_details":{"cached_tokens":99999999999999999999999}}"#,
            Usage {
                cache_read_tokens: u64::MAX,
                ..Usage::default()
            },
        );
        check(
            Provider::Gemini,
            r#"{"candidatesTokenCount":"3","promptTokenCount":null}"#,
            Usage::default(),
        );
        check(Provider::Anthropic, "[]", Usage::default());
    }
}
