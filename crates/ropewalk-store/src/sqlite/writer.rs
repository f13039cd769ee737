//! The one who writes.
//!
//! Requests queue up while a commit waits for the disk; all that are there when it is done form the next group, which a thread
//! writes. Each runs in a savepoint, so that one that fails leaves nothing and the others do not notice; the group is committed
//! once and only then answered. Whoever has a thread of their own writes on it while nobody else does: to wake another thread up
//! takes longer than most of what is written.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::codec::Packer;
use crate::facts::{KeyKind, OwnerId};
use crate::sqlite::fresh_texts::FreshTexts;
use crate::sqlite::hash_index::{self, Fresh, Sweep};
use crate::sqlite::keys::{Kind, target};
use crate::sqlite::known_bodies::KnownBodies;
use crate::sqlite::packing::PackingThread;
use crate::sqlite::packs::cannot_pack;
use crate::sqlite::{problem, record};
use crate::store::{Result, StoreError};

/// Requests that wait before callers have to: each is a whole batch.
const QUEUE_MAX: usize = 256;

/// Requests that one commit carries at most, so that the first of them does not wait for ever.
const GROUP_MAX: usize = 64;

/// Numbers of parts, chunks and contexts that were met lately, in each of two generations: what is met again moves to the young one.
const KNOWN_MAX: usize = 32 * 1024;

/// Calls that are known to name nothing. A provider whose answers share an id has one, or a few.
const PASSED_ON_MAX: usize = 1024;
pub(super) const CALL: Kind = Kind::Key(KeyKind::Call.code());

/// Pages of a file that is rewritten at a clean end (16 MB, some hundredths of a second), and how many of them have to
/// be free for that: so many, and that share.
const SHRINK_PAGES_MAX: i64 = 4096;
const SHRINK_FREE_MIN: i64 = 8;
const SHRINK_SHARE: i64 = 32;

/// Owners whose tails are packed at a clean end: at half a millisecond each, it stays an end. Those of others stay as they are.
const TIDIED_MAX: usize = 1024;

/// Does its work, and answers when told how the commit of its group went.
type Job = Box<dyn FnOnce(&mut Session) -> Answer + Send>;
type Answer = Box<dyn FnOnce(&Result<()>) + Send>;

/// Whether what a request wrote has to survive a power cut once it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// It is the only trace of what happened.
    OnDisk,
    /// It can be made again from what is on disk. A power cut may take the last of it, never something before and not behind it.
    Repeatable,
}

/// What waits for the writer.
enum Request {
    /// For the next group.
    Grouped(Job, Durability),
    /// Between two groups, outside of any transaction.
    Alone(Box<dyn FnOnce(&mut Session) + Send>),
}

#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
    desk: Arc<Mutex<Desk>>,
}

/// What it takes to write. Whoever has it writes.
pub(super) struct Desk {
    session: Session,
    sweep: Sweep,
    commit_delay: Duration,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

/// An owner, a kind of rows and a hash, filled up with zeros where it is shorter.
#[derive(PartialEq, Eq)]
struct Known(i64, Kind, [u8; 32]);

impl Hash for Known {
    /// Hashes are spread as they are; the hasher's own seed keeps those who choose them from filling one place.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Known(owner, kind, hash) = self;
        let (first, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
        state.write_u64(u64::from_le_bytes(*first) ^ target(*kind, *owner) as u64);
    }
}

/// Numbers of rows that were met lately.
type Numbers = HashMap<Known, i64, foldhash::fast::RandomState>;

/// What a request can use while it runs.
pub(super) struct Session {
    connection: Connection,
    fresh: Arc<RwLock<Fresh>>,
    /// Entries of this group, not committed yet.
    pending: BTreeSet<hash_index::Entry>,
    /// Those among them that the running request added.
    added: Vec<hash_index::Entry>,
    /// Entries of rows that this group removed, and those among them that the running request did.
    removed: BTreeSet<hash_index::Entry>,
    just_removed: Vec<hash_index::Entry>,
    /// What was met last, and what was met before that and not since.
    known: Numbers,
    known_before: Numbers,
    /// Calls that so many have passed on, and no log told of, that their id names nothing.
    passed_on: HashSet<Known, foldhash::fast::RandomState>,
    pub(super) bodies: KnownBodies,
    pub(super) texts: FreshTexts,
    packer: Option<Packer>,
    packing: Option<PackingThread>,
    /// Owners who recorded something.
    untidy: BTreeSet<i64>,
    /// Rows of this group that were there before and are others now.
    has_rewritten: bool,
}

impl Session {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Rows that may have this hash, in this group, in memory or in the table.
    pub(super) fn find(&self, owner: OwnerId, kind: Kind, hash: &[u8]) -> Result<Vec<i64>> {
        let fresh = self.fresh.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = hash_index::find(&self.connection, &[&self.pending], &fresh, owner, kind, hash)?;
        if !self.removed.is_empty() {
            found.retain(|row| !self.removed.contains(&hash_index::entry(owner, kind, hash, *row)));
        }
        Ok(found)
    }

