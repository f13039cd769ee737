//! The thread that sends.
//!
//! Three tasks on one thread: `receive` measures what it is told and puts it aside, `deliver` makes spans of it and posts them,
//! `post_measures` posts what the SDK has added up. Only the first is ever waited for, and it never waits itself. [`settings`] says
//! where to, `client` how, `span`, `content` and [`measures`] what, `names` in which words.

mod client;
mod content;
mod measures;
mod names;
mod settings;
mod span;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use ropewalk_engine::view::{Directory, ExchangeView, View, ViewError};
use ropewalk_store::Store;
use ropewalk_store::store::ExchangeRow;
use tokio::sync::{Notify, mpsc, watch};

pub use settings::{Address, Settings};

use super::{Inbox, Told};
use crate::counters::Counters;
use crate::forward::TlsError;
use client::{Client, PostError};
use content::Content;
use measures::Measures;

/// Who says it.
const SCOPE: &str = "ropewalk";

/// Exchanges that wait for a collector that is away. More are lost.
const UNSENT_MAX: usize = 4_096;

/// Spans that are made at a time; fewer where each may carry what was said. A request has about so many bytes.
const SPANS_MAX: usize = 256;
const SPANS_WITH_CONTENT_MAX: usize = 32;
const SPANS_BYTES_MAX: usize = 2 << 20;

/// How long exchanges are gathered before a request is made.
const GATHER: Duration = Duration::from_millis(200);

/// How often a request is tried, and how long the first wait is; each is twice the last.
const TRIES_MAX: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the exporting thread cannot be started")]
    Thread(#[source] io::Error),
}

/// An exporter at work.
#[derive(Debug)]
pub struct Exporting {
    thread: JoinHandle<()>,
    abandon: Arc<Notify>,
    addresses: Addresses,
}

/// Where upstreams are; the configuration may be read again.
#[derive(Debug, Clone, Default)]
struct Addresses {
    by_name: Arc<Mutex<BTreeMap<String, Address>>>,
}

impl Addresses {
    fn by_name(&self) -> MutexGuard<'_, BTreeMap<String, Address>> {
        // Nobody panics while holding it.
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, upstream: &str) -> Option<Address> {
        self.by_name().get(upstream).cloned()
    }
}

impl Exporting {
    /// Starts the thread. It ends when the last [`Telemetry`](super::Telemetry) is gone and what was told is sent. `store` is where
    /// links are read, while there is one.
    pub fn start<S: Store + 'static>(
        settings: Settings,
        inbox: Inbox,
        counters: Arc<Counters>,
        store: watch::Receiver<Option<Arc<S>>>,
    ) -> Result<Self, StartError> {
        let traces = Client::new(&settings.traces, &settings)?;
        let metrics = Client::new(&settings.metrics, &settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let (abandon, addresses) = (Arc::new(Notify::new()), Addresses::default());
        let (abandoned, known) = (Arc::clone(&abandon), addresses.clone());
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            let exporter = Exporter {
                settings,
                counters,
                addresses: known,
                store,
                unsent: Unsent::default(),
            };
            runtime.block_on(async {
                tokio::select! {
                    () = exporter.run(inbox, traces, metrics) => {}
                    () = abandoned.notified() => {}
                }
            });
            exporter.count_lost(exporter.unsent.queue.borrow().len());
            runtime.shutdown_background();
        });
        Ok(Exporting {
            thread: thread.map_err(StartError::Thread)?,
            abandon,
            addresses,
        })
    }

    /// Where upstreams are, from now on.
    pub fn upstreams_are(&self, addresses: impl IntoIterator<Item = Address>) {
        let named = addresses.into_iter().map(|address| (address.upstream.clone(), address));
        *self.addresses.by_name() = named.collect();
    }

    /// Waits until all is sent, for so long at most; the rest is lost. Blocks the thread that calls it.
    pub fn finish(self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        self.abandon.notify_one();
        let _ = self.thread.join();
    }
}

struct Exporter<S> {
    settings: Settings,
    counters: Arc<Counters>,
    addresses: Addresses,
    store: watch::Receiver<Option<Arc<S>>>,
    unsent: Unsent,
}

