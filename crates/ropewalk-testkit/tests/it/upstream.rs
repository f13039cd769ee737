//! The scripted upstream does what its scripts say, and sees what clients do.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ropewalk_core::model::{Block, Provider as CoreProvider, Response};
use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Encoding, Framing, Gate, How, Upstream, encode};
use ropewalk_wire::response::decode_response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Far more than it takes, for machines that are busy.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connected(upstream: &Upstream) -> TcpStream {
    TcpStream::connect(upstream.address()).await.unwrap()
}

/// Sends bytes and reads until the upstream closes.
async fn talk(upstream: &Upstream, bytes: &str) -> String {
    let mut socket = connected(upstream).await;
    socket.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

const GET: &str = "GET /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn writes_what_the_script_says_in_each_framing() {
    let upstream = Upstream::start().await;
    let answer = |framing| {
        Answer::status(203)
            .header("X-A", "1")
            .header("X-A", "2")
            .chunks(["ab", "c"])
            .framing(framing)
    };
    let cases = [
        (
            Framing::Length,
            "HTTP/1.1 203 Non Authoritative Information\r\nX-A: 1\r\nX-A: 2\r\ncontent-length: 3\r\n\r\nabc",
        ),
        (
            Framing::LengthOf(9),
            "HTTP/1.1 203 Non Authoritative Information\r\nX-A: 1\r\nX-A: 2\r\ncontent-length: 9\r\n\r\nabc",
        ),
        (
            Framing::Chunked,
            "HTTP/1.1 203 Non Authoritative Information\r\nX-A: 1\r\nX-A: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        ),
        (
            Framing::UntilClose,
            "HTTP/1.1 203 Non Authoritative Information\r\nX-A: 1\r\nX-A: 2\r\nconnection: close\r\n\r\nabc",
        ),
        (
            Framing::Http10,
            "HTTP/1.0 203 Non Authoritative Information\r\nX-A: 1\r\nX-A: 2\r\n\r\nabc",
        ),
        (
            Framing::Unsaid,
            "HTTP/1.1 203 Non Authoritative Information\r\nX-A: 1\r\nX-A: 2\r\n\r\nabc",
        ),
    ];
    for (framing, expected) in cases {
        upstream.answer_next(answer(framing));
        assert_eq!(talk(&upstream, GET).await, expected);
    }
}

#[tokio::test]
async fn records_the_request_as_it_was_written() {
    let upstream = Upstream::start().await;
    let sent = "POST /v1/messages?beta=true HTTP/1.1\r\nHost: a\r\nX-B: 2\r\nX-A:1\r\nx-b:  3 \r\nConnection: close\r\n\
                Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nX-T: t\r\n\r\n";
    assert_eq!(
        talk(&upstream, sent).await,
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    );
    let request = upstream.next_request().await;
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("POST", "/v1/messages?beta=true")
    );
    let names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "X-B", "X-A", "x-b", "Connection", "Transfer-Encoding"]);
    assert_eq!(request.header_values("X-b").collect::<Vec<_>>(), [b"2", b"3"]);
    assert_eq!(request.body().await, "abcde");
    assert_eq!(request.trailers(), [("X-T".to_owned(), b"t".to_vec())]);
    assert!(request.is_body_whole());
    assert_eq!(request.ended().await.how, How::Done);
}

#[tokio::test]
async fn serves_many_requests_of_one_connection_by_their_numbers() {
    let upstream = Upstream::start().await;
    for number in 0..3 {
        upstream.script(number, Answer::json(format!("{number}")));
    }
    let ask =
        |number: u64, last: &str| format!("POST / HTTP/1.1\r\nx-script: {number}\r\ncontent-length: 2\r\n{last}\r\nhi");
    let sent = [ask(2, ""), ask(0, ""), ask(2, ""), ask(7, "connection: close\r\n")].concat();
    let answers = talk(&upstream, &sent).await;
    let bodies: Vec<_> = answers
        .split("HTTP/1.1 ")
        .map(|answer| answer.rsplit("\r\n").next().unwrap())
        .collect();
    assert_eq!(bodies, ["", "2", "0", "2", ""]);
    assert!(answers.contains("599"));
    assert_eq!((upstream.connection_count(), upstream.request_count()), (1, 4));
}

#[tokio::test]
async fn sees_a_client_go_before_and_while_it_answers() {
    let upstream = Upstream::start().await;
    for answer in [
        Answer::never(),
        Answer::events(["data: 1\n\n"]).then_hang(),
        Answer::events(["a", "b"]).pause_between(Duration::from_secs(60)),
    ] {
        upstream.answer_next(answer);
        let mut socket = connected(&upstream).await;
        socket.write_all(GET.as_bytes()).await.unwrap();
        let request = upstream.next_request().await;
        assert!(!request.closed_within(Duration::from_millis(30)).await);
        drop(socket);
        assert!(request.closed_within(PATIENCE).await);
    }
}