    /// The row is not found by the hash any more.
    pub(super) fn unindex(&mut self, owner: OwnerId, kind: Kind, hash: &[u8], row: i64) {
        let entry = hash_index::entry(owner, kind, hash, row);
        if self.removed.insert(entry) {
            self.just_removed.push(entry);
        }
    }

    /// Makes a row findable by a hash, from the commit on for readers, at once for this group.
    pub(super) fn index(&mut self, owner: OwnerId, kind: Kind, hash: &[u8], row: i64) {
        let entry = hash_index::entry(owner, kind, hash, row);
        if self.pending.insert(entry) {
            self.added.push(entry);
        }
    }

    /// The connection, and the way to pack bytes.
    pub(super) fn packer(&mut self) -> Result<(&Connection, &mut Packer)> {
        let packer = match &mut self.packer {
            Some(packer) => packer,
            none => none.insert(Packer::new().map_err(cannot_pack)?),
        };
        Ok((&self.connection, packer))
    }

    /// Who compresses packs meanwhile.
    pub(super) fn packing(&mut self) -> Result<&PackingThread> {
        match &mut self.packing {
            Some(thread) => Ok(thread),
            none => Ok(none.insert(PackingThread::start()?)),
        }
    }

    /// A row that readers may have seen is another now.
    pub(super) fn rewrote_a_row(&mut self) {
        self.has_rewritten = true;
    }

    /// Packs the owner's tail at a clean end.
    pub(super) fn tidy_later(&mut self, owner: OwnerId) {
        if self.untidy.len() < TIDIED_MAX {
            self.untidy.insert(owner.0);
        }
    }

    /// The number of a row that was met lately.
    pub(super) fn recall(&mut self, owner: OwnerId, kind: Kind, hash: &[u8]) -> Option<i64> {
        let known = known(owner, kind, hash);
        if let Some(number) = self.known.get(&known) {
            return Some(*number);
        }
        let number = self.known_before.remove(&known)?;
        self.keep(known, number);
        Some(number)
    }

    pub(super) fn remember(&mut self, owner: OwnerId, kind: Kind, hash: &[u8], number: i64) {
        self.keep(known(owner, kind, hash), number);
    }

    fn keep(&mut self, known: Known, number: i64) {
        if self.known.len() >= KNOWN_MAX {
            self.known_before = std::mem::take(&mut self.known);
        }
        self.known.insert(known, number);
    }

    /// Whether the newest tellers of a call all passed it on, as [`Self::say_passed_on`] was told.
    pub(super) fn is_passed_on(&self, owner: OwnerId, call: &[u8]) -> bool {
        self.passed_on.contains(&known(owner, CALL, call))
    }

    /// Whoever looked at the tellers of a call says whether there is a log among them.
    pub(super) fn say_passed_on(&mut self, owner: OwnerId, call: &[u8], is_passed_on: bool) {
        let call = known(owner, CALL, call);
        if !is_passed_on {
            self.passed_on.remove(&call);
        } else if self.passed_on.len() < PASSED_ON_MAX {
            self.passed_on.insert(call);
        }
    }

    /// Rows were taken back, or removed.
    pub(super) fn forget_known(&mut self) {
        self.known.clear();
        self.known_before.clear();
        self.passed_on.clear();
        self.bodies.clear();
        self.texts.clear();
    }
}

fn known(owner: OwnerId, kind: Kind, hash: &[u8]) -> Known {
    let mut filled = [0; 32];
    filled[..hash.len()].copy_from_slice(hash);
    Known(owner.0, kind, filled)
}

impl Writer {
    pub(super) fn start(connection: Connection, fresh: Arc<RwLock<Fresh>>, commit_delay: Duration) -> Result<Self> {
        let sweep = Sweep::new(&connection)?;
        let session = Session {
            connection,
            fresh,
            pending: BTreeSet::new(),
            added: Vec::new(),
            removed: BTreeSet::new(),
            just_removed: Vec::new(),
            known: HashMap::default(),
            known_before: HashMap::default(),
            passed_on: HashSet::default(),
            bodies: KnownBodies::default(),
            texts: FreshTexts::default(),
            packer: None,
            packing: None,
            untidy: BTreeSet::new(),
            has_rewritten: false,
        };
        let desk = Arc::new(Mutex::new(Desk {
            session,
            sweep,
            commit_delay,
        }));
        let (queue, requests) = sync_channel(QUEUE_MAX);
        let at_desk = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("ropewalk-writer".to_owned())
            .spawn(move || work(&at_desk, &requests))
            .map_err(cannot_start)?;
        Ok(Writer {
            queue: Some(queue),
            thread: Some(thread),
            desk,
        })
    }

