//! A provider that does what a test says, on a real socket.
//!
//! Order of reading: [`Upstream`] here, [`Answer`] (the script for one answer), [`Received`] (what was seen of a request),
//! [`provider`] (answers that look like a provider's). Then `http1`, which speaks HTTP/1 by hand: a script must be able to break every rule of it, and a second implementation shows
//! what a shared one would hide. `http2` is hyper's.
//!
//! One upstream serves many requests, also at once. Which script a request gets: the one that its header `x-script: <n>` names;
//! else the next of those queued by [`Upstream::answer_next`]; else what [`Upstream::answer_always`] or
//! [`Upstream::answer_by`] said last; else 200 and an empty body.

mod answer;
mod encoding;
mod http1;
mod http1_request;
mod http2;
pub mod provider;
mod received;
mod socket;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use answer::{Answer, Framing, Gate, Header};
pub use encoding::{Encoding, encode, gibibyte_of_zeros};
pub use received::{Ended, Head, How, Received};

use received::Recorder;
use socket::{Socket, tls_acceptor};

/// The header by which a request names its script.
pub const SCRIPT_HEADER: &str = "x-script";
/// How long a test waits for something that should have happened at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// Stops when dropped, with all its connections.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    ca_pem: Option<String>,
    shared: Arc<Shared>,
    requests: AsyncMutex<mpsc::UnboundedReceiver<Received>>,
    accepting: JoinHandle<()>,
}

impl Upstream {
    /// Without TLS: HTTP/1, and HTTP/2 for clients that begin with it.
    pub async fn start() -> Upstream {
        Upstream::listen(None, None).await
    }

    /// With TLS; `protocols` are offered by ALPN, the preferred first: `&["h2", "http/1.1"]`.
    pub async fn start_tls(protocols: &[&str]) -> Upstream {
        let (acceptor, ca_pem) = tls_acceptor(protocols);
        Upstream::listen(Some(acceptor), Some(ca_pem)).await
    }

    async fn listen(tls: Option<TlsAcceptor>, ca_pem: Option<String>) -> Upstream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a port");
        let address = listener.local_addr().expect("a listener has an address");
        let (sender, requests) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(sender));
        let accepting = tokio::spawn(accept(listener, tls, Arc::clone(&shared)));
        Upstream {
            address,
            ca_pem,
            shared,
            requests: AsyncMutex::new(requests),
            accepting,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:…` or, with TLS, `https://localhost:…`.
    pub fn url(&self) -> String {
        match self.ca_pem {
            Some(_) => format!("https://localhost:{}", self.address.port()),
            None => format!("http://{}", self.address),
        }
    }

    /// The certificate that a client has to trust.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// The answer for every request with `x-script: <number>`, until it is said again.
    pub fn script(&self, number: u64, answer: Answer) {
        locked(&self.shared.scripts).insert(number, answer);
    }

    /// The answer for one request without a number, after those queued before.
    pub fn answer_next(&self, answer: Answer) {
        locked(&self.shared.queue).push_back(answer);
    }

    /// The answer for every request that nothing else is said about.
    pub fn answer_always(&self, answer: Answer) {
        *locked(&self.shared.fallback) = Chosen::Fixed(Box::new(answer));
    }

    /// As [`Upstream::answer_always`], from the head and the whole body of the request.
    pub fn answer_by(&self, answer: impl Fn(&Head, &Bytes) -> Answer + Send + Sync + 'static) {
        *locked(&self.shared.fallback) = Chosen::Computed(Computed(Arc::new(answer)));
    }

    /// Answers like a provider whatever nothing else is said about; see [`provider`].
    pub fn answer_as(&self, provider: provider::Provider) {
        self.answer_by(move |head, body| provider.answer(&head.target, body));
    }

    /// From now on requests are counted, not kept: for load.
    pub fn keep_nothing(&self) {
        self.shared.keeps.store(false, Ordering::Relaxed);
    }

    /// The next request that arrived, as soon as its head is there.
    ///
    /// # Panics
    /// When none arrives within 20 seconds: a test that waits for ever says nothing.
    pub async fn next_request(&self) -> Received {
        let mut requests = self.requests.lock().await;
        let next = tokio::time::timeout(PATIENCE, requests.recv()).await;
        next.ok().flatten().expect("a request arrives at the upstream")
    }

    /// The next request, if it arrives within this time.
    pub async fn request_within(&self, time: Duration) -> Option<Received> {
        let mut requests = self.requests.lock().await;
        tokio::time::timeout(time, requests.recv()).await.ok().flatten()
    }

    /// How many requests have arrived since the start.
    pub fn request_count(&self) -> u64 {
        self.shared.request_count.load(Ordering::Relaxed)
    }

    /// How many connections were made since the start.
    pub fn connection_count(&self) -> u64 {
        self.shared.connection_count.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // The connections belong to the accepting task and go with it.
        self.accepting.abort();
    }
}

