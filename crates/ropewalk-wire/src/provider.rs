//! Which endpoint a request path is.
//!
//! Paths are the providers' own, behind optional prefixes in this order: `/t/<token>`, `/p/<project>`, and
//! the provider's name (or `/u/<name>`, for an upstream that somebody named), for clients that can only set a base URL. The rest
//! is passed on untouched; a path nobody knows is [`Endpoint::Other`], never an error.

use ropewalk_core::model::Provider;

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upstream<'a> {
    Anthropic,
    OpenAi,
    Gemini,
    /// One that the configuration names, such as a gateway. Its name is [sane](is_upstream_name).
    Named(&'a str),
}

impl<'a> Upstream<'a> {
    pub fn name(self) -> &'a str {
        match self {
            Upstream::Anthropic => "anthropic",
            Upstream::OpenAi => "openai",
            Upstream::Gemini => "gemini",
            Upstream::Named(name) => name,
        }
    }

    /// What names it in front of a path.
    pub fn prefix(self) -> String {
        match self {
            Upstream::Anthropic | Upstream::OpenAi | Upstream::Gemini => format!("/{}", self.name()),
            Upstream::Named(name) => format!("/u/{name}"),
        }
    }

    /// The upstream of that name. `None` if nothing can be called so.
    pub fn of_name(name: &'a str) -> Option<Self> {
        match name {
            "anthropic" => Some(Upstream::Anthropic),
            "openai" => Some(Upstream::OpenAi),
            "gemini" => Some(Upstream::Gemini),
            name => is_upstream_name(name).then_some(Upstream::Named(name)),
        }
    }
}

/// Longest name of an upstream: it is a part of paths and a label of metrics.
const UPSTREAM_NAME_BYTES_MAX: usize = 32;

/// Whether an upstream may be called so: lower-case letters, digits, `-` and `_`, a letter first.
pub fn is_upstream_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    // What is recorded of nobody in particular is called so.
    name != "unknown"
        && name.len() <= UPSTREAM_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_plain)
}

/// Where a provider is asked for an answer that is not streamed, for what was recorded without its path.
pub fn path_of(provider: Provider, model: Option<&str>) -> String {
    match provider {
        Provider::Anthropic => "/v1/messages".to_owned(),
        Provider::OpenAiChat => "/v1/chat/completions".to_owned(),
        Provider::OpenAiResponses => "/v1/responses".to_owned(),
        Provider::Gemini => format!("/v1beta/models/{}:generateContent", model.unwrap_or("unknown")),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint<'a> {
    Messages,
    CountTokens(Provider),
    Chat,
    Responses,
    /// The Responses call that compacts a conversation on the server.
    ResponsesCompact,
    GeminiGenerate {
        model: &'a str,
    },
    GeminiStream {
        model: &'a str,
        /// `alt=sse`; otherwise the answer is one JSON array.
        sse: bool,
    },
    Models,
    Other,
}

impl Endpoint<'_> {
    /// The format of the bodies, where it is one that is read.
    pub fn provider(&self) -> Option<Provider> {
        match self {
            Endpoint::Messages => Some(Provider::Anthropic),
            Endpoint::CountTokens(provider) => Some(*provider),
            Endpoint::Chat => Some(Provider::OpenAiChat),
            Endpoint::Responses | Endpoint::ResponsesCompact => Some(Provider::OpenAiResponses),
            Endpoint::GeminiGenerate { .. } | Endpoint::GeminiStream { .. } => Some(Provider::Gemini),
            Endpoint::Models | Endpoint::Other => None,
        }
    }
}

/// A request target, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route<'a> {
    pub token: Option<&'a str>,
    pub project: Option<&'a str>,
    /// By prefix, else by path; `None` where several providers have the path.
    pub upstream: Option<Upstream<'a>>,
    pub endpoint: Endpoint<'a>,
    /// Path and query behind the prefixes, as they are sent upstream.
    pub rest: &'a str,
}

/// Paths that only OpenAI has; they pass through without being read.
const OPENAI_PATHS: [&str; 6] = [
    "/v1/responses/",
    "/v1/chat/",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/images/",
    "/v1/audio/",
];

/// Takes a request target (path and query) apart.
pub fn route(target: &str) -> Route<'_> {
    let (token, rest) = take_named_segment(target, "/t/");
    let (project, rest) = take_named_segment(rest, "/p/");
    let (prefix, rest) = take_upstream(rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let endpoint = endpoint(path, query, prefix);
    let by_path = match endpoint.provider() {
        Some(Provider::Anthropic) => Some(Upstream::Anthropic),
        Some(Provider::Gemini) => Some(Upstream::Gemini),
        // Gemini speaks OpenAI's formats below this path.
        Some(_) if path.starts_with("/v1beta/openai/") => Some(Upstream::Gemini),
        Some(_) => Some(Upstream::OpenAi),
        None if path.starts_with("/v1beta/") => Some(Upstream::Gemini),
        None if path.starts_with("/v1/messages/") => Some(Upstream::Anthropic),
        None if OPENAI_PATHS.iter().any(|start| path.starts_with(start)) => Some(Upstream::OpenAi),
        None => None,
    };
    Route {
        token,
        project,
        upstream: prefix.or(by_path),
        endpoint,
        rest,
    }
}