    /// Like [`Self::run`], on this thread where nobody else writes.
    pub(super) async fn run_here<T: Send + 'static>(
        &self,
        durability: Durability,
        request: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Ok(mut desk) = self.desk.try_lock() else {
            return self.run(durability, request).await;
        };
        let mut outcome = Err(StoreError::Stopped);
        let committed = desk.write(durability, |session| outcome = in_savepoint(session, request));
        after_commit(outcome, &committed)
    }

    /// The desk, if nobody writes at it. Who reads there finds what was just written in the writer's cache; a connection beside it reads every page
    /// again after each commit.
    pub(super) fn find_free_desk(&self) -> Option<MutexGuard<'_, Desk>> {
        let desk = self.desk.try_lock().ok()?;
        desk.session.connection.is_autocommit().then_some(desk)
    }

    /// Runs a request in the next group and gives its outcome once the group is committed.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        durability: Durability,
        request: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, outcome) = oneshot::channel();
        let job: Job = Box::new(move |session| {
            let result = in_savepoint(session, request);
            Box::new(move |commit: &Result<()>| {
                // Nobody waits any more: the caller was cancelled, and what is committed stays.
                let _ = answer.send(after_commit(result, commit));
            })
        });
        self.send(Request::Grouped(job, durability)).await?;
        outcome.await.map_err(|_| StoreError::Stopped)?
    }

    /// Runs a request outside of any transaction, while nothing else is written.
    pub(super) async fn run_alone<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, outcome) = oneshot::channel();
        let alone = Box::new(move |session: &mut Session| {
            // Nobody waits any more: what was done is done.
            let _ = answer.send(request(session));
        });
        self.send(Request::Alone(alone)).await?;
        outcome.await.map_err(|_| StoreError::Stopped)?
    }

    async fn send(&self, request: Request) -> Result<()> {
        let queue = self.queue.clone().ok_or(StoreError::Stopped)?;
        if let Err(full) = queue.try_send(request) {
            let request = match full {
                std::sync::mpsc::TrySendError::Full(request) => request,
                std::sync::mpsc::TrySendError::Disconnected(_) => return Err(StoreError::Stopped),
            };
            let send = tokio::task::spawn_blocking(move || queue.send(request).is_ok());
            if !send.await.unwrap_or(false) {
                return Err(StoreError::Stopped);
            }
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing left to say.
            let _ = thread.join();
        }
    }
}

fn cannot_start(error: std::io::Error) -> StoreError {
    StoreError::Database {
        what: "the writer cannot start".to_owned(),
        source: error.into(),
    }
}

fn in_savepoint<T>(session: &mut Session, request: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
    // A full disk or a locked file ends the whole transaction; a savepoint would then commit on its own.
    if session.connection.is_autocommit() {
        return Err(StoreError::NotCommitted);
    }
    session.connection.execute_batch("SAVEPOINT request").map_err(problem)?;
    session.added.clear();
    session.just_removed.clear();
    match request(session) {
        Ok(value) => {
            session.connection.execute_batch("RELEASE request").map_err(problem)?;
            Ok(value)
        }
        Err(error) => {
            for entry in std::mem::take(&mut session.added) {
                session.pending.remove(&entry);
            }
            for entry in std::mem::take(&mut session.just_removed) {
                session.removed.remove(&entry);
            }
            session.forget_known();
            // Where the transaction is gone, so is the savepoint.
            let _ = session.connection.execute_batch("ROLLBACK TO request; RELEASE request");
            Err(error)
        }
    }
}

fn after_commit<T>(result: Result<T>, commit: &Result<()>) -> Result<T> {
    match commit {
        Ok(()) => result,
        Err(error) => result.and(Err(shared_failure(error))),
    }
}

fn work(desk: &Mutex<Desk>, requests: &Receiver<Request>) {
    let mut next = None;
    while let Some(first) = next.take().or_else(|| requests.recv().ok()) {
        // Somebody panicked who wrote: what is in memory may be wrong. What is on disk is whole, for whoever opens it again.
        let Ok(mut desk) = desk.lock() else { return };
        let (mut group, mut durability) = match first {
            Request::Grouped(job, durability) => (vec![job], durability),
            Request::Alone(alone) => {
                alone(&mut desk.session);
                continue;
            }
        };
        while group.len() < GROUP_MAX && next.is_none() {
            match requests.try_recv() {
                Ok(Request::Grouped(job, own)) => {
                    group.push(job);
                    if own == Durability::OnDisk {
                        durability = own;
                    }
                }
                Ok(alone) => next = Some(alone),
                Err(_) => break,
            }
        }
        let mut answers = Vec::new();
        let outcome = desk.write(durability, |session| {
            answers.extend(group.into_iter().map(|job| job(session)));
        });
        drop(desk);
        for answer in answers {
            answer(&outcome);
        }
    }
    // A clean end leaves nothing in the log, and one file without a write-ahead log beside it.
    if let Ok(mut desk) = desk.lock() {
        let Desk { session, sweep, .. } = &mut *desk;
        finish(session, sweep);
    }
}

