//! What is kept beside the facts, as JSON, and what never is.
//!
//! Invariant: nothing that opens a door. Headers and query parameters are kept by name from a list; a header that is
//! on none, such as a key, a cookie or a bearer, is gone, and so is the owner's token in the path.

use std::collections::BTreeMap;

use ropewalk_core::model::{Provider, Response};
use ropewalk_store::Micros;
use ropewalk_store::store::ExchangeRow;
use ropewalk_wire::hints::{HINT_HEADERS, Hints};
use ropewalk_wire::provider::{Upstream, route};
use serde::{Deserialize, Serialize};

use crate::raw::RawExchange;
use crate::reuse::{self, Saved};

/// Request headers that are kept, beside the client's hints ([`HINT_HEADERS`]).
pub const REQUEST_HEADERS: [&str; 17] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-encoding",
    "content-type",
    "openai-beta",
    "originator",
    "traceparent",
    "user-agent",
    "version",
    "x-app",
    "x-ropewalk-project",
    "x-stainless-lang",
    "x-stainless-package-version",
    "x-stainless-retry-count",
    "x-stainless-runtime",
    "x-stainless-timeout",
];

/// Response headers that are kept.
pub const RESPONSE_HEADERS: [&str; 10] = [
    "content-encoding",
    "content-type",
    "openai-model",
    "openai-processing-ms",
    "openai-version",
    "request-id",
    "retry-after",
    "x-request-id",
    reuse::REUSE_HEADER,
    reuse::REUSED_FROM_HEADER,
];

/// Query parameters that are kept. Gemini's `key` is one that must not be.
pub const QUERY_PARAMETERS: [&str; 2] = ["alt", "beta"];

/// Longest value of a header that is kept. Codex's turn metadata has about 1 KB.
const HEADER_BYTES_MAX: usize = 4 << 10;

/// Longest path that is kept.
const PATH_BYTES_MAX: usize = 2 << 10;

/// Longest short word: a method, a stop reason, a model.
const WORD_BYTES_MAX: usize = 256;

#[derive(Serialize)]
struct Detail<'a> {
    method: String,
    path: String,
    request_headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    response_headers: BTreeMap<String, String>,
    /// What the client says about itself; only what it says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    hints: BTreeMap<&'static str, String>,
    /// Microseconds since 1970, by tool_use id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    spawned_at: BTreeMap<&'a str, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_ms: Option<i64>,
    /// Placeholders in both bodies, whoever put them there: counted in the bytes that are kept, so that it is the same for what was
    /// recorded, exported and imported again.
    #[serde(skip_serializing_if = "is_zero")]
    redactions: u64,
    /// `hit` where the answer came from the store, `stored` where it was kept to be reused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reuse: Option<&'static str>,
    kind_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    served_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
    /// Of an answer that was reused: what it would have cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<Saved>,
    /// The provider was sent more than the client wrote: what its references mean.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    brings_references: bool,
}

/// What was found out about an exchange while it was prepared.
#[derive(Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) kind_reason: &'static str,
    pub(crate) answer: Option<&'a Response>,
    pub(crate) redactions: u64,
    pub(crate) reuse: Option<&'static str>,
    pub(crate) saved: Option<Saved>,
}

#[derive(Serialize)]
struct Failure<'a> {
    kind: &'a str,
    message: &'a str,
}

pub(crate) fn write(raw: &RawExchange, spawned_at: &[(String, Micros)], hints: &Hints, found: Found<'_>) -> String {
    let answer = found.answer;
    let is_chosen = raw.witness.headers_are_chosen;
    let request_headers = |name: &str| is_chosen || REQUEST_HEADERS.contains(&name) || HINT_HEADERS.contains(&name);
    let response_headers = |name: &str| is_chosen || RESPONSE_HEADERS.contains(&name);
    let detail = Detail {
        method: clean(&raw.method, WORD_BYTES_MAX),
        path: path(&raw.path),
        request_headers: kept(&raw.request_headers, request_headers),
        response_headers: kept(&raw.response_headers, response_headers),
        hints: said(hints),
        spawned_at: spawned_at.iter().map(|(id, at)| (&**id, at.0)).collect(),
        first_byte_ms: raw.witness.first_byte_at.map(|at| (at.0 - raw.at.0).max(0) / 1_000),
        redactions: found.redactions,
        reuse: found.reuse,
        kind_reason: found.kind_reason,
        served_model: answer.and_then(|answer| Some(word(answer.model.as_deref()?))),
        stop_reason: answer.and_then(|answer| Some(word(answer.stop_reason.as_deref()?))),
        error: answer.and_then(|answer| answer.error.as_ref()).map(|error| Failure {
            kind: &error.kind,
            message: &error.message,
        }),
        saved: found.saved,
        brings_references: raw.sent_body.is_some(),
    };
    // Maps with text keys and plain values always serialise.
    serde_json::to_string(&detail).unwrap_or_default()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What was kept, read again.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) request_headers: BTreeMap<String, String>,
    pub(crate) response_headers: BTreeMap<String, String>,
    /// What the client said about itself.
    pub(crate) hints: BTreeMap<String, String>,
    pub(crate) spawned_at: BTreeMap<String, i64>,
    pub(crate) first_byte_ms: Option<i64>,
    pub(crate) redactions: u64,
    pub(crate) reuse: Option<String>,
    pub(crate) served_model: Option<String>,
    pub(crate) saved: Option<Saved>,
    pub(crate) brings_references: bool,
}

impl Kept {
    pub(crate) fn of(row: &ExchangeRow) -> Self {
        Kept::read(&row.detail)
    }

