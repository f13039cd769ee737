//! Somebody looks at whole requests before they are forwarded.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use ropewalk_proxy::forward::{Asked, Interpose, Verdict, WholeRequest};
use ropewalk_proxy::tee::Ending;
use ropewalk_testkit::upstream::{Answer, Upstream};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use crate::proxy::{Proxy, settings};
use crate::support::{PATIENCE, wait_for};

/// Gives the verdict that it was made with, and remembers what it was asked.
struct Looks {
    verdict: Verdict,
    seen: Mutex<Vec<WholeRequest>>,
    /// Verdicts that were waited for and dropped.
    dropped: Arc<AtomicUsize>,
    /// Closed: no verdict is given.
    gate: Option<Arc<Notify>>,
}

impl Looks {
    fn with(verdict: Verdict) -> Arc<Self> {
        Arc::new(Looks {
            verdict,
            seen: Mutex::default(),
            dropped: Arc::default(),
            gate: None,
        })
    }

    fn bodies(&self) -> Vec<Bytes> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|asked| asked.body.clone())
            .collect()
    }
}

struct CountsDrop(Arc<AtomicUsize>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Interpose for Looks {
    fn wants(&self, head: &Asked<'_>) -> bool {
        !head.headers.contains_key("x-unseen")
    }

    fn decide(&self, asked: WholeRequest) -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
        self.seen.lock().unwrap().push(asked);
        let (verdict, gate, dropped) = (self.verdict.clone(), self.gate.clone(), Arc::clone(&self.dropped));
        Box::pin(async move {
            let _counts = CountsDrop(dropped);
            if let Some(gate) = gate {
                gate.notified().await;
            }
            verdict
        })
    }
}

fn tells() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-ropewalk-references", HeaderValue::from_static("told"));
    headers
}

