//! The dashboard: the files that `make ui` builds, inside the program.
//!
//! A view's address is a page, the same for all of them; what it shows it asks the API for, so that the files hold nobody's data
//! and are open to who can reach the port. Where the dashboard was not built, a page says how to.

use axum::body::Body;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../ui/dist/site"]
#[allow_missing = true]
struct Built;

/// Views beside the start page have these names; the rest of an address is theirs.
const VIEWS: [&str; 6] = ["conversations", "agents", "compare", "insight", "search", "health"];

const PAGE: &str = "index.html";

/// Scripts and styles are files of ours, nothing is asked of anybody else, and text never becomes a script or a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Ropewalk</title>\
    <h1>Ropewalk is here</h1><p>This program was built without its dashboard. \
    Run <code>make build</code> in a checkout (it needs Node), and start it again.\
    <p>What was recorded is at <code>/api/v1</code>, and for agents at <code>/mcp</code>.";

/// Whether a path is one of the dashboard's.
pub fn is_page(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    let view = path.split('/').next().unwrap_or_default();
    path.is_empty() || VIEWS.contains(&view) || path.starts_with("assets/")
}

/// A page or one of its files.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Response {
    if method != Method::GET && method != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "GET this\n");
    }
    let file = path.trim_start_matches('/');
    let (name, is_hashed) = match file.starts_with("assets/") {
        true => (file, true),
        false => (PAGE, false),
    };
    let Some(found) = Built::get(name) else {
        return match is_hashed {
            true => plain(StatusCode::NOT_FOUND, "the dashboard has no such file\n"),
            false => finished(NOT_BUILT.into(), "text/html; charset=utf-8", false),
        };
    };
    let tag = format!("\"{}\"", hex::encode(&found.metadata.sha256_hash()[..16]));
    let is_known = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = match is_known || method == Method::HEAD {
        true => Body::empty(),
        false => Body::from(found.data),
    };
    let mut answer = finished(body, kind_of(name), is_hashed);
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let mut answer = finished(text.into(), "text/plain; charset=utf-8", false);
    *answer.status_mut() = status;
    answer
}

/// A file whose name has its hash never changes; a page is asked for again each time.
fn finished(body: Body, kind: &'static str, is_hashed: bool) -> Response {
    let cached = match is_hashed {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let mut answer = Response::new(body);
    let all = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, cached),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in all {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_pages_and_other_paths_are_not() {
        for page in [
            "/",
            "/conversations",
            "/conversations/leap_days_nc1c",
            "/agents",
            "/assets/index-1.js",
        ] {
            assert!(is_page(page), "{page}");
        }
        for other in [
            "/v1/messages",
            "/api/v1/agents",
            "/conversationsx",
            "/healthz",
            "/assets",
            "//",
            "//agents",
        ] {
            assert!(!is_page(other), "{other}");
        }
    }

    #[test]
    fn a_page_runs_nothing_but_files_of_its_own() {
        let answer = answer(&Method::GET, "/conversations/x", &HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::OK);
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-cache");
    }

    #[test]
    fn only_what_was_built_is_there() {
        for nothing in [
            "/assets/",
            "/assets/nothing.js",
            "/assets/../index.html",
            "/assets/../../package.json",
        ] {
            let answer = answer(&Method::GET, nothing, &HeaderMap::new());
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{nothing}");
        }
        let answer = answer(&Method::POST, "/", &HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
