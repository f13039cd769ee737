//! A call that several clients wait for.
//!
//! The flight owns the call, not the client that came first: it goes on when that one leaves, as long as anybody waits, and is
//! given up when the last one has left. Who leads it gets the answer piece by piece as if nobody else were there; the others get it
//! whole when it has ended, or learn that there is none.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use ropewalk_store::Micros;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

/// Largest answer that is kept for those who wait. Beyond it they ask themselves.
pub(super) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// An answer that came to its end, as the provider gave it.
#[derive(Debug, Clone)]
pub struct FlightAnswer {
    /// The recorded exchange.
    pub id: Option<Uuid>,
    pub ended_at: Micros,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// How far a flight has come.
#[derive(Debug, Clone)]
pub enum Progress {
    UnderWay,
    Answered(Arc<FlightAnswer>),
    /// There is no answer, and there will be none.
    Failed,
}

#[derive(Debug)]
pub struct Flight {
    state: Mutex<State>,
    /// Somebody left.
    left: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    is_given_up: bool,
}

/// Told of the answer, or that there is none, before anybody else is.
pub type OnEnd = Box<dyn FnOnce(Option<&Arc<FlightAnswer>>) + Send>;

impl Flight {
    /// A flight, and the right to lead it. A lead that is dropped without an answer has failed.
    pub fn start(on_end: impl FnOnce(Option<&Arc<FlightAnswer>>) + Send + 'static) -> (Arc<Self>, Arc<Lead>) {
        let flight = Arc::new(Flight {
            state: Mutex::default(),
            left: Notify::new(),
            progress: watch::Sender::new(Progress::UnderWay),
        });
        let lead = Lead {
            flight: Arc::clone(&flight),
            on_end: Mutex::new(Some(Box::new(on_end))),
        };
        (flight, Arc::new(lead))
    }

    /// Waits with the others; `None` if the call was given up a moment ago.
    pub fn join(self: &Arc<Self>) -> Option<Waiter> {
        let mut state = self.state();
        if state.is_given_up {
            return None;
        }
        state.waiting += 1;
        Some(Waiter(Arc::clone(self)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits, until it is dropped.
#[derive(Debug)]
pub struct Waiter(Arc<Flight>);

impl Waiter {
    /// The answer, or `None` if there is none.
    pub async fn answer(&self) -> Option<Arc<FlightAnswer>> {
        let mut progress = self.0.progress.subscribe();
        let ended = progress.wait_for(|progress| !matches!(progress, Progress::UnderWay));
        match &*ended.await.ok()? {
            Progress::Answered(answer) => Some(Arc::clone(answer)),
            Progress::UnderWay | Progress::Failed => None,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
        self.0.left.notify_one();
    }
}

/// The right to make the call, which whoever makes it holds until it has ended.
pub struct Lead {
    flight: Arc<Flight>,
    on_end: Mutex<Option<OnEnd>>,
}

impl Lead {
    /// The place of the client that came first.
    pub(super) fn waiter(&self) -> Option<Waiter> {
        self.flight.join()
    }

    /// Ends when nobody waits any more. From then on nobody can.
    pub(super) async fn given_up(&self) {
        loop {
            {
                let mut state = self.flight.state();
                if state.waiting == 0 {
                    state.is_given_up = true;
                    return;
                }
            }
            self.flight.left.notified().await;
        }
    }

    pub(super) fn answered(&self, answer: FlightAnswer) {
        self.end(Some(Arc::new(answer)));
    }

    fn end(&self, answer: Option<Arc<FlightAnswer>>) {
        let on_end = self.on_end.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(on_end) = on_end else { return };
        on_end(answer.as_ref());
        self.flight.progress.send_replace(match answer {
            Some(answer) => Progress::Answered(answer),
            None => Progress::Failed,
        });
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead")
            .field("flight", &self.flight)
            .finish_non_exhaustive()
    }
}
