//! Who gets answers from the store.

use http::HeaderMap;
use ropewalk_engine::reuse::REUSE_HEADER;
use ropewalk_wire::provider::{Route, Upstream};

/// What a client may ask for in [`REUSE_HEADER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Off,
    Exact,
    Refresh,
}

impl Wish {
    /// `None` where the client does not say, or says something nobody knows.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        match headers.get(REUSE_HEADER)?.as_bytes() {
            b"off" => Some(Wish::Off),
            b"exact" => Some(Wish::Exact),
            b"refresh" => Some(Wish::Refresh),
            _ => None,
        }
    }
}

/// Calls that are answered from the store without being asked to, and what is allowed for them. A member that is not there fits
/// every call; `*` in one stands for any characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The upstream's name: `anthropic`, `openai`, `gemini`, or one of the configuration.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub project: Option<String>,
    /// Of the request, behind the prefixes, without the query.
    pub path: Option<String>,
    /// Also where the model may choose its words: a temperature above 0, or none given.
    pub any_temperature: bool,
    /// Also where part of the input lies elsewhere: urls, files, tools that the provider runs.
    pub volatile: bool,
}

/// A call, as far as rules look at it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) upstream: &'a str,
    pub(super) project: Option<&'a str>,
    pub(super) path: &'a str,
    /// `None` as long as only the head is known.
    pub(super) model: Option<&'a str>,
}

impl<'a> Subject<'a> {
    pub(super) fn of_head(route: &Route<'a>, headers: &'a HeaderMap) -> Self {
        Subject {
            upstream: route.upstream.map_or("", Upstream::name),
            project: project(headers).or(route.project),
            path: route.rest.split('?').next().unwrap_or_default(),
            model: None,
        }
    }
}

/// What the client says it works on.
pub(super) fn project(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-ropewalk-project")?.to_str().ok()
}

impl Rule {
    /// Whether it is for such a call; a model that is not known yet fits.
    pub(super) fn fits(&self, subject: Subject<'_>) -> bool {
        let fits = |pattern: &Option<String>, text: Option<&str>| match (pattern, text) {
            (None, _) => true,
            (Some(pattern), Some(text)) => is_like(pattern, text),
            (Some(_), None) => false,
        };
        fits(&self.provider, Some(subject.upstream))
            && fits(&self.project, subject.project)
            && fits(&self.path, Some(subject.path))
            && (subject.model.is_none() || fits(&self.model, subject.model))
    }
}

/// Whether a text is like a pattern in which `*` stands for any characters.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, expected) in [
            ("claude-opus", "claude-opus", true),
            ("claude-opus", "claude-opus-4", false),
            ("claude-*", "claude-opus", true),
            ("claude-*", "gpt", false),
            ("*opus*", "claude-opus-4", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn every_member_of_a_rule_has_to_fit() {
        let rule = Rule {
            provider: Some("anthropic".to_owned()),
            model: Some("claude-*".to_owned()),
            project: Some("evals".to_owned()),
            path: Some("/v1/*".to_owned()),
            ..Rule::default()
        };
        let subject = Subject {
            upstream: "anthropic",
            project: Some("evals"),
            path: "/v1/messages",
            model: Some("claude-x"),
        };
        assert!(rule.fits(subject) && Rule::default().fits(subject));
        assert!(rule.fits(Subject { model: None, ..subject }));
        assert!(!rule.fits(Subject {
            model: Some("gpt"),
            ..subject
        }));
        assert!(!rule.fits(Subject {
            project: None,
            ..subject
        }));
        assert!(!rule.fits(Subject {
            upstream: "openai",
            ..subject
        }));
        assert!(!rule.fits(Subject {
            path: "/v2/messages",
            ..subject
        }));
    }
}
