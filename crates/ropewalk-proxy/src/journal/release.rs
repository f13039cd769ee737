//! Those who wait until their exchange is in the journal.
//!
//! They wait by batch, oldest first. A thread looks after those whose wait has passed the bound: it must not be the one that
//! writes or syncs, because it is there for when these hang. It sleeps while nobody waits, and else wakes no more often than
//! the bound: whoever comes while it sleeps for that long cannot be late before it wakes.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::counters::Counters;
use crate::tee::Released;

#[derive(Debug)]
pub(super) struct Releases {
    hold_max: Duration,
    counters: Arc<Counters>,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: VecDeque<Held>,
    is_asleep: bool,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    batch: u64,
    since: Instant,
    waiting: Vec<oneshot::Sender<Released>>,
}

impl Releases {
    pub(super) fn start(hold_max: Duration, counters: Arc<Counters>) -> io::Result<Arc<Self>> {
        let releases = Arc::new(Releases {
            hold_max,
            counters,
            state: Mutex::default(),
            woken: Condvar::new(),
        });
        let watched = Arc::clone(&releases);
        thread::Builder::new()
            .name("journal-bound".to_owned())
            .spawn(move || watched.watch())?;
        Ok(releases)
    }

    /// Before the write, so that one that hangs holds nobody for longer than the bound.
    pub(super) fn expect(&self, batch: u64, since: Instant, waiting: Vec<oneshot::Sender<Released>>) {
        let mut state = self.state();
        state.held.push_back(Held { batch, since, waiting });
        if std::mem::take(&mut state.is_asleep) {
            drop(state);
            self.woken.notify_one();
        }
    }

    /// Releases everybody up to a batch.
    pub(super) fn release(&self, through: u64, acknowledged: bool) {
        loop {
            let mut state = self.state();
            let Some(held) = state.held.pop_front_if(|held| held.batch <= through) else {
                return;
            };
            drop(state);
            self.tell(held, acknowledged);
        }
    }

    /// Releases one batch and leaves those before it waiting.
    pub(super) fn release_only(&self, batch: u64, acknowledged: bool) {
        let mut state = self.state();
        let found = state.held.iter().position(|held| held.batch == batch);
        let held = found.and_then(|at| state.held.remove(at));
        drop(state);
        if let Some(held) = held {
            self.tell(held, acknowledged);
        }
    }

    /// Nothing will be written any more.
    pub(super) fn close(&self) {
        self.release(u64::MAX, false);
        self.state().closed = true;
        self.woken.notify_one();
    }

    fn tell(&self, held: Held, acknowledged: bool) {
        let count = held.waiting.len() as u64;
        self.counters.hold.add(held.since.elapsed(), count);
        if !acknowledged {
            self.counters.unacknowledged.fetch_add(count, Ordering::Relaxed);
        }
        for sender in held.waiting {
            // Whoever has gone away needs no release.
            let _ = sender.send(Released { acknowledged });
        }
    }

    fn watch(&self) {
        let mut is_idle = true;
        loop {
            let mut state = self.state();
            if state.closed {
                return;
            }
            let now = Instant::now();
            let late_in = |held: &Held| (held.since + self.hold_max).saturating_duration_since(now);
            let first = state.held.front().map(late_in);
            match first {
                Some(Duration::ZERO) => {
                    let late = state.held.pop_front();
                    drop(state);
                    if let Some(held) = late {
                        self.tell(held, false);
                    }
                }
                None if is_idle => {
                    state.is_asleep = true;
                    let slept = self.woken.wait_while(state, |state| state.is_asleep && !state.closed);
                    drop(slept.unwrap_or_else(PoisonError::into_inner));
                    is_idle = false;
                }
                _ => {
                    is_idle = first.is_none();
                    let for_long = first.unwrap_or(self.hold_max);
                    let slept = self.woken.wait_timeout_while(state, for_long, |state| !state.closed);
                    drop(slept.unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nobody panics while holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
