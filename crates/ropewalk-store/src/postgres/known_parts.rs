//! Parts that this process met lately, and their numbers.
//!
//! A turn names what the turns before it named: of some eighteen parts that its recipe's root asks for, fourteen were
//! recorded or found moments ago. Looking for them was half of all that the server looked at for a turn.
//!
//! Invariants:
//! - Only what is committed gets in, and a part that is there keeps its number. Whoever makes parts go away counts a sweep
//!   under the owner's lock, where a recorder notices it.
//! - A server that was started again, or another one behind the same address, may have lost what was acknowledged. Either
//!   ends all connections, so everything is forgotten with the first new one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ropewalk_core::hash::PartHash;

use super::tombstones::Sweeps;
use crate::facts::OwnerId;

/// Parts that are remembered, some 6 MB. More than that, and all are dropped: those of running conversations are soon back.
const KNOWN_MAX: usize = 64 * 1024;

/// Owners whose sweeps are remembered.
const OWNERS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct KnownParts {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<(OwnerId, PartHash), i64>,
    /// How often parts of an owner had been removed when the first of its numbers was remembered.
    sweeps: HashMap<OwnerId, Sweeps>,
    /// How often all was forgotten because of a new connection.
    age: Age,
}

/// What a transaction learnt before everything was forgotten is not remembered after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Age(u64);

impl KnownParts {
    pub(super) fn age(&self) -> Age {
        self.lock().age
    }

    /// What is known of an owner's sweeps.
    pub(super) fn sweeps(&self, owner: OwnerId) -> Option<Sweeps> {
        self.lock().sweeps.get(&owner).cloned()
    }

    /// What was remembered of an owner was remembered since then.
    pub(super) fn begin(&self, owner: OwnerId, sweeps: Sweeps) {
        let mut known = self.lock();
        if known.sweeps.len() >= OWNERS_MAX && !known.sweeps.contains_key(&owner) {
            known.numbers.clear();
            known.sweeps.clear();
        }
        known.sweeps.insert(owner, sweeps);
    }

    /// The number of each of these parts that is known, into `numbers`.
    pub(super) fn recall<'p>(
        &self,
        owner: OwnerId,
        parts: impl Iterator<Item = &'p PartHash>,
        numbers: &mut HashMap<PartHash, i64>,
    ) {
        let known = self.lock();
        let found = parts.filter_map(|part| Some((*part, *known.numbers.get(&(owner, *part))?)));
        numbers.extend(found);
    }

    /// Parts that are committed, as a transaction saw them that began at that age.
    pub(super) fn remember(&self, owner: OwnerId, age: Age, numbers: &HashMap<PartHash, i64>) {
        let mut known = self.lock();
        if known.age != age {
            return;
        }
        if known.numbers.len() + numbers.len() > KNOWN_MAX {
            known.numbers.clear();
        }
        let new = numbers.iter().take(KNOWN_MAX);
        known
            .numbers
            .extend(new.map(|(part, number)| ((owner, *part), *number)));
    }

    /// There is a new connection, or parts were removed.
    pub(super) fn forget(&self) {
        let mut known = self.lock();
        known.numbers.clear();
        known.sweeps.clear();
        known.age.0 += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(parts: impl Iterator<Item = u32>) -> HashMap<PartHash, i64> {
        let part = |number: u32| {
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_be_bytes());
            (PartHash(hash), i64::from(number))
        };
        parts.map(part).collect()
    }

    fn recalled(known: &KnownParts, owner: i64, asked: &HashMap<PartHash, i64>) -> HashMap<PartHash, i64> {
        let mut found = HashMap::new();
        known.recall(OwnerId(owner), asked.keys(), &mut found);
        found
    }

    #[test]
    fn what_is_remembered_is_known_for_its_owner_alone() {
        let known = KnownParts::default();
        let parts = numbers(1..5);
        known.remember(OwnerId(1), known.age(), &parts);
        assert_eq!(recalled(&known, 1, &parts), parts);
        assert_eq!(recalled(&known, 2, &parts), HashMap::new());
    }

    #[test]
    fn what_was_learnt_before_a_new_connection_is_not_known_behind_it() {
        let known = KnownParts::default();
        let (parts, age) = (numbers(1..5), known.age());
        known.remember(OwnerId(1), age, &parts);
        known.forget();
        known.remember(OwnerId(1), age, &parts);
        assert_eq!(recalled(&known, 1, &parts), HashMap::new());
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let known = KnownParts::default();
        known.remember(OwnerId(1), known.age(), &numbers(0..KNOWN_MAX as u32));
        let more = numbers(0..KNOWN_MAX as u32 + 9);
        known.remember(OwnerId(2), known.age(), &more);
        assert_eq!(known.lock().numbers.len(), KNOWN_MAX);
    }
}
