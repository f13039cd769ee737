//! HTTP/2 by hyper. What HTTP/1 alone can do (1xx, raw bytes, framing) is left out here.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::{Notify, mpsc};

use super::answer::{Answer, End, Framing, Header, Start};
use super::received::{Head, How, Received, Recorder};
use super::socket::Socket;
use super::{Chosen, Shared};

/// A reset overtakes what is still queued; a death in the middle of a body waits this long, so that the body so far is out.
const OUT_BEFORE_DEATH: Duration = Duration::from_millis(20);

pub(super) async fn serve(socket: Socket, number: u64, shared: Arc<Shared>) {
    let death = Arc::new(Notify::new());
    let service = service_fn({
        let death = Arc::clone(&death);
        move |request| exchange(request, number, Arc::clone(&shared), Arc::clone(&death))
    });
    let mut server = Builder::new(TokioExecutor::new());
    server.auto_date_header(false);
    let serving = server.serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        // How a connection ended is in the records of its requests.
        _ = serving => {}
        () = death.notified() => {}
    }
}

async fn exchange(
    request: Request<Incoming>,
    number: u64,
    shared: Arc<Shared>,
    death: Arc<Notify>,
) -> Result<Response<Scripted>, Infallible> {
    let head = head_of(&request, number);
    let chosen = shared.choose(&head);
    let (recorder, received) = shared.announce(head);
    let gone = GoneUnlessAnswered(Some(Arc::clone(&recorder)));
    let body = request.into_body();
    let mut unread = None;
    let answer = match chosen {
        Chosen::Computed(compute) => {
            read_body(body, &recorder).await;
            (compute.0)(&received, &received.body_so_far())
        }
        Chosen::Fixed(answer) => {
            match answer.start {
                Start::AfterRequest | Start::Never => read_body(body, &recorder).await,
                Start::AfterHead => {
                    let recorder = Arc::clone(&recorder);
                    tokio::spawn(async move { read_body(body, &recorder).await });
                }
                // Kept, because a body that is dropped is a body that is refused.
                Start::WithoutReading => unread = Some(body),
            }
            *answer
        }
    };
    if answer.start == Start::Never {
        pending::<()>().await;
    }
    gone.answered();
    Ok(response(&received, answer, recorder, death, unread))
}

/// hyper drops the future of an exchange when the client resets its stream.
struct GoneUnlessAnswered(Option<Arc<Recorder>>);

impl GoneUnlessAnswered {
    fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for GoneUnlessAnswered {
    fn drop(&mut self) {
        if let Some(recorder) = &self.0 {
            recorder.ended(How::ClientClosed);
        }
    }
}

async fn read_body(mut body: Incoming, recorder: &Recorder) {
    let mut trailers = Vec::new();
    loop {
        match body.frame().await {
            None => return recorder.body_whole(trailers),
            Some(Err(_)) => return recorder.ended(How::ClientClosed),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => recorder.body_piece(&data),
                Err(frame) => trailers = frame.into_trailers().map(|map| listed(&map)).unwrap_or_default(),
            },
        }
    }
}

fn head_of(request: &Request<Incoming>, connection: u64) -> Head {
    let mut headers = listed(request.headers());
    let authority = request.uri().authority().map(ToString::to_string);
    if let Some(authority) = authority.filter(|_| !request.headers().contains_key("host")) {
        headers.insert(0, ("host".to_owned(), authority.into_bytes()));
    }
    let target = request.uri().path_and_query().map(ToString::to_string);
    Head {
        method: request.method().to_string(),
        target: target.unwrap_or_default(),
        version: "HTTP/2".to_owned(),
        headers,
        connection,
        at: Instant::now(),
    }
}

fn listed(map: &HeaderMap) -> Vec<Header> {
    map.iter()
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect()
}

fn header_map(headers: &[Header]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a script for HTTP/2 has valid header names");
        let value = HeaderValue::from_bytes(value).expect("a script for HTTP/2 has valid header values");
        map.append(name, value);
    }
    map
}

fn response(
    head: &Received,
    answer: Answer,
    recorder: Arc<Recorder>,
    death: Arc<Notify>,
    unread: Option<Incoming>,
) -> Response<Scripted> {
    let (sender, frames) = mpsc::channel(1);
    let mut response = Response::new(Scripted {
        frames,
        recorder: Arc::clone(&recorder),
        _unread: unread,
    });
    *response.status_mut() = http::StatusCode::from_u16(answer.status).expect("a script for HTTP/2 has a status");
    *response.headers_mut() = header_map(&answer.headers);
    let has_body = !matches!(answer.status, 204 | 304);
    let length = match answer.framing {
        Framing::Length if has_body => Some(answer.body().len() as u64),
        Framing::LengthOf(length) => Some(length),
        _ => None,
    };
    if let Some(length) = length {
        response
            .headers_mut()
            .insert("content-length", HeaderValue::from(length));
    }
    let is_head = head.method == "HEAD";
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => recorder.ended(How::ClientClosed),
            () = play(answer, is_head, &sender, &death) => {}
        }
    });
    response
}

/// The body was broken off by the script.
#[derive(Debug, thiserror::Error)]
#[error("the script ends here")]
struct Died;

async fn play(answer: Answer, is_head: bool, sender: &mpsc::Sender<Result<Frame<Bytes>, Died>>, death: &Notify) {
    if !is_head {
        for step in &answer.steps {
            if let Some(bytes) = step.reached().await.filter(|bytes| !bytes.is_empty()) {
                // Refused when the client is gone, which the caller notices.
                let _ = sender.send(Ok(Frame::data(bytes))).await;
            }
        }
    }
    match answer.end {
        End::Clean if answer.trailers.is_empty() => {}
        End::Clean => {
            let _ = sender.send(Ok(Frame::trailers(header_map(&answer.trailers)))).await;
        }
        End::Reset => {
            tokio::time::sleep(OUT_BEFORE_DEATH).await;
            let _ = sender.send(Err(Died)).await;
        }
        End::Close => {
            tokio::time::sleep(OUT_BEFORE_DEATH).await;
            death.notify_one();
            pending::<()>().await;
        }
        End::Hang => pending::<()>().await,
    }
}

/// The body of an answer. Its end is noted when it is taken, not when it is offered.
struct Scripted {
    frames: mpsc::Receiver<Result<Frame<Bytes>, Died>>,
    recorder: Arc<Recorder>,
    _unread: Option<Incoming>,
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = Died;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(self.frames.poll_recv(context));
        if !matches!(&frame, Some(Ok(frame)) if frame.is_data()) {
            self.recorder.ended(How::Done);
        }
        Poll::Ready(frame)
    }
}