/// What waits to be sent.
#[derive(Default)]
struct Unsent {
    queue: RefCell<VecDeque<Told>>,
    changed: Notify,
    is_closed: Cell<bool>,
}

impl Unsent {
    /// Whatever there is, as soon as there is something, up to so many. Empty when no more will come.
    async fn take(&self, count_max: usize) -> Vec<Told> {
        while self.queue.borrow().is_empty() && !self.is_closed.get() {
            self.changed.notified().await;
        }
        if !self.is_closed.get() {
            tokio::time::sleep(GATHER).await;
        }
        let mut queue = self.queue.borrow_mut();
        let count = queue.len().min(count_max);
        queue.drain(..count).collect()
    }

    fn close(&self) {
        self.is_closed.set(true);
        self.changed.notify_one();
    }

    /// Until that much time has passed, or no more will come.
    async fn wait(&self, time: Duration) {
        let closed = async {
            while !self.is_closed.get() {
                self.changed.notified().await;
            }
        };
        let _ = tokio::time::timeout(time, closed).await;
    }
}

impl<S: Store> Exporter<S> {
    async fn run(&self, inbox: Inbox, traces: Client, metrics: Client) {
        let (measures, messages) = Measures::new(&self.settings, self.addresses.clone(), Arc::clone(&self.counters));
        tokio::join!(
            self.receive(inbox, measures),
            self.deliver(traces),
            self.post_measures(metrics, messages)
        );
    }

    async fn receive(&self, mut inbox: Inbox, measures: Measures) {
        while let Some(told) = inbox.queue.recv().await {
            measures.add(&told);
            if !span::is_sampled(&told, self.settings.sampling) {
                continue;
            }
            if self.unsent.queue.borrow().len() < UNSENT_MAX {
                self.unsent.queue.borrow_mut().push_back(told);
                self.unsent.changed.notify_one();
            } else {
                self.count_lost(1);
            }
        }
        self.unsent.close();
        measures.finish();
    }

    async fn deliver(&self, mut client: Client) {
        let mut is_away = false;
        let count_max = match self.settings.content {
            true => SPANS_WITH_CONTENT_MAX,
            false => SPANS_MAX,
        };
        loop {
            let batch = self.unsent.take(count_max).await;
            if batch.is_empty() {
                return;
            }
            let mut spans = Vec::new();
            let mut bytes = 0;
            for span in self.spans(&batch).await {
                bytes += span.encoded_len();
                spans.push(span);
                if bytes >= SPANS_BYTES_MAX {
                    self.post_spans(&mut client, std::mem::take(&mut spans), &mut is_away)
                        .await;
                    bytes = 0;
                }
            }
            if !spans.is_empty() {
                self.post_spans(&mut client, spans, &mut is_away).await;
            }
        }
    }

    async fn post_spans(&self, client: &mut Client, spans: Vec<Span>, is_away: &mut bool) {
        let count = spans.len();
        let message = Bytes::from(self.message(spans).encode_to_vec());
        let mut wait = FIRST_WAIT;
        for tried in 1.. {
            match client.post(message.clone()).await {
                Ok(answer) => {
                    let rejected = rejected_spans(&answer).min(count);
                    self.count_lost(rejected);
                    let sent = (count - rejected) as u64;
                    self.counters.spans_sent.fetch_add(sent, Ordering::Relaxed);
                    if std::mem::take(is_away) {
                        tracing::warn!("the collector takes spans again");
                    }
                    return;
                }
                Err(error) => {
                    let is_final = matches!(error, PostError::Refused(_)) || tried == TRIES_MAX;
                    if !std::mem::replace(is_away, true) {
                        tracing::warn!(%error, "spans are not delivered");
                    }
                    if is_final || self.unsent.is_closed.get() {
                        return self.count_lost(count);
                    }
                }
            }
            self.unsent.wait(wait).await;
            wait *= 2;
        }
    }

