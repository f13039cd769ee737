//! Requests to a server on this machine: one per connection, and a way to go away in the middle of an answer.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::{Failure, Kind};

/// The name the proxy gave to an exchange.
const EXCHANGE_HEADER: &str = "x-ropewalk-exchange";

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) exchange: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) text: String,
}

/// How much of an answer a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    End,
    /// Goes away once it has so many bytes.
    Bytes(usize),
}

/// A request as a client sends it.
#[derive(Debug)]
pub(crate) struct Sent<'s> {
    pub(crate) method: Method,
    pub(crate) path: &'s str,
    pub(crate) headers: Vec<(&'s str, String)>,
    pub(crate) body: String,
}

impl<'s> Sent<'s> {
    pub(crate) fn post(path: &'s str, headers: Vec<(&'s str, String)>, body: String) -> Self {
        Sent {
            method: Method::POST,
            path,
            headers,
            body,
        }
    }

    pub(crate) fn bare(method: Method, path: &'s str, headers: Vec<(&'s str, String)>) -> Self {
        Sent {
            method,
            path,
            headers,
            body: String::new(),
        }
    }
}

pub(crate) async fn send(to: SocketAddr, sent: &Sent<'_>, until: Until) -> Result<Answer, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::from_error(Kind::Internal, error);
    let socket = TcpStream::connect(to).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(|error| failed(&error))?;
    let connection = tokio::spawn(connection);
    let request = request(to, sent)?;
    let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let read = read(answer, until).await;
    // Whoever does not wait for the end closes the connection.
    connection.abort();
    read
}

fn request(to: SocketAddr, sent: &Sent<'_>) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::builder()
        .method(&sent.method)
        .uri(sent.path)
        .header("host", to.to_string())
        .header("accept", "application/json");
    if !sent.body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in &sent.headers {
        request = request.header(*name, value);
    }
    request
        .body(Full::new(Bytes::from(sent.body.clone())))
        .map_err(|error| Failure::from_error(Kind::Internal, &error))
}

async fn read(answer: Response<Incoming>, until: Until) -> Result<Answer, Failure> {
    let status = answer.status();
    let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
    let (exchange, content_type) = (header(EXCHANGE_HEADER), header("content-type"));
    let mut body = answer.into_body();
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::from_error(Kind::Internal, &error))?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
        if matches!(until, Until::Bytes(enough) if bytes.len() >= enough) {
            break;
        }
    }
    Ok(Answer {
        status,
        exchange,
        content_type,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}
