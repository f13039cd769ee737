//! The API: the routes, and what every request has to pass before it reaches one.
//!
//! `routes` has what each route takes and asks, `events` the one whose answer does not end, [`openapi`] how all of it is told to
//! programs, `tag` whether an answer would be the one that the caller has. Hosts and origins are checked by whoever
//! accepts connections. Here a caller has to be known, a body has to be JSON, and both bodies and the number of requests at a time
//! are bounded.

mod events;
pub mod openapi;
mod routes;
mod tag;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use crate::access::{Access, Caller};
use crate::bounds::to_json;
use crate::mcp;
use crate::problem::{Problem, Told};
use crate::read::health::Checks;
use crate::read::whole::Shapes;
use crate::source::{Source, Whose};

pub use routes::ROUTES;
use tag::Tags;

/// Of one request. Two requests of a provider's usual size.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;

/// Requests at a time: with their bodies, half of what the server may take.
const REQUESTS_MAX: usize = 16;

/// From a request's head to its answer. A client that sends its body byte by byte takes the place of others.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Whether a path is one of ours, known or not.
pub fn is_ours(path: &str) -> bool {
    path == "/mcp" || path.starts_with("/mcp/") || path == "/api" || path.starts_with("/api/")
}

/// Everything that is served, over one store.
#[derive(Debug)]
pub struct Api<S> {
    shared: Arc<Shared<S>>,
    router: Router,
}

#[derive(Debug)]
struct Shared<S> {
    source: Arc<S>,
    access: RwLock<Arc<Access>>,
    places: Semaphore,
    shapes: Shapes,
    checks: Arc<Checks>,
    tags: Tags,
    /// For streams of events, which take no place of those who ask.
    followers: Arc<Semaphore>,
    closing: watch::Sender<bool>,
}

impl<S> Shared<S> {
    fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Source> Api<S> {
    pub fn new(source: Arc<S>, access: Access) -> Self {
        let shared = Arc::new(Shared {
            source,
            access: RwLock::new(Arc::new(access)),
            places: Semaphore::new(REQUESTS_MAX),
            shapes: Shapes::default(),
            checks: Arc::default(),
            tags: Tags::default(),
            followers: Arc::new(Semaphore::new(events::FOLLOWERS_MAX)),
            closing: watch::Sender::new(false),
        });
        let mut router = Router::new();
        for (_, path) in &ROUTES {
            router = match *path {
                "/mcp" => router.route_service(path, mcp::http(Arc::clone(&shared.source))),
                path => router.route(path, routes::handler::<S>(path)),
            };
        }
        let router = router
            .fallback(|| async { Problem::no_route() })
            .method_not_allowed_fallback(|| async { Problem::wrong_method() })
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(from_fn_with_state(Arc::clone(&shared), pass::<S>))
            .with_state(Arc::clone(&shared));
        Api { shared, router }
    }

    /// Takes other tokens for requests that begin from now on.
    pub fn reload(&self, access: Access) {
        *self.shared.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }

    /// Ends what would not end by itself, before a server stops.
    pub fn close(&self) {
        self.shared.closing.send_replace(true);
    }

    pub async fn answer<B>(&self, request: Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    {
        match self.router.clone().oneshot(request.map(Body::new)).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    /// Lets a browser in that comes with `?token=` to a page: to the same page without it, with a cookie. `None` where there is no token.
    pub fn enter(&self, uri: &Uri) -> Option<Response> {
        enter(&self.shared.access(), uri)
    }
}

/// What every request passes.
async fn pass<S: Source>(State(shared): State<Arc<Shared<S>>>, request: Request<Body>, next: Next) -> Response {
    let access = shared.access();
    if request.method() == Method::GET
        && let Some(answer) = enter(&access, request.uri())
    {
        return answer;
    }
    let Some(caller) = access.caller(request.headers()) else {
        return finished(Problem::unauthorized().into_response());
    };
    if request.method() == Method::POST && !is_json(request.headers()) {
        return finished(Problem::no_json().into_response());
    }
    let Ok(_place) = shared.places.try_acquire() else {
        return finished(Problem::busy().into_response());
    };
    let answer = tokio::time::timeout(ANSWER_TIME_MAX, tagged(&shared, caller, request, next)).await;
    finished(answer.unwrap_or_else(|_| Problem::too_slow().into_response()))
}

/// The answer with its tag, or, to who has it already, that nothing changed: told without asking for it again.
async fn tagged<S: Source>(shared: &Shared<S>, caller: Caller, mut request: Request<Body>, next: Next) -> Response {
    let tag = match tag::is_for(&request) {
        true => {
            let whose = Whose::new(Arc::clone(&shared.source), Arc::clone(&caller.owner));
            shared.tags.of(&whose, request.uri()).await
        }
        false => None,
    };
    if let Some(tag) = &tag
        && tag::is_known(request.headers(), tag)
    {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag.clone())]).into_response();
    }
    request.extensions_mut().insert(caller);
    let mut answer = next.run(request).await;
    if let Some(tag) = tag.filter(|_| answer.status() == StatusCode::OK) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

fn enter(access: &Access, uri: &Uri) -> Option<Response> {
    let mut token = None;
    let mut rest = Vec::new();
    for pair in uri.query()?.split('&') {
        match pair.strip_prefix("token=") {
            Some(value) => token = Some(value),
            None => rest.push(pair),
        }
    }
    let token = percent_decode_str(token?).decode_utf8().ok()?;
    let Some(cookie) = access.cookie_for(&token) else {
        return Some(finished(Problem::unauthorized().into_response()));
    };
    // A path that begins with two slashes would be another host's.
    let path = format!("/{}", uri.path().trim_start_matches('/'));
    let place = match rest.is_empty() {
        true => path,
        false => format!("{path}?{}", rest.join("&")),
    };
    let mut answer = StatusCode::SEE_OTHER.into_response();
    for (name, value) in [(SET_COOKIE, cookie), (LOCATION, place)] {
        answer.headers_mut().insert(name, HeaderValue::from_str(&value).ok()?);
    }
    Some(finished(answer))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// With what every answer has.
fn finished(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}

type Answer = Result<Json, Problem>;

/// An answer, written so that its texts show what they are.
struct Json(String);

impl Json {
    fn of(value: &impl Serialize) -> Answer {
        Ok(Json(to_json(value)))
    }
}

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut answer = (self.status, Json(to_json(&Told { error: &self }))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        answer
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Problem::bad_request(rejection.body_text())
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(),
            _ => Problem::bad_request("the body breaks off"),
        }
    }
}
