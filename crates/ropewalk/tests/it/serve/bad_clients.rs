//! Clients that are slow, wrong or huge: they are refused or passed on, and nobody else notices.
//!
//! Memory is measured as `VmHWM` of the server: the most that was resident at any time since its start, code included.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Encoding, Upstream, encode, gibibyte_of_zeros};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::client::{Client, Kind, call};
use super::server::{PATIENCE, Place, Server};
use super::{from_environment, tell};

const RESIDENT_BYTES_MAX: u64 = 256 << 20;
/// While exchanges with two bodies of 32 MB are recorded: each is there as it was read, as its parts and as it is written, and
/// the allocator keeps what is freed for a while. 256 MB is the goal here as well.
const RESIDENT_BYTES_MAX_LARGE: u64 = 640 << 20;
/// As `limits.body_bytes` has it.
const BODY_BYTES_MAX: usize = 32 << 20;
const MESSAGES: Kind = Kind::Messages { streams: false };

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_heads_are_cut_off_in_time_and_others_are_served_meanwhile() {
    const SLOW: usize = 400;
    let upstream = provider().await;
    let place = Place::with(&upstream, "[limits]\nheader_s = 2\n");
    let server = place.serve();
    // `P` may still become the beginning of HTTP/2; nothing at all may become anything.
    let beginnings = [
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-slow: ",
        "P",
        "PRI * HTTP/2.0\r\n",
        "",
    ];
    let mut slow = JoinSet::new();
    for number in 0..SLOW {
        let socket = TcpStream::connect(server.address).await.unwrap();
        slow.spawn(drip(socket, beginnings[number % beginnings.len()]));
    }
    call(server.address, MESSAGES, "is there room for me?").await;
    let mut left = HashMap::new();
    while let Some(ended) = slow.join_next().await {
        if let Err(beginning) = ended.unwrap() {
            *left.entry(beginning).or_insert(0) += 1;
        }
    }
    assert!(left.is_empty(), "these are still connected: {left:?}");
    call(server.address, MESSAGES, "and now?").await;
    assert_eq!(upstream.request_count(), 2, "nothing of it reached the provider");
    bounded("slow heads", &server, RESIDENT_BYTES_MAX);
}

