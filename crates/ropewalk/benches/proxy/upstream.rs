//! The provider: answers at once with 1 KB, or with a stream whose events say when they were written.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::message::Incoming;

/// Events of a stream that carry a time, and the pause after each.
pub(crate) const EVENTS: usize = 20;
const GAP: Duration = Duration::from_millis(2);

/// A request that begins so wants a stream.
pub(crate) const STREAM_BEGINS: &[u8] = br#"{"stream":true"#;

/// What stands before the time in an event: nanoseconds since the start of the benchmark.
pub(crate) const TIME_BEGINS: &[u8] = b"t=";
pub(crate) const TIME_DIGITS: usize = 16;

/// Starts it on a thread of its own.
pub(crate) fn start(clock: Instant) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                // A load generator that has seen enough goes away.
                tokio::spawn(async move { drop(serve(socket, clock).await) });
            }
        });
    });
    address
}

async fn serve(socket: TcpStream, clock: Instant) -> io::Result<()> {
    let mut incoming = Incoming::new(socket);
    let answer = answer();
    loop {
        let mut start = Vec::with_capacity(STREAM_BEGINS.len());
        let remember = |data: &[u8]| {
            let missing = STREAM_BEGINS.len() - start.len();
            start.extend_from_slice(&data[..missing.min(data.len())]);
        };
        if incoming.message(|| (), remember).await?.is_none() {
            return Ok(());
        }
        match start == STREAM_BEGINS {
            true => stream(&mut incoming.socket, clock).await?,
            false => incoming.socket.write_all(&answer).await?,
        }
    }
}

fn answer() -> Vec<u8> {
    let words = "an answer of about a kilobyte ".repeat(27);
    let body = format!(
        r#"{{"id":"msg_bench","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"{words}"}}],"stop_reason":"end_turn","usage":{{"input_tokens":300,"output_tokens":200}}}}"#
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn stream(socket: &mut TcpStream, clock: Instant) -> io::Result<()> {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut first = head.to_vec();
    let message = r#"{"type":"message_start","message":{"id":"msg_bench","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"usage":{"input_tokens":300,"output_tokens":1}}}"#;
    chunk(&mut first, "message_start", message);
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    chunk(&mut first, "content_block_start", block);
    socket.write_all(&first).await?;
    for _ in 0..EVENTS {
        tokio::time::sleep(GAP).await;
        let now = clock.elapsed().as_nanos();
        let delta = format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"t={now:016} "}}}}"#
        );
        let mut event = Vec::new();
        chunk(&mut event, "content_block_delta", &delta);
        socket.write_all(&event).await?;
    }
    let mut last = Vec::new();
    chunk(
        &mut last,
        "content_block_stop",
        r#"{"type":"content_block_stop","index":0}"#,
    );
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":60}}"#;
    chunk(&mut last, "message_delta", delta);
    chunk(&mut last, "message_stop", r#"{"type":"message_stop"}"#);
    last.extend_from_slice(b"0\r\n\r\n");
    socket.write_all(&last).await
}

fn chunk(to: &mut Vec<u8>, name: &str, data: &str) {
    let event = format!("event: {name}\ndata: {data}\n\n");
    write!(to, "{:x}\r\n{event}\r\n", event.len()).unwrap();
}
