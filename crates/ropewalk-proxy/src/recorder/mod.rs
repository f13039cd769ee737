//! Brings the journal into the store.
//!
//! A thread of its own, with a runtime of its own, because preparing and linking are work for a processor and must not stand in
//! the way of forwarding: where processors are short it stands back, and the journal absorbs. Read `intake` (records become exchanges), `keeper` (exchanges go into the store, whatever it says),
//! `indexing`.
//!
//! Invariants: a segment goes only when all of it is in the store; nothing is read on while the store does not take what was
//! read, so memory is bounded by a batch; recording again changes nothing, so a crash at any point is repaired by reading again.

mod assemble;
mod indexing;
mod intake;
mod keeper;
mod retry;
mod telling;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ropewalk_core::cost::PriceTable;
use ropewalk_engine::Settings;
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_store::{Store, StoreError};
use tokio::sync::Notify;

use crate::journal::Journal;
use crate::telemetry::Telemetry;
use indexing::Indexing;
use intake::Intake;
pub use intake::POSITION_NAME;
pub use keeper::REJECTED_NAME;
use keeper::{Keeper, MustReopen};
use retry::Retry;

/// What recording depends on beside the journal and the store.
#[derive(Clone)]
pub struct Setup {
    pub prices: Arc<dyn PriceTable + Send + Sync>,
    pub settings: Settings,
    pub spawn_tools: SpawnTools,
    /// What the file of exchanges that the store will never take may hold; [`REJECTED_BYTES_MAX`] as a rule.
    pub rejected_bytes_max: u64,
    /// Who is told of exchanges that have ended.
    pub telemetry: Option<Telemetry>,
}

/// Enough for a few of the largest exchanges there can be, or very many usual ones.
pub const REJECTED_BYTES_MAX: u64 = 256 << 20;

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("settings", &self.settings)
            .field("spawn_tools", &self.spawn_tools)
            .finish_non_exhaustive()
    }
}

/// How long new records are gathered before a batch is begun: better a batch than a waking for each.
const GATHER: Duration = Duration::from_millis(5);

/// How often there is a look at what time alone brings: exchanges that take long, texts to index, links that failed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much nicer the recorder is than forwarding: beside a thread that takes a processor whole it gets a tenth of it, so it is never
/// at a standstill.
#[cfg(target_os = "linux")]
const STANDS_BACK: i32 = 10;

/// A recorder at work.
#[derive(Debug)]
pub struct Recording {
    thread: JoinHandle<()>,
    abandon: Arc<Notify>,
}

impl Recording {
    /// Starts it. The store is opened by its thread, and again when it has stopped; until it can be opened, the journal absorbs.
    pub fn start<S, O, F>(journal: Journal, setup: Setup, open: O) -> io::Result<Self>
    where
        S: Store + 'static,
        O: Fn() -> F + Send + 'static,
        F: Future<Output = Result<Arc<S>, StoreError>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let abandon = Arc::new(Notify::new());
        let abandoned = Arc::clone(&abandon);
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            stand_back();
            runtime.block_on(async {
                tokio::select! {
                    () = run(&journal, &setup, open) => {}
                    () = abandoned.notified() => {}
                }
            });
            // A query that hangs must not keep the process from ending.
            runtime.shutdown_background();
        })?;
        Ok(Recording { thread, abandon })
    }

    /// Waits until everything is recorded, once the journal is closed, for so long at most; `false` if there was more. That is
    /// in the journal, for the next process. Blocks the thread that calls it.
    pub fn finish(self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let is_done = self.thread.is_finished();
        self.abandon.notify_one();
        let _ = self.thread.join();
        is_done
    }

    /// Whether the thread has ended, which it does only after the journal was closed.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Lets forwarding go first. Only on Linux is a nice value a thread's own.
fn stand_back() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(STANDS_BACK) {
        tracing::debug!(%error, "recording takes as much of the processors as forwarding");
    }
}

/// Records until the journal is closed and all of it is in the store.
async fn run<S, O, F>(journal: &Journal, setup: &Setup, open: O)
where
    S: Store,
    O: Fn() -> F,
    F: Future<Output = Result<Arc<S>, StoreError>>,
{
    let mut intake = Intake::new(journal);
    let mut retry = Retry::new(journal.counters());
    loop {
        match open().await {
            Ok(store) => {
                let store = store.on_own_thread();
                retry.succeeded();
                let keeper = Keeper::new(&*store, setup, journal);
                if keep_up(&mut intake, keeper, Indexing::new(&*store, journal.counters()))
                    .await
                    .is_ok()
                {
                    return;
                }
            }
            Err(error) => retry.wait("the store cannot be opened", &error).await,
        }
    }
}

async fn keep_up<S: Store>(
    intake: &mut Intake,
    mut keeper: Keeper<'_, S>,
    mut indexing: Indexing<'_, S>,
) -> Result<(), MustReopen> {
    loop {
        // Before the look: what is written after it is found by the next round.
        let is_closed = intake.is_closed();
        if let Err(error) = intake.fill(is_closed) {
            tracing::warn!(%error, "the journal cannot be read");
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        let is_idle = intake.batch().is_empty();
        keeper.keep(intake.batch()).await?;
        match is_idle {
            // A segment may have been closed behind what is recorded.
            true => intake.trim(),
            false => {
                intake.recorded();
                indexing.expect_texts();
            }
        }
        keeper.link().await;
        indexing.index(is_closed && is_idle).await;
        if is_idle && is_closed {
            intake.save_position();
            return Ok(());
        }
        if is_idle {
            tokio::select! {
                () = intake.more() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}
