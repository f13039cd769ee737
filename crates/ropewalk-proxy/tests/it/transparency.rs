//! A client cannot tell the proxy from the provider: the same exchange, direct and through it, on real sockets.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use ropewalk_testkit::upstream::{Answer, Encoding, Framing, Received, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::proxy::{Proxy, settings};
use crate::support::PATIENCE;

/// Exchanges that are compared.
const CASES: u32 = 10_000;

/// How both sides are written. Nobody chooses well-behaved pieces.
#[derive(Debug, Clone)]
struct Case {
    method: &'static str,
    target: String,
    request_headers: Vec<(String, String)>,
    request_body: Vec<u8>,
    request_chunked: bool,
    request_cuts: Vec<Index>,
    status: u16,
    response_headers: Vec<(String, String)>,
    response_chunks: Vec<Vec<u8>>,
    framing: Framing,
    encoding: Option<Encoding>,
    trailer: bool,
}

fn header() -> impl Strategy<Value = (String, String)> {
    let names = select(vec![
        "x-a",
        "X-B",
        "x-A",
        "request-id",
        "anthropic-beta",
        "Retry-After",
        "set-cookie",
        "x-api-key",
        "Vary",
        "x-empty",
        "openai-processing-ms",
        "x-stainless-retry-count",
        "Cache-Control",
        "WWW-Authenticate",
    ]);
    (names, "[!-~]([ -~]{0,40}[!-~])?").prop_map(|(name, value)| (name.to_owned(), value))
}

fn case() -> impl Strategy<Value = Case> {
    let targets = select(vec![
        "/v1/messages",
        "/v1/messages?beta=true",
        "/v1/messages/count_tokens",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1beta/models/g:streamGenerateContent?alt=sse&key=k%20y",
        "/anthropic/v1/files?x=%2F&y",
        "/openai/v1/embeddings",
    ]);
    let body = prop_oneof![
        vec(any::<u8>(), 0..200),
        Just(br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#.to_vec()),
        vec(any::<u8>(), 20_000..80_000),
    ];
    let chunk = prop_oneof![
        vec(any::<u8>(), 1..60),
        Just(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".to_vec()),
        Just(b"data: [DONE]\n\n".to_vec()),
        vec(any::<u8>(), 5_000..20_000),
    ];
    let request = (
        select(vec!["POST", "POST", "POST", "GET", "PUT", "DELETE", "PATCH"]),
        targets,
        vec(header(), 0..6),
        body,
        any::<bool>(),
        vec(any::<Index>(), 0..5),
    );
    let framings = select(vec![
        Framing::Length,
        Framing::Chunked,
        Framing::Chunked,
        Framing::UntilClose,
        Framing::Http10,
    ]);
    let encodings = prop_oneof![
        3 => Just(None),
        1 => select(vec![Encoding::Gzip, Encoding::Brotli, Encoding::Zstd, Encoding::Deflate]).prop_map(Some),
    ];
    let statuses = select(vec![200, 200, 200, 201, 302, 400, 401, 404, 413, 429, 500, 529]);
    let kinds = select(vec![
        "application/json",
        "text/event-stream",
        "text/event-stream; charset=utf-8",
        "text/plain",
    ]);
    let response = (
        statuses,
        vec(header(), 0..6),
        kinds,
        vec(chunk, 0..6),
        framings,
        encodings,
        any::<bool>(),
    );
    (request, response).prop_map(|(request, response)| {
        let (method, target, request_headers, request_body, request_chunked, request_cuts) = request;
        let (status, mut response_headers, kind, response_chunks, framing, encoding, trailer) = response;
        response_headers.push(("Content-Type".to_owned(), kind.to_owned()));
        Case {
            method,
            target: target.to_owned(),
            request_headers,
            request_body,
            request_chunked,
            request_cuts,
            status,
            response_headers,
            response_chunks,
            framing,
            encoding,
            trailer: trailer && framing == Framing::Chunked,
        }
    })
}

impl Case {
    fn answer(&self) -> Answer {
        let mut answer = Answer::status(self.status).framing(self.framing);
        for (name, value) in &self.response_headers {
            answer = answer.header(name.clone(), value);
        }
        if self.trailer {
            answer = answer.header("Trailer", "x-sum").trailer("x-sum", "42");
        }
        answer = answer.chunks(self.response_chunks.iter().map(|chunk| Bytes::from(chunk.clone())));
        match self.encoding {
            Some(encoding) => answer.encoded(encoding),
            None => answer,
        }
    }

    /// The request as bytes, in the pieces it is written in.
    fn request(&self, number: u64) -> Vec<Vec<u8>> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: client\r\nx-script: {number}\r\nTE: trailers\r\nConnection: close\r\n",
            self.method, self.target
        );
        for (name, value) in &self.request_headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = Vec::new();
        if self.request_chunked {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            bytes.extend_from_slice(head.as_bytes());
            for piece in self.request_body.chunks(7_001) {
                bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                bytes.extend_from_slice(piece);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        } else {
            head.push_str(&format!("Content-Length: {}\r\n\r\n", self.request_body.len()));
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(&self.request_body);
        }
        let mut cuts: Vec<usize> = self.request_cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
    }
}

/// Headers whose sense ends at the next machine, and the one that says we are there.
const OF_THE_HOP: [&str; 6] = [
    "connection",
    "transfer-encoding",
    "keep-alive",
    "host",
    "x-ropewalk-exchange",
    "content-length",
];

type Headers = BTreeMap<String, Vec<Vec<u8>>>;

fn end_to_end(headers: impl IntoIterator<Item = (String, Vec<u8>)>) -> Headers {
    let mut all = Headers::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        if !OF_THE_HOP.contains(&&*name) {
            all.entry(name).or_default().push(value);
        }
    }
    all
}

