//! Reads requests from an HTTP/1 connection, by hand.

use std::io;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, ReadHalf};

use super::answer::Header;
use super::received::{Head, Recorder};
use super::socket::Socket;

/// Longer heads are not in any test, and a client that never ends one must not fill memory.
const HEAD_BYTES_MAX: usize = 4 << 20;

pub(super) struct Reader {
    half: ReadHalf<Socket>,
    /// Read from the socket and not yet used.
    buffer: BytesMut,
}

/// How the body of a request is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    Known(u64),
    Chunked,
}

impl Reader {
    pub(super) fn new(half: ReadHalf<Socket>) -> Reader {
        Reader {
            half,
            buffer: BytesMut::new(),
        }
    }

    pub(super) fn into_half(self) -> ReadHalf<Socket> {
        self.half
    }

    /// The next head, or `None` at the end of the connection or when it is no HTTP.
    pub(super) async fn head(&mut self, connection: u64) -> Option<Head> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.split_to(end + 4);
                return parsed_head(&head[..end], connection);
            }
            if self.buffer.len() > HEAD_BYTES_MAX || self.more().await.is_err() {
                return None;
            }
        }
    }

    /// Reads the body to its end and tells the recorder of each piece.
    pub(super) async fn body(&mut self, length: BodyLength, recorder: &Recorder) -> io::Result<()> {
        let trailers = match length {
            BodyLength::Known(bytes) => {
                self.pass(bytes, recorder).await?;
                Vec::new()
            }
            BodyLength::Chunked => self.chunks(recorder).await?,
        };
        recorder.body_whole(trailers);
        Ok(())
    }

    async fn chunks(&mut self, recorder: &Recorder) -> io::Result<Vec<Header>> {
        loop {
            let line = self.line().await?;
            let digits = line[..].split(|byte| *byte == b';').next().unwrap_or_default();
            let digits = str::from_utf8(digits).map_err(|_| bad("a chunk's length is no text"))?;
            let bytes = u64::from_str_radix(digits.trim(), 16).map_err(|_| bad("a chunk's length is no number"))?;
            if bytes == 0 {
                break;
            }
            self.pass(bytes, recorder).await?;
            if !self.line().await?.is_empty() {
                return Err(bad("a chunk is longer than it said"));
            }
        }
        let mut trailers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(trailers);
            }
            trailers.push(parsed_header(&line).ok_or_else(|| bad("a trailer has no colon"))?);
        }
    }

    async fn pass(&mut self, mut bytes: u64, recorder: &Recorder) -> io::Result<()> {
        while bytes > 0 {
            if self.buffer.is_empty() {
                self.more().await?;
            }
            let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.buffer.len());
            recorder.body_piece(&self.buffer[..here]);
            self.buffer.advance(here);
            bytes -= here as u64;
        }
        Ok(())
    }

    async fn line(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(end);
                self.buffer.advance(2);
                return Ok(line);
            }
            self.more().await?;
        }
    }

    /// Reads on until the client closes; what comes before that is kept for the next request.
    pub(super) async fn until_closed(&mut self) {
        while self.more().await.is_ok() {}
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.half.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

pub(super) fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(super) fn body_length(head: &Head) -> BodyLength {
    let is_chunked = head
        .header_values("transfer-encoding")
        .any(|value| value.to_ascii_lowercase().ends_with(b"chunked"));
    if is_chunked {
        return BodyLength::Chunked;
    }
    let length = head
        .header("content-length")
        .and_then(|value| value.trim().parse().ok());
    BodyLength::Known(length.unwrap_or(0))
}

fn parsed_head(bytes: &[u8], connection: u64) -> Option<Head> {
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let request_line = String::from_utf8_lossy(lines.next()?).into_owned();
    let mut words = request_line.split(' ').map(str::to_owned);
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let headers = lines.map(parsed_header).collect::<Option<_>>()?;
    Some(Head {
        method,
        target,
        version,
        headers,
        connection,
        at: Instant::now(),
    })
}

fn parsed_header(line: &[u8]) -> Option<Header> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = String::from_utf8_lossy(&line[..colon]).into_owned();
    Some((name, line[colon + 1..].trim_ascii().to_vec()))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
