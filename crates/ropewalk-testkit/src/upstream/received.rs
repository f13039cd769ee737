//! What the upstream saw of one request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::watch;

use super::answer::Header;

/// A request as it came. It is handed out when its head is there; the body and the end arrive later and can be waited for.
#[derive(Debug, Clone)]
pub struct Received {
    head: Arc<Head>,
    progress: watch::Receiver<Progress>,
}

/// The head of a request, nothing sorted or merged.
#[derive(Debug)]
pub struct Head {
    pub method: String,
    /// As it stood in the request line; on HTTP/2, `:path`.
    pub target: String,
    /// "HTTP/1.1", "HTTP/1.0" or "HTTP/2".
    pub version: String,
    /// In their order and with their repetitions. On HTTP/1 the names are as they were written. On HTTP/2, names are
    /// lower case, values of one name stand together, and `:authority` is given as `host` when there is none.
    pub headers: Vec<Header>,
    /// Which connection of this upstream it came on, counted from 0.
    pub connection: u64,
    pub at: Instant,
}

/// How the request and its answer went.
#[derive(Debug, Clone, Default)]
struct Progress {
    body: BytesMut,
    body_bytes: u64,
    trailers: Vec<Header>,
    is_body_whole: bool,
    ended: Option<Ended>,
}

/// How an exchange ended, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub how: How,
    pub at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Everything the script says was done and taken.
    Done,
    /// The client closed (or reset) before that.
    ClientClosed,
    /// The request broke the rules of HTTP.
    BadRequest,
}

impl Head {
    /// The first value of a header, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header_values(name)
            .next()
            .and_then(|value| str::from_utf8(value).ok())
    }

    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let named = self
            .headers
            .iter()
            .filter(move |(given, _)| given.eq_ignore_ascii_case(name));
        named.map(|(_, value)| &value[..])
    }
}

impl std::ops::Deref for Received {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl Received {
    /// The whole body; what came of it, if the request broke off.
    pub async fn body(&self) -> Bytes {
        let mut progress = self.progress.clone();
        let _ = progress.wait_for(|now| now.is_body_whole || now.ended.is_some()).await;
        self.body_so_far()
    }

    pub fn body_so_far(&self) -> Bytes {
        Bytes::copy_from_slice(&self.progress.borrow().body)
    }

    /// Bytes of the body that came, counted even when the upstream does not keep them.
    pub fn body_bytes(&self) -> u64 {
        self.progress.borrow().body_bytes
    }

    /// Waits until this many bytes of the body are there. False if it ended before.
    pub async fn has_body_bytes(&self, bytes: u64) -> bool {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(|now| now.body_bytes >= bytes || now.is_body_whole || now.ended.is_some());
        reached.await.is_ok_and(|now| now.body_bytes >= bytes)
    }

    /// The body came to its proper end.
    pub fn is_body_whole(&self) -> bool {
        self.progress.borrow().is_body_whole
    }

    pub fn trailers(&self) -> Vec<Header> {
        self.progress.borrow().trailers.clone()
    }

    /// How the exchange ended, as soon as it has.
    pub async fn ended(&self) -> Ended {
        let mut progress = self.progress.clone();
        let ended = progress.wait_for(|now| now.ended.is_some()).await;
        let ended = ended.ok().and_then(|now| now.ended);
        // The upstream itself was dropped.
        ended.unwrap_or(Ended {
            how: How::ClientClosed,
            at: Instant::now(),
        })
    }

    /// True if the client closes within this time, counted from now, before the answer has ended.
    pub async fn closed_within(&self, time: Duration) -> bool {
        let ended = tokio::time::timeout(time, self.ended()).await;
        ended.is_ok_and(|ended| ended.how == How::ClientClosed)
    }
}

/// The writing side of a [`Received`].
#[derive(Debug)]
pub(super) struct Recorder {
    progress: watch::Sender<Progress>,
    keeps_body: bool,
}

impl Recorder {
    pub(super) fn new(head: Head, keeps_body: bool) -> (Recorder, Received) {
        let (progress, receiver) = watch::channel(Progress::default());
        let received = Received {
            head: Arc::new(head),
            progress: receiver,
        };
        (Recorder { progress, keeps_body }, received)
    }

    pub(super) fn body_piece(&self, piece: &[u8]) {
        self.progress.send_modify(|now| {
            now.body_bytes += piece.len() as u64;
            if self.keeps_body {
                now.body.extend_from_slice(piece);
            }
        });
    }

    pub(super) fn body_whole(&self, trailers: Vec<Header>) {
        self.progress.send_modify(|now| {
            now.trailers = trailers;
            now.is_body_whole = true;
        });
    }

    /// The first end counts.
    pub(super) fn ended(&self, how: How) {
        self.progress.send_modify(|now| {
            now.ended.get_or_insert(Ended {
                how,
                at: Instant::now(),
            });
        });
    }
}
