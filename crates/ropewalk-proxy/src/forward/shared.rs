//! The call of a flight, made beside all its clients.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::response;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::answer::{BodyError, Refusal};
use super::flight::{ANSWER_BYTES_MAX, FlightAnswer, Lead, Waiter};
use super::response_body::ResponseBody;
use super::service::Call;
use crate::clock::now;

/// Pieces that lie between the call and the client that came first; a slow client slows it down as it would its own call.
const PIECES_MAX: usize = 8;

/// The answer's body for the client that came first.
#[derive(Debug)]
pub(crate) struct SharedBody {
    pieces: mpsc::Receiver<Result<Frame<Bytes>, BodyError>>,
    announced: SizeHint,
    is_empty: bool,
    /// Somebody waits until this is gone.
    _waiter: Waiter,
}

/// Makes the call in a task of its own. `None` is for a flight that was given up: the client has left.
pub(crate) async fn fly(
    call: Call,
    lead: Arc<Lead>,
    id: Option<Uuid>,
) -> Result<Option<(response::Parts, SharedBody)>, Refusal> {
    let Some(waiter) = lead.waiter() else { return Ok(None) };
    let (head, told) = oneshot::channel();
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = lead.given_up() => {}
            () = make(call, &lead, id, head) => {}
        }
    });
    let Ok(begun) = told.await else { return Ok(None) };
    let (parts, pieces, announced, is_empty) = begun?;
    let body = SharedBody {
        pieces,
        announced,
        is_empty,
        _waiter: waiter,
    };
    Ok(Some((parts, body)))
}

type Begun = (
    response::Parts,
    mpsc::Receiver<Result<Frame<Bytes>, BodyError>>,
    SizeHint,
    bool,
);

async fn make(call: Call, lead: &Lead, id: Option<Uuid>, head: oneshot::Sender<Result<Begun, Refusal>>) {
    let (parts, mut body) = match call.make().await {
        Ok(answer) => answer,
        Err(refusal) => {
            drop(head.send(Err(refusal)));
            return;
        }
    };
    let (to_client, pieces) = mpsc::channel(PIECES_MAX);
    // Whether the client that came first is still there makes no difference.
    drop(head.send(Ok((parts.clone(), pieces, body.size_hint(), body.is_end_stream()))));
    let Some(whole) = pass_on(&mut body, &to_client).await else {
        return;
    };
    lead.answered(FlightAnswer {
        id,
        ended_at: now(),
        status: parts.status,
        headers: parts.headers,
        body: whole,
    });
}

/// Passes the answer to the client that came first while it is there. All of it at its end, if it came to one and is not too large.
async fn pass_on(body: &mut ResponseBody, to_client: &mpsc::Sender<Result<Frame<Bytes>, BodyError>>) -> Option<Bytes> {
    let mut whole = Some(BytesMut::new());
    loop {
        let piece = match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => {
                drop(to_client.send(Err(error.into())).await);
                return None;
            }
            None => return whole.map(BytesMut::freeze),
        };
        if let Some(data) = piece.data_ref() {
            let fits = whole
                .as_ref()
                .is_some_and(|so_far| so_far.len() + data.len() <= ANSWER_BYTES_MAX);
            whole = whole.filter(|_| fits);
            if let Some(so_far) = &mut whole {
                so_far.extend_from_slice(data);
            }
        }
        drop(to_client.send(Ok(piece)).await);
    }
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.pieces.poll_recv(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty
    }

    /// Asked before the first piece, to choose the framing.
    fn size_hint(&self) -> SizeHint {
        self.announced
    }
}
