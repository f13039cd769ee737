//! Answers from the store, for calls of which the model would see the same.
//!
//! [`Reuse`] looks at requests before they are forwarded. Off unless the client asks for it (`x-ropewalk-reuse`) or a [`Rule`] of the
//! configuration does. In this order: is it allowed (`rules`), is there an equal call under way (`flights`), does the store
//! have an answer; else this request makes the call, and others that come meanwhile wait for it.
//!
//! Invariants: every look-up is within the owner; an answer is given only if everything that reaches the model is equal, byte
//! for byte; whatever goes wrong here, the provider is asked as if nobody had looked.

mod call;
mod counters;
mod flights;
mod rules;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use ropewalk_engine::reuse::{HIT, REUSE_HEADER, REUSED_FROM_HEADER, Reusable};
use ropewalk_store::{Micros, Store};
use ropewalk_wire::provider::Endpoint;
use tokio::runtime::Handle;

use crate::forward::{Asked, FlightAnswer, Interpose, Opened, STORE_TIME, Verdict, Waiter, WholeRequest, elsewhere};
use crate::tee::Keep;
use call::{Call, Reader};
pub use counters::{Counters, Outcome};
use flights::{Flights, Known};
pub use rules::Rule;
use rules::{Subject, Wish};

/// How long a call of somebody else is waited for before the provider is asked.
const FLIGHT_TIME: Duration = Duration::from_secs(30);

/// Answers requests from a store.
pub struct Reuse<S> {
    shared: Arc<Shared<S>>,
    /// Where verdicts are made.
    runtime: Handle,
}

struct Shared<S> {
    store: Opened<S>,
    rules: RwLock<Arc<[Rule]>>,
    flights: Arc<Flights>,
    counters: Arc<Counters>,
    flight_time: Duration,
}

impl<S> std::fmt::Debug for Reuse<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reuse").finish_non_exhaustive()
    }
}

impl<S: Store + 'static> Reuse<S> {
    pub fn new(store: Opened<S>, rules: Vec<Rule>, runtime: Handle) -> Self {
        Reuse {
            shared: Arc::new(Shared {
                store,
                rules: RwLock::new(rules.into()),
                flights: Arc::default(),
                counters: Arc::default(),
                flight_time: FLIGHT_TIME,
            }),
            runtime,
        }
    }

    /// Another limit for how long a call of somebody else is waited for.
    #[must_use]
    pub fn waiting(mut self, flight_time: Duration) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.flight_time = flight_time;
        }
        self
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.shared.counters
    }

    /// Takes other rules for requests that begin from now on.
    pub fn reload(&self, rules: Vec<Rule>) {
        *self.shared.rules.write().unwrap_or_else(PoisonError::into_inner) = rules.into();
    }
}

impl<S: Store + 'static> Interpose for Reuse<S> {
    fn wants(&self, head: &Asked<'_>) -> bool {
        let is_answered = matches!(
            head.route.endpoint,
            Endpoint::Messages
                | Endpoint::Chat
                | Endpoint::Responses
                | Endpoint::GeminiGenerate { .. }
                | Endpoint::GeminiStream { .. }
        );
        if !is_answered || *head.method != Method::POST {
            return false;
        }
        match Wish::of(head.headers) {
            Some(Wish::Off) => false,
            Some(Wish::Exact | Wish::Refresh) => true,
            None => {
                let subject = Subject::of_head(head.route, head.headers);
                self.shared.rules().iter().any(|rule| rule.fits(subject))
            }
        }
    }

    fn decide(&self, asked: WholeRequest) -> Pin<Box<dyn Future<Output = Verdict> + Send>> {
        let shared = Arc::clone(&self.shared);
        elsewhere(&self.runtime, async move { shared.decide(asked).await })
    }
}

