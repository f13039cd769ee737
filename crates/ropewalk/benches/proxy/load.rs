//! The load: connections that ask again as soon as they are answered, no two requests alike.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::message::{Incoming, find};
use crate::upstream::{STREAM_BEGINS, TIME_BEGINS, TIME_DIGITS};

pub(crate) const CONNECTIONS: usize = 16;

/// Numbers every request of the benchmark.
static NUMBER: AtomicU64 = AtomicU64::new(0);
const NUMBER_DIGITS: usize = 12;

/// Different words of a body.
const VOCABULARY: u64 = 4_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Json,
    Sse,
}

#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) shape: Shape,
    pub(crate) body_bytes: usize,
    /// Lines with their ends.
    pub(crate) headers: String,
    pub(crate) time: Duration,
    pub(crate) requests_max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) requests: usize,
    pub(crate) failed: usize,
    pub(crate) seconds: f64,
    /// From the last byte of the request to the first of the answer, in microseconds.
    pub(crate) first_byte: Vec<f64>,
    /// From when an event was written to when it was read, in microseconds.
    pub(crate) delays: Vec<f64>,
}

pub(crate) fn run(to: SocketAddr, load: &Load, clock: Instant) -> Measured {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let measured = Rc::new(RefCell::new(Measured::default()));
    let begun = Instant::now();
    let tasks = LocalSet::new();
    for _ in 0..CONNECTIONS {
        let (load, measured) = (load.clone(), Rc::clone(&measured));
        tasks.spawn_local(async move {
            if let Err(error) = connection(to, &load, clock, begun, &measured).await {
                measured.borrow_mut().failed += 1;
                #[expect(clippy::print_stderr, reason = "a benchmark talks")]
                if error.kind() != io::ErrorKind::UnexpectedEof {
                    eprintln!("a connection failed: {error}");
                }
            }
        });
    }
    runtime.block_on(tasks);
    let mut measured = Rc::into_inner(measured).unwrap().into_inner();
    measured.seconds = begun.elapsed().as_secs_f64();
    measured
}

async fn connection(
    to: SocketAddr,
    load: &Load,
    clock: Instant,
    begun: Instant,
    measured: &RefCell<Measured>,
) -> io::Result<()> {
    let socket = TcpStream::connect(to).await?;
    socket.set_nodelay(true)?;
    let mut incoming = Incoming::new(socket);
    let (mut request, number_at) = request(to, load);
    let mut body: Vec<u8> = Vec::new();
    while begun.elapsed() < load.time && measured.borrow().requests < load.requests_max {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        request[number_at..number_at + NUMBER_DIGITS].copy_from_slice(format!("{number:012}").as_bytes());
        incoming.socket.write_all(&request).await?;
        let sent = Instant::now();
        let mut first_byte = None;
        body.clear();
        let first = incoming
            .message(
                || first_byte = Some(sent.elapsed()),
                |data| {
                    if load.shape == Shape::Sse {
                        body.extend_from_slice(data);
                        note_delays(&mut body, clock, measured);
                    }
                },
            )
            .await?;
        let mut measured = measured.borrow_mut();
        let first = first.ok_or(io::ErrorKind::UnexpectedEof)?;
        match first.contains(" 200 ") {
            true => measured.requests += 1,
            false => {
                measured.failed += 1;
                return Err(io::Error::other(first));
            }
        }
        measured
            .first_byte
            .extend(first_byte.map(|time| time.as_secs_f64() * 1e6));
    }
    Ok(())
}

/// Takes every time out of what has come, and leaves what may be the start of one.
fn note_delays(body: &mut Vec<u8>, clock: Instant, measured: &RefCell<Measured>) {
    let now = clock.elapsed().as_nanos() as f64;
    while let Some(at) = find(body, TIME_BEGINS) {
        let digits = at + TIME_BEGINS.len()..at + TIME_BEGINS.len() + TIME_DIGITS;
        let Some(written) = body.get(digits.clone()) else {
            return;
        };
        let written: f64 = String::from_utf8_lossy(written).parse().unwrap_or(now);
        measured.borrow_mut().delays.push((now - written) / 1e3);
        body.drain(..digits.end);
    }
    let used = body.len().saturating_sub(1);
    body.drain(..used);
}

/// A request, and where its number stands in it.
fn request(to: SocketAddr, load: &Load) -> (Vec<u8>, usize) {
    let begins = match load.shape {
        Shape::Sse => String::from_utf8_lossy(STREAM_BEGINS).into_owned(),
        Shape::Json => r#"{"stream":false"#.to_owned(),
    };
    let start = format!(
        r#"{begins},"model":"claude-sonnet-4-5","max_tokens":1024,"messages":[{{"role":"user","content":"question "#
    );
    let (number, end) = ("0".repeat(NUMBER_DIGITS), r#""}]}"#);
    let mut filler = String::new();
    let room = load.body_bytes.saturating_sub(start.len() + number.len() + end.len());
    // As many different words as a long prompt has, in an order that does not repeat.
    for place in 0_u64.. {
        if filler.len() >= room {
            break;
        }
        let word = (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % VOCABULARY;
        filler.push_str(&format!(" w{:x}", word * word));
    }
    filler.truncate(room);
    let body = format!("{start}{number}{filler}{end}");
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {to}\r\nuser-agent: bench\r\nx-api-key: bench\r\nanthropic-version: 2023-06-01\r\n\
         content-type: application/json\r\n{}content-length: {}\r\n\r\n",
        load.headers,
        body.len()
    );
    let at = head.len() + start.len();
    (format!("{head}{body}").into_bytes(), at)
}
