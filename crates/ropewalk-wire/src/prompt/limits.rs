//! What providers document about their prompt caches, as of 2026.

use ropewalk_core::model::Provider;

/// An automatic cache is read in steps of so many tokens.
pub const STEP_TOKENS: u64 = 128;

/// From a breakpoint a provider looks back over so many blocks, its own included, for something that it kept.
pub const LOOKBACK_BLOCKS: usize = 20;

/// An automatic cache forgets what was not asked for during five to ten minutes, and everything after this long unless more was bought.
pub const AUTOMATIC_SECONDS_MAX: i64 = 3_600;

/// Models whose shortest prompt that is kept is not their provider's usual one. The first that is part of a model's name counts.
const MINIMUMS: [(Provider, &str, u64); 9] = [
    (Provider::Anthropic, "opus-4-5", 4_096),
    (Provider::Anthropic, "opus-4-6", 4_096),
    (Provider::Anthropic, "opus-4-7", 4_096),
    (Provider::Anthropic, "mythos", 4_096),
    (Provider::Anthropic, "haiku-4-5", 4_096),
    (Provider::Anthropic, "3-5-haiku", 2_048),
    (Provider::Anthropic, "3-haiku", 2_048),
    (Provider::Anthropic, "haiku-3", 2_048),
    (Provider::Gemini, "pro", 4_096),
];

/// The usual one, of every provider.
const MINIMUM: u64 = 1_024;

/// Tokens of the shortest prompt that is kept.
pub fn minimum_tokens(provider: Provider, model: &str) -> u64 {
    let special = MINIMUMS
        .iter()
        .find(|(of, name, _)| *of == provider && model.contains(name));
    special.map_or(MINIMUM, |(.., tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_models_keep_only_longer_prompts() {
        for (provider, model, tokens) in [
            (Provider::Anthropic, "claude-opus-4-6-20260205", 4_096),
            (Provider::Anthropic, "claude-opus-4-8", 1_024),
            (Provider::Anthropic, "claude-sonnet-4-5-20250929", 1_024),
            (Provider::Anthropic, "claude-haiku-4-5", 4_096),
            (Provider::Anthropic, "claude-3-5-haiku-latest", 2_048),
            (Provider::OpenAiResponses, "gpt-5-pro", 1_024),
            (Provider::Gemini, "gemini-2.5-pro", 4_096),
            (Provider::Gemini, "gemini-2.5-flash", 1_024),
        ] {
            assert_eq!(minimum_tokens(provider, model), tokens, "{model}");
        }
    }
}
