//! Exchanges into the store, whatever the store says.
//!
//! A store that is away, locked or full is waited for. An exchange that it would never take is put aside in a file of exchange
//! lines, which can be imported once the reason is gone: one bad exchange must not hold up all that come after it.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ropewalk_engine::{Progress, RawExchange, Recorders};
use ropewalk_store::facts::Status;
use ropewalk_store::store::Outcome;
use ropewalk_store::{Store, StoreError};

use super::Setup;
use super::intake::{Batch, Group};
use super::retry::Retry;
use super::telling::Telling;
use crate::counters::Counters;
use crate::journal::Files;
use crate::telemetry::Told;

/// After so many failures that may be a batch's own fault, while the store answers otherwise, its exchanges are tried one by one.
const DOUBTS_MAX: u32 = 4;

/// The same for an exchange beside which none was taken either: five minutes, because then it may well be the store.
const DOUBTS_ALONE_MAX: u32 = 60;

/// How long linking rests after it failed.
const LINK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Exchanges that the store would never take, put aside in the journal's folder.
pub const REJECTED_NAME: &str = "rejected.jsonl";

/// The store has stopped and has to be opened again. What is in the batch is not recorded.
#[derive(Debug)]
pub(super) struct MustReopen;

#[derive(Debug)]
pub(super) struct Keeper<'s, S> {
    store: &'s S,
    counters: &'s Arc<Counters>,
    files: &'s Arc<dyn Files>,
    retry: Retry,
    recorders: Recorders<'s, S>,
    /// Owners with exchanges that are not linked yet.
    unlinked: BTreeSet<String>,
    /// When linking last failed.
    link_failed_at: Option<Instant>,
    rejected_bytes_max: u64,
    telling: Telling,
}

/// What an error says.
enum Fault {
    /// The store cannot take anything now.
    Store,
    /// It may be either.
    Unclear,
    /// It will never take this.
    Batch,
    Stopped,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Kept,
    /// The store says that it will never take them.
    Bad,
    /// It does not take them, and does not say why.
    Doubtful,
}

impl<'s, S: Store> Keeper<'s, S> {
    pub(super) fn new(store: &'s S, setup: &'s Setup, journal: &'s crate::journal::Journal) -> Self {
        Keeper {
            store,
            recorders: Recorders::new(store, &*setup.prices, setup.settings, setup.spawn_tools.clone()),
            counters: journal.counters(),
            files: journal.files(),
            retry: Retry::new(journal.counters()),
            unlinked: BTreeSet::new(),
            link_failed_at: None,
            rejected_bytes_max: setup.rejected_bytes_max,
            telling: Telling::new(setup.telemetry.clone()),
        }
    }

    /// Records everything in the batch, however long it takes, and leaves it empty.
    pub(super) async fn keep(&mut self, batch: &mut Batch) -> Result<(), MustReopen> {
        while let Some(group) = batch.groups.last() {
            self.keep_group(group).await?;
            batch.groups.pop();
        }
        Ok(())
    }

