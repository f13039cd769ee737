//! A client that notes what it saw, also of an answer that was cut off.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The API that a call uses, streamed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Messages { streams: bool },
    Chat { streams: bool },
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [
        Kind::Messages { streams: true },
        Kind::Chat { streams: true },
        Kind::Messages { streams: false },
        Kind::Chat { streams: false },
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Kind::Messages { .. } => "/v1/messages",
            Kind::Chat { .. } => "/v1/chat/completions",
        }
    }

    pub(crate) fn body(self, text: &str) -> String {
        let (Kind::Messages { streams } | Kind::Chat { streams }) = self;
        let messages: Value = json!([{"role": "user", "content": text}]);
        json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "stream": streams, "messages": messages}).to_string()
    }

    /// What the last event of a stream looks like; `None` where the length tells the end.
    fn last_event(self) -> Option<&'static [u8]> {
        match self {
            Kind::Messages { streams: true } => Some(b"data: {\"type\":\"message_stop\"}\n\n"),
            Kind::Chat { streams: true } => Some(b"data: [DONE]\n\n"),
            _ => None,
        }
    }
}

/// What came of an answer.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Its end came as well.
    pub(crate) ended: bool,
    /// From the request to the answer's first byte.
    pub(crate) first_byte: Duration,
}

impl Seen {
    pub(crate) fn id(&self) -> String {
        let id = self.headers.get("x-ropewalk-exchange").expect("a recorded exchange");
        id.to_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// Whether a client may take the answer for whole: its last event or its last byte came.
    pub(crate) fn is_whole(&self, kind: Kind) -> bool {
        match kind.last_event() {
            Some(event) => self.body.ends_with(event),
            None => {
                let length = self.headers.get("content-length").expect("a body of known length");
                length.to_str().unwrap() == self.body.len().to_string()
            }
        }
    }
}

/// One connection.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
}

pub(crate) type Sent<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Sent<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Client { sender, address })
    }

    /// Fails if not even the head of an answer comes.
    pub(crate) async fn call(&mut self, kind: Kind, text: &str) -> Sent<Seen> {
        self.post(kind.path(), &[], kind.body(text)).await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Sent<Seen> {
        self.send(Request::get(path), &[], Bytes::new()).await
    }

    pub(crate) async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Sent<Seen> {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request, headers, body.into()).await
    }

    /// With the host that it connected to, unless the headers name another.
    pub(crate) async fn send(
        &mut self,
        mut request: http::request::Builder,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Sent<Seen> {
        self.sender.ready().await?;
        if headers.iter().all(|(name, _)| *name != "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let started = Instant::now();
        let answer = self.sender.send_request(request.body(Full::new(body))?).await?;
        let first_byte = started.elapsed();
        let (head, mut body) = answer.into_parts();
        let mut seen = Seen {
            status: head.status,
            headers: head.headers,
            body: Vec::new(),
            ended: false,
            first_byte,
        };
        loop {
            match body.frame().await {
                Some(Ok(frame)) => seen.body.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(_)) => return Ok(seen),
                None => {
                    seen.ended = true;
                    return Ok(seen);
                }
            }
        }
    }
}

/// One call on a connection of its own, to a server that is well.
pub(crate) async fn call(address: SocketAddr, kind: Kind, text: &str) -> Seen {
    let mut client = Client::connect(address).await.unwrap();
    let seen = client.call(kind, text).await.unwrap();
    assert!(seen.ended && seen.is_whole(kind), "{seen:?}");
    seen
}
