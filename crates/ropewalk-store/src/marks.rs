//! What recipes name: the marking half of a sweep.
//!
//! Recipes share chunks, so each chunk is looked into once, at the level that it stands on. A store reads the roots, hands
//! them in, and then answers [`Marks::wanted`] until nothing is wanted any more.

use std::convert::Infallible;

use ropewalk_core::hash::PartHash;
use ropewalk_core::rope::{self, ChunkNumber, PartNumber, Rope, RopeError, RopeSource, StoredRun};

use crate::store::{Result, StoreError};

/// Numbers that are given out one after the other, a bit each.
#[derive(Debug, Default)]
pub(crate) struct NumberSet {
    words: Vec<u64>,
}

/// Highest number that is believed: a damaged recipe must not ask for all memory.
const NUMBER_MAX: i64 = 1 << 40;

impl NumberSet {
    /// `false` if it was there already.
    pub(crate) fn insert(&mut self, number: i64) -> Result<bool> {
        let place = usize::try_from(number)
            .ok()
            .filter(|_| number < NUMBER_MAX)
            .ok_or_else(unreadable)?;
        let (word, bit) = (place / 64, 1_u64 << (place % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        Ok(is_new)
    }

    pub(crate) fn contains(&self, number: i64) -> bool {
        let Ok(place) = usize::try_from(number) else {
            return false;
        };
        let word = self.words.get(place / 64).copied().unwrap_or_default();
        word & (1 << (place % 64)) != 0
    }
}

/// What is in use.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) parts: NumberSet,
    pub(crate) chunks: NumberSet,
    /// Chunks that are to be looked into, with the level of what they list.
    wanted: Vec<(i64, u8)>,
}

impl Marks {
    pub(crate) fn part(&mut self, number: i64) -> Result<()> {
        self.parts.insert(number).map(|_| ())
    }

    pub(crate) fn rope(&mut self, rope: &Rope) -> Result<()> {
        for run in rope.runs().ok_or_else(unreadable)? {
            self.run(&run)?;
        }
        Ok(())
    }

    /// Chunks that are to be handed in, each with the level that [`Marks::chunk`] is to be told.
    pub(crate) fn wanted(&mut self) -> Vec<(i64, u8)> {
        std::mem::take(&mut self.wanted)
    }

    /// What a chunk lists, on that level.
    pub(crate) fn chunk(&mut self, level: u8, bytes: Vec<u8>) -> Result<()> {
        self.run(&StoredRun {
            level,
            entries: vec![bytes],
        })
    }

    fn run(&mut self, run: &StoredRun) -> Result<()> {
        if let Some(below) = run.level.checked_sub(1) {
            for number in run.chunks().ok_or_else(unreadable)? {
                let number = i64::try_from(number).map_err(|_| unreadable())?;
                // Chunks are named by what they list, so one stands on one level.
                if self.chunks.insert(number)? {
                    self.wanted.push((number, below));
                }
            }
            return Ok(());
        }
        let mut outcome = Ok(());
        let mut names = |name: &PartHash| {
            if outcome.is_ok() {
                outcome = self.part(number_of(name));
            }
        };
        for piece in pieces(&run.entries)? {
            rope::visit_parts(&piece, &mut names);
        }
        outcome
    }
}

fn unreadable() -> StoreError {
    StoreError::Damaged("a recipe cannot be read".to_owned())
}

/// The pieces of a recipe. Their parts are named by number instead of hash: nothing here needs the hash, and
/// reading it would be one more question per part.
pub(crate) fn pieces(leaves: &[Vec<u8>]) -> Result<Vec<ropewalk_core::recipe::Piece>> {
    rope::load_pieces(leaves, &mut ByNumber).map_err(|error| match error {
        RopeError::Damaged => unreadable(),
        RopeError::Store(never) => match never {},
    })
}

struct ByNumber;

impl RopeSource for ByNumber {
    type Error = Infallible;

    fn hash_of(&mut self, number: PartNumber) -> std::result::Result<PartHash, Self::Error> {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_be_bytes());
        Ok(PartHash(name))
    }

    /// Pieces alone have no chunks.
    fn chunk(&mut self, _number: ChunkNumber) -> std::result::Result<Vec<u8>, Self::Error> {
        Ok(Vec::new())
    }
}

/// The number in the place of a name.
pub(crate) fn number_of(name: &PartHash) -> i64 {
    let mut number = [0; 8];
    number.copy_from_slice(&name.0[..8]);
    i64::from_be_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_set_once_they_are_inserted() {
        let mut set = NumberSet::default();
        assert!(set.insert(0).unwrap() && set.insert(64).unwrap() && set.insert(1_000).unwrap());
        assert!(!set.insert(64).unwrap());
        assert!(set.contains(0) && set.contains(1_000) && !set.contains(63) && !set.contains(-1));
        assert!(set.insert(-1).is_err() && set.insert(i64::MAX).is_err());
    }
}
