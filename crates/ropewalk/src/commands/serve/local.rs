//! Routes that are not forwarded: whether the server is well, what it counts, the API and the dashboard.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use ropewalk_proxy::forward::{Local, LocalBody};
use ropewalk_server::api::is_ours;
use ropewalk_server::pages::{self, is_page};
use ropewalk_server::source::Health;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::api::ServedApi;
use super::metrics::Sources;

/// The API is answered on `runtime`: threads that forward do not wait for a store.
pub(super) fn routes(sources: Arc<Sources>, api: Arc<ServedApi>, runtime: Handle) -> Local {
    Arc::new(move |request: Request<Incoming>| {
        let (path, is_get) = (request.uri().path(), request.method() == Method::GET);
        if is_ours(path) {
            let api = Arc::clone(&api);
            let mut answering = Answering(runtime.spawn(async move { api.answer(request).await }));
            return Box::pin(async move {
                match (&mut answering.0).await {
                    Ok(answer) => answer.map(|body| LocalBody::new(body.map_err(Into::into))),
                    Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "not answered\n".to_owned()),
                }
            });
        }
        if is_page(path) {
            let entered = api.enter(request.uri()).filter(|_| is_get);
            let answer = entered.unwrap_or_else(|| pages::answer(request.method(), path, request.headers()));
            return Box::pin(async move { answer.map(|body| LocalBody::new(body.map_err(Into::into))) });
        }
        let answer = answer(&sources, request.method(), request.uri().path());
        Box::pin(async move { answer })
    })
}

/// An answer that nobody waits for any more is not made: its place is another's.
struct Answering<T>(JoinHandle<T>);

impl<T> Drop for Answering<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn answer(sources: &Sources, method: &Method, path: &str) -> Response<LocalBody> {
    match path {
        "/healthz" | "/readyz" | "/metrics" if method != Method::GET && method != Method::HEAD => {
            text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET this\n".to_owned())
        }
        "/healthz" => json(StatusCode::OK, &health(sources)),
        "/readyz" => {
            let health = health(sources);
            let status = match health.store {
                "up" => StatusCode::OK,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            json(status, &health)
        }
        "/metrics" => text(StatusCode::OK, OPEN_METRICS, sources.metrics()),
        _ => text(
            StatusCode::NOT_FOUND,
            PLAIN,
            "no provider has this path, and ropewalk has no page of this name\n".to_owned(),
        ),
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How recording goes, as anybody may know it.
pub(super) fn health(sources: &Sources) -> Health {
    let counted = sources.recording();
    let is_down = counted.store_failures > 0;
    Health {
        status: match is_down || counted.gap_exchanges > 0 || counted.rejected > 0 {
            true => "degraded",
            false => "ok",
        },
        version: env!("CARGO_PKG_VERSION"),
        store: match (is_down, sources.store_is_open()) {
            (true, _) => "down",
            (false, false) => "opening",
            (false, true) => "up",
        },
        journal_bytes: counted.journal_bytes,
        search_lag_texts: counted.search_waiting,
        search_lag_ms: counted.search_lag_ms,
        exchanges_not_kept: counted.gap_exchanges,
        exchanges_rejected: counted.rejected,
    }
}

/// Without what changes all the time.
pub(super) fn brief(health: &Health) -> serde_json::Value {
    serde_json::json!({"status": health.status, "version": health.version, "store": health.store,
        "exchanges_not_kept": health.exchanges_not_kept, "exchanges_rejected": health.exchanges_rejected})
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<LocalBody> {
    // Numbers and words always serialise.
    let body = serde_json::to_string(value).unwrap_or_default();
    text(status, "application/json", body)
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<LocalBody> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut answer = Response::new(LocalBody::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}