#[tokio::test]
async fn sees_a_client_go_in_the_middle_of_its_request() {
    let upstream = Upstream::start().await;
    let mut socket = connected(&upstream).await;
    socket
        .write_all(b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc")
        .await
        .unwrap();
    let request = upstream.next_request().await;
    assert!(request.has_body_bytes(3).await);
    drop(socket);
    assert!(request.closed_within(PATIENCE).await);
    assert_eq!(
        (request.body().await, request.is_body_whole()),
        (Bytes::from("abc"), false)
    );
}

#[tokio::test]
async fn answers_before_it_reads_and_without_reading() {
    let upstream = Upstream::start().await;
    upstream.answer_next(Answer::status(413).before_reading());
    upstream.answer_next(Answer::status(401).without_reading());
    for expected in ["HTTP/1.1 413", "HTTP/1.1 401"] {
        let mut socket = connected(&upstream).await;
        socket
            .write_all(b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n")
            .await
            .unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, expected.as_bytes());
        socket.write_all(b"abc").await.unwrap();
    }
    assert_eq!(upstream.next_request().await.body().await, "abc");
    assert_eq!(upstream.next_request().await.ended().await.how, How::Done);
}

#[tokio::test]
async fn dies_as_the_script_says() {
    let upstream = Upstream::start().await;
    let partial = Answer::events(["data: 1\n\n"]);
    for (end, kind) in [
        (Answer::then_close as fn(Answer) -> Answer, None),
        (Answer::then_reset, Some(std::io::ErrorKind::ConnectionReset)),
    ] {
        // A reset takes away what was not read yet.
        let is_read = Gate::closed();
        upstream.answer_next(end(partial.clone().wait_for(&is_read)));
        let mut socket = connected(&upstream).await;
        socket.write_all(GET.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"9\r\ndata: 1\n\n\r\n") {
            assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0);
        }
        is_read.open();
        let end = socket.read(&mut [0]).await;
        assert_eq!(end.as_ref().err().map(std::io::Error::kind), kind);
        assert_eq!(end.unwrap_or(0), 0, "no end of the chunked body");
    }
}

#[tokio::test]
async fn sends_early_hints_continue_trailers_and_raw_bytes() {
    let upstream = Upstream::start().await;
    upstream.answer_next(
        Answer::status(200)
            .informational(103, &[("link", "</a>")])
            .framing(Framing::Chunked)
            .chunk("x")
            .trailer("x-t", "1"),
    );
    let expecting = "POST / HTTP/1.1\r\nexpect: 100-continue\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(
        talk(&upstream, expecting).await,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
         HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx-t: 1\r\n\r\n"
    );
    upstream.answer_next(Answer::raw("not http at all"));
    assert_eq!(talk(&upstream, GET).await, "not http at all");
}

#[tokio::test]
async fn waits_at_a_gate_and_computes_answers() {
    let upstream = Upstream::start().await;
    upstream.answer_by(|head, body| Answer::json(format!("{} {}", head.target, body.len())));
    assert!(talk(&upstream, GET).await.ends_with("/x 0"));
    let gate = Gate::closed();
    upstream.answer_next(Answer::events(["a"]).wait_for(&gate).chunk("b"));
    let (answer, ()) = tokio::join!(talk(&upstream, GET), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        gate.open();
    });
    assert!(answer.contains("1\r\na\r\n1\r\nb\r\n"));
}

#[test]
fn encodes_so_that_each_chunk_can_be_read_alone() {
    let chunks = ["data: one\n\n", "data: two\n\n", ""].map(Bytes::from);
    for encoding in Encoding::ALL {
        let pieces = encode(encoding, chunks.clone());
        assert_eq!(pieces.len(), 3);
        assert_eq!(decoded(encoding, &pieces.concat()), chunks.concat(), "{encoding:?}");
        assert!(decoded(encoding, &pieces[0]).starts_with(&chunks[0]), "{encoding:?}");
        assert_eq!(decoded(encoding, &encode(encoding, []).concat()), b"", "{encoding:?}");
    }
}

/// What a decoder makes of it, damaged end or not.
fn decoded(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read> = match encoding {
        Encoding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
        Encoding::Deflate => Box::new(flate2::read::ZlibDecoder::new(bytes)),
        Encoding::RawDeflate => Box::new(flate2::read::DeflateDecoder::new(bytes)),
        Encoding::Brotli => Box::new(brotli::Decompressor::new(bytes, 4_096)),
        Encoding::Zstd => Box::new(zstd::stream::Decoder::new(bytes).unwrap()),
    };
    let mut out = Vec::new();
    let _ = reader.read_to_end(&mut out);
    out
}

async fn http2(upstream: &Upstream) -> SendRequest<Full<Bytes>> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = upstream.ca_pem().unwrap().as_bytes();
    let ca = rustls::pki_types::pem::PemObject::from_pem_slice(pem).unwrap();
    roots.add(ca).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let tls = connector.connect(name, connected(upstream).await).await.unwrap();
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

fn post(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("https://localhost/v1?x=1")
        .header("x-a", "1")
        .body(Full::from(body))
        .unwrap()
}