/// The provider a request without a telling path is meant for, by the way it carries its key.
pub fn upstream_by_headers<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Option<Upstream<'static>> {
    let mut found = None;
    for (name, _) in headers {
        if name.eq_ignore_ascii_case("anthropic-version") || name.eq_ignore_ascii_case("x-api-key") {
            return Some(Upstream::Anthropic);
        }
        if name.eq_ignore_ascii_case("x-goog-api-key") {
            return Some(Upstream::Gemini);
        }
        if name.eq_ignore_ascii_case("authorization") {
            found = Some(Upstream::OpenAi);
        }
    }
    found
}

/// `/t/abc/v1/…` → (`abc`, `/v1/…`). An empty name is no prefix.
fn take_named_segment<'a>(target: &'a str, prefix: &str) -> (Option<&'a str>, &'a str) {
    let Some(behind) = target.strip_prefix(prefix) else {
        return (None, target);
    };
    let end = behind.find(['/', '?']).unwrap_or(behind.len());
    match end {
        0 => (None, target),
        _ => (Some(&behind[..end]), &behind[end..]),
    }
}

fn take_upstream(target: &str) -> (Option<Upstream<'_>>, &str) {
    if let (Some(name), rest) = take_named_segment(target, "/u/")
        && let Some(upstream) = Upstream::of_name(name)
    {
        return (Some(upstream), rest);
    }
    for (prefix, upstream) in [
        ("/anthropic", Upstream::Anthropic),
        ("/openai", Upstream::OpenAi),
        ("/gemini", Upstream::Gemini),
    ] {
        if let Some(rest) = target.strip_prefix(prefix)
            && (rest.is_empty() || rest.starts_with(['/', '?']))
        {
            return (Some(upstream), rest);
        }
    }
    (None, target)
}

