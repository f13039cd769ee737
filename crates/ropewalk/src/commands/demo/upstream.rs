//! The provider of the demonstration: a loopback socket that answers what it is asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::answers::{Reply, find};
use super::formats::{Api, Rendered, newest_text, overloaded};
use crate::failure::{Failure, Kind};

/// Events of an answer that wait for a slow reader.
const EVENTS_WAITING_MAX: usize = 4;

pub(super) struct Upstream {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// How often each question was asked: the second answer to a question may be another one.
#[derive(Debug, Default)]
struct Asked(Mutex<HashMap<&'static str, usize>>);

impl Asked {
    /// How often before.
    fn again(&self, question: &'static str) -> usize {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(question).or_default();
        *count += 1;
        *count - 1
    }
}

impl Upstream {
    pub(super) async fn start(pace: Duration) -> Result<Self, Failure> {
        let failed = |error: &std::io::Error| Failure::from_error(Kind::Internal, error);
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let asked = Arc::new(Asked::default());
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&asked), pace));
            }
        });
        Ok(Upstream { address, accepting })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn stop(self) {
        self.accepting.abort();
    }
}

async fn serve(socket: TcpStream, asked: Arc<Asked>, pace: Duration) {
    let service = service_fn(move |request| {
        let asked = Arc::clone(&asked);
        async move { Ok::<_, Infallible>(answer(request, &asked, pace).await) }
    });
    // A client that goes away ends its connection; that is its right.
    drop(
        http1::Builder::new()
            .serve_connection(TokioIo::new(socket), service)
            .await,
    );
}

async fn answer(request: Request<Incoming>, asked: &Asked, pace: Duration) -> Response<Events> {
    if request.method() == Method::HEAD {
        return response(StatusCode::OK, "text/plain", mpsc::channel(1).1);
    }
    let api = Api::of(request.uri().path());
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let asks: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(api), Some(line)) = (api, find(&newest_text(&asks))) else {
        let text =
            r#"{"type":"error","error":{"type":"not_found_error","message":"the script has no answer to this"}}"#;
        return respond(StatusCode::NOT_FOUND, text.to_owned());
    };
    let nth = asked.again(line.asked);
    match line.reply(nth) {
        Reply::Overloaded => {
            let status = StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            respond(status, overloaded())
        }
        reply @ (Reply::Says(said) | Reply::SaysOn(said)) => {
            match api.render(&asks, line.number, nth, said, body.len()) {
                Rendered::Whole(text) => respond(StatusCode::OK, text),
                Rendered::Streamed(events) => {
                    let then = match reply {
                        Reply::SaysOn(_) => Then::WaitForTheClient,
                        _ => Then::End,
                    };
                    stream(events, pace, then)
                }
            }
        }
    }
}

const JSON: &str = "application/json";

/// What comes behind the events of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    End,
    /// The last event never comes: the client goes away before.
    WaitForTheClient,
}

fn stream(mut events: Vec<String>, pace: Duration, then: Then) -> Response<Events> {
    if then == Then::WaitForTheClient {
        events.pop();
    }
    let (to, events_from) = mpsc::channel(EVENTS_WAITING_MAX);
    tokio::spawn(async move {
        for event in events {
            if to.send(Bytes::from(event)).await.is_err() {
                return;
            }
            tokio::time::sleep(pace).await;
        }
        if then == Then::WaitForTheClient {
            to.closed().await;
        }
    });
    response(StatusCode::OK, "text/event-stream", events_from)
}

fn respond(status: StatusCode, text: String) -> Response<Events> {
    let (to, events_from) = mpsc::channel(1);
    // There is room for one.
    let _ = to.try_send(Bytes::from(text));
    response(status, JSON, events_from)
}

fn response(status: StatusCode, kind: &'static str, events: mpsc::Receiver<Bytes>) -> Response<Events> {
    let mut response = Response::new(Events(events));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// A body that comes event by event.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.get_mut().0.poll_recv(context);
        next.map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