impl Desk {
    pub(super) fn connection(&self) -> &Connection {
        &self.session.connection
    }

    /// Runs a group of requests and commits it.
    fn write(&mut self, durability: Durability, group: impl FnOnce(&mut Session)) -> Result<()> {
        let Desk {
            session,
            sweep,
            commit_delay,
        } = self;
        let began = begin(&session.connection, durability);
        group(session);
        let outcome = began.and_then(|()| commit(session, sweep));
        if outcome.is_err() {
            // Nothing of the group happened. What it knew about its own rows is wrong now.
            session.forget_known();
            session.pending.clear();
            session.removed.clear();
            let _ = session.connection.execute_batch("ROLLBACK");
        }
        if durability == Durability::OnDisk {
            std::thread::sleep(*commit_delay);
        }
        outcome
    }
}

/// The log is written in order, so that whatever is on disk has all before it there as well.
fn begin(connection: &Connection, durability: Durability) -> Result<()> {
    let begin = match durability {
        Durability::OnDisk => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
        Durability::Repeatable => "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
    };
    connection.execute_batch(begin).map_err(problem)
}

/// One failure, told to everybody in the group.
fn shared_failure(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        StoreError::ReadOnly => StoreError::ReadOnly,
        StoreError::Locked => StoreError::Locked,
        StoreError::Damaged(what) => StoreError::Damaged(what.clone()),
        _ => StoreError::NotCommitted,
    }
}

fn commit(session: &mut Session, sweep: &mut Sweep) -> Result<()> {
    if !session.removed.is_empty() {
        return commit_removal(session, sweep);
    }
    let added: Vec<hash_index::Entry> = session.pending.iter().copied().collect();
    let moved = {
        let fresh = session.fresh.read().unwrap_or_else(PoisonError::into_inner);
        sweep.step(&session.connection, &fresh, &added)?
    };
    session.connection.execute_batch("COMMIT").map_err(problem)?;
    let mut fresh = session.fresh.write().unwrap_or_else(PoisonError::into_inner);
    fresh.add(std::mem::take(&mut session.pending));
    hash_index::forget(&mut fresh, &moved);
    if std::mem::take(&mut session.has_rewritten) {
        fresh.forget_what_was_read();
    }
    Ok(())
}

/// Commits a group that removed rows: their entries go from wherever they are.
fn commit_removal(session: &mut Session, sweep: &mut Sweep) -> Result<()> {
    {
        let fresh = session.fresh.read().unwrap_or_else(PoisonError::into_inner);
        sweep.remove(&session.connection, &fresh, &session.pending, &session.removed)?;
    }
    // Whoever reads sees the rows and the entries of one side of the commit.
    let mut fresh = session.fresh.write().unwrap_or_else(PoisonError::into_inner);
    session.connection.execute_batch("COMMIT").map_err(problem)?;
    hash_index::start_over(&mut fresh);
    session.pending.clear();
    session.removed.clear();
    Ok(())
}

/// What cannot be tidied stays as it is: everything is committed, and the next start reads the log.
fn finish(session: &mut Session, sweep: &mut Sweep) {
    let _ = in_transaction(session, |session| {
        let fresh = session.fresh.read().unwrap_or_else(PoisonError::into_inner);
        sweep.finish(&session.connection, &fresh).map(|_| ())
    });
    let _ = in_transaction(session, |session| {
        let mut owners = std::mem::take(&mut session.untidy).into_iter();
        owners.try_for_each(|owner| record::tidy(session, OwnerId(owner)))
    });
    let _ = shrink(&session.connection);
}

fn in_transaction(session: &mut Session, run: impl FnOnce(&mut Session) -> Result<()>) -> Result<()> {
    begin(&session.connection, Durability::OnDisk)?;
    let outcome = run(session).and_then(|()| session.connection.execute_batch("COMMIT").map_err(problem));
    if outcome.is_err() {
        let _ = session.connection.execute_batch("ROLLBACK");
    }
    outcome
}

/// Gives back the pages that the log and growing packs left, where that is a fair share of a file that is quickly rewritten.
fn shrink(connection: &Connection) -> rusqlite::Result<()> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (pages, free) = (pragma("page_count")?, pragma("freelist_count")?);
    if pages <= SHRINK_PAGES_MAX && free >= SHRINK_FREE_MIN.max(pages / SHRINK_SHARE) {
        connection.execute_batch("VACUUM")?;
    }
    Ok(())
}
