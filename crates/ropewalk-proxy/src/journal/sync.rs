//! What is written and not yet durable.
//!
//! A thread syncs it: at level `os` at most 100 ms after it was written, at level `disk` as soon as somebody waits, and all who
//! wait by then with one sync. After a sync that failed the kernel may call the same bytes clean, so nothing in that file is
//! believed any more: those who wait are released and not acknowledged, and the writer begins a new segment.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::files::{Files, OpenFile};
use super::release::Releases;
use super::{Level, Settings};
use crate::counters::Counters;

#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    files: Arc<dyn Files>,
    releases: Arc<Releases>,
    counters: Arc<Counters>,
    level: Level,
    after_max: Duration,
    failed: AtomicBool,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    unsynced: Vec<Unsynced>,
    /// Somebody waits for the sync of everything up to this batch.
    wanted: Option<u64>,
    is_asleep: bool,
    closed: bool,
}

#[derive(Debug)]
struct Unsynced {
    number: u32,
    file: Arc<dyn OpenFile>,
    is_new: bool,
}

impl Syncer {
    pub(super) fn start(
        files: Arc<dyn Files>,
        settings: &Settings,
        counters: &Arc<Counters>,
        releases: &Arc<Releases>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            files,
            releases: Arc::clone(releases),
            counters: Arc::clone(counters),
            level: settings.level,
            after_max: settings.sync_after_max,
            failed: AtomicBool::new(false),
            state: Mutex::default(),
            woken: Condvar::new(),
        });
        let run = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("journal-sync".to_owned())
            .spawn(move || run.run())?;
        Ok(Syncer {
            shared,
            thread: Some(thread),
        })
    }

    /// A file was appended to. `wanted` is the batch if somebody waits for its sync: told in one go with the file, so that a
    /// batch counts as synced only by a sync that began after it was written.
    pub(super) fn written(&self, number: u32, file: &Arc<dyn OpenFile>, is_new: bool, wanted: Option<u64>) {
        let mut state = self.shared.state();
        if wanted.is_some() {
            state.wanted = wanted;
            // Also from the sleep in which it gathers.
            state.is_asleep = true;
        }
        match state.unsynced.last_mut() {
            Some(last) if last.number == number => last.is_new |= is_new,
            _ => state.unsynced.push(Unsynced {
                number,
                file: Arc::clone(file),
                is_new,
            }),
        }
        self.shared.wake(state);
    }

    /// Whether a sync has failed since the last time.
    pub(super) fn take_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed) && self.shared.failed.swap(false, Ordering::Relaxed)
    }

    /// Syncs what is left and ends.
    pub(super) fn close(&mut self) {
        self.shared.state().closed = true;
        self.shared.woken.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nobody panics while holding it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        if std::mem::take(&mut state.is_asleep) {
            drop(state);
            self.woken.notify_one();
        }
    }

    fn run(&self) {
        loop {
            let (unsynced, wanted, closed) = self.wait();
            let outcome = self.sync(&unsynced);
            if let Err(error) = &outcome {
                self.counters.sync_failures.fetch_add(1, Ordering::Relaxed);
                self.failed.store(true, Ordering::Relaxed);
                tracing::warn!(%error, "the journal cannot be synced");
            }
            if let Some(batch) = wanted {
                self.releases.release(batch, outcome.is_ok());
            }
            if closed {
                return;
            }
        }
    }

    /// Sleeps until there is something, then gathers for as long as the level allows.
    fn wait(&self) -> (Vec<Unsynced>, Option<u64>, bool) {
        let mut state = self.state();
        if state.unsynced.is_empty() && state.wanted.is_none() && !state.closed {
            state.is_asleep = true;
            state = self
                .woken
                .wait_while(state, |state| state.is_asleep && !state.closed)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let gathers = |state: &mut State| !state.closed && state.wanted.is_none();
        let (mut state, _) = self
            .woken
            .wait_timeout_while(state, self.after_max, gathers)
            .unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut state.unsynced), state.wanted.take(), state.closed)
    }

    fn sync(&self, unsynced: &[Unsynced]) -> io::Result<()> {
        // All of them, whatever one says: they are on no list any more.
        let outcomes: Vec<_> = unsynced.iter().map(|one| one.file.sync()).collect();
        outcomes.into_iter().collect::<io::Result<()>>()?;
        // A file whose name is lost is lost. Without a promise it can wait for the next time the system does it.
        if self.level == Level::Disk && unsynced.iter().any(|one| one.is_new) {
            self.files.sync_folder()?;
        }
        Ok(())
    }
}
