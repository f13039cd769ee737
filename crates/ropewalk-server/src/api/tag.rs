//! Whether an answer is still the same: told from how far the owner's data has come, before anything is read or written.

use std::time::SystemTime;

use axum::body::Body;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use ropewalk_core::hash::sha256;

use crate::source::{Source, Whose};

/// Routes whose answers depend on more than what is recorded and linked: the index of words, the server, and what happens next.
const WITHOUT: [&str; 5] = [
    "/api/v1/search",
    "/api/v1/health",
    "/api/v1/imports",
    "/api/v1/audit",
    "/api/v1/events",
];

/// Another start of the server may be another program, with other answers to the same.
#[derive(Debug)]
pub(super) struct Tags {
    started: SystemTime,
}

impl Default for Tags {
    fn default() -> Self {
        Tags {
            started: SystemTime::now(),
        }
    }
}

impl Tags {
    /// `None` where the store cannot say.
    pub(super) async fn of<S: Source>(&self, whose: &Whose<S>, uri: &Uri) -> Option<HeaderValue> {
        let owned = whose.now().await.ok()?;
        let state = owned.state().await.ok()?.unwrap_or_default();
        let asked = uri.path_and_query().map_or("", |asked| asked.as_str());
        let all = format!("{:?}\0{}\0{asked}\0{state:?}", self.started, owned.name());
        // Weak: the bytes may differ in what no reader sees, such as compression.
        let tag = format!("W/\"{}\"", hex::encode(&sha256(all.as_bytes())[..16]));
        HeaderValue::from_str(&tag).ok()
    }
}

pub(super) fn is_for(request: &Request<Body>) -> bool {
    request.method() == Method::GET && !WITHOUT.contains(&request.uri().path())
}

/// Whether the caller has the answer of this tag.
pub(super) fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let shown = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let ours = bare(tag.to_str().unwrap_or_default());
    shown.flat_map(|tags| tags.split(',')).any(|tag| bare(tag) == ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_among_others_weak_or_not() {
        let tag = HeaderValue::from_static("W/\"a1\"");
        let known = |shown: &str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(shown).unwrap())]);
            is_known(&headers, &tag)
        };
        assert!(known("W/\"a1\"") && known("\"a1\"") && known("\"b\", W/\"a1\""));
        assert!(!known("\"a\"") && !known("a1") && !known(""));
    }
}
