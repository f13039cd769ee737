//! HTTP/1.0 and 1.1 by hand: the script decides, not the standard.

use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWriteExt, WriteHalf, split};
use tokio::sync::Notify;

use super::answer::{Answer, End, Framing, Header, Start, Step};
use super::http1_request::{BodyLength, Reader, body_length};
use super::received::{Head, How, Received, Recorder};
use super::socket::Socket;
use super::{Chosen, Shared};

/// What becomes of the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    NextRequest,
    /// The proper end: `close_notify` over TLS, then FIN.
    Shutdown,
    /// FIN alone.
    Drop,
    Reset,
}

pub(super) async fn serve(socket: Socket, number: u64, shared: Arc<Shared>) {
    let (read, mut write) = split(socket);
    let mut reader = Reader::new(read);
    while let Some(head) = reader.head(number).await {
        let length = body_length(&head);
        let chosen = shared.choose(&head);
        let (recorder, received) = shared.announce(head);
        let after = exchange(&mut reader, &mut write, chosen, length, &recorder, &received).await;
        match after {
            After::NextRequest => {}
            After::Shutdown => {
                // A client that is gone already needs no goodbye.
                let _ = write.shutdown().await;
                return;
            }
            After::Drop => return,
            After::Reset => return reader.into_half().unsplit(write).reset(),
        }
    }
}

/// Reads the request and answers it, in the order that the script wants, with an eye on the client.
async fn exchange(
    reader: &mut Reader,
    write: &mut WriteHalf<Socket>,
    chosen: Chosen,
    length: BodyLength,
    recorder: &Recorder,
    received: &Received,
) -> After {
    let reads = !matches!(&chosen, Chosen::Fixed(answer) if answer.start == Start::WithoutReading);
    let body_read = Notify::new();
    let reading = async {
        if !reads {
            pending::<()>().await;
        }
        match reader.body(length, recorder).await {
            Ok(()) => body_read.notify_one(),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return How::BadRequest,
            Err(_) => return How::ClientClosed,
        }
        reader.until_closed().await;
        How::ClientClosed
    };
    let answering = answer(write, chosen, received, &body_read);
    tokio::pin!(reading, answering);
    let answered = tokio::select! {
        // The end of the answer and the client's goodbye may be seen in one go; then the answer came first.
        biased;
        answered = &mut answering => answered,
        how = &mut reading => {
            recorder.ended(how);
            return After::Drop;
        }
    };
    let Ok(after) = answered else {
        recorder.ended(How::ClientClosed);
        return After::Drop;
    };
    if after == After::NextRequest && reads && !received.is_body_whole() {
        tokio::select! {
            how = &mut reading => {
                recorder.ended(how);
                return After::Drop;
            }
            () = body_read.notified() => {}
        }
    }
    recorder.ended(How::Done);
    // What was not read of the body would be taken for the next request.
    if reads { after } else { after.without_next() }
}

impl After {
    fn without_next(self) -> After {
        match self {
            After::NextRequest => After::Shutdown,
            other => other,
        }
    }
}