    pub(crate) fn read(detail: &str) -> Self {
        // The recorder wrote it; a detail that cannot be read says nothing.
        serde_json::from_str(detail).unwrap_or_default()
    }

    /// The request target, with those prefixes that the recorder took off and that still mean something.
    pub(crate) fn target(&self, row: &ExchangeRow) -> String {
        let mut target = self.path.clone();
        let by_path = route(&target).upstream.map(Upstream::name);
        if by_path != Some(&*row.provider)
            && let Some(upstream) = Upstream::of_name(&row.provider)
        {
            target.insert_str(0, &upstream.prefix());
        }
        let is_said = self.request_headers.contains_key("x-ropewalk-project");
        if let Some(project) = row.project.as_ref().filter(|_| !is_said) {
            target.insert_str(0, &format!("/p/{project}"));
        }
        target
    }

    /// Where the answer came from, in the contract's words.
    pub(crate) fn reuse(&self) -> &'static str {
        match self.reuse.as_deref() {
            Some(reuse::HIT) => reuse::HIT,
            Some(reuse::STORED) => reuse::STORED,
            _ => "none",
        }
    }

    /// Whose format the bodies have.
    pub(crate) fn provider(&self, row: &ExchangeRow) -> Option<Provider> {
        route(&self.target(row)).endpoint.provider()
    }
}

/// A short word from the wire, fit for a column: no control characters, bounded.
pub(crate) fn word(text: &str) -> String {
    clean(text, WORD_BYTES_MAX)
}

/// The first value of each header that is on the list, by its name in lower case.
fn kept(headers: &[(String, String)], is_kept: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        if is_kept(&name) {
            kept.entry(name).or_insert_with(|| clean(value, HEADER_BYTES_MAX));
        }
    }
    kept
}

/// The target behind the prefixes, without the token, with the parameters that are on the list.
fn path(target: &str) -> String {
    let rest = route(target).rest;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.split('#').next().unwrap_or_default();
    // A prefix in the wrong place is no prefix to the router, but its token is still one.
    let mut is_token = false;
    let segments = path.split('/').map(|segment| {
        let shown = if is_token { "-" } else { segment };
        is_token = segment == "t";
        shown
    });
    let mut kept = segments.collect::<Vec<_>>().join("/");
    let parameters = query.split('&').filter(|parameter| {
        let name = parameter.split('=').next().unwrap_or_default();
        QUERY_PARAMETERS.contains(&name)
    });
    let query = parameters.collect::<Vec<_>>().join("&");
    if !query.is_empty() {
        kept.push('?');
        kept.push_str(&query);
    }
    clean(&kept, PATH_BYTES_MAX)
}

/// Bounded and without control characters, which some databases refuse even inside JSON.
fn clean(text: &str, bytes_max: usize) -> String {
    let kept = &text[..text.floor_char_boundary(bytes_max)];
    kept.chars()
        .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

fn said(hints: &Hints) -> BTreeMap<&'static str, String> {
    let client = hints.client.as_ref();
    let window = hints.window.map(|window| window.to_string());
    let all = [
        ("client", client.map(|client| client.kind.name())),
        ("client_version", client.and_then(|client| client.version.as_deref())),
        ("session", hints.session.as_ref().map(|session| &*session.id)),
        ("parent_session", hints.parent_session.as_deref()),
        ("agent", hints.agent.as_deref()),
        ("parent_agent", hints.parent_agent.as_deref()),
        ("agent_name", hints.agent_name.as_deref()),
        ("agent_type", hints.agent_type.as_deref()),
        ("name_in_system", hints.name_in_system.as_deref()),
        ("thread", hints.thread.as_deref()),
        ("parent_thread", hints.parent_thread.as_deref()),
        ("forked_from_thread", hints.forked_from_thread.as_deref()),
        ("window", window.as_deref()),
        ("turn_id", hints.turn_id.as_deref()),
        ("request_kind", hints.request_kind.as_deref()),
        ("history_initialization", hints.history_initialization.as_deref()),
    ];
    let present = all
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?.to_owned())));
    let mut said: BTreeMap<_, _> = present.collect();
    if hints.session.as_ref().is_some_and(|session| session.source.is_weak()) {
        said.insert("session_is_weak", "true".to_owned());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_and_no_key_is_in_the_path() {
        for (target, kept) in [
            (
                "/t/secret/p/site/anthropic/v1/messages?beta=true",
                "/v1/messages?beta=true",
            ),
            ("/p/site/t/secret/v1/messages", "/t/-/v1/messages"),
            ("/t/secret", ""),
            ("/t//secret/v1/messages", "/t/-/secret/v1/messages"),
            (
                "/v1beta/models/g:streamGenerateContent?key=secret&alt=sse",
                "/v1beta/models/g:streamGenerateContent?alt=sse",
            ),
            ("/v1/responses", "/v1/responses"),
            ("", ""),
        ] {
            assert_eq!(path(target), kept, "{target}");
        }
    }

    #[test]
    fn headers_are_kept_by_name_and_never_by_value() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [
            header("Authorization", "Bearer secret"),
            header("X-Api-Key", "secret"),
            header("Cookie", "secret"),
            header("User-Agent", "claude-cli/2.1.197\0"),
            header("user-agent", "second"),
        ];
        let kept = kept(&headers, |name| REQUEST_HEADERS.contains(&name));
        assert_eq!(kept.len(), 1);
        assert_eq!(kept["user-agent"], "claude-cli/2.1.197\u{fffd}");
    }
}
