//! HTTP/1.1 as both ends of the benchmark read it: a head, then a body by its length or in chunks. Nothing is copied that is not
//! looked at, because both ends share one core and must not be what is measured.

use std::io;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

const READ_BYTES: usize = 64 << 10;

/// A socket with what was read from it and not used yet.
pub(crate) struct Incoming {
    pub(crate) socket: TcpStream,
    waiting: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Incoming {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Incoming {
            socket,
            waiting: Vec::with_capacity(READ_BYTES),
        }
    }

    /// False at the end of the stream.
    async fn more(&mut self) -> io::Result<bool> {
        self.waiting.reserve(READ_BYTES);
        Ok(self.socket.read_buf(&mut self.waiting).await? > 0)
    }

    /// The first line and how long the body is. `None` where the other side has closed.
    async fn head(&mut self, begun: &mut impl FnMut()) -> io::Result<Option<(String, Framing)>> {
        let mut is_first = true;
        loop {
            if !self.waiting.is_empty() && is_first {
                is_first = false;
                begun();
            }
            if let Some(end) = find(&self.waiting, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.waiting[..end]).into_owned();
                self.waiting.drain(..end + 4);
                let first = head.lines().next().unwrap_or_default().to_owned();
                return Ok(Some((first, framing(&head))));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// One message: its first line, once it is there as a whole. `begun` is called at its first byte, `data` with each piece of
    /// the body as it comes.
    pub(crate) async fn message(
        &mut self,
        mut begun: impl FnMut(),
        mut data: impl FnMut(&[u8]),
    ) -> io::Result<Option<String>> {
        let Some((first, framing)) = self.head(&mut begun).await? else {
            return Ok(None);
        };
        match framing {
            Framing::Length(length) => self.pass(length, &mut data).await?,
            Framing::Chunked => loop {
                let length = self.chunk_length().await?;
                if length == 0 {
                    self.skip(2).await?;
                    break;
                }
                self.pass(length, &mut data).await?;
                self.skip(2).await?;
            },
        }
        Ok(Some(first))
    }

    async fn chunk_length(&mut self) -> io::Result<usize> {
        loop {
            if let Some(end) = find(&self.waiting, b"\r\n") {
                let line = String::from_utf8_lossy(&self.waiting[..end]).into_owned();
                self.waiting.drain(..end + 2);
                let digits = line.split(';').next().unwrap_or_default().trim();
                return usize::from_str_radix(digits, 16).map_err(io::Error::other);
            }
            self.must_have_more().await?;
        }
    }

    async fn pass(&mut self, mut length: usize, data: &mut impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            let here = length.min(self.waiting.len());
            data(&self.waiting[..here]);
            self.waiting.drain(..here);
            length -= here;
            if length == 0 {
                return Ok(());
            }
            self.must_have_more().await?;
        }
    }

    async fn skip(&mut self, length: usize) -> io::Result<()> {
        self.pass(length, &mut |_| ()).await
    }

    async fn must_have_more(&mut self) -> io::Result<()> {
        match self.more().await? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn framing(head: &str) -> Framing {
    let mut length = 0;
    for line in head.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked") {
            return Framing::Chunked;
        }
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    Framing::Length(length)
}

pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