async fn answer(
    write: &mut WriteHalf<Socket>,
    chosen: Chosen,
    received: &Received,
    body_read: &Notify,
) -> io::Result<After> {
    let expects = received.header("expect").is_some_and(|value| value == "100-continue");
    let says_continue = match &chosen {
        Chosen::Fixed(answer) => answer.continues && matches!(answer.start, Start::AfterRequest | Start::Never),
        Chosen::Computed(_) => true,
    };
    if expects && says_continue {
        write_all(write, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    if let Chosen::Fixed(answer) = &chosen {
        informational(write, answer).await?;
        if answer.start == Start::AfterRequest {
            body_read.notified().await;
        }
    }
    let answer = match chosen {
        Chosen::Fixed(answer) => *answer,
        Chosen::Computed(compute) => {
            body_read.notified().await;
            let answer = (compute.0)(received, &received.body_so_far());
            informational(write, &answer).await?;
            answer
        }
    };
    if answer.start == Start::Never {
        pending::<()>().await;
    }
    if !answer.is_raw {
        write_all(write, &head_of(&answer, received)).await?;
    }
    body(write, &answer, received).await
}

async fn informational(write: &mut WriteHalf<Socket>, answer: &Answer) -> io::Result<()> {
    for (status, headers) in &answer.informational {
        let mut out = status_line("HTTP/1.1", *status);
        put_headers(&mut out, headers);
        out.extend_from_slice(b"\r\n");
        write_all(write, &out).await?;
    }
    Ok(())
}

fn head_of(answer: &Answer, head: &Head) -> BytesMut {
    let version = if answer.framing == Framing::Http10 {
        "HTTP/1.0"
    } else {
        "HTTP/1.1"
    };
    let mut out = status_line(version, answer.status);
    put_headers(&mut out, &answer.headers);
    let has_body = !matches!(answer.status, 100..=199 | 204 | 304);
    let length = match answer.framing {
        Framing::Length if has_body => Some(answer.body().len() as u64),
        Framing::LengthOf(length) => Some(length),
        _ => None,
    };
    if let Some(length) = length {
        put_header(&mut out, "content-length", length.to_string().as_bytes());
    }
    match answer.framing {
        Framing::Chunked => put_header(&mut out, "transfer-encoding", b"chunked"),
        Framing::UntilClose if head.version == "HTTP/1.1" => put_header(&mut out, "connection", b"close"),
        _ => {}
    }
    out.extend_from_slice(b"\r\n");
    out
}

async fn body(write: &mut WriteHalf<Socket>, answer: &Answer, head: &Head) -> io::Result<After> {
    let is_chunked = answer.framing == Framing::Chunked && !answer.is_raw;
    let has_body = head.method != "HEAD" || answer.is_raw;
    if has_body {
        for step in &answer.steps {
            if let Some(bytes) = Step::reached(step).await.filter(|bytes| !bytes.is_empty()) {
                write_piece(write, bytes, is_chunked).await?;
            }
        }
    }
    match answer.end {
        End::Clean => {}
        End::Reset => return Ok(After::Reset),
        End::Close => return Ok(After::Drop),
        End::Hang => pending::<()>().await,
    }
    if is_chunked && has_body {
        let mut out = BytesMut::from(&b"0\r\n"[..]);
        put_headers(&mut out, &answer.trailers);
        out.extend_from_slice(b"\r\n");
        write_all(write, &out).await?;
    }
    let says_close = |headers: &[Header]| {
        headers
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case(b"close"))
    };
    let closes = answer.is_raw
        || matches!(answer.framing, Framing::UntilClose | Framing::Http10)
        || head.version == "HTTP/1.0"
        || says_close(&answer.headers)
        || says_close(&head.headers);
    Ok(if closes { After::Shutdown } else { After::NextRequest })
}

/// One write for a piece with its framing, so that it arrives as one.
async fn write_piece(write: &mut WriteHalf<Socket>, bytes: Bytes, is_chunked: bool) -> io::Result<()> {
    if !is_chunked {
        return write_all(write, &bytes).await;
    }
    let mut out = BytesMut::with_capacity(bytes.len() + 16);
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(&bytes);
    out.extend_from_slice(b"\r\n");
    write_all(write, &out).await
}

async fn write_all(write: &mut WriteHalf<Socket>, bytes: &[u8]) -> io::Result<()> {
    write.write_all(bytes).await?;
    write.flush().await
}

fn status_line(version: &str, status: u16) -> BytesMut {
    let code = http::StatusCode::from_u16(status).ok();
    let reason = code.and_then(|code| code.canonical_reason()).unwrap_or("Scripted");
    BytesMut::from(format!("{version} {status} {reason}\r\n").as_bytes())
}

fn put_headers(out: &mut BytesMut, headers: &[Header]) {
    for (name, value) in headers {
        put_header(out, name, value);
    }
}

fn put_header(out: &mut BytesMut, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