fn post(body: &str, headers: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A body in chunks, so that nobody knows its length before its end.
fn post_chunked(pieces: &[&str]) -> String {
    let chunks = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
    format!(
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunks.collect::<String>()
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn what_passes_is_forwarded_as_it_came_however_it_came() {
    let upstream = Upstream::start().await;
    let looks = Looks::with(Verdict::Tell {
        answer_headers: tells(),
    });
    let proxy = Proxy::start_with(settings(&upstream), vec![looks.clone()]).await;
    let big = format!("{{\"a\": \"{}\"}}", "é".repeat(300_000));
    let requests = [
        (post("{\"a\": 1}", ""), "{\"a\": 1}", Some("8")),
        (post("", ""), "", Some("0")),
        (post(&big, ""), &*big, Some("600009")),
        (post_chunked(&["{\"a\"", ": 1}"]), "{\"a\": 1}", None),
    ];
    for (count, (request, body, length)) in requests.into_iter().enumerate() {
        upstream.answer_next(Answer::json("{}"));
        let answer = text(&proxy.talk(request).await);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("x-ropewalk-references: told\r\n"), "{answer}");
        assert!(answer.contains("x-ropewalk-exchange: "), "{answer}");
        let received = upstream.next_request().await;
        assert_eq!(received.body_so_far(), body);
        assert_eq!(received.header("content-length"), length);
        assert_eq!(
            received.header("transfer-encoding"),
            length.is_none().then_some("chunked")
        );
        let kept = &proxy.ended(count + 1).await[count];
        assert_eq!((text(&kept.request), kept.request_whole), (body.to_owned(), true));
        assert_eq!((&kept.sent, kept.reused), (&None, false));
        assert_eq!(looks.bodies()[count], body);
    }
    let seen = looks.seen.lock().unwrap();
    assert_eq!(
        (&*seen[0].owner, &*seen[0].upstream, &*seen[0].target),
        ("me", "anthropic", "/v1/messages")
    );
    assert!(seen[0].id.is_some() && seen[0].provider.is_some());
}

#[tokio::test]
async fn another_body_is_sent_and_both_are_told() {
    let upstream = Upstream::start().await;
    let first = Looks::with(Verdict::Send {
        body: Bytes::from("{\"a\": 22}"),
        answer_headers: tells(),
    });
    let second = Looks::with(Verdict::Pass);
    let proxy = Proxy::start_with(settings(&upstream), vec![first, second.clone()]).await;
    for (count, request) in [post("{\"a\": 1}", ""), post_chunked(&["{\"a\"", ": 1}"])]
        .into_iter()
        .enumerate()
    {
        upstream.answer_next(Answer::json("{}"));
        let answer = text(&proxy.talk(request).await);
        assert!(answer.contains("x-ropewalk-references: told\r\n"), "{answer}");
        let received = upstream.next_request().await;
        assert_eq!(received.body_so_far(), "{\"a\": 22}");
        assert_eq!(received.header("content-length"), Some("9"));
        assert_eq!(received.header("transfer-encoding"), None);
        assert_eq!(received.header("x-api-key"), Some("k"));
        let kept = &proxy.ended(count + 1).await[count];
        assert_eq!(text(&kept.request), "{\"a\": 1}", "the request is what the client sent");
        assert_eq!(kept.sent.as_deref(), Some(&b"{\"a\": 22}"[..]));
        assert_eq!(
            second.bodies()[count],
            "{\"a\": 22}",
            "who comes later sees what would be sent"
        );
    }
}

#[tokio::test]
async fn an_answer_of_our_own_asks_no_provider() {
    let upstream = Upstream::start().await;
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    let looks = Looks::with(Verdict::Answer {
        status: StatusCode::OK,
        headers,
        body: Bytes::from("{\"known\":1}"),
    });
    let proxy = Proxy::start_with(settings(&upstream), vec![looks]).await;
    let answer = text(&proxy.talk(post("{}", "")).await);
    assert!(answer.ends_with("\r\n\r\n{\"known\":1}"), "{answer}");
    let kept = &proxy.ended(1).await[0];
    assert_eq!(
        (text(&kept.request), text(&kept.response)),
        ("{}".to_owned(), "{\"known\":1}".to_owned())
    );
    assert_eq!((kept.reused, kept.ending), (true, Some(Ending::Complete)));
    assert_eq!(kept.headers["content-type"], "application/json");
}

#[tokio::test]
async fn a_body_that_is_too_large_or_encoded_or_not_wanted_passes_unseen() {
    let upstream = Upstream::start().await;
    let looks = Looks::with(Verdict::Send {
        body: Bytes::from("wrong"),
        answer_headers: HeaderMap::new(),
    });
    let mut bounds = settings(&upstream);
    bounds.limits.interpose_bytes = 100_000;
    let one = Proxy::start_with(bounds, vec![looks.clone()]).await;
    let mut bounds = settings(&upstream);
    bounds.limits.interpose_bytes_sum = 100_000;
    let sum = Proxy::start_with(bounds, vec![looks.clone()]).await;
    let large = "x".repeat(3_000_000);
    for (proxy, request, body) in [
        (&one, post(&large, ""), &*large),
        (&one, post_chunked(&[&large, "end"]), &*format!("{large}end")),
        (&sum, post(&large, ""), &*large),
        (&one, post("zip", "Content-Encoding: gzip\r\n"), "zip"),
        (&one, post("{}", "X-Unseen: 1\r\n"), "{}"),
    ] {
        upstream.answer_next(Answer::json("{}"));
        let answer = text(&proxy.talk(request).await);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let received = upstream.next_request().await;
        assert_eq!(received.body().await.len(), body.len());
        assert_eq!(received.body_so_far(), body);
    }
    for (proxy, count) in [(&one, 4), (&sum, 1)] {
        for kept in proxy.ended(count).await {
            assert!(kept.request_whole && kept.sent.is_none());
        }
    }
    assert!(looks.bodies().is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_look_at_its_request() {
    let upstream = Upstream::start().await;
    let looks = Arc::new(Looks {
        verdict: Verdict::Pass,
        seen: Mutex::default(),
        dropped: Arc::default(),
        gate: Some(Arc::default()),
    });
    let proxy = Proxy::start_with(settings(&upstream), vec![looks.clone()]).await;
    let mut socket = proxy.connect().await;
    socket.write_all(post("{}", "").as_bytes()).await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        while looks.bodies().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    drop(socket);
    let dropped = Arc::clone(&looks.dropped);
    tokio::task::spawn_blocking(move || wait_for(|| dropped.load(Ordering::SeqCst) == 1))
        .await
        .unwrap();
    let kept = &proxy.ended(1).await[0];
    assert_eq!((kept.ending, kept.request_whole), (Some(Ending::ClientCancelled), true));
    assert!(kept.sent.is_none() && kept.response.is_empty());
}
