//! A store in memory, stricter than any that people use.
//!
//! It is written to be obviously right rather than fast: rows in maps, look-ups that scan everything. The conformance suite
//! is tried on it first, and what it is handed must be well-formed: it asserts that chains follow from their values and
//! that a node has one parent, and refuses parts that were never stored and ids without bound.
//!
//! Invariants: a batch is staged and applied whole; `as_of` is the only way to a row, so that nothing can forget it.

mod asks;
mod recording;
mod stored;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ropewalk_store::facts::{ExchangeNumber, Micros, NewExchange, OwnerId};
use ropewalk_store::store::{
    Answers, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag, SearchQuery, Selection,
    Stats, Store, StoreError,
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

    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        self.with(owner, |owned| owned.record(&batch))
    }

    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        self.with(owner, |owned| {
            let limit = questions.limit;
            let chains = questions.chains.iter();
            let keys = questions.keys.iter();
            Ok(Answers {
                deepest: chains.map(|asked| owned.deepest(asked, limit, as_of)).collect(),
                exchanges: keys
                    .map(|key| owned.newest(|stored| stored.has_key(key, as_of), limit))
                    .collect(),
            })
        })
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        self.with(owner, |owned| Ok(owned.select(selection, as_of)))
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        self.with(owner, |owned| owned.find_body(exchange, half))
    }

    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        self.with(owner, |owned| Ok(owned.search(&query)))
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

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        self.with(owner, |owned| Ok(owned.stats()))
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        self.with(owner, |owned| Ok(owned.check(depth)))
    }
}