fn endpoint<'a>(path: &'a str, query: &str, prefix: Option<Upstream<'_>>) -> Endpoint<'a> {
    if let Some(endpoint) = gemini_endpoint(path, query) {
        return endpoint;
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path == "/v1beta/models" {
        return Endpoint::Models;
    }
    let versioned = ["/v1beta/openai/", "/v1/"]
        .iter()
        .find_map(|version| path.strip_prefix(version));
    // Behind a provider's name a base URL may leave the version out.
    let unversioned = prefix.and_then(|_| path.strip_prefix('/'));
    let in_gateway = match prefix {
        Some(Upstream::Named(_)) => behind_own_segments(path),
        _ => None,
    };
    match versioned.or(in_gateway).or(unversioned) {
        Some("messages") => Endpoint::Messages,
        Some("messages/count_tokens") => Endpoint::CountTokens(Provider::Anthropic),
        Some("chat/completions") => Endpoint::Chat,
        Some("responses") => Endpoint::Responses,
        Some("responses/compact") => Endpoint::ResponsesCompact,
        Some("models") => Endpoint::Models,
        _ => Endpoint::Other,
    }
}

/// A gateway may have segments of its own in front of a provider's path.
fn behind_own_segments(path: &str) -> Option<&str> {
    let versioned = path.rsplit_once("/v1/").map(|(_, known)| known);
    versioned.or_else(|| path.ends_with("/chat/completions").then_some("chat/completions"))
}

/// `…/models/<model>:<verb>`, whatever stands in front of it.
fn gemini_endpoint<'a>(path: &'a str, query: &str) -> Option<Endpoint<'a>> {
    let at = path.rfind("/models/")?;
    let (model, verb) = path[at + "/models/".len()..].rsplit_once(':')?;
    if model.is_empty() {
        return None;
    }
    match verb {
        "generateContent" => Some(Endpoint::GeminiGenerate { model }),
        "streamGenerateContent" => {
            let sse = query.split('&').any(|parameter| parameter == "alt=sse");
            Some(Endpoint::GeminiStream { model, sse })
        }
        "countTokens" => Some(Endpoint::CountTokens(Provider::Gemini)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_providers_own_paths() {
        for (target, upstream, endpoint) in [
            ("/v1/messages?beta=true", Some(Upstream::Anthropic), Endpoint::Messages),
            (
                "/v1/messages/count_tokens",
                Some(Upstream::Anthropic),
                Endpoint::CountTokens(Provider::Anthropic),
            ),
            ("/v1/messages/batches", Some(Upstream::Anthropic), Endpoint::Other),
            ("/v1/chat/completions", Some(Upstream::OpenAi), Endpoint::Chat),
            ("/v1/responses", Some(Upstream::OpenAi), Endpoint::Responses),
            ("/v1/responses/", Some(Upstream::OpenAi), Endpoint::Responses),
            (
                "/v1/responses/compact",
                Some(Upstream::OpenAi),
                Endpoint::ResponsesCompact,
            ),
            ("/v1/responses/resp_1/cancel", Some(Upstream::OpenAi), Endpoint::Other),
            ("/v1/models", None, Endpoint::Models),
            ("/v1beta/models", Some(Upstream::Gemini), Endpoint::Models),
            (
                "/v1beta/openai/chat/completions",
                Some(Upstream::Gemini),
                Endpoint::Chat,
            ),
            ("/", None, Endpoint::Other),
            ("", None, Endpoint::Other),
        ] {
            let route = route(target);
            assert_eq!((route.upstream, route.endpoint), (upstream, endpoint), "{target}");
            assert_eq!(route.rest, target);
        }
    }

    #[test]
    fn names_the_gemini_model() {
        let stream = |model, sse| Endpoint::GeminiStream { model, sse };
        for (target, endpoint) in [
            (
                "/v1beta/models/gemini-pro:generateContent",
                Endpoint::GeminiGenerate { model: "gemini-pro" },
            ),
            (
                "/v1beta/models/g:streamGenerateContent?key=1&alt=sse",
                stream("g", true),
            ),
            ("/v1beta/models/g:streamGenerateContent", stream("g", false)),
            (
                "/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent",
                stream("g", false),
            ),
            ("/v1beta/models/g:countTokens", Endpoint::CountTokens(Provider::Gemini)),
            ("/v1beta/models/g:embedContent", Endpoint::Other),
            ("/v1beta/models/:generateContent", Endpoint::Other),
        ] {
            assert_eq!(route(target).endpoint, endpoint, "{target}");
        }
    }

    #[test]
    fn takes_the_prefixes_in_their_order() {
        let full = route("/t/secret/p/site/anthropic/v1/messages?beta=true");
        assert_eq!((full.token, full.project), (Some("secret"), Some("site")));
        assert_eq!(
            (full.upstream, full.rest),
            (Some(Upstream::Anthropic), "/v1/messages?beta=true")
        );
        assert_eq!(full.endpoint, Endpoint::Messages);

        let project_only = route("/p/site/openai/responses");
        assert_eq!(
            (project_only.project, project_only.endpoint),
            (Some("site"), Endpoint::Responses)
        );

        let wrong_order = route("/p/site/t/secret/v1/messages");
        assert_eq!((wrong_order.token, wrong_order.endpoint), (None, Endpoint::Other));
        assert_eq!(route("/t//v1/messages").token, None);
        assert_eq!(route("/openaiish/v1/responses").upstream, None);
    }

    #[test]
    fn an_upstream_that_somebody_named_stands_behind_its_own_prefix() {
        for (target, name, rest, endpoint) in [
            (
                "/u/openrouter/v1/chat/completions",
                "openrouter",
                "/v1/chat/completions",
                Endpoint::Chat,
            ),
            (
                "/u/gate/v1/messages?beta=true",
                "gate",
                "/v1/messages?beta=true",
                Endpoint::Messages,
            ),
            ("/u/gate/chat/completions", "gate", "/chat/completions", Endpoint::Chat),
            ("/u/gate/responses", "gate", "/responses", Endpoint::Responses),
            (
                "/u/gate/api/v1/responses",
                "gate",
                "/api/v1/responses",
                Endpoint::Responses,
            ),
            (
                "/u/azure-1/openai/deployments/x/chat/completions?api-version=1",
                "azure-1",
                "/openai/deployments/x/chat/completions?api-version=1",
                Endpoint::Chat,
            ),
            (
                "/u/gate/v1/threads/t/messages",
                "gate",
                "/v1/threads/t/messages",
                Endpoint::Other,
            ),
            ("/u/gate", "gate", "", Endpoint::Other),
        ] {
            let route = route(target);
            assert_eq!(route.upstream, Some(Upstream::Named(name)), "{target}");
            assert_eq!((route.rest, route.endpoint), (rest, endpoint), "{target}");
        }
        let full = route("/t/secret/p/site/u/gate/v1/messages");
        assert_eq!(
            (full.token, full.project, full.upstream),
            (Some("secret"), Some("site"), Some(Upstream::Named("gate")))
        );
        assert_eq!(route("/u/openai/v1/responses").upstream, Some(Upstream::OpenAi));
        for target in [
            "/u/",
            "/u//v1/messages",
            "/u/Gate/v1/messages",
            "/u/unknown/v1/messages",
            "/u/1/v1/x",
        ] {
            assert_eq!((route(target).upstream, route(target).rest), (None, target));
        }
    }

    #[test]
    fn tells_the_provider_by_the_key_header() {
        assert_eq!(
            upstream_by_headers([("Authorization", "b"), ("X-Api-Key", "k")]),
            Some(Upstream::Anthropic)
        );
        assert_eq!(upstream_by_headers([("authorization", "b")]), Some(Upstream::OpenAi));
        assert_eq!(upstream_by_headers([("X-Goog-Api-Key", "k")]), Some(Upstream::Gemini));
        assert_eq!(upstream_by_headers([("accept", "*/*")]), None);
    }
}
