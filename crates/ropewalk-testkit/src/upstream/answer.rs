//! What the upstream answers to one request, step by step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::encoding::{Encoding, encode};

/// A script for one answer. Built by chaining; what is not said is what a well-behaved server does.
#[derive(Debug, Clone)]
pub struct Answer {
    pub(super) start: Start,
    pub(super) continues: bool,
    pub(super) informational: Vec<(u16, Vec<Header>)>,
    pub(super) status: u16,
    pub(super) headers: Vec<Header>,
    pub(super) steps: Vec<Step>,
    pub(super) framing: Framing,
    pub(super) trailers: Vec<Header>,
    pub(super) end: End,
    pub(super) is_raw: bool,
}

/// A name as it is to be written, and any bytes as its value.
pub type Header = (String, Vec<u8>);

#[derive(Debug, Clone)]
pub(super) enum Step {
    Bytes(Bytes),
    Pause(Duration),
    Wait(Gate),
}

/// How the length of the body is told. HTTP/2 has one way only and ignores this, but for [`Framing::LengthOf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `content-length` with the true length.
    Length,
    /// `content-length` with this length, true or not.
    LengthOf(u64),
    Chunked,
    /// The body ends with the connection.
    UntilClose,
    /// As an HTTP/1.0 server: no framing, the body ends with the connection.
    Http10,
    /// Nothing is said and nothing is added; for answers that have no body, or a `headers` that says it.
    Unsaid,
}

/// When the answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    AfterRequest,
    /// As soon as the head is there; the body is read afterwards.
    AfterHead,
    /// As soon as the head is there; the body is never read.
    WithoutReading,
    /// The request is read and nothing is said, until the client goes.
    Never,
}

/// What happens when all steps are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    /// TCP reset; on HTTP/2, RST_STREAM of this stream.
    Reset,
    /// TCP FIN without the end of the body (over TLS, without `close_notify`); on HTTP/2, of the whole connection.
    Close,
    /// The connection stays open and nothing more comes.
    Hang,
}

impl Answer {
    /// A status, no headers, no body.
    pub fn status(status: u16) -> Answer {
        Answer {
            start: Start::AfterRequest,
            continues: true,
            informational: Vec::new(),
            status,
            headers: Vec::new(),
            steps: Vec::new(),
            framing: Framing::Length,
            trailers: Vec::new(),
            end: End::Clean,
            is_raw: false,
        }
    }

    /// 200 with a JSON body and its length.
    pub fn json(body: impl Into<Bytes>) -> Answer {
        Answer::status(200)
            .header("content-type", "application/json")
            .chunk(body)
    }

    /// 200 with an event stream: chunked, one chunk for each item.
    pub fn events<I: Into<Bytes>>(chunks: impl IntoIterator<Item = I>) -> Answer {
        let answer = Answer::status(200).header("content-type", "text/event-stream");
        answer.framing(Framing::Chunked).chunks(chunks)
    }

    /// These bytes to the socket, after the request, and nothing else. The connection is closed afterwards unless
    /// [`Answer::then_hang`] says otherwise. HTTP/1 only.
    pub fn raw(bytes: impl Into<Bytes>) -> Answer {
        let mut answer = Answer::status(0).chunk(bytes);
        answer.is_raw = true;
        answer
    }

    /// Reads the request and never answers.
    pub fn never() -> Answer {
        let mut answer = Answer::status(0);
        answer.start = Start::Never;
        answer
    }

    /// May be said repeatedly; nothing is sorted, merged or checked.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Answer {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    /// One write to the socket, and one chunk if the framing is chunked.
    #[must_use]
    pub fn chunk(mut self, bytes: impl Into<Bytes>) -> Answer {
        self.steps.push(Step::Bytes(bytes.into()));
        self
    }

    #[must_use]
    pub fn chunks<I: Into<Bytes>>(mut self, chunks: impl IntoIterator<Item = I>) -> Answer {
        self.steps
            .extend(chunks.into_iter().map(|chunk| Step::Bytes(chunk.into())));
        self
    }

