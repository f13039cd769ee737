//! What may be written of headers and targets.
//!
//! Invariant: only what is on a list. A key, a cookie, a bearer, an owner's token is on none, and so it is never on disk.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use ropewalk_engine::{QUERY_PARAMETERS, REQUEST_HEADERS, RESPONSE_HEADERS};
use ropewalk_wire::hints::HINT_HEADERS;
use ropewalk_wire::provider::route;

/// Longest value that is kept, as in the store.
const VALUE_BYTES_MAX: usize = 4 << 10;

/// Longest target that is kept, as in the store, with its prefixes.
const TARGET_BYTES_MAX: usize = 4 << 10;

/// Names by their length: a header is compared with two or three.
#[derive(Debug)]
pub(super) struct Names {
    by_length: Vec<Vec<Cow<'static, str>>>,
}

impl Names {
    /// With others that somebody wants to be kept, in lower case.
    pub(super) fn of_requests(others: &[String]) -> Self {
        Self::new(REQUEST_HEADERS.into_iter().chain(HINT_HEADERS), others)
    }

    pub(super) fn of_responses(others: &[String]) -> Self {
        Self::new(RESPONSE_HEADERS, others)
    }

    fn new(usual: impl IntoIterator<Item = &'static str>, others: &[String]) -> Self {
        let mut by_length: Vec<Vec<Cow<'static, str>>> = Vec::new();
        let others = others.iter().cloned().map(Cow::Owned);
        for name in usual.into_iter().map(Cow::Borrowed).chain(others) {
            if by_length.len() <= name.len() {
                by_length.resize(name.len() + 1, Vec::new());
            }
            by_length[name.len()].push(name);
        }
        Names { by_length }
    }

    /// The first value of each header that is on the list.
    pub(super) fn kept<'h>(&'h self, headers: &'h HeaderMap) -> impl Iterator<Item = (&'h str, &'h [u8])> {
        let mut last: Option<&HeaderName> = None;
        headers.iter().filter_map(move |(name, value)| {
            // Values of one name come one after the other.
            if last.replace(name) == Some(name) || !self.has(name.as_str()) {
                return None;
            }
            let value = value.as_bytes();
            Some((name.as_str(), &value[..value.len().min(VALUE_BYTES_MAX)]))
        })
    }

    fn has(&self, name: &str) -> bool {
        self.by_length
            .get(name.len())
            .is_some_and(|names| names.iter().any(|known| known == name))
    }
}

/// A target without tokens, with the parameters that are on the list. Prefixes that say something stay.
pub(super) fn target(target: &str, out: &mut String) {
    out.clear();
    if !target.starts_with('/') {
        return;
    }
    let route = route(target);
    let token_bytes = route.token.map_or(0, |token| "/t/".len() + token.len());
    out.push_str(&target[token_bytes..target.len() - route.rest.len()]);
    let (path, query) = route.rest.split_once('?').unwrap_or((route.rest, ""));
    let path = path.split('#').next().unwrap_or_default();
    // A prefix in the wrong place is no prefix to the router, but its token is still one.
    let mut is_token = false;
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            out.push('/');
        }
        out.push_str(if is_token { "-" } else { segment });
        is_token = segment == "t";
    }
    let mut separator = '?';
    for parameter in query.split('&') {
        let name = parameter.split('=').next().unwrap_or_default();
        if QUERY_PARAMETERS.contains(&name) {
            out.push(separator);
            out.push_str(parameter);
            separator = '&';
        }
    }
    out.truncate(out.floor_char_boundary(TARGET_BYTES_MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_keeps_its_prefixes_and_no_token() {
        for (given, kept) in [
            (
                "/t/secret/p/site/anthropic/v1/messages?beta=true&key=secret",
                "/p/site/anthropic/v1/messages?beta=true",
            ),
            ("/p/site/t/secret/v1/messages", "/p/site/t/-/v1/messages"),
            ("/p/t/v1/messages", "/p/t/v1/messages"),
            ("/t/secret", ""),
            ("/t//secret/v1", "/t/-/secret/v1"),
            (
                "/v1beta/models/g:streamGenerateContent?key=secret&alt=sse",
                "/v1beta/models/g:streamGenerateContent?alt=sse",
            ),
            ("http://user:secret@host/", ""),
            ("", ""),
        ] {
            let mut out = String::from("before");
            target(given, &mut out);
            assert_eq!(out, kept, "{given}");
        }
    }

    #[test]
    fn headers_are_kept_by_name_and_each_once() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("user-agent", "first"),
            ("user-agent", "second"),
            ("x-api-key", "secret"),
            ("cookie", "secret"),
            ("session-id", "s"),
            ("x-tenant", "t"),
            ("x-tenants", "t"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let names = Names::of_requests(&["x-tenant".to_owned()]);
        let mut kept: Vec<_> = names.kept(&headers).collect();
        kept.sort_unstable();
        assert_eq!(
            kept,
            [
                ("session-id", &b"s"[..]),
                ("user-agent", &b"first"[..]),
                ("x-tenant", &b"t"[..])
            ]
        );
    }
}
