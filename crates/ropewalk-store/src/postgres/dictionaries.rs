//! Dictionaries: what an owner's parts have in common, so that the next one need not say it again.
//!
//! Trained after a batch has been committed, outside of any transaction: nobody waits for it but the recorder that does it.
//! A dictionary's number is that of the mark it is due at, so that recorders that train at once agree: the first to
//! insert wins, the others use what it inserted. Each process settles a mark once, by training or by reading
//! what another has trained; one that died in between leaves the work to the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_postgres::Client;

use super::body::Parts;
use super::problem::{damaged, database};
use super::tombstones::Sweeps;
use super::{query, sql};
use crate::codec::{Packer, Unpacker, train};
use crate::facts::OwnerId;
use crate::store::{Result, StoreError};
use crate::training::{MARKS, SAMPLE_BYTES_MAX, SAMPLES_MAX};

/// Owners whose newest dictionary is remembered, 64 KB each at most. More than that, and all are read again.
const OWNERS_MAX: usize = 256;

/// Longer parts teach nothing: they compress well on their own, and reading two thousand of them takes memory.
const SAMPLED_LENGTH_MAX: i64 = 16 * 1024;

#[derive(Debug)]
pub(super) struct Dictionaries {
    owners: Mutex<HashMap<OwnerId, Newest>>,
    /// Making one costs more than compressing a batch with it.
    packers: Mutex<Vec<OwnersPacker>>,
    packers_max: usize,
    /// Held while training: one at a time is enough for a process, and who finds it held is due again with its next batch.
    training: tokio::sync::Mutex<()>,
}

/// What is known of an owner's dictionaries.
#[derive(Debug, Clone, Default)]
struct Newest {
    dictionary: Option<Dictionary>,
    /// The last mark that was settled: trained at, or found to give no dictionary.
    settled: u32,
}

#[derive(Debug, Clone)]
struct Dictionary {
    number: u32,
    bytes: Arc<[u8]>,
}

/// A packer for one owner's parts.
#[derive(Debug)]
pub(super) struct OwnersPacker {
    owner: OwnerId,
    dictionary: Option<u32>,
    pub(super) packer: Packer,
}

impl OwnersPacker {
    /// Without a dictionary, a packer knows nothing of anybody.
    fn fits(&self, owner: OwnerId, dictionary: Option<u32>) -> bool {
        self.dictionary == dictionary && (dictionary.is_none() || self.owner == owner)
    }
}

impl Dictionaries {
    /// No more packers are kept than there are connections, since each batch holds one of either.
    pub(super) fn new(packers_max: usize) -> Self {
        Dictionaries {
            owners: Mutex::default(),
            packers: Mutex::default(),
            packers_max,
            training: tokio::sync::Mutex::default(),
        }
    }

    /// A packer with the owner's newest dictionary, as far as this process knows.
    pub(super) async fn packer(&self, client: &Client, owner: OwnerId) -> Result<OwnersPacker> {
        let dictionary = self.newest(client, owner).await?.dictionary;
        let number = dictionary.as_ref().map(|dictionary| dictionary.number);
        let mut kept = lock(&self.packers);
        if let Some(at) = kept.iter().position(|packer| packer.fits(owner, number)) {
            return Ok(kept.swap_remove(at));
        }
        drop(kept);
        let mut packer = Packer::new().map_err(cannot_start)?;
        if let Some(Dictionary { number, bytes }) = dictionary {
            packer.use_dictionary(number, &bytes).map_err(cannot_start)?;
        }
        Ok(OwnersPacker {
            owner,
            dictionary: number,
            packer,
        })
    }

    /// Some may be gone: they are read again.
    pub(super) fn forget(&self, owner: OwnerId) {
        lock(&self.owners).remove(&owner);
        lock(&self.packers).retain(|packer| packer.owner != owner);
    }

    pub(super) fn keep(&self, packer: OwnersPacker) {
        let mut kept = lock(&self.packers);
        if kept.len() >= self.packers_max {
            // The one that has been there longest: its dictionary may be an old one.
            kept.remove(0);
        }
        kept.push(packer);
    }

    async fn newest(&self, client: &Client, owner: OwnerId) -> Result<Newest> {
        if let Some(newest) = lock(&self.owners).get(&owner) {
            return Ok(newest.clone());
        }
        let dictionary = read_newest(client, owner).await?;
        let settled = dictionary.as_ref().map_or(0, |dictionary| dictionary.number);
        let newest = Newest { dictionary, settled };
        self.remember(owner, newest.clone());
        Ok(newest)
    }

    fn remember(&self, owner: OwnerId, newest: Newest) {
        let mut owners = lock(&self.owners);
        if owners.len() >= OWNERS_MAX && !owners.contains_key(&owner) {
            owners.clear();
        }
        owners.insert(owner, newest);
    }

    /// Trains a dictionary if the owner, who now has so many parts, has come to a mark that is not settled. The batch that
    /// brought it there is committed, so a failure is nobody's error: the mark stays unsettled and the next batch tries again.
    pub(super) async fn train_if_due(&self, client: &Client, owner: OwnerId, parts: i64) {
        let due = MARKS.iter().take_while(|mark| mark.parts <= parts).count() as u32;
        let is_settled = |newest: &Newest| newest.settled >= due;
        if lock(&self.owners).get(&owner).is_none_or(is_settled) {
            return;
        }
        let Ok(_only_one) = self.training.try_lock() else {
            return;
        };
        if let Ok(dictionary) = settle(client, owner, due).await {
            let settled = due;
            self.remember(owner, Newest { dictionary, settled });
        }
    }
}

pub(super) fn cannot_start(error: std::io::Error) -> StoreError {
    database("the compressor cannot be started", error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The dictionary to use from a mark on: another's if there is one, else a new one, else the one before.
async fn settle(client: &Client, owner: OwnerId, mark: u32) -> Result<Option<Dictionary>> {
    let newest = read_newest(client, owner).await?;
    if newest.as_ref().is_some_and(|newest| newest.number >= mark) {
        return Ok(newest);
    }
    let sweeps = Sweeps::read(client, owner).await?.count;
    let samples = samples(client, owner).await?;
    let size = MARKS[mark as usize - 1].size;
    let trained = tokio::task::spawn_blocking(move || train(&samples, size)).await;
    let trained = trained.map_err(|error| database("a dictionary cannot be trained", error))?;
    let Some(bytes) = trained else {
        return Ok(newest);
    };
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&owner.0, &i64::from(mark), &bytes, &sweeps];
    query(client, sql::INSERT_DICTIONARY, &values).await?;
    read_newest(client, owner).await
}

async fn read_newest(client: &Client, owner: OwnerId) -> Result<Option<Dictionary>> {
    let rows = query(client, sql::NEWEST_DICTIONARY, &[&owner.0]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let number = u32::try_from(row.get::<_, i64>(0)).map_err(|_| damaged("a dictionary has no number"))?;
    let bytes: Vec<u8> = row.get(1);
    Ok(Some(Dictionary {
        number,
        bytes: bytes.into(),
    }))
}

async fn samples(client: &Client, owner: OwnerId) -> Result<Vec<Vec<u8>>> {
    let rows = query(
        client,
        sql::LATEST_PARTS,
        &[&owner.0, &SAMPLES_MAX, &SAMPLED_LENGTH_MAX],
    )
    .await?;
    let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let parts = Parts::read(client, owner, &numbers, &mut Unpacker::default()).await?;
    let mut samples = parts.into_bytes();
    samples.iter_mut().for_each(|sample| sample.truncate(SAMPLE_BYTES_MAX));
    Ok(samples)
}
