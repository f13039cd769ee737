//! A store in memory, stricter than any that people use.
//!
//! It is written to be obviously right rather than fast: rows in maps, look-ups that scan everything. The conformance suite
//! is tried on it first, and what it is handed must be well-formed: it asserts that chains follow from their values and
//! that a node has one parent, and refuses parts that were never stored and ids without bound.
//!
//! Invariants: a batch is staged and applied whole; `as_of` is the only way to a row, so that nothing can forget it.

mod asks;
mod derived;
mod forgetting;
mod log;
mod names;
mod recording;
mod stored;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::HashPrefix;
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Position, Projected};
use ropewalk_store::forget::{Compacted, Forgetting, Forgotten};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, PAGE_MAX, Questions, Recorded, Result, SearchLag,
    SearchQuery, Selection, Stats, Store, StoreError,
};

use asks::Owned;

#[derive(Debug, Default)]
pub struct MemoryStore {
    owners: Mutex<Owners>,
}

#[derive(Debug, Default)]
struct Owners {
    ids: BTreeMap<String, OwnerId>,
    data: BTreeMap<OwnerId, Owned>,
}

impl MemoryStore {
    /// A panic of one test's assertion says nothing about the data of the others.
    fn lock(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, owner: OwnerId, ask: impl FnOnce(&mut Owned) -> Result<T>) -> Result<T> {
        ask(self.lock().data.get_mut(&owner).ok_or(StoreError::NoOwner)?)
    }
}

impl Store for MemoryStore {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        let mut owners = self.lock();
        let next = OwnerId(owners.ids.len() as i64 + 1);
        let owner = *owners.ids.entry(name.to_owned()).or_insert(next);
        owners.data.entry(owner).or_default();
        Ok(owner)
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        Ok(self.lock().ids.get(name).copied())
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        let owners = self.lock();
        let behind = owners
            .ids
            .iter()
            .filter(|(name, _)| after.as_ref().is_none_or(|after| *name > after));
        Ok(behind
            .take(PAGE_MAX)
            .map(|(name, owner)| (*owner, name.clone()))
            .collect())
    }

    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        self.with(owner, |owned| owned.record(&batch))
    }

    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        self.with(owner, |owned| Ok(owned.project(batch)))
    }

    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        self.with(owner, |owned| Ok(owned.look_up(&questions, as_of)))
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        self.with(owner, |owned| Ok(owned.select(selection, as_of)))
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        self.with(owner, |owned| owned.find_body(exchange, half))
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        self.with(owner, |owned| Ok(owned.parts.get(&name).cloned()))
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        self.with(owner, |owned| owned.chain(exchange, limit))
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        self.with(owner, |owned| {
            Ok(LinkState {
                named_to: owned.names.named_to,
                ..owned.derived.state(Position(owned.last_position))
            })
        })
    }

    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        self.with(owner, |owned| Ok(owned.derived.save(changes)))
    }

    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        self.with(owner, |owned| Ok(owned.derived.links(&which)))
    }

    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        self.with(owner, |owned| Ok(owned.derived.branches(conversation)))
    }

    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        self.with(owner, |owned| Ok(owned.derived.conversations(&which)))
    }

    async fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow) -> Result<bool> {
        self.with(owner, |owned| Ok(owned.derived.keep_course(version, course)))
    }

    async fn find_course(&self, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        self.with(owner, |owned| Ok(owned.derived.find_course(root)))
    }

    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        self.with(owner, |owned| {
            owned.save_log(changes);
            Ok(())
        })
    }

    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        self.with(owner, |owned| Ok(owned.log.records(&which)))
    }

    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        self.with(owner, |owned| Ok(owned.log.files(&which)))
    }

    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        self.with(owner, |owned| Ok(owned.names.save(changes)))
    }

    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        self.with(owner, |owned| Ok(owned.names.names(&which, &owned.derived)))
    }

    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        self.with(owner, |owned| Ok(owned.names.messages(&which)))
    }

    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        self.with(owner, |owned| Ok(owned.names.pin(pins)))
    }

    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        self.with(owner, |owned| Ok(owned.names.pins(&keys)))
    }

    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        self.with(owner, |owned| Ok(owned.beginning_with(&prefix, limit)))
    }

    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        self.with(owner, |owned| Ok(owned.search(&query)))
    }

    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        self.with(owner, |owned| {
            Ok(SearchLag {
                waiting: owned.waiting.len() as u64,
            })
        })
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        let mut left = limit;
        let mut owners = self.lock();
        for owned in owners.data.values_mut() {
            let count = owned.waiting.len().min(left);
            left -= count;
            let taken: Vec<_> = owned.waiting.drain(..count).collect();
            owned.indexed.extend(taken);
        }
        let waiting = owners.data.values().map(|owned| owned.waiting.len() as u64).sum();
        Ok(SearchLag { waiting })
    }

    async fn forget(&self, owner: OwnerId, what: Forgetting) -> Result<Forgotten> {
        self.with(owner, |owned| owned.forget(what))
    }

    async fn sweep(&self, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
        self.with(owner, |owned| Ok(owned.sweep(is_dry)))
    }

    async fn compact(&self) -> Result<Compacted> {
        Ok(Compacted::default())
    }

    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        self.with(owner, |owned| Ok(owned.forgotten(&names)))
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        self.with(owner, |owned| Ok(owned.stats()))
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        self.with(owner, |owned| Ok(owned.check(depth)))
    }
}