#[tokio::test]
async fn speaks_http2_over_tls() {
    let upstream = Upstream::start_tls(&["h2", "http/1.1"]).await;
    let mut client = http2(&upstream).await;
    upstream.answer_next(
        Answer::events(["a", "b"])
            .header("x-r", "1")
            .header("x-r", "2")
            .trailer("x-t", "3"),
    );
    let response = client.send_request(post("hello")).await.unwrap();
    assert_eq!(response.headers().get_all("x-r").iter().count(), 2);
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-t"], "3");
    assert_eq!(collected.to_bytes(), "ab");
    let request = upstream.next_request().await;
    assert_eq!(
        (
            request.version.as_str(),
            request.target.as_str(),
            request.header("host")
        ),
        ("HTTP/2", "/v1?x=1", Some("localhost"))
    );
    assert_eq!(request.body().await, "hello");
    assert_eq!(request.ended().await.how, How::Done);
}

#[tokio::test]
async fn sees_http2_clients_go_and_dies_on_them() {
    let upstream = Upstream::start_tls(&["h2"]).await;
    let mut client = http2(&upstream).await;
    upstream.answer_next(Answer::never());
    let asking = tokio::spawn(client.send_request(post("")));
    let request = upstream.next_request().await;
    asking.abort();
    assert!(request.closed_within(PATIENCE).await);

    upstream.answer_next(Answer::events(["a"]).then_hang());
    let response = client.send_request(post("")).await.unwrap();
    let request = upstream.next_request().await;
    drop(response);
    assert!(request.closed_within(PATIENCE).await);

    for answer in [Answer::events(["a"]).then_reset(), Answer::events(["a"]).then_close()] {
        upstream.answer_next(answer);
        let mut body = client.send_request(post("")).await.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
        assert!(body.frame().await.unwrap().is_err());
    }
}

/// The four formats: a path, a request that says this text, and whether streaming is in the body.
fn request_of(api: usize, text: &str, streams: bool) -> (&'static str, String) {
    let text = serde_json::to_string(text).unwrap();
    match api {
        0 => (
            "/v1/messages?beta=true",
            format!(r#"{{"model":"m","stream":{streams},"messages":[{{"role":"user","content":{text}}}]}}"#),
        ),
        1 => (
            "/v1/chat/completions",
            format!(r#"{{"model":"m","stream":{streams},"messages":[{{"role":"user","content":{text}}}]}}"#),
        ),
        2 => (
            "/v1/responses",
            format!(
                r#"{{"model":"m","stream":{streams},"input":[{{"role":"user","content":[{{"type":"input_text","text":{text}}}]}}]}}"#
            ),
        ),
        _ => (
            if streams {
                "/v1beta/models/g:streamGenerateContent?alt=sse"
            } else {
                "/v1beta/models/g:generateContent"
            },
            format!(r#"{{"contents":[{{"role":"user","parts":[{{"text":{text}}}]}}]}}"#),
        ),
    }
}

#[test]
fn a_provider_answers_the_same_streamed_and_whole_in_every_format() {
    let formats = [
        CoreProvider::Anthropic,
        CoreProvider::OpenAiChat,
        CoreProvider::OpenAiResponses,
        CoreProvider::Gemini,
    ];
    for (api, format) in formats.into_iter().enumerate() {
        let decoded = |text: &str, streams| {
            let (target, body) = request_of(api, text, streams);
            let answer = Provider::new().answer(target, body.as_bytes()).body();
            let content_type = if streams {
                "text/event-stream"
            } else {
                "application/json"
            };
            decode_response(format, 200, Some(content_type), &answer)
        };
        let cues = "hello there\n!think\n!tool Bash {\"command\":\"ls -la /tmp\"}\n!tool Read {}";
        let (whole, streamed) = (decoded(cues, false), decoded(cues, true));
        assert!(whole.complete && streamed.complete, "{format:?}");
        let texts = |response: &Response| -> String {
            let text = response.blocks.iter().filter_map(|block| match block {
                Block::Text { text, .. } => Some(text.to_string()),
                _ => None,
            });
            text.collect()
        };
        let calls = |response: &Response| {
            response
                .blocks
                .iter()
                .filter(|block| matches!(block, Block::ToolUse(_)))
                .count()
        };
        assert_eq!(texts(&whole), "Answer 1: you said “hello there”.", "{format:?}");
        assert_eq!(texts(&streamed), texts(&whole), "{format:?}");
        assert_eq!((calls(&whole), calls(&streamed)), (2, 2), "{format:?}");
        assert!(whole.usage.is_some() && streamed.usage.is_some(), "{format:?}");
        assert!(!decoded("!cut", true).complete, "{format:?}");
    }
}

#[tokio::test]
async fn a_provider_serves_and_counts() {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    for number in 1..=2 {
        let (target, body) = request_of(0, "hi", false);
        let sent = format!(
            "POST {target} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert!(
            talk(&upstream, &sent)
                .await
                .contains(&format!("Answer {number}: you said"))
        );
    }
    let (target, body) = request_of(1, "!error 429", true);
    let sent = format!(
        "POST {target} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let refused = talk(&upstream, &sent).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: 1"));
}
