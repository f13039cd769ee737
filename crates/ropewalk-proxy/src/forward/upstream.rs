//! Connections to providers.
//!
//! One [`Upstream`] for each provider and forwarding thread. HTTP/1.1 connections are taken from a stack of idle ones and come
//! back when the answer has ended. HTTP/2 connections are shared up to their stream limit; then another one is opened, because a
//! request that waits for a stream of a full connection waits for somebody else's answer to end.
//!
//! Invariant: a request is sent once. It goes to another connection only if the first one gave it back unsent.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::local_exec::LocalExec;
use super::request_body::RequestBody;
use super::settings::UpstreamSettings;
use super::tls;

/// Idle HTTP/1.1 connections that are kept for each provider and thread.
const IDLE_MAX: usize = 256;

/// An idle connection that is older is closed: providers and the boxes before them forget it without a word.
const IDLE_TIME_MAX: Duration = Duration::from_secs(55);

/// Streams on one HTTP/2 connection, if the provider allows more. Many streams on one connection share its loss and its window.
const STREAMS_MAX: usize = 64;

/// Windows that do not throttle a stream over the length of an ocean.
const WINDOW_BYTES: u32 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    #[error("no connection within {0:?}")]
    ConnectTime(Duration),
    #[error("the connection failed")]
    Send(#[source] hyper::Error),
}

pub(crate) struct Upstream {
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    /// In front of every target; no slash at its end.
    base_path: String,
    tls: Option<TlsConnector>,
    connect_time: Duration,
    idle: RefCell<Vec<Idle>>,
    shared: RefCell<Vec<Rc<Shared>>>,
}

struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
}

/// An HTTP/2 connection.
struct Shared {
    sender: http2::SendRequest<RequestBody>,
    streams: Cell<usize>,
    /// As the provider last said.
    streams_max: Cell<usize>,
}

/// What an answer comes over. Dropped before [`Lease::finish`], an HTTP/1.1 connection is closed, which tells the provider that
/// nobody reads on.
pub(crate) struct Lease {
    upstream: Rc<Upstream>,
    way: Way,
}

enum Way {
    Exclusive(http1::SendRequest<RequestBody>),
    /// Counted as a stream until it is dropped.
    Stream {
        _counted: StreamLease,
    },
}

struct StreamLease(Rc<Shared>);

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("to", &self.upstream.authority)
            .finish_non_exhaustive()
    }
}

impl Lease {
    /// The answer has ended: the connection is free for another.
    pub(crate) fn finish(self) {
        if let Way::Exclusive(sender) = self.way {
            let mut idle = self.upstream.idle.borrow_mut();
            if idle.len() < IDLE_MAX && !sender.is_closed() {
                idle.push(Idle {
                    sender,
                    since: Instant::now(),
                });
            }
        }
    }
}

impl Upstream {
    pub(crate) fn new(settings: &UpstreamSettings, connect_time: Duration) -> Result<Self, tls::TlsError> {
        let scheme = settings.url.scheme().cloned().unwrap_or(Scheme::HTTPS);
        let authority = settings.url.authority().cloned();
        let authority = authority.unwrap_or_else(|| Authority::from_static("localhost"));
        let tls = match scheme == Scheme::HTTPS {
            true => Some(tls::connector(settings.ca_file.as_deref(), &[b"h2", b"http/1.1"])?),
            false => None,
        };
        Ok(Upstream {
            // An authority has no characters that a header may not have; a password in it is not for the host header.
            host: HeaderValue::from_str(host_and_port(&authority)).unwrap_or(HeaderValue::from_static("localhost")),
            base_path: settings.url.path().trim_end_matches('/').to_owned(),
            scheme,
            authority,
            tls,
            connect_time,
            idle: RefCell::default(),
            shared: RefCell::default(),
        })
    }