    /// Waits until the test opens the gate.
    #[must_use]
    pub fn wait_for(mut self, gate: &Gate) -> Answer {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// A pause between every two chunks.
    #[must_use]
    pub fn pause_between(mut self, time: Duration) -> Answer {
        let steps = std::mem::take(&mut self.steps);
        for step in steps {
            if !self.steps.is_empty() && matches!(step, Step::Bytes(_)) {
                self.steps.push(Step::Pause(time));
            }
            self.steps.push(step);
        }
        self
    }

    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Answer {
        self.framing = framing;
        self
    }

    /// Sent after a chunked body, or at the end of an HTTP/2 stream.
    #[must_use]
    pub fn trailer(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Answer {
        self.trailers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    /// Compresses the chunks given so far, each of them flushed, and says so in `content-encoding`. Said twice, it
    /// stacks.
    #[must_use]
    pub fn encoded(mut self, encoding: Encoding) -> Answer {
        let plain = self.steps.iter().filter_map(|step| match step {
            Step::Bytes(bytes) => Some(bytes.clone()),
            Step::Pause(_) | Step::Wait(_) => None,
        });
        let mut encoded = encode(encoding, plain).into_iter();
        for step in &mut self.steps {
            if let Step::Bytes(bytes) = step {
                *bytes = encoded.next().unwrap_or_default();
            }
        }
        // What the encoder writes at its very end, if there was no chunk to carry it.
        self.steps.extend(encoded.map(Step::Bytes));
        let stacked = self
            .headers
            .iter_mut()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
        match stacked {
            Some((_, value)) => value.extend_from_slice(format!(", {}", encoding.name()).as_bytes()),
            None => self
                .headers
                .push(("content-encoding".to_owned(), encoding.name().into())),
        }
        self
    }

    /// A 1xx answer, sent as soon as the head of the request is there. HTTP/1 only: hyper sends none on HTTP/2.
    #[must_use]
    pub fn informational(mut self, status: u16, headers: &[(&str, &str)]) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        self.informational.push((status, headers.collect()));
        self
    }

    /// Does not say `100 Continue` to a request that expects it.
    #[must_use]
    pub fn without_continue(mut self) -> Answer {
        self.continues = false;
        self
    }

    /// Answers when the head of the request is there, and reads its body afterwards.
    #[must_use]
    pub fn before_reading(mut self) -> Answer {
        self.start = Start::AfterHead;
        self
    }

    /// Answers when the head of the request is there, and never reads its body.
    #[must_use]
    pub fn without_reading(mut self) -> Answer {
        self.start = Start::WithoutReading;
        self
    }

    /// After the steps: a TCP reset (HTTP/2: RST_STREAM) in the place of the body's end.
    #[must_use]
    pub fn then_reset(mut self) -> Answer {
        self.end = End::Reset;
        self
    }

    /// After the steps: the connection is closed in the place of the body's end.
    #[must_use]
    pub fn then_close(mut self) -> Answer {
        self.end = End::Close;
        self
    }

    /// After the steps: nothing more comes, and the connection stays open.
    #[must_use]
    pub fn then_hang(mut self) -> Answer {
        self.end = End::Hang;
        self
    }

    /// The bytes of the body as they are to arrive (compressed, if it is).
    pub fn body(&self) -> Vec<u8> {
        let pieces = self.steps.iter().filter_map(|step| match step {
            Step::Bytes(bytes) => Some(&bytes[..]),
            Step::Pause(_) | Step::Wait(_) => None,
        });
        pieces.collect::<Vec<_>>().concat()
    }
}

/// Holds an answer back until the test opens it. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub fn closed() -> Gate {
        Gate(Arc::new(watch::Sender::new(false)))
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn passed(&self) {
        // The sender is `self`, so it cannot be gone.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

impl Step {
    /// Waits as the step says; the bytes, if it has some.
    pub(super) async fn reached(&self) -> Option<Bytes> {
        match self {
            Step::Bytes(bytes) => return Some(bytes.clone()),
            Step::Pause(time) => tokio::time::sleep(*time).await,
            Step::Wait(gate) => gate.passed().await,
        }
        None
    }
}
