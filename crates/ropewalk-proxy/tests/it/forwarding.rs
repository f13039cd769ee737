//! What clients and providers see of the proxy, and what it tells of them.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ropewalk_proxy::forward::Owners;
use ropewalk_proxy::tee::Ending;
use ropewalk_testkit::upstream::{Answer, Framing, Gate, How, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::proxy::{Proxy, settings};
use crate::support::PATIENCE;

fn post(body: &str) -> String {
    format!(
        "POST /v1/messages?beta=true HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\nX-Multi: 1\r\nx-multi: 2\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads until this much has come.
async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    while !text(&all).contains(end) {
        let mut piece = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut piece)).await;
        let read = read
            .unwrap_or_else(|_| panic!("{end:?} does not come after {:?}", text(&all)))
            .unwrap();
        assert!(read > 0, "closed after {:?}", text(&all));
        all.extend_from_slice(&piece[..read]);
    }
    text(&all)
}

async fn nothing_comes(socket: &mut TcpStream) {
    let mut piece = [0; 64];
    let read = tokio::time::timeout(Duration::from_millis(150), socket.read(&mut piece)).await;
    assert!(read.is_err(), "{:?} came", text(&piece));
}

#[tokio::test]
async fn passes_both_ways_unchanged_and_tells_it() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    upstream.answer_next(
        Answer::status(429)
            .header("Retry-After", "7")
            .header("X-Twice", "a")
            .header("X-Twice", "b")
            .header("Content-Type", "application/json")
            .chunk(r#"{"error": 1}"#),
    );
    let answer = text(&proxy.talk(post(r#"{"a": 1}"#)).await);
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    for part in [
        "Retry-After: 7\r\n",
        "X-Twice: a\r\n",
        "X-Twice: b\r\n",
        "x-ropewalk-exchange: ",
    ] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
    assert!(answer.ends_with("\r\n\r\n{\"error\": 1}"), "{answer}");

    let received = upstream.next_request().await;
    assert_eq!(
        (&*received.method, &*received.target),
        ("POST", "/v1/messages?beta=true")
    );
    assert_eq!(received.body_so_far(), r#"{"a": 1}"#);
    assert_eq!(received.header("x-api-key"), Some("k"));
    assert_eq!(received.header_values("x-multi").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(received.header("host"), Some(&*upstream.address().to_string()));

    let kept = &proxy.ended(1).await[0];
    assert_eq!((&*kept.owner, &*kept.target), ("me", "/v1/messages?beta=true"));
    assert_eq!(
        (text(&kept.request), kept.request_whole),
        (r#"{"a": 1}"#.to_owned(), true)
    );
    assert_eq!(text(&kept.response), r#"{"error": 1}"#);
    assert_eq!(
        (kept.status.unwrap().as_u16(), kept.ending),
        (429, Some(Ending::Complete))
    );
}

#[tokio::test]
async fn holds_back_only_what_completes_an_answer() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    *proxy.holding.lock().unwrap() = true;
    let gate = Gate::closed();
    let stream = Answer::events(["event: ping\ndata: {}\n\n", "event: message_stop\ndata: {}\n\n"]);
    let cases = [
        (stream, "event: ping\ndata: {}\n\n", "message_stop\ndata: {}\n\n"),
        (
            Answer::status(200)
                .framing(Framing::Length)
                .chunk("{first")
                .wait_for(&gate)
                .chunk("last}"),
            "{first",
            "last}",
        ),
        (
            Answer::status(200)
                .framing(Framing::Chunked)
                .chunk("{first")
                .chunk("last}"),
            "last}",
            "0\r\n\r\n",
        ),
    ];
    for (answer, passes, waits) in cases {
        upstream.answer_next(answer);
        let mut socket = proxy.connect().await;
        socket.write_all(post("{}").as_bytes()).await.unwrap();
        read_until(&mut socket, passes).await;
        if passes == "{first" {
            gate.open();
        }
        nothing_comes(&mut socket).await;
        *proxy.holding.lock().unwrap() = false;
        read_until(&mut socket, waits).await;
        *proxy.holding.lock().unwrap() = true;
    }
}

#[tokio::test]
async fn an_answer_without_a_body_waits_with_its_head() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    *proxy.holding.lock().unwrap() = true;
    upstream.answer_next(Answer::status(204).framing(Framing::Unsaid));
    let mut socket = proxy.connect().await;
    socket.write_all(post("{}").as_bytes()).await.unwrap();
    nothing_comes(&mut socket).await;
    *proxy.holding.lock().unwrap() = false;
    read_until(&mut socket, "204 No Content").await;
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_upstream_at_once_before_and_within_the_answer() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    upstream.answer_next(Answer::never());
    let mut socket = proxy.connect().await;
    socket.write_all(post("{}").as_bytes()).await.unwrap();
    let received = upstream.next_request().await;
    drop(socket);
    assert!(received.closed_within(PATIENCE).await);
    assert_eq!(proxy.ended(1).await[0].ending, Some(Ending::ClientCancelled));

    upstream.answer_next(Answer::events(["event: a\ndata: {}\n\n"]).then_hang());
    let mut socket = proxy.connect().await;
    socket.write_all(post("{}").as_bytes()).await.unwrap();
    read_until(&mut socket, "event: a").await;
    let received = upstream.next_request().await;
    drop(socket);
    assert!(received.closed_within(PATIENCE).await);
    let kept = &proxy.ended(2).await[1];
    assert_eq!(
        (kept.ending, &*text(&kept.response)),
        (Some(Ending::ClientCancelled), "event: a\ndata: {}\n\n")
    );
}

#[tokio::test]
async fn a_client_that_hangs_up_after_the_last_event_has_cancelled_nothing() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    upstream.answer_next(Answer::events(["event: response.completed\ndata: {}\n\n"]).then_hang());
    let mut socket = proxy.connect().await;
    socket.write_all(post("{}").as_bytes()).await.unwrap();
    read_until(&mut socket, "event: response.completed\ndata: {}\n\n").await;
    drop(socket);
    assert_eq!(proxy.ended(1).await[0].ending, Some(Ending::Complete));
}

#[tokio::test]
async fn an_upstream_that_dies_is_an_abort_and_never_a_clean_end() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    for (number, answer) in [
        Answer::events(["event: a\ndata: {}\n\n"]).then_reset(),
        Answer::events(["event: a\ndata: {}\n\n"]).then_close(),
        Answer::status(200)
            .framing(Framing::LengthOf(100))
            .chunk("event: a\ndata: {}\n\n")
            .then_close(),
    ]
    .into_iter()
    .enumerate()
    {
        upstream.answer_next(answer);
        let answer = text(&proxy.talk(post("{}")).await);
        assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
        let kept = &proxy.ended(number + 1).await[number];
        assert_eq!(kept.ending, Some(Ending::Truncated));
        assert!(!kept.whole);
    }
}

#[tokio::test]
async fn speaks_http2_on_both_sides() {
    let upstream = Upstream::start_tls(&["h2", "http/1.1"]).await;
    let proxy = Proxy::before(&upstream).await;
    upstream.answer_always(Answer::json(r#"{"ok":true}"#).header("x-a", "1"));
    let socket = TokioIo::new(proxy.connect().await);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), socket)
        .await
        .unwrap();
    tokio::spawn(connection);
    // More at once than one connection to the provider takes.
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..150 {
        let mut sender = sender.clone();
        calls.spawn(async move {
            let request =
                Request::post("http://a/v1/messages").body(Full::new(Bytes::from(format!("{{\"n\":{number}}}"))));
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["x-a"]),
                (200, &http::HeaderValue::from_static("1"))
            );
            answer.into_body().collect().await.unwrap().to_bytes()
        });
    }
    while let Some(body) = calls.join_next().await {
        assert_eq!(body.unwrap(), r#"{"ok":true}"#);
    }
    assert_eq!(upstream.next_request().await.version, "HTTP/2");
    assert_eq!(proxy.ended(150).await.len(), 150);
}

#[tokio::test]
async fn a_token_names_the_owner_and_stays_with_us() {
    let upstream = Upstream::start().await;
    let mut settings = settings(&upstream);
    settings.owners = Owners::Tokens([("s3cret".to_owned(), "ann".into())].into());
    let proxy = Proxy::start(settings).await;
    let request = |target: &str, header: &str| {
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}Content-Length: 2\r\n\r\n{{}}")
    };
    let answer = text(&proxy.talk(request("/v1/messages", "")).await);
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert_eq!(upstream.request_count(), 0);

    proxy.talk(request("/t/s3cret/p/site/anthropic/v1/messages", "")).await;
    proxy
        .talk(request(
            "/v1/messages",
            "x-ropewalk-token: s3cret\r\nx-ropewalk-project: site\r\n",
        ))
        .await;
    for _ in 0..2 {
        let received = upstream.next_request().await;
        assert_eq!(&*received.target, "/v1/messages");
        assert!(
            received
                .headers
                .iter()
                .all(|(name, _)| !name.to_lowercase().starts_with("x-ropewalk"))
        );
    }
    for kept in proxy.ended(2).await {
        assert_eq!(kept.owner, "ann");
        assert!(!kept.target.contains("s3cret"), "{}", kept.target);
    }
}

#[tokio::test]
async fn refuses_what_it_must_and_asks_nobody() {
    let upstream = Upstream::start().await;
    let mut settings = settings(&upstream);
    settings.limits.body_bytes = 10;
    let proxy = Proxy::start(settings).await;
    let upgrade = "GET /v1/responses HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n";
    for (request, status) in [
        (upgrade.to_owned(), "426"),
        (post("this is too long"), "413"),
        (
            "GET /nothing HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_owned(),
            "403",
        ),
    ] {
        let answer = text(&proxy.talk(&request).await);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request} gave {answer}"
        );
    }
    assert_eq!(upstream.request_count(), 0);
    let chunked = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
                   10\r\n0123456789abcdef\r\n0\r\n\r\n";
    let answer = text(&proxy.talk(chunked).await);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn what_is_not_recorded_passes_as_well() {
    let upstream = Upstream::start().await;
    upstream.answer_always(Answer::json("{}"));
    let proxy = Proxy::before(&upstream).await;
    for request in [
        "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /v1/models?limit=3 HTTP/1.1\r\nHost: a\r\nx-api-key: k\r\nConnection: close\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nHost: a\r\nx-ropewalk-record: off\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "POST /openai/v1/files HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    ] {
        let answer = text(&proxy.talk(request).await);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{request} gave {answer}");
        assert!(!answer.contains("x-ropewalk"), "{answer}");
        upstream.next_request().await;
    }
    assert!(proxy.kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nobody_there_is_a_bad_gateway_that_is_told() {
    let upstream = Upstream::start().await;
    let mut settings = settings(&upstream);
    settings.upstreams[0].url = "http://127.0.0.1:1".parse().unwrap();
    let proxy = Proxy::start(settings).await;
    let answer = text(&proxy.talk(post("{}")).await);
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(proxy.ended(1).await[0].ending, Some(Ending::Truncated));
}

#[tokio::test]
async fn trailers_continue_and_early_answers_pass() {
    let upstream = Upstream::start().await;
    let proxy = Proxy::before(&upstream).await;
    upstream.answer_next(
        Answer::status(200)
            .framing(Framing::Chunked)
            .header("trailer", "x-sum")
            .chunk("body")
            .trailer("x-sum", "42"),
    );
    let request = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, te\r\nExpect: 100-continue\r\n\
                   Content-Length: 2\r\n\r\n";
    let mut socket = proxy.connect().await;
    socket.write_all(request.as_bytes()).await.unwrap();
    read_until(&mut socket, "HTTP/1.1 100 Continue\r\n\r\n").await;
    socket.write_all(b"{}").await.unwrap();
    read_until(&mut socket, "0\r\nx-sum: 42\r\n\r\n").await;
    assert!(matches!(
        upstream.next_request().await.ended().await.how,
        How::Done | How::ClientClosed
    ));
}