/// Sends a beginning and then a letter from time to time; an error if it is still welcome after a while.
async fn drip(mut socket: TcpStream, beginning: &'static str) -> Result<(), &'static str> {
    let cut = async {
        let mut answer = [0; 1_024];
        let _ = socket.write_all(beginning.as_bytes()).await;
        loop {
            tokio::select! {
                read = socket.read(&mut answer) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                },
                () = tokio::time::sleep(Duration::from_millis(200)), if beginning.len() > 20 => {
                    let _ = socket.write_all(b"z").await;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, cut).await.map_err(|_| beginning)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_can_be_read_in_two_ways_are_refused_or_passed_on_in_one() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    let body = MESSAGES.body("hello");
    let length = body.len();
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let cases = [
        (
            "two lengths that differ",
            format!("content-length: {length}\r\ncontent-length: 5\r\n\r\n{body}"),
        ),
        (
            "two lengths that agree",
            format!("content-length: {length}\r\ncontent-length: {length}\r\n\r\n{body}"),
        ),
        (
            "a list of lengths",
            format!("content-length: {length}, 5\r\n\r\n{body}"),
        ),
        (
            "a length with a sign",
            format!("content-length: +{length}\r\n\r\n{body}"),
        ),
        (
            "length and chunks",
            format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n{chunked}"),
        ),
        (
            "chunks and length",
            format!("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n{chunked}"),
        ),
        (
            "chunks that are not last",
            format!("transfer-encoding: chunked, gzip\r\n\r\n{chunked}"),
        ),
        (
            "a coding nobody knows",
            format!("transfer-encoding: xchunked\r\n\r\n{chunked}"),
        ),
        (
            "a folded line",
            format!("x-folded: a\r\n b\r\ncontent-length: {length}\r\n\r\n{body}"),
        ),
        ("a folded length", format!("content-length:\r\n {length}\r\n\r\n{body}")),
        ("bare line feeds", format!("content-length: {length}\n\n{body}")),
        (
            "space before the colon",
            format!("content-length : {length}\r\n\r\n{body}"),
        ),
        (
            "a bare carriage return",
            format!("x-odd: a\rcontent-length: 5\r\ncontent-length: {length}\r\n\r\n{body}"),
        ),
        (
            "a zero byte",
            format!("x-odd: a\0b\r\ncontent-length: {length}\r\n\r\n{body}"),
        ),
        (
            "a chunk of no size",
            format!("transfer-encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n"),
        ),
        (
            "a chunk of any size",
            format!("transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{body}\r\n0\r\n\r\n"),
        ),
    ];
    for (name, rest) in cases {
        let seen_before = upstream.request_count();
        let request = format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{rest}");
        let status = status_of(server.address, request.as_bytes()).await;
        let passed_on = upstream.request_count() - seen_before;
        tell(&format!("{name}: {status:?}, {passed_on} passed on"));
        match status {
            Some(200) => {
                assert_eq!(passed_on, 1, "{name}");
                let received = upstream.next_request().await;
                assert_eq!(received.body().await, body.as_bytes(), "{name}");
                let lengths = received.header_values("content-length").count();
                let codings = received.header_values("transfer-encoding").count();
                assert_eq!(lengths + codings, 1, "{name}: the provider can read it in one way only");
            }
            Some(400..500) | None => while upstream.request_within(Duration::ZERO).await.is_some() {},
            other => panic!("{name}: {other:?}"),
        }
        call(server.address, MESSAGES, "an honest question").await;
        upstream.next_request().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_bodies_at_once_pass_in_bounded_memory() {
    let bodies = from_environment("ROPEWALK_BODIES", 8);
    let upstream = Upstream::start().await;
    upstream.keep_nothing();
    upstream.answer_always(Answer::json("{}"));
    let place = Place::before(&upstream);
    let server = place.serve();
    let address = server.address;
    let mut sent = JoinSet::new();
    for number in 0..bodies {
        sent.spawn(async move {
            let mut body = MESSAGES.body(&format!("{number} {}", "rope ".repeat(BODY_BYTES_MAX / 5)));
            body.truncate(BODY_BYTES_MAX);
            let mut client = Client::connect(address).await.unwrap();
            let seen = client.post(MESSAGES.path(), &[], body).await.unwrap();
            assert_eq!(seen.status, 200);
        });
    }
    while !sent.is_empty() {
        let mut client = Client::connect(address).await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, client.call(MESSAGES, "a short one in between")).await;
        assert_eq!(answer.unwrap().unwrap().status, 200);
        while let Some(sent) = sent.try_join_next() {
            sent.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bounded(
        &format!("{bodies} bodies of {BODY_BYTES_MAX} bytes"),
        &server,
        RESIDENT_BYTES_MAX_LARGE,
    );
    let stopped = server.stop();
    assert!(stopped.status.success(), "{}", stopped.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beyond_the_limit_are_refused() {
    let upstream = provider().await;
    let place = Place::with(&upstream, "[limits]\nbody_bytes = 1000\n");
    let server = place.serve();
    let text = "x".repeat(2_000);
    let said =
        format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2000\r\n\r\n{text}");
    assert_eq!(status_of(server.address, said.as_bytes()).await, Some(413));
    let unsaid = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n{text}\r\n0\r\n\r\n"
    );
    assert_eq!(status_of(server.address, unsaid.as_bytes()).await, Some(413));
    call(server.address, MESSAGES, "short").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compression_bombs_pass_untouched_in_bounded_memory() {
    const AT_ONCE: usize = 4;
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    let zeros = Bytes::from(vec![0; 16 << 20]);
    let gibibyte = |encoding| Bytes::from(encode(encoding, vec![zeros.clone(); 64]).concat());
    for (name, bomb) in [
        ("br", gibibyte_of_zeros()),
        ("gzip", gibibyte(Encoding::Gzip)),
        ("zstd", gibibyte(Encoding::Zstd)),
    ] {
        let answer = Answer::json(bomb.clone()).header("content-encoding", name);
        upstream.script(1, answer);
        let mut sent = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (address, bomb) = (server.address, bomb.clone());
            sent.spawn(async move {
                let mut client = Client::connect(address).await.unwrap();
                let headers = [("x-script", "1")];
                let seen = client
                    .post(MESSAGES.path(), &headers, MESSAGES.body("boom"))
                    .await
                    .unwrap();
                assert!(seen.ended && seen.body == bomb, "an answer passes as it is");
                let headers = [("x-script", "1"), ("content-encoding", name)];
                let seen = client.post(MESSAGES.path(), &headers, bomb.clone()).await.unwrap();
                assert!(seen.status == 200 && seen.body == bomb, "and so does a request");
            });
        }
        call(server.address, MESSAGES, "a short one in between").await;
        while let Some(sent) = sent.join_next().await {
            sent.unwrap();
        }
        let bytes_max = match name {
            "br" => RESIDENT_BYTES_MAX,
            // Not as tight as a bomb can be, so that it decodes to the limit of what is kept.
            _ => RESIDENT_BYTES_MAX_LARGE,
        };
        bounded(&format!("1 GiB as {} bytes of {name}", bomb.len()), &server, bytes_max);
    }
    if !server.stop().is_recorded() {
        place.record_what_is_left();
    }
    assert_eq!(place.exchanges().len(), 3 * (2 * AT_ONCE + 1), "all of it is recorded");
}

async fn provider() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    upstream
}

fn bounded(what: &str, server: &Server, bytes_max: u64) {
    let (now, most) = (server.memory("VmRSS"), server.memory("VmHWM"));
    tell(&format!("{what}: {} MB resident, at most {} MB", now >> 20, most >> 20));
    assert!(most < bytes_max, "{what}: {most} bytes were resident");
}

/// The status of the answer to these bytes; `None` if the connection is closed without one.
async fn status_of(address: SocketAddr, request: &[u8]) -> Option<u16> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    // It may be refused before all of it is sent.
    let _ = socket.write_all(request).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer))
        .await
        .expect("an end");
    let answer = String::from_utf8_lossy(&answer);
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}
