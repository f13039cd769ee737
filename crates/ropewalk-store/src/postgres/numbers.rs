//! Numbers for new rows, taken from the owner's counter in blocks.
//!
//! One counter per owner serves parts, chunks and exchanges: small numbers keep recipes short, nothing is shared between
//! owners (a sequence would be, and lives on one node of a distributed database), and a number is known before its row is
//! inserted. A block is taken by a statement of its own, never inside the recording transaction, so no writer holds the
//! counter while it waits. What a process does not use is lost; numbers need not be dense, nor in the order of time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use deadpool_postgres::Client;

use super::{query, sql};
use crate::facts::OwnerId;
use crate::store::{Result, StoreError};

/// Numbers taken at once: at some ten a turn, one more statement in 800 turns.
const BLOCK: i64 = 8_192;

/// Owners whose unused numbers are remembered. More than that, and all are dropped: numbers are not scarce.
const OWNERS_MAX: usize = 10_000;

/// Unused ranges kept per owner: as many as there are likely to be writers at once.
const RANGES_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Numbers {
    unused: Mutex<HashMap<OwnerId, Vec<Range<i64>>>>,
}

impl Numbers {
    /// So many numbers, which are nobody else's.
    pub(super) async fn take(&self, client: &Client, owner: OwnerId, count: usize) -> Result<Range<i64>> {
        let count = i64::try_from(count).unwrap_or(i64::MAX / 2);
        if let Some(range) = self.take_unused(owner, count) {
            return Ok(range);
        }
        let block = count.max(BLOCK);
        let rows = query(client, sql::RESERVE_NUMBERS, &[&owner.0, &block]).await?;
        let last: i64 = rows.first().ok_or(StoreError::NoOwner)?.get(0);
        Ok(last - block + 1..last + 1)
    }

    /// Gives back what was not used.
    pub(super) fn give_back(&self, owner: OwnerId, range: Range<i64>) {
        if range.is_empty() {
            return;
        }
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() >= OWNERS_MAX && !unused.contains_key(&owner) {
            unused.clear();
        }
        let ranges = unused.entry(owner).or_default();
        if ranges.len() >= RANGES_MAX {
            // The shortest goes: it is the one that no batch fits into.
            let shortest = (0..ranges.len()).min_by_key(|at| ranges[*at].end - ranges[*at].start);
            shortest.map(|at| ranges.swap_remove(at));
        }
        ranges.push(range);
    }

    fn take_unused(&self, owner: OwnerId, count: i64) -> Option<Range<i64>> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = unused.get_mut(&owner)?;
        let at = ranges.iter().position(|range| range.end - range.start >= count)?;
        Some(ranges.swap_remove(at))
    }
}
