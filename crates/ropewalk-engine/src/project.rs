//! Hashes and keys of recorded exchanges, made again from their bodies where an older program made them.
//!
//! Each exchange says which version made them, so a run that was interrupted goes on where it was, and the next one has
//! nothing to do. Links are derived from keys: whoever changes keys links again.

use ropewalk_core::cost::PriceTable;
use ropewalk_core::projections::PROJECTIONS_VERSION;
use ropewalk_store::facts::{ExchangeNumber, Key, OwnerId, Projected};
use ropewalk_store::store::{ExchangeRow, PAGE_MAX, Selection};
use ropewalk_store::{Micros, Store, StoreError};

use crate::prepare::Preparer;
use crate::spawn::SpawnTools;
use crate::view::recorded;

/// Exchanges whose bodies are read and that are written at once.
const BATCH: usize = 64;

/// How many exchanges there were to look at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reprojected {
    /// Their hashes and keys were made by an older program.
    pub old: u64,
    /// Of those, the ones whose hashes or keys are others now.
    pub changed: u64,
}

/// Makes hashes and keys of one owner's exchanges again.
pub struct Projector<'s, S> {
    pub store: &'s S,
    pub owner: OwnerId,
    pub prices: &'s dyn PriceTable,
    pub spawn_tools: &'s SpawnTools,
}

impl<S> std::fmt::Debug for Projector<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projector")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Projector<'_, S> {
    /// Writes what is new, unless it is a trial.
    pub async fn run(&self, is_trial: bool) -> Result<Reprojected, StoreError> {
        let mut done = Reprojected::default();
        for numbers in self.old().await?.chunks(BATCH) {
            let selection = Selection::Numbers(numbers.to_vec());
            let mut rows = self.store.exchanges(self.owner, selection, Micros::MAX).await?;
            rows.sort_by_key(|row| std::cmp::Reverse(row.number));
            let mut batch = Vec::with_capacity(rows.len());
            for row in &rows {
                let projected = self.projected(row).await?;
                done.old += 1;
                done.changed += u64::from(is_other(row, &projected));
                batch.push(projected);
            }
            if !is_trial {
                self.store.project(self.owner, batch).await?;
            }
        }
        Ok(done)
    }

    /// Exchanges that an older program recorded, the newest first, as the store wants them.
    async fn old(&self) -> Result<Vec<ExchangeNumber>, StoreError> {
        let mut old = Vec::new();
        let mut after = None;
        loop {
            let page = Selection::Since { after, limit: PAGE_MAX };
            let rows = self.store.exchanges(self.owner, page, Micros::MAX).await?;
            let Some(last) = rows.last() else { break };
            after = Some((last.at, last.number));
            // Of what was forgotten nothing can be made again.
            let theirs = rows
                .iter()
                .filter(|row| row.hole.is_none() && row.projections_version < PROJECTIONS_VERSION);
            old.extend(theirs.map(|row| row.number));
        }
        old.sort_unstable_by(|a, b| b.cmp(a));
        Ok(old)
    }

    async fn projected(&self, row: &ExchangeRow) -> Result<Projected, StoreError> {
        let raw = recorded(self.store, self.owner, row).await?;
        let preparer = Preparer {
            prices: self.prices,
            spawn_tools: self.spawn_tools,
        };
        let made = preparer.prepare(&raw, None).exchange;
        // Who the client was is known from headers, of which not all are kept. What was known has the length of today.
        let mut keys = made.keys;
        let of_client = row.keys.iter().filter(|key| key.kind.is_of_context());
        for key in of_client.map(|key| Key::short(key.kind, key.hash)) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(Projected {
            exchange: row.number,
            response_sha256: row.response_sha256,
            hashes: made.hashes,
            keys,
            version: PROJECTIONS_VERSION,
        })
    }
}

fn is_other(row: &ExchangeRow, new: &Projected) -> bool {
    let sorted = |keys: &[Key]| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys
    };
    let (mut before, mut after) = (row.hashes.clone(), new.hashes.clone());
    before.sort_unstable();
    after.sort_unstable();
    before != after || sorted(&row.keys) != sorted(&new.keys)
}
