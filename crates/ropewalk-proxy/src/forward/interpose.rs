//! Who looks at a whole request before it is forwarded.
//!
//! Nothing is gathered for a request that nobody wants to look at, and for one that somebody does, the pieces are told to the tee
//! as they come: what is recorded as the request is always what the client sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ropewalk_core::model::Provider;
use ropewalk_wire::provider::Route;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// The store, while it is open.
pub type Opened<S> = watch::Receiver<Option<Arc<S>>>;

/// How long a request waits for the store. One that takes longer is away or overloaded.
pub(crate) const STORE_TIME: Duration = Duration::from_secs(2);

use super::flight::Lead;
use crate::tee::Keep;

/// Looks at a whole request before it is forwarded.
pub trait Interpose: Send + Sync {
    /// Decided by the head alone: whether the body is gathered. A body beyond `Limits::interpose_bytes`, or beyond what all
    /// requests at a time may hold, goes on unseen, streamed as it came; so does one in a content encoding.
    fn wants(&self, head: &Asked<'_>) -> bool;

    /// Decided by the pieces of the body as they came, while they are not put together: whether there is anything to decide.
    fn looks_closer(&self, _pieces: &mut dyn Iterator<Item = &[u8]>) -> bool {
        true
    }

    /// The verdict. Forwarding awaits it on the runtime that forwards: what takes long belongs on another one.
    /// It is dropped when the client goes away.
    fn decide(&self, asked: WholeRequest) -> Pin<Box<dyn Future<Output = Verdict> + Send>>;
}

/// A request before its body.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub owner: &'a str,
    pub route: &'a Route<'a>,
    pub method: &'a Method,
    /// As the client sent them, those for us included.
    pub headers: &'a HeaderMap,
}

/// A request with its body.
#[derive(Debug, Clone)]
pub struct WholeRequest {
    /// Of the recorded exchange; `None` where it is not recorded.
    pub id: Option<Uuid>,
    /// How much of it is recorded.
    pub keep: Option<Keep>,
    pub owner: Arc<str>,
    /// The name of the upstream that is asked.
    pub upstream: Arc<str>,
    /// What stands in the path as the client's project.
    pub project: Option<Arc<str>>,
    /// Whose format the body has.
    pub provider: Option<Provider>,
    /// Path and query, as they are sent upstream.
    pub target: String,
    /// As the client sent them, those for us included.
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It goes on as it came.
    Pass,
    /// It goes on as it came, and the client is told something with the answer.
    Tell { answer_headers: HeaderMap },
    /// Another body goes to the provider.
    Send { body: Bytes, answer_headers: HeaderMap },
    /// It goes on as it came, as the call that others wait for as well.
    Lead(Arc<Lead>),
    /// The provider is not asked. Recorded as an exchange of its own, marked as reused.
    Answer {
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
    },
}

/// Makes a verdict on a runtime, which must not be one that forwards. A client that leaves takes its question along.
pub(crate) fn elsewhere(
    runtime: &Handle,
    verdict: impl Future<Output = Verdict> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
    let mut deciding = AbortedOnDrop(runtime.spawn(verdict));
    Box::pin(async move { (&mut deciding.0).await.unwrap_or(Verdict::Pass) })
}

struct AbortedOnDrop(JoinHandle<Verdict>);

impl Drop for AbortedOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