    /// Links what was recorded. What fails is tried again later.
    pub(super) async fn link(&mut self) {
        if self.link_failed_at.is_some_and(|at| at.elapsed() < LINK_AGAIN_AFTER) {
            return;
        }
        self.link_failed_at = None;
        for owner in std::mem::take(&mut self.unlinked) {
            let linked = match self.recorders.of(&owner).await {
                Ok(recorder) => recorder.link().await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match linked {
                Ok(progress) => {
                    self.count(&progress);
                    self.telling.linked(&owner);
                }
                Err(error) => {
                    tracing::warn!(error, "recorded exchanges cannot be linked");
                    self.unlinked.insert(owner);
                    self.link_failed_at = Some(Instant::now());
                }
            }
        }
    }

    fn count(&self, progress: &Progress) {
        let claims = &progress.claims;
        let mut by_label = self.counters.by_label();
        for (method, count) in &progress.methods {
            *by_label.links.entry(method).or_default() += *count as u64;
        }
        for (outcome, count) in [
            ("created", claims.created),
            ("matched", claims.matched),
            ("expired", claims.expired.len()),
        ] {
            *by_label.claims.entry(outcome).or_default() += count as u64;
        }
        by_label.orphans += progress.orphans;
        drop(by_label);
        for claim in &claims.expired {
            let name = claim.name.as_deref().unwrap_or("an agent");
            tracing::warn!(name, "was asked for and did not come");
        }
    }

    async fn keep_group(&mut self, group: &Group) -> Result<(), MustReopen> {
        let owner = &group.owner;
        if self.try_until_clear(owner, &group.exchanges, DOUBTS_MAX).await? == Verdict::Kept {
            return Ok(());
        }
        // One of them is bad: find out which.
        let mut doubtful = Vec::new();
        let mut is_any_kept = false;
        for exchange in &group.exchanges {
            match self
                .try_until_clear(owner, std::slice::from_ref(exchange), DOUBTS_MAX)
                .await?
            {
                Verdict::Kept => is_any_kept = true,
                Verdict::Bad => self.reject(owner, exchange),
                Verdict::Doubtful => doubtful.push(exchange),
            }
        }
        let doubts_max = if is_any_kept { DOUBTS_MAX } else { DOUBTS_ALONE_MAX };
        for exchange in doubtful {
            let one = std::slice::from_ref(exchange);
            if self.try_until_clear(owner, one, doubts_max).await? != Verdict::Kept {
                self.reject(owner, exchange);
            }
        }
        Ok(())
    }

    /// Tries until they are recorded, or until they are the likelier reason why not.
    async fn try_until_clear(
        &mut self,
        owner: &str,
        exchanges: &[RawExchange],
        doubts_max: u32,
    ) -> Result<Verdict, MustReopen> {
        let mut doubts = 0;
        loop {
            let error = match self.try_once(owner, exchanges).await {
                Ok(()) => {
                    self.retry.succeeded();
                    return Ok(Verdict::Kept);
                }
                Err(error) => error,
            };
            match fault(&error) {
                Fault::Stopped => {
                    self.retry.wait("the store has stopped", &error).await;
                    return Err(MustReopen);
                }
                Fault::Batch => return Ok(Verdict::Bad),
                // Only while the store answers otherwise.
                Fault::Unclear if self.store.find_owner(owner).await.is_ok() => doubts += 1,
                Fault::Unclear | Fault::Store => {}
            }
            if doubts >= doubts_max {
                return Ok(Verdict::Doubtful);
            }
            self.retry.wait("the store does not take a batch", &error).await;
        }
    }

    async fn try_once(&mut self, owner: &str, exchanges: &[RawExchange]) -> Result<(), StoreError> {
        let counters = Arc::clone(self.counters);
        let begun = Instant::now();
        let is_heard = self.telling.is_heard();
        let mut labels = Vec::with_capacity(exchanges.len());
        let mut all_told = Vec::new();
        let recorder = self.recorders.of(owner).await?;
        let recorded = recorder
            .record_telling(exchanges, |raw, prepared| {
                let new = &prepared.exchange;
                labels.push((new.provider.clone(), new.kind.clone(), new.status, new.usage));
                all_told.push(is_heard.then(|| Told::of(owner, raw, prepared)).flatten());
            })
            .await?;
        counters.batch.add(begun.elapsed(), 1);
        let mut by_label = counters.by_label();
        for ((recorded, (provider, kind, status, usage)), told) in recorded.iter().zip(labels).zip(all_told) {
            let is_new = matches!(recorded.outcome, Outcome::New | Outcome::Completed);
            // One that is pending is counted when it ends.
            if !is_new || status == Status::Pending {
                continue;
            }
            if let Some(usage) = usage {
                for (cache, tokens) in [
                    ("read", usage.cache_read_tokens),
                    ("written", usage.cache_write_tokens),
                    ("none", usage.input_tokens),
                ] {
                    let sum = by_label.prompt_tokens.entry((provider.clone(), cache)).or_default();
                    *sum = sum.saturating_add(tokens);
                }
            }
            *by_label.exchanges.entry((provider, kind, status.name())).or_default() += 1;
            if let Some(mut told) = told {
                told.number = recorded.number;
                self.telling.recorded(told);
            }
        }
        self.unlinked.insert(owner.to_owned());
        Ok(())
    }

    fn reject(&self, owner: &str, exchange: &RawExchange) {
        self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            id = exchange.id,
            file = REJECTED_NAME,
            "the store does not take an exchange"
        );
        let mut line = exchange.to_line(owner).write();
        line.push('\n');
        if let Err(error) = self.put_aside(line.as_bytes()) {
            self.counters.rejected_not_kept.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, id = exchange.id, "a rejected exchange cannot be put aside");
        }
    }

    /// Appends to the file of rejected exchanges as long as it has room. The first are kept: they say why as well as any.
    fn put_aside(&self, line: &[u8]) -> io::Result<()> {
        let listed = self.files.list()?;
        let used = listed.iter().find(|(name, _)| name == REJECTED_NAME);
        let used = used.map_or(0, |(_, bytes)| *bytes);
        if used + line.len() as u64 > self.rejected_bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "the file for them is full",
            ));
        }
        let file = self.files.append_to(REJECTED_NAME)?;
        file.append(line)?;
        file.sync()
    }
}

fn fault(error: &StoreError) -> Fault {
    match error {
        StoreError::MissingPart { .. } | StoreError::IdTooLong { .. } | StoreError::ChainTooLong { .. } => Fault::Batch,
        StoreError::Stopped => Fault::Stopped,
        StoreError::Database { .. } | StoreError::NoOwner | StoreError::NoExchange => Fault::Unclear,
        StoreError::TooNew { .. }
        | StoreError::TooOld { .. }
        | StoreError::NoCitus
        | StoreError::SqliteTooOld { .. }
        | StoreError::ReadOnly
        | StoreError::Full
        | StoreError::Locked
        | StoreError::Damaged(_)
        | StoreError::NotCommitted => Fault::Store,
    }
}
