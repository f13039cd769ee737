//! References in requests that are forwarded: the words that they name go along with them.
//!
//! Resolving takes a look into the store, so it is done on another runtime than forwarding. Whatever goes wrong, the request goes
//! on as it came: a text with a reference in it is a text that a model can read.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderMap, HeaderValue, Method};
use ropewalk_core::model::Provider;
use ropewalk_core::reference::may_contain_in;
pub use ropewalk_engine::references::Bounds;
use ropewalk_engine::references::Injected;
use ropewalk_engine::view::{View, ViewError};
use ropewalk_store::Store;
use ropewalk_wire::provider::Endpoint;
use tokio::runtime::Handle;

use crate::forward::{Asked, Interpose, Opened, STORE_TIME, Verdict, WholeRequest, elsewhere};

/// Told the client which references mean nothing here.
pub const REFERENCES_HEADER: &str = "x-ropewalk-references";

/// Longest value of the header.
const HEADER_BYTES_MAX: usize = 2 << 10;

/// What the configuration says.
#[derive(Debug, Clone)]
pub struct Settings {
    pub enabled: bool,
    pub bounds: Bounds,
    /// Owners for whom it is the other way round.
    pub except: HashSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            enabled: true,
            bounds: Bounds::default(),
            except: HashSet::new(),
        }
    }
}

impl Settings {
    fn is_on_for(&self, owner: &str) -> bool {
        self.enabled != self.except.contains(owner)
    }
}

/// What was done, for `/metrics`.
#[derive(Debug, Default)]
pub struct Counters {
    resolved: AtomicU64,
    unresolved: AtomicU64,
    failed: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    pub resolved: u64,
    pub unresolved: u64,
    /// Requests that went on as they came because the store could not be asked.
    pub failed: u64,
}

impl Counters {
    pub fn read(&self) -> Counted {
        Counted {
            resolved: self.resolved.load(Ordering::Relaxed),
            unresolved: self.unresolved.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn count(&self, injected: &Injected) {
        self.resolved.fetch_add(injected.resolved as u64, Ordering::Relaxed);
        self.unresolved
            .fetch_add(injected.unresolved.len() as u64, Ordering::Relaxed);
    }
}

/// Resolves references in requests.
pub struct References<S> {
    /// The store, as soon as it is open.
    store: Opened<S>,
    runtime: Handle,
    settings: RwLock<Settings>,
    counters: Arc<Counters>,
}

impl<S> std::fmt::Debug for References<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("References").finish_non_exhaustive()
    }
}

impl<S: Store + 'static> References<S> {
    /// Asks a store on a runtime, which must not be one that forwards.
    pub fn new(store: Opened<S>, runtime: Handle, settings: Settings) -> Self {
        References {
            store,
            runtime,
            settings: RwLock::new(settings),
            counters: Arc::default(),
        }
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Takes new settings for requests that begin from now on.
    pub fn reload(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    fn settings(&self) -> std::sync::RwLockReadGuard<'_, Settings> {
        // Nobody panics while holding it.
        self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Store + 'static> Interpose for References<S> {
    /// Also a count of tokens: it counts what the turn will send.
    fn wants(&self, head: &Asked<'_>) -> bool {
        let is_request = head.route.endpoint.provider().is_some() && !matches!(head.route.endpoint, Endpoint::Models);
        *head.method == Method::POST && is_request && self.settings().is_on_for(head.owner)
    }

    fn looks_closer(&self, pieces: &mut dyn Iterator<Item = &[u8]>) -> bool {
        may_contain_in(pieces)
    }

    fn decide(&self, asked: WholeRequest) -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
        let Some(provider) = asked.provider else {
            return Box::pin(std::future::ready(Verdict::Pass));
        };
        let store = self.store.borrow().clone();
        let (bounds, counters) = (self.settings().bounds, Arc::clone(&self.counters));
        elsewhere(&self.runtime, async move {
            let injecting = inject(store, &asked, provider, bounds);
            match tokio::time::timeout(STORE_TIME, injecting).await {
                Ok(Ok(injected)) => {
                    counters.count(&injected);
                    verdict(injected)
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "references cannot be resolved; the request goes on as it came");
                    counters.failed.fetch_add(1, Ordering::Relaxed);
                    Verdict::Pass
                }
                Err(_) => {
                    tracing::warn!("the store took too long for references; the request goes on as it came");
                    counters.failed.fetch_add(1, Ordering::Relaxed);
                    Verdict::Pass
                }
            }
        })
    }
}

/// Why references were not resolved.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the store is not open")]
    NoStore,
    #[error(transparent)]
    View(#[from] ViewError),
}

async fn inject<S: Store>(
    store: Option<Arc<S>>,
    asked: &WholeRequest,
    provider: Provider,
    bounds: Bounds,
) -> Result<Injected, Failed> {
    let store = store.ok_or(Failed::NoStore)?;
    // Made on first use: what is pinned for somebody who has said nothing yet is pinned as well.
    let owner = store.owner(&asked.owner).await.map_err(ViewError::from)?;
    let view = View::new(&*store, owner, &*asked.owner);
    Ok(view.inject(provider, &asked.body, bounds).await?)
}

fn verdict(injected: Injected) -> Verdict {
    let mut answer_headers = HeaderMap::new();
    if let Some(value) = header(&injected.unresolved) {
        answer_headers.insert(REFERENCES_HEADER, value);
    }
    match injected.body {
        Some(body) => Verdict::Send { body, answer_headers },
        None if answer_headers.is_empty() => Verdict::Pass,
        None => Verdict::Tell { answer_headers },
    }
}

/// `unresolved: @…, @…`, each once, as many as fit. References are of letters, digits, `_` and `-`.
fn header(unresolved: &[String]) -> Option<HeaderValue> {
    let mut met = HashSet::new();
    let mut text = String::new();
    for reference in unresolved.iter().filter(|reference| met.insert(reference.as_str())) {
        if text.len() + reference.len() > HEADER_BYTES_MAX {
            break;
        }
        text.push_str(if text.is_empty() { "unresolved: " } else { ", " });
        text.push_str(reference);
    }
    HeaderValue::from_str(&text).ok().filter(|value| !value.is_empty())
}
