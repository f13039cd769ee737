//! Equal calls that are under way, and those that ended a moment ago.
//!
//! Between the end of a call and the moment the store knows its answer lies the journal. An answer is kept here for that long, so
//! that a crowd of equal calls asks once, however late the last of it comes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::forward::{Flight, FlightAnswer, Lead, Waiter};

/// How long an answer is kept here. The store has it within a second, unless it is down.
const RECENT_TIME: Duration = Duration::from_secs(60);

/// How much is kept here of answers and of what they answer.
const RECENT_BYTES_MAX: usize = 64 << 20;

/// Whose call, and the hash of what reaches the model.
pub(super) type CallKey = (Arc<str>, [u8; 32]);

/// A call and all of it that counts.
#[derive(Debug, Clone)]
pub(super) struct CallName {
    pub(super) key: CallKey,
    pub(super) essence: Arc<[u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    flying: HashMap<CallKey, Flying>,
    recent: HashMap<CallKey, Recent>,
    /// In the order of their ends.
    ended: VecDeque<(Instant, CallKey)>,
    recent_bytes: usize,
}

#[derive(Debug)]
struct Flying {
    essence: Arc<[u8]>,
    flight: Arc<Flight>,
}

#[derive(Debug)]
struct Recent {
    essence: Arc<[u8]>,
    answer: Arc<FlightAnswer>,
    at: Instant,
}

/// What there is of an equal call.
#[derive(Debug)]
pub(super) enum Known {
    UnderWay(Waiter),
    Answered(Arc<FlightAnswer>),
}

impl Flights {
    pub(super) fn find(&self, name: &CallName) -> Option<Known> {
        self.lock().find(name)
    }

    /// An equal call, or the right to make one that others find.
    pub(super) fn find_or_lead(self: &Arc<Self>, name: &CallName) -> Result<Known, Arc<Lead>> {
        let mut inner = self.lock();
        match inner.find(name) {
            Some(known) => Ok(known),
            None => Err(self.lead(&mut inner, name)),
        }
    }

    /// The right to make a call that is newer than any other.
    pub(super) fn lead_anew(self: &Arc<Self>, name: &CallName) -> Arc<Lead> {
        self.lead(&mut self.lock(), name)
    }

    fn lead(self: &Arc<Self>, inner: &mut Inner, name: &CallName) -> Arc<Lead> {
        let (flights, ended) = (Arc::downgrade(self), name.clone());
        // The end of a flight tells which it was: a newer one may have taken its place.
        let this: Arc<Mutex<Weak<Flight>>> = Arc::default();
        let me = Arc::clone(&this);
        let (flight, lead) = Flight::start(move |answer| {
            let flight = me.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(flights) = flights.upgrade() {
                flights.lock().end(&ended, &flight, answer);
            }
        });
        *this.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&flight);
        let essence = Arc::clone(&name.essence);
        inner.flying.insert(name.key.clone(), Flying { essence, flight });
        lead
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn find(&mut self, name: &CallName) -> Option<Known> {
        let flying = self
            .flying
            .get(&name.key)
            .filter(|flying| flying.essence == name.essence);
        if let Some(waiter) = flying.and_then(|flying| flying.flight.join()) {
            return Some(Known::UnderWay(waiter));
        }
        self.forget_old();
        let recent = self
            .recent
            .get(&name.key)
            .filter(|recent| recent.essence == name.essence)?;
        Some(Known::Answered(Arc::clone(&recent.answer)))
    }

    fn end(&mut self, name: &CallName, flight: &Weak<Flight>, answer: Option<&Arc<FlightAnswer>>) {
        let is_it = |flying: &Flying| std::ptr::eq(Arc::as_ptr(&flying.flight), flight.as_ptr());
        if self.flying.get(&name.key).is_some_and(is_it) {
            self.flying.remove(&name.key);
        }
        let Some(answer) = answer.filter(|answer| answer.status.is_success()) else {
            return;
        };
        let recent = Recent {
            essence: Arc::clone(&name.essence),
            answer: Arc::clone(answer),
            at: Instant::now(),
        };
        self.recent_bytes += recent.bytes();
        self.ended.push_back((recent.at, name.key.clone()));
        if let Some(before) = self.recent.insert(name.key.clone(), recent) {
            self.recent_bytes -= before.bytes();
        }
        self.forget_old();
    }

    fn forget_old(&mut self) {
        while let Some((at, key)) = self.ended.front() {
            if at.elapsed() < RECENT_TIME && self.recent_bytes <= RECENT_BYTES_MAX {
                return;
            }
            if self.recent.get(key).is_some_and(|recent| recent.at == *at)
                && let Some(recent) = self.recent.remove(key)
            {
                self.recent_bytes -= recent.bytes();
            }
            self.ended.pop_front();
        }
    }
}

impl Recent {
    fn bytes(&self) -> usize {
        self.essence.len() + self.answer.body.len()
    }
}
