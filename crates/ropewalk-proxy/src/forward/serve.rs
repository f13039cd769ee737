//! Listeners and the threads that forward.
//!
//! One task accepts and deals connections out in turn; each thread runs its connections on a runtime of its own, so that
//! nothing on the way of a request crosses a thread or takes a lock but the queue to the tee.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::LocalSet;

use super::counters::Counters;
use super::gathered::Gathering;
use super::interpose::Interpose;
use super::local_exec::LocalExec;
use super::service::{Local, Parts, Routes, Service};
use super::settings::{Limits, Settings};
use super::tls::TlsError;
use crate::journal::Journal;
use crate::tee::Tee;

/// Between two tries to accept when the system has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Connections that were accepted and wait for their thread.
const DEALT_MAX: usize = 128;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("a forwarding thread cannot be started")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A running proxy.
#[derive(Debug)]
pub struct Forwarding {
    threads: Vec<Thread>,
    stop: watch::Sender<bool>,
    connections: Arc<Semaphore>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Thread {
    jobs: mpsc::Sender<Job>,
    handle: JoinHandle<()>,
}

enum Job {
    Connection(std::net::TcpStream, Routes, OwnedSemaphorePermit),
    Reload(Arc<Settings>),
}

impl Forwarding {
    /// Starts the threads. Nothing is accepted before [`Self::listen`].
    /// `interposed` look at requests in this order, each at what the one before it sends.
    pub fn start(
        settings: Settings,
        tee: Tee,
        journal: Option<Journal>,
        local: Local,
        interposed: Vec<Arc<dyn Interpose>>,
    ) -> Result<Self, ServeError> {
        let settings = Arc::new(settings);
        let counters = Arc::new(Counters::default());
        let parts = Parts {
            tee,
            journal,
            local,
            interposed: interposed.into(),
            gathering: Gathering::default(),
            counters: Arc::clone(&counters),
        };
        // Made here once so that a bad certificate file is told at the start.
        drop(Service::new(Arc::clone(&settings), parts.clone())?);
        let (stop, stopped) = watch::channel(false);
        let mut threads = Vec::new();
        for number in 0..settings.limits.threads.max(1) {
            let (jobs, taken) = mpsc::channel(DEALT_MAX);
            let (settings, parts) = (Arc::clone(&settings), parts.clone());
            let stopped = stopped.clone();
            let handle = std::thread::Builder::new()
                .name(format!("forward-{number}"))
                .spawn(move || match Service::new(settings, parts) {
                    Ok(service) => run(service, taken, &stopped),
                    Err(error) => tracing::error!(%error, "a forwarding thread stops"),
                })
                .map_err(ServeError::Thread)?;
            threads.push(Thread { jobs, handle });
        }
        Ok(Forwarding {
            connections: Arc::new(Semaphore::new(settings.limits.connections)),
            threads,
            stop,
            counters,
        })
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Takes new settings for requests that begin from now on; limits of connections stay as they are.
    pub async fn reload(&self, settings: Settings) {
        let settings = Arc::new(settings);
        for thread in &self.threads {
            // A thread that is gone forwards nothing either.
            drop(thread.jobs.send(Job::Reload(Arc::clone(&settings))).await);
        }
    }

    /// Accepts until [`Self::stop`].
    pub async fn listen(&self, listener: TcpListener, routes: Routes) {
        let mut stopped = self.stop.subscribe();
        let mut turn = 0;
        loop {
            let permit = tokio::select! {
                permit = Arc::clone(&self.connections).acquire_owned() => permit,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            // The semaphore is never closed.
            let Ok(permit) = permit else { return };
            match accepted.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    let thread = &self.threads[turn % self.threads.len()];
                    turn += 1;
                    drop(thread.jobs.send(Job::Connection(stream, routes, permit)).await);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Accepts no more, lets what is under way end for as long as [`Limits::drain_time`] says, and ends the threads.
    pub fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            drop(thread.jobs);
            if thread.handle.join().is_err() {
                tracing::error!("a forwarding thread panicked");
            }
        }
    }

    /// Begins to stop: [`Self::listen`] returns.
    pub fn begin_to_stop(&self) {
        self.stop.send_replace(true);
    }
}

fn run(service: Service, mut jobs: mpsc::Receiver<Job>, stopped: &watch::Receiver<bool>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "a forwarding thread stops");
            return;
        }
    };
    let limits = service.limits();
    let service = Rc::new(service);
    let tasks = LocalSet::new();
    let open = Rc::new(RefCell::new(0_usize));
    tasks.block_on(&runtime, async {
        let builder = Rc::new(builder(&limits));
        while let Some(job) = jobs.recv().await {
            match job {
                Job::Connection(stream, routes, permit) => {
                    let connection = serve(
                        Rc::clone(&builder),
                        Rc::clone(&service),
                        stream,
                        (routes, limits.header_time),
                        stopped.clone(),
                    );
                    let open = Rc::clone(&open);
                    *open.borrow_mut() += 1;
                    tokio::task::spawn_local(async move {
                        if let Err(error) = connection.await {
                            tracing::trace!(%error, "a client's connection ended");
                        }
                        *open.borrow_mut() -= 1;
                        drop(permit);
                    });
                }
                Job::Reload(settings) => {
                    if let Err(error) = service.reload(settings) {
                        tracing::error!(%error, "the new upstreams are not used");
                    }
                }
            }
        }
        drain(&open, limits.drain_time).await;
    });
}

/// Waits for connections to end.
async fn drain(open: &RefCell<usize>, limit: Duration) {
    let until = tokio::time::Instant::now() + limit;
    while *open.borrow() > 0 && tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if *open.borrow() > 0 {
        tracing::warn!(
            connections = *open.borrow(),
            "streams that did not end in time are cut off"
        );
    }
}

fn builder(limits: &Limits) -> auto::Builder<LocalExec> {
    let mut builder = auto::Builder::new(LocalExec);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes.max(MIN_BUFFER_BYTES))
        .preserve_header_case(true)
        .auto_date_header(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .auto_date_header(false);
    builder
}

/// Hyper's least.
const MIN_BUFFER_BYTES: usize = 8 << 10;

/// Streams on one client's connection.
const HTTP2_STREAMS_MAX: u32 = 256;

async fn serve(
    builder: Rc<auto::Builder<LocalExec>>,
    service: Rc<Service>,
    stream: std::net::TcpStream,
    (routes, header_time): (Routes, Duration),
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::from_std(stream)?;
    // Without it, small pieces wait for the acknowledgement of the one before: 40 ms steps.
    stream.set_nodelay(true)?;
    let begun = Rc::new(Cell::new(false));
    let begins = Rc::clone(&begun);
    let handle = service_fn(move |request| {
        begins.set(true);
        let service = Rc::clone(&service);
        async move { Ok::<_, Infallible>(service.handle(request, routes).await) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), handle);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        _ = stopped.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        () = no_head_within(header_time, &begun) => return Err("no request came in time".into()),
    }
    connection.await
}

/// Ends if the first request is not there in time. Hyper's own limit begins when it knows which version of HTTP is spoken, and
/// who says nothing, or half of the preface of HTTP/2, would stay for ever.
async fn no_head_within(limit: Duration, begun: &Cell<bool>) {
    tokio::time::sleep(limit).await;
    if begun.get() {
        std::future::pending::<()>().await;
    }
}
