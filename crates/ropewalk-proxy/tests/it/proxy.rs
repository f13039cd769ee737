//! A proxy under test: the forwarding path, and something in the worker's place that keeps what it is told.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use ropewalk_proxy::forward::{
    Forwarding, Interpose, Limits, Local, LocalBody, Owners, Routes, Settings, UpstreamSettings,
};
use ropewalk_proxy::tee::{self, Ending, Event, ExchangeKey, Released};
use ropewalk_testkit::upstream::Upstream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::PATIENCE;

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) kept: Arc<Mutex<Vec<Kept>>>,
    /// While set, nobody is released.
    pub(crate) holding: Arc<Mutex<bool>>,
}

/// What was told about an exchange.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kept {
    key: Option<ExchangeKey>,
    pub(crate) owner: String,
    pub(crate) target: String,
    pub(crate) request: Vec<u8>,
    pub(crate) request_whole: bool,
    pub(crate) sent: Option<Bytes>,
    pub(crate) reused: bool,
    pub(crate) status: Option<StatusCode>,
    pub(crate) headers: HeaderMap,
    pub(crate) response: Vec<u8>,
    pub(crate) whole: bool,
    pub(crate) ending: Option<Ending>,
}

pub(crate) fn settings(upstream: &Upstream) -> Settings {
    let ca_file = upstream.ca_pem().map(|pem| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), pem).unwrap();
        file.into_temp_path().keep().unwrap()
    });
    let upstreams = ["anthropic", "openai", "gemini"].map(|name| UpstreamSettings {
        name: name.to_owned(),
        url: upstream.url().parse().unwrap(),
        ca_file: ca_file.clone(),
    });
    Settings {
        upstreams: upstreams.to_vec(),
        owners: Owners::Local(Arc::from("me")),
        limits: Limits {
            threads: 2,
            drain_time: Duration::from_millis(200),
            ..Limits::default()
        },
        ..Settings::default()
    }
}

impl Proxy {
    pub(crate) async fn before(upstream: &Upstream) -> Proxy {
        Proxy::start(settings(upstream)).await
    }

    pub(crate) async fn start(settings: Settings) -> Proxy {
        Proxy::start_with(settings, Vec::new()).await
    }

    /// With somebody who looks at requests before they are forwarded.
    pub(crate) async fn start_with(settings: Settings, interposed: Vec<Arc<dyn Interpose>>) -> Proxy {
        let (tee, inbox) = tee::channel(8 << 20);
        let local: Local = Arc::new(|_| {
            Box::pin(async {
                http::Response::new(LocalBody::new(
                    http_body_util::Full::new(Bytes::from("local")).map_err(|never| match never {}),
                ))
            })
        });
        let forwarding = Forwarding::start(settings, tee, None, local, interposed).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { forwarding.listen(listener, Routes::All).await });
        let kept: Arc<Mutex<Vec<Kept>>> = Arc::default();
        let holding: Arc<Mutex<bool>> = Arc::default();
        let (keeps, holds) = (Arc::clone(&kept), Arc::clone(&holding));
        std::thread::spawn(move || {
            let mut waiting = Vec::new();
            loop {
                let (events, bytes) = inbox.take(true);
                for event in events {
                    waiting.extend(keep(&mut keeps.lock().unwrap(), event));
                }
                inbox.let_go(bytes);
                if !*holds.lock().unwrap() {
                    for release in waiting.drain(..) {
                        let release: tokio::sync::oneshot::Sender<Released> = release;
                        let _ = release.send(Released { acknowledged: true });
                    }
                }
            }
        });
        Proxy { address, kept, holding }
    }

    /// Sends bytes as they are and reads until the proxy closes.
    pub(crate) async fn talk(&self, bytes: impl AsRef<[u8]>) -> Vec<u8> {
        let mut socket = self.connect().await;
        socket.write_all(bytes.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer))
            .await
            .unwrap();
        answer
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The exchanges so far, once as many have ended.
    pub(crate) async fn ended(&self, count: usize) -> Vec<Kept> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let kept = self.kept.lock().unwrap().clone();
            if kept.iter().filter(|kept| kept.ending.is_some()).count() >= count {
                return kept;
            }
            assert!(tokio::time::Instant::now() < deadline, "only this ended: {kept:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn keep(kept: &mut Vec<Kept>, event: Event) -> Option<tokio::sync::oneshot::Sender<Released>> {
    fn of(kept: &mut [Kept], key: ExchangeKey) -> &mut Kept {
        kept.iter_mut()
            .find(|kept| kept.key == Some(key))
            .expect("an exchange begins first")
    }
    match event {
        Event::Begin(key, head) => kept.push(Kept {
            key: Some(key),
            owner: head.owner.to_string(),
            target: head.target,
            ..Kept::default()
        }),
        Event::RequestData(key, data) => of(kept, key).request.extend_from_slice(&data),
        Event::Seal => {}
        Event::RequestEnd(key) => of(kept, key).request_whole = true,
        Event::Sent(key, body) => of(kept, key).sent = Some(body),
        Event::Reused(key) => of(kept, key).reused = true,
        Event::ResponseHead(key, head) => {
            let kept = of(kept, key);
            kept.status = Some(head.status);
            kept.headers = head.headers;
        }
        Event::ResponseData(key, data, _) => of(kept, key).response.extend_from_slice(&data),
        Event::Whole { exchange, release } => {
            of(kept, exchange).whole = true;
            return Some(release);
        }
        Event::End {
            exchange,
            ending,
            release,
            ..
        } => {
            let kept = of(kept, exchange);
            assert_eq!(kept.ending, None, "an exchange ends once");
            kept.ending = Some(ending);
            return release;
        }
    }
    None
}