/// What the client saw.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: String,
    headers: Headers,
    body: Vec<u8>,
    trailers: Headers,
}

async fn exchange(address: std::net::SocketAddr, case: &Case, number: u64) -> Seen {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for piece in case.request(number) {
        // Whoever answers early may close early; the answer tells.
        if socket.write_all(&piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    let read_all = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
    let read_all = read_all.unwrap_or_else(|_| panic!("no end after {:?}", String::from_utf8_lossy(&answer)));
    read_all.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&answer)));
    read(&answer)
}

fn read(answer: &[u8]) -> Seen {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").unwrap_or_else(|| panic!("no head in {answer:?}"));
    let (head, rest) = (&answer[..end + 2], &answer[end + 4..]);
    let (status, headers) = head.split_at(memchr::memmem::find(head, b"\r\n").unwrap() + 2);
    let status = String::from_utf8_lossy(status).split(' ').nth(1).unwrap().to_owned();
    let headers = lines(headers);
    let is = |name: &str, value: &[u8]| headers.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v == value);
    let (body, trailers) = match is("transfer-encoding", b"chunked") {
        true => dechunk(rest),
        false => (rest.to_vec(), Vec::new()),
    };
    if let Some((_, length)) = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
    {
        assert_eq!(String::from_utf8_lossy(length), body.len().to_string());
    }
    Seen {
        status,
        headers: end_to_end(headers),
        body,
        trailers: end_to_end(trailers),
    }
}

fn lines(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lines = text
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    let pair = |line: &[u8]| {
        let colon = line.iter().position(|byte| *byte == b':').unwrap();
        (
            String::from_utf8_lossy(&line[..colon]).into_owned(),
            line[colon + 1..].trim_ascii().to_vec(),
        )
    };
    lines.map(pair).collect()
}

fn dechunk(mut rest: &[u8]) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let mut body = Vec::new();
    loop {
        let end = memchr::memmem::find(rest, b"\r\n").expect("a chunk has a size");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, lines(rest));
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

async fn received(received: &Received) -> (String, String, Headers, Bytes) {
    let headers = received.headers.iter().cloned();
    (
        received.method.clone(),
        received.target.clone(),
        end_to_end(headers),
        received.body().await,
    )
}

#[test]
fn ten_thousand_exchanges_are_the_same_direct_and_through_the_proxy() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (upstream, proxy) = runtime.block_on(async {
        let upstream = Upstream::start().await;
        let mut settings = settings(&upstream);
        settings.limits.threads = 1;
        let proxy = Proxy::start(settings).await;
        (upstream, proxy)
    });
    let numbers = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        max_shrink_iters: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&case(), |case| {
        let number = numbers.get() + 1;
        numbers.set(number);
        runtime.block_on(async {
            upstream.script(number, case.answer());
            let direct_target = case.target.replace("/anthropic", "").replace("/openai", "");
            let direct_case = Case {
                target: direct_target,
                ..case.clone()
            };
            let direct = exchange(upstream.address(), &direct_case, number).await;
            let direct_received = received(&upstream.next_request().await).await;
            let through = exchange(proxy.address, &case, number).await;
            let through_received = received(&upstream.next_request().await).await;
            prop_assert_eq!(direct, through);
            prop_assert_eq!(direct_received, through_received);
            proxy.kept.lock().unwrap().clear();
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
