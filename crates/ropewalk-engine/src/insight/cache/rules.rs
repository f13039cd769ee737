//! The comparison of two turns: what the second could have read, and what stood in the way.
//!
//! Causes come in the order in which they bite. Where the turn before left nothing, nothing else matters. Another model, another beta or
//! an expired entry spoil the whole prompt; a changed part spoils everything behind it; a breakpoint that is missing or stands elsewhere
//! leaves a prompt unread that is still there.

use std::collections::BTreeSet;

use ropewalk_core::model::{Provider, Usage};
use ropewalk_store::Micros;
use ropewalk_wire::prompt::Prompt;
use ropewalk_wire::prompt::limits::{STEP_TOKENS, minimum_tokens};
use serde::Serialize;
use utoipa::ToSchema;

use super::compared::{Compared, estimate};
use super::money::total_input;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// The prompt was too short to be kept.
    BelowMinimum,
    /// Nobody asked to keep the prompt, or to read it.
    BreakpointMissing,
    /// Another model, or another upstream.
    OtherModel,
    OtherBeta,
    /// Another key that requests are distributed by.
    OtherCacheKey,
    Expired,
    Tools,
    System,
    /// An option that changes how messages are put before the model.
    Settings,
    Message,
    /// From no breakpoint is what was kept in reach.
    BreakpointMoved,
    /// Nothing that was sent explains it.
    Provider,
}

impl CauseKind {
    pub fn name(self) -> &'static str {
        match self {
            CauseKind::BelowMinimum => "below the minimum size",
            CauseKind::BreakpointMissing => "no cache_control",
            CauseKind::OtherModel => "another model",
            CauseKind::OtherBeta => "another beta header",
            CauseKind::OtherCacheKey => "another cache key",
            CauseKind::Expired => "expired",
            CauseKind::Tools => "the tool list changed",
            CauseKind::System => "the system prompt changed",
            CauseKind::Settings => "another tool choice or setting",
            CauseKind::Message => "a message changed",
            CauseKind::BreakpointMoved => "cache_control moved",
            CauseKind::Provider => "the provider",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cause {
    pub kind: CauseKind,
    pub explained: String,
}

/// The first place where two prompts part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Difference {
    pub place_before: Option<String>,
    pub place_after: Option<String>,
    /// Characters that both begin with.
    pub at_char: usize,
    /// What stood there, and what stands there now, with what is around it.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// An exchange as far as a cache is concerned.
pub(super) struct Turn {
    pub(super) provider: Provider,
    pub(super) at: Micros,
    pub(super) upstream: String,
    pub(super) model: String,
    pub(super) betas: BTreeSet<String>,
    pub(super) usage: Usage,
    pub(super) prompt: Prompt,
}

#[derive(Debug)]
pub(super) struct Judged {
    pub(super) readable: u64,
    pub(super) lost: u64,
    pub(super) shared: u64,
    pub(super) minimum: u64,
    pub(super) causes: Vec<Cause>,
    pub(super) difference: Option<Difference>,
}

/// What the provider kept of a turn, by its own count. For a provider that keeps what it is asked to keep: zero may also mean that
/// it was not asked.
pub(super) fn left_behind(provider: Provider, model: &str, usage: &Usage) -> u64 {
    match provider {
        Provider::Anthropic => usage.cache_read_tokens.saturating_add(usage.cache_write_tokens),
        Provider::OpenAiChat | Provider::OpenAiResponses | Provider::Gemini => {
            let total = total_input(usage);
            match total >= minimum_tokens(provider, model) {
                true => total - total % STEP_TOKENS,
                false => 0,
            }
        }
    }
}

/// What of it was not read. The last step of an automatic cache depends on what stands behind the prompt.
pub(super) fn lost(provider: Provider, readable: u64, read: u64) -> u64 {
    let slack = match provider {
        Provider::Anthropic => 0,
        Provider::OpenAiChat | Provider::OpenAiResponses | Provider::Gemini => STEP_TOKENS,
    };
    match read.saturating_add(slack) >= readable {
        true => 0,
        false => readable - read,
    }
}

pub(super) fn judge(before: &Turn, now: &Turn) -> Judged {
    let compared = Compared::new(before, now);
    let minimum = minimum_tokens(before.provider, &before.model);
    let prompt_tokens = total_input(&now.usage);
    let left = left_behind(before.provider, &before.model, &before.usage);
    let (nothing_left, left) = match left {
        0 => compared.why_nothing_is_left(minimum),
        left => (None, left),
    };
    let readable = left.min(prompt_tokens);
    let lost = lost(now.provider, readable, now.usage.cache_read_tokens);
    let mut causes = Vec::new();
    if lost > 0 || nothing_left.is_some() {
        causes.extend(nothing_left);
        causes.extend(compared.spoilt());
        if causes.is_empty() {
            causes.push(Cause {
                kind: CauseKind::Provider,
                explained: "nothing that was sent differs: the provider dropped it, or asked another machine"
                    .to_owned(),
            });
        }
    }
    let is_shown = causes
        .iter()
        .any(|cause| matches!(cause.kind, CauseKind::Tools | CauseKind::System | CauseKind::Message));
    Judged {
        readable,
        lost,
        shared: match compared.is_whole() {
            true => readable,
            false => estimate(&now.prompt, compared.common, prompt_tokens),
        },
        minimum,
        difference: is_shown.then(|| compared.difference()),
        causes,
    }
}