    /// Sends a request and gives the head of its answer. `target` is path and query, as the client sent them.
    pub(crate) async fn send(
        self: &Rc<Self>,
        mut request: Request<RequestBody>,
        target: &str,
    ) -> Result<(Response<Incoming>, Lease), UpstreamError> {
        let path: PathAndQuery = match self.base_path.is_empty() {
            true => target.parse(),
            false => format!("{}{target}", self.base_path).parse(),
        }
        // The client's own target was one, and what was cut off were whole segments.
        .unwrap_or_else(|_| PathAndQuery::from_static("/"));
        request.headers_mut().insert(header::HOST, self.host.clone());
        while let Some(mut sender) = self.take_idle() {
            prepare_http1(&mut request, &path);
            match sender.try_send_request(request).await {
                Ok(answer) => return Ok((answer, self.exclusive(sender))),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(UpstreamError::Send(error.into_error())),
                },
            }
        }
        if let Some(shared) = self.find_shared() {
            match self.send_shared(shared, request, &path).await {
                Ok(done) => return Ok(done),
                Err(Failed::Unsent(unsent)) => request = *unsent,
                Err(Failed::Sent(error)) => return Err(error),
            }
        }
        match self.connect().await? {
            Connected::Exclusive(mut sender) => {
                prepare_http1(&mut request, &path);
                let answer = sender.send_request(request).await.map_err(UpstreamError::Send)?;
                Ok((answer, self.exclusive(sender)))
            }
            Connected::Shared(shared) => match self.send_shared(shared, request, &path).await {
                Ok(done) => Ok(done),
                Err(Failed::Sent(error)) => Err(error),
                Err(Failed::Unsent(_)) => Err(UpstreamError::Connect(std::io::ErrorKind::ConnectionReset.into())),
            },
        }
    }

    fn exclusive(self: &Rc<Self>, sender: http1::SendRequest<RequestBody>) -> Lease {
        Lease {
            upstream: Rc::clone(self),
            way: Way::Exclusive(sender),
        }
    }

    /// The connection that was used last: it is the least likely to have been forgotten.
    fn take_idle(&self) -> Option<http1::SendRequest<RequestBody>> {
        let mut idle = self.idle.borrow_mut();
        let mut busy = Vec::new();
        let mut found = None;
        while let Some(next) = idle.pop() {
            if next.sender.is_closed() || next.since.elapsed() > IDLE_TIME_MAX {
                continue;
            }
            if next.sender.is_ready() {
                found = Some(next.sender);
                break;
            }
            // Its answer has ended a moment ago, or its request is still being sent after an early answer.
            busy.push(next);
        }
        idle.append(&mut busy);
        found
    }

    fn find_shared(&self) -> Option<Rc<Shared>> {
        let mut shared = self.shared.borrow_mut();
        shared.retain(|connection| !connection.sender.is_closed());
        let has_room =
            |connection: &&Rc<Shared>| connection.streams.get() < connection.streams_max.get().min(STREAMS_MAX);
        shared.iter().find(has_room).cloned()
    }

    async fn send_shared(
        self: &Rc<Self>,
        shared: Rc<Shared>,
        mut request: Request<RequestBody>,
        path: &PathAndQuery,
    ) -> Result<(Response<Incoming>, Lease), Failed> {
        shared.streams.set(shared.streams.get() + 1);
        let lease = StreamLease(Rc::clone(&shared));
        let mut uri = http::uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(path.clone());
        // All three parts are there.
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        *request.version_mut() = Version::HTTP_2;
        // The authority says it.
        let host = request.headers_mut().remove(header::HOST);
        request.headers_mut().remove(header::TRANSFER_ENCODING);
        match shared.sender.clone().try_send_request(request).await {
            Ok(answer) => {
                let lease = Lease {
                    upstream: Rc::clone(self),
                    way: Way::Stream { _counted: lease },
                };
                Ok((answer, lease))
            }
            Err(mut error) => match error.take_message() {
                Some(mut unsent) => {
                    if let Some(host) = host {
                        unsent.headers_mut().insert(header::HOST, host);
                    }
                    Err(Failed::Unsent(Box::new(unsent)))
                }
                None => Err(Failed::Sent(UpstreamError::Send(error.into_error()))),
            },
        }
    }

    async fn connect(&self) -> Result<Connected, UpstreamError> {
        match tokio::time::timeout(self.connect_time, self.connect_now()).await {
            Ok(connected) => connected,
            Err(_) => Err(UpstreamError::ConnectTime(self.connect_time)),
        }
    }

    async fn connect_now(&self) -> Result<Connected, UpstreamError> {
        let port = self.authority.port_u16().unwrap_or(match self.tls {
            Some(_) => 443,
            None => 80,
        });
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await.map_err(UpstreamError::Connect)?;
        // Without it, small pieces wait for the acknowledgement of the one before: 40 ms steps.
        stream.set_nodelay(true).map_err(UpstreamError::Connect)?;
        let Some(tls) = &self.tls else {
            return self.handshake_http1(stream).await;
        };
        let name = tls::server_name(host).map_err(UpstreamError::Connect)?;
        let stream = tls.connect(name, stream).await.map_err(UpstreamError::Connect)?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => self.handshake_http2(stream).await,
            _ => self.handshake_http1(stream).await,
        }
    }

    async fn handshake_http1<T>(&self, stream: T) -> Result<Connected, UpstreamError>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Send)?;
        // Its errors reach whoever waits for an answer.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Connected::Exclusive(sender))
    }

    async fn handshake_http2<T>(&self, stream: T) -> Result<Connected, UpstreamError>
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
    {
        let (sender, mut connection) = http2::Builder::new(LocalExec)
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(UpstreamError::Send)?;
        let shared = Rc::new(Shared {
            sender,
            streams: Cell::new(0),
            streams_max: Cell::new(STREAMS_MAX),
        });
        // Only the connection hears the provider's limit, so it is asked whenever something came.
        let told = Rc::downgrade(&shared);
        tokio::task::spawn_local(std::future::poll_fn(move |cx| {
            let ended = Pin::new(&mut connection).poll(cx).map(drop);
            if let Some(shared) = told.upgrade() {
                shared.streams_max.set(connection.current_max_send_streams());
            }
            ended
        }));
        self.shared.borrow_mut().push(Rc::clone(&shared));
        Ok(Connected::Shared(shared))
    }
}

enum Connected {
    Exclusive(http1::SendRequest<RequestBody>),
    Shared(Rc<Shared>),
}

enum Failed {
    Unsent(Box<Request<RequestBody>>),
    Sent(UpstreamError),
}

fn prepare_http1(request: &mut Request<RequestBody>, path: &PathAndQuery) {
    *request.uri_mut() = Uri::from(path.clone());
    *request.version_mut() = Version::HTTP_11;
    let body = request.body();
    if body.size_hint().exact().is_none() && !body.is_end_stream() {
        // Left to itself, hyper leaves out the body of a GET that has no length.
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(header::TRANSFER_ENCODING, chunked);
    }
}

pub(super) fn host_and_port(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}