    async fn post_measures(&self, mut client: Client, mut messages: mpsc::Receiver<Bytes>) {
        while let Some(message) = messages.recv().await {
            let is_taken = match client.post(message).await {
                Ok(answer) => is_accepted(&answer),
                Err(error) => {
                    tracing::debug!(%error, "measurements are not delivered");
                    false
                }
            };
            // The next message says all of it again.
            if !is_taken {
                self.counters.measures_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn count_lost(&self, spans: usize) {
        self.counters.spans_lost.fetch_add(spans as u64, Ordering::Relaxed);
    }

    fn message(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let resource = self.settings.resource.iter();
        let attributes = resource.map(|(name, value)| span::attribute(name, Value::StringValue(value.clone())));
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: attributes.collect(),
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: SCOPE.to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        }
    }

    async fn spans(&self, batch: &[Told]) -> Vec<Span> {
        // Held no longer than this: a store that has stopped must be let go of before it can be opened again.
        let store = self.store.borrow().clone();
        let mut spans = Vec::with_capacity(batch.len());
        for of_owner in batch.chunk_by(|a, b| a.owner == b.owner) {
            let read = match &store {
                Some(store) => read(&**store, of_owner).await,
                None => Ok(None),
            };
            let read = read.unwrap_or_else(|error| {
                tracing::debug!(%error, "a span goes without what links say");
                None
            });
            for told in of_owner {
                let known = read.as_ref().and_then(|read| read.found(told));
                let content = match (&read, known, self.settings.content) {
                    (Some(read), Some((row, _)), true) => Content::read(&read.view, row).await.ok(),
                    _ => None,
                };
                spans.push(span::span(span::Parts {
                    told,
                    view: known.map(|(_, view)| view),
                    address: self.addresses.of(&told.upstream),
                    content,
                }));
            }
        }
        spans
    }
}

/// What the store says about exchanges of one owner.
struct Read<'s, S> {
    view: View<'s, S>,
    rows: Vec<ExchangeRow>,
    views: Vec<ExchangeView>,
}

impl<S> Read<'_, S> {
    fn found(&self, told: &Told) -> Option<(&ExchangeRow, &ExchangeView)> {
        self.rows
            .iter()
            .zip(&self.views)
            .find(|(row, _)| row.number == told.number)
    }
}

async fn read<'s, S: Store>(store: &'s S, told: &[Told]) -> Result<Option<Read<'s, S>>, ViewError> {
    let Some(first) = told.first() else { return Ok(None) };
    let Some(owner) = store.find_owner(&first.owner).await? else {
        return Ok(None);
    };
    let view = View::new(store, owner, first.owner.clone());
    let rows = view.rows(told.iter().map(|told| told.number).collect()).await?;
    let views = view.exchanges(&rows, &mut Directory::default()).await?;
    Ok(Some(Read { view, rows, views }))
}

/// What a collector says that it did not take, of a message that it took.
fn rejected_spans(answer: &[u8]) -> usize {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    usize::try_from(rejected).unwrap_or(0)
}

fn is_accepted(answer: &[u8]) -> bool {
    let answer = ExportMetricsServiceResponse::decode(answer).unwrap_or_default();
    answer
        .partial_success
        .is_none_or(|partial| partial.rejected_data_points == 0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use ropewalk_testkit::memory_store::MemoryStore;
    use uuid::Uuid;

    use super::super::channel;
    use super::*;

    #[test]
    fn while_a_collector_is_away_memory_has_a_bound_and_every_span_is_counted() {
        const COUNT: usize = UNSENT_MAX * 3;
        let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let counters: Arc<Counters> = Arc::default();
        let (telemetry, inbox) = channel(Arc::clone(&counters));
        let to = |path: &str| format!("http://{nobody}/{path}").parse().unwrap();
        let settings = Settings {
            traces: to("v1/traces"),
            metrics: to("v1/metrics"),
            headers: Vec::new(),
            ca_file: None,
            timeout: Duration::from_secs(10),
            metrics_every: Duration::from_secs(60),
            sampling: 1.0,
            content: false,
            resource: Vec::new(),
        };
        let (_, store) = watch::channel(None::<Arc<MemoryStore>>);
        let exporting = Exporting::start(settings, inbox, Arc::clone(&counters), store).unwrap();
        for _ in 0..COUNT {
            telemetry.tell(Told::example(Uuid::now_v7()));
        }
        drop(telemetry);
        exporting.finish(Duration::from_secs(60));
        let counted = counters.snapshot();
        assert_eq!((counted.spans_sent, counted.spans_lost), (0, COUNT as u64));
    }
}