/// What all connections know.
#[derive(Debug)]
struct Shared {
    scripts: Mutex<HashMap<u64, Answer>>,
    queue: Mutex<VecDeque<Answer>>,
    fallback: Mutex<Chosen>,
    keeps: AtomicBool,
    requests: mpsc::UnboundedSender<Received>,
    request_count: AtomicU64,
    connection_count: AtomicU64,
}

/// The script that a request gets.
#[derive(Debug, Clone)]
enum Chosen {
    Fixed(Box<Answer>),
    Computed(Computed),
}

type Compute = dyn Fn(&Head, &Bytes) -> Answer + Send + Sync;

#[derive(Clone)]
struct Computed(Arc<Compute>);

impl std::fmt::Debug for Computed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Computed")
    }
}

impl Shared {
    fn new(requests: mpsc::UnboundedSender<Received>) -> Shared {
        Shared {
            scripts: Mutex::default(),
            queue: Mutex::default(),
            fallback: Mutex::new(Chosen::Fixed(Box::new(Answer::status(200)))),
            keeps: AtomicBool::new(true),
            requests,
            request_count: AtomicU64::new(0),
            connection_count: AtomicU64::new(0),
        }
    }

    /// Hands a request out to the test.
    fn announce(&self, head: Head) -> (Arc<Recorder>, Received) {
        let keeps = self.keeps.load(Ordering::Relaxed);
        // A computed answer reads the body, kept for the test or not.
        let is_computed = matches!(*locked(&self.fallback), Chosen::Computed(_));
        let (recorder, received) = Recorder::new(head, keeps || is_computed);
        self.request_count.fetch_add(1, Ordering::Relaxed);
        if keeps {
            // Nobody listens any more when the upstream is being dropped.
            let _ = self.requests.send(received.clone());
        }
        (Arc::new(recorder), received)
    }

    fn choose(&self, head: &Head) -> Chosen {
        if let Some(number) = head.header(SCRIPT_HEADER) {
            let number = number.parse().ok();
            let script = number.and_then(|number: u64| locked(&self.scripts).get(&number).cloned());
            // A status that no server sends: the test has a mistake, not the proxy.
            return Chosen::Fixed(Box::new(script.unwrap_or_else(|| Answer::status(599))));
        }
        match locked(&self.queue).pop_front() {
            Some(next) => Chosen::Fixed(Box::new(next)),
            None => locked(&self.fallback).clone(),
        }
    }
}

/// A test that panicked while it held a lock has failed already.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((tcp, _)) = listener.accept().await else {
            // Out of file descriptors, most likely; those in use come back.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let number = shared.connection_count.fetch_add(1, Ordering::Relaxed);
        connections.spawn(connected(tcp, tls.clone(), number, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connected(tcp: TcpStream, tls: Option<TlsAcceptor>, number: u64, shared: Arc<Shared>) {
    // Without it the pauses of a script arrive in steps of 40 ms.
    let _ = tcp.set_nodelay(true);
    let (socket, is_http2) = match tls {
        None => {
            let is_http2 = begins_with_http2(&tcp).await;
            (Socket::Plain(tcp), is_http2)
        }
        Some(tls) => {
            let Ok(stream) = tls.accept(tcp).await else { return };
            let socket = Socket::Tls(Box::new(stream));
            let is_http2 = socket.is_http2();
            (socket, is_http2)
        }
    };
    if is_http2 {
        http2::serve(socket, number, shared).await;
    } else {
        http1::serve(socket, number, shared).await;
    }
}

async fn begins_with_http2(tcp: &TcpStream) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0";
    let mut seen = [0; PREFACE.len()];
    loop {
        match tcp.peek(&mut seen).await {
            Ok(bytes) if bytes == PREFACE.len() || bytes == 0 => return seen == PREFACE,
            Ok(bytes) if seen[..bytes] != PREFACE[..bytes] => return false,
            // One letter more or less: `P` may still become `POST`.
            Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(_) => return false,
        }
    }
}
