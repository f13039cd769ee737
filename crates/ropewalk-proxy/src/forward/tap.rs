//! One exchange's end of the tee.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::answer::Refusal;
use crate::clock::now;
use crate::tee::{Ending, Event, ExchangeKey, Head, Released, ResponseHead, Tee};

/// Shared by the request's body and by whoever holds the [`Watch`].
#[derive(Debug, Clone)]
pub(crate) struct Tap(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    tee: Tee,
    key: ExchangeKey,
    /// The answer said that it is complete.
    whole: Cell<bool>,
    ended: Cell<bool>,
}

impl Tap {
    pub(crate) fn begin(tee: &Tee, key: ExchangeKey, head: Head) -> Self {
        tee.send(Event::Begin(key, Box::new(head)));
        Tap(Rc::new(Inner {
            tee: tee.clone(),
            key,
            whole: Cell::new(false),
            ended: Cell::new(false),
        }))
    }

    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        self.0.tee.poll_room(cx)
    }

    pub(crate) fn request_data(&self, data: &Bytes) {
        self.send(|key| Event::RequestData(key, data.clone()));
    }

    pub(crate) fn request_end(&self) {
        self.send(Event::RequestEnd);
    }

    /// Another body goes to the provider than the client sent.
    pub(crate) fn sent(&self, body: &Bytes) {
        self.send(|key| Event::Sent(key, body.clone()));
    }

    /// The answer comes from the store.
    pub(crate) fn reused(&self) {
        self.send(Event::Reused);
    }

    pub(crate) fn response_head(&self, head: ResponseHead) {
        self.send(|key| Event::ResponseHead(key, Box::new(head)));
    }

    pub(crate) fn response_data(&self, data: &Bytes) {
        self.send(|key| Event::ResponseData(key, data.clone(), now()));
    }

    /// The answer says that it is whole, though its body may go on. Whoever gets the receiver waits for the journal.
    pub(crate) fn whole(&self) -> oneshot::Receiver<Released> {
        let (release, released) = oneshot::channel();
        self.0.whole.set(true);
        self.send(|exchange| Event::Whole { exchange, release });
        released
    }

    /// The end, with somebody who waits for the journal.
    pub(crate) fn end(&self, ending: Ending) -> oneshot::Receiver<Released> {
        let (release, released) = oneshot::channel();
        self.0.end(ending, Some(release));
        released
    }

    /// The end, with nobody there to wait.
    pub(crate) fn abandon(&self, ending: Ending) {
        self.0.end(ending, None);
    }

    fn send(&self, event: impl FnOnce(ExchangeKey) -> Event) {
        if !self.0.ended.get() {
            self.0.tee.send(event(self.0.key));
        }
    }
}

impl Inner {
    fn end(&self, ending: Ending, release: Option<oneshot::Sender<Released>>) {
        // Some clients hang up as soon as they have read the last event, and that is no cancelling.
        let ending = match self.whole.get() {
            true => Ending::Complete,
            false => ending,
        };
        if !self.ended.replace(true) {
            self.tee.send(Event::End {
                exchange: self.key,
                ending,
                at: now(),
                release,
            });
        }
    }
}

/// Held from the request's head to the answer's end. Dropped on the way, it ends the exchange: nobody else drops it than the
/// connection to a client that is gone.
#[derive(Debug)]
pub(crate) struct Watch(Option<Tap>);

impl Watch {
    pub(crate) fn new(tap: Option<Tap>) -> Self {
        Watch(tap)
    }

    pub(crate) fn tap(&self) -> Option<&Tap> {
        self.0.as_ref()
    }

    /// We answer in the provider's place.
    pub(crate) fn refused(&self, refusal: Refusal) {
        if let Some(tap) = &self.0 {
            tap.abandon(ending_of(refusal));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(tap) = &self.0 {
            tap.abandon(Ending::ClientCancelled);
        }
    }
}

fn ending_of(refusal: Refusal) -> Ending {
    match refusal {
        Refusal::Unreachable | Refusal::ConnectTime => Ending::Truncated,
        Refusal::BodyBroken => Ending::ClientCancelled,
        _ => Ending::Refused,
    }
}
