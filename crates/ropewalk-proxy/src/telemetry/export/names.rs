//! The words of the GenAI conventions for what the recorder knows. Names as they were in November 2026.

use ropewalk_core::model::Provider;
use ropewalk_store::facts::Status;

use super::super::Told;

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(super) const SERVER_ADDRESS: &str = "server.address";
pub(super) const SERVER_PORT: &str = "server.port";
pub(super) const ERROR_TYPE: &str = "error.type";

/// What was done. Counting tokens is no operation of the conventions, so it has a name of its own, as they allow.
pub(super) fn operation(told: &Told) -> &'static str {
    match told.call.provider {
        _ if told.call.counts_tokens => "count_tokens",
        Some(Provider::Gemini) => "generate_content",
        Some(Provider::Anthropic | Provider::OpenAiChat | Provider::OpenAiResponses) | None => "chat",
    }
}

/// Whose telemetry it looks like: a gateway's is that of the format it speaks.
pub(super) fn provider(told: &Told) -> &'static str {
    match told.call.provider {
        Some(Provider::Anthropic) => "anthropic",
        Some(Provider::OpenAiChat | Provider::OpenAiResponses) => "openai",
        Some(Provider::Gemini) => "gcp.gemini",
        None => "unknown",
    }
}

/// The provider's word for what went wrong, else the status, else how the answer ended. `None` where nothing went wrong.
pub(super) fn error_type(told: &Told) -> Option<String> {
    match told.status {
        Status::Pending | Status::Complete => None,
        Status::Error => {
            let kind = told.call.error_kind.clone().filter(|kind| !kind.is_empty());
            let status = || told.http_status.map(|status| status.to_string());
            Some(kind.or_else(status).unwrap_or_else(|| "_OTHER".to_owned()))
        }
        status @ (Status::Truncated | Status::ClientCancelled) => Some(status.name().to_owned()),
    }
}

/// Tokens of the input, cached ones included, as the conventions count.
pub(super) fn input_tokens(told: &Told) -> Option<u64> {
    let usage = told.usage?;
    Some(usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens)
}

/// Seconds until the first byte of a streamed answer.
pub(super) fn first_chunk_s(told: &Told) -> Option<f64> {
    let first = told.first_byte_at.filter(|_| told.call.streams)?;
    Some(seconds(first.0 - told.at.0))
}

pub(super) fn duration_s(told: &Told) -> f64 {
    seconds(told.ended_at.0 - told.at.0)
}

fn seconds(micros: i64) -> f64 {
    micros.max(0) as f64 / 1e6
}
