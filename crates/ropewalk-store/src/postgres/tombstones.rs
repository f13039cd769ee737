//! What was forgotten is not to come back.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::GenericClient;

use super::{hash_of, query, sql};
use crate::facts::{Micros, NewExchange, OwnerId};
use crate::forget::Grave;
use crate::store::{Result, StoreError};

/// How often an owner's parts were removed, and the key of its tombstones. There are none before the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sweeps {
    pub(super) count: i64,
    secret: Vec<u8>,
}

impl Sweeps {
    pub(super) async fn read(client: &impl GenericClient, owner: OwnerId) -> Result<Self> {
        let rows = query(client, sql::SWEEPS, &[&owner.0]).await?;
        let row = rows.first().ok_or(StoreError::NoOwner)?;
        Ok(Sweeps {
            count: row.get(0),
            secret: row.get(1),
        })
    }

    /// When each of these was forgotten.
    pub(super) async fn find(
        &self,
        client: &impl GenericClient,
        owner: OwnerId,
        graves: &[Grave<'_>],
    ) -> Result<Vec<Option<Micros>>> {
        if self.count == 0 || graves.is_empty() {
            return Ok(vec![None; graves.len()]);
        }
        let stones: Vec<[u8; 32]> = graves.iter().map(|grave| grave.tombstone(&self.secret)).collect();
        let asked: Vec<&[u8]> = stones.iter().map(|stone| &stone[..]).collect();
        let mut found = HashMap::new();
        for row in query(client, sql::FIND_TOMBSTONES, &[&owner.0, &asked]).await? {
            found.insert(hash_of(&row, 0)?, Micros(row.get(1)));
        }
        Ok(stones.iter().map(|stone| found.get(stone).copied()).collect())
    }

    /// Places of those in a batch that were forgotten.
    pub(super) async fn forgotten_in(
        &self,
        client: &impl GenericClient,
        owner: OwnerId,
        batch: &[NewExchange],
    ) -> Result<HashSet<usize>> {
        let graves = batch.iter().enumerate();
        let graves =
            graves.flat_map(|(place, exchange)| Grave::of(exchange).into_iter().map(move |grave| (place, grave)));
        let (places, graves): (Vec<usize>, Vec<Grave<'_>>) = graves.unzip();
        let found = self.find(client, owner, &graves).await?;
        let forgotten = places.into_iter().zip(found).filter(|(_, at)| at.is_some());
        Ok(forgotten.map(|(place, _)| place).collect())
    }

    /// Puts up tombstones; those that are there stay as they are.
    pub(super) async fn put_up(
        &self,
        client: &impl GenericClient,
        owner: OwnerId,
        at: Micros,
        graves: &[Grave<'_>],
    ) -> Result<()> {
        let mut stones: Vec<[u8; 32]> = graves.iter().map(|grave| grave.tombstone(&self.secret)).collect();
        stones.sort_unstable();
        stones.dedup();
        let stones: Vec<&[u8]> = stones.iter().map(|stone| &stone[..]).collect();
        query(client, sql::INSERT_TOMBSTONES, &[&owner.0, &stones, &at.0]).await?;
        Ok(())
    }
}

pub(super) async fn find(client: &impl GenericClient, owner: OwnerId, names: &[String]) -> Result<Vec<Option<Micros>>> {
    let sweeps = Sweeps::read(client, owner).await?;
    let graves: Vec<Grave<'_>> = names
        .iter()
        .flat_map(|name| [Grave::Exchange(name), Grave::Name(name)])
        .collect();
    let found = sweeps.find(client, owner, &graves).await?;
    Ok(found
        .chunks(2)
        .map(|pair| pair.iter().copied().flatten().next())
        .collect())
}