impl<S: Store> Shared<S> {
    fn rules(&self) -> Arc<[Rule]> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    async fn decide(&self, asked: WholeRequest) -> Verdict {
        if asked.keep != Some(Keep::Everything) {
            return self.pass(Outcome::Unfit);
        }
        let call = match Call::read(&asked, &self.rules()) {
            Ok(Some(call)) => call,
            Ok(None) => return Verdict::Pass,
            Err(outcome) => return self.pass(outcome),
        };
        let reader = call.reader;
        if call.wish == Wish::Refresh {
            self.counters.add(Outcome::Refresh);
            return Verdict::Lead(self.flights.lead_anew(&call.name));
        }
        let recent = match self.flights.find(&call.name) {
            Some(Known::UnderWay(waiter)) => {
                drop((asked, call));
                return self.follow(reader, waiter).await;
            }
            Some(Known::Answered(answer)) => Some(answer),
            None => None,
        };
        let stored = self.stored(&call, &asked.owner).await;
        // Whichever is newer: another process may have asked again.
        let is_recent = match (&recent, &stored) {
            (Some(recent), Some(stored)) => recent.ended_at >= stored.ended_at,
            (recent, _) => recent.is_some(),
        };
        let verdict = match (recent.filter(|_| is_recent), stored) {
            (Some(recent), _) => self.shared_answer(reader, &recent),
            (None, Some(stored)) => self.answer(reader, &stored, Outcome::Hit),
            (None, None) => None,
        };
        if let Some(verdict) = verdict {
            return verdict;
        }
        match self.flights.find_or_lead(&call.name) {
            Ok(Known::UnderWay(waiter)) => {
                drop((asked, call));
                self.follow(reader, waiter).await
            }
            Ok(Known::Answered(answer)) => {
                let verdict = self.shared_answer(reader, &answer);
                verdict.unwrap_or_else(|| self.pass(Outcome::Miss))
            }
            Err(lead) => {
                self.counters.add(Outcome::Miss);
                Verdict::Lead(lead)
            }
        }
    }

    fn pass(&self, outcome: Outcome) -> Verdict {
        self.counters.add(outcome);
        Verdict::Pass
    }

    /// Waits for somebody else's call, and asks if that takes too long or fails.
    async fn follow(&self, reader: Reader, waiter: Waiter) -> Verdict {
        let waiting = self.counters.wait();
        let answer = tokio::time::timeout(self.flight_time, waiter.answer()).await;
        drop((waiter, waiting));
        let verdict = answer
            .ok()
            .flatten()
            .and_then(|answer| self.shared_answer(reader, &answer));
        verdict.unwrap_or_else(|| self.pass(Outcome::Miss))
    }

    async fn stored(&self, call: &Call, owner: &str) -> Option<Reusable> {
        let mut store = self.store.clone();
        let find = async {
            // Right after the start it is being opened.
            let store = store.wait_for(Option::is_some).await.ok()?.clone()?;
            Some(call.find(&*store, owner).await)
        };
        let found = tokio::time::timeout(STORE_TIME, find).await;
        match found {
            Ok(Some(Ok(found))) => found,
            Ok(Some(Err(error))) => self.failed(&error.to_string()),
            Ok(None) => self.failed("there is no store any more"),
            Err(_) => self.failed("the store did not answer in time"),
        }
    }

    fn failed<T>(&self, why: &str) -> Option<T> {
        tracing::debug!(why, "not looked up for reuse");
        self.counters.add(Outcome::Failed);
        None
    }

    fn shared_answer(&self, reader: Reader, answer: &FlightAnswer) -> Option<Verdict> {
        self.answer(reader, &call::reusable(answer)?, Outcome::Shared)
    }

    /// An answer as this client reads it; `None` where it cannot be.
    fn answer(&self, reader: Reader, found: &Reusable, outcome: Outcome) -> Option<Verdict> {
        let reframed = reader.reframe(found)?;
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_str(&reframed.content_type).ok()?,
        );
        headers.insert(REUSE_HEADER, HeaderValue::from_static(HIT));
        headers.insert(REUSED_FROM_HEADER, HeaderValue::from_str(&found.id).ok()?);
        self.counters.add(outcome);
        Some(Verdict::Answer {
            status: StatusCode::from_u16(found.status).ok()?,
            headers,
            body: reframed.body,
        })
    }
}

/// Everything that is known by now.
const NOW: Micros = Micros::MAX;
