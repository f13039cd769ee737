//! What the table of the hash index surely does not have.
//!
//! Most of what is looked for was never there: what an exchange says is new, and so are its nodes, its id and its keys. And what was there a moment
//! ago is still in memory. Each such look-up was a search in the table, a quarter of the statements of recording. Here an entry of the table has a
//! bit; where it is not set, nobody needs to search. The bits are read from the table part by part, each when something of it is looked for, so that a
//! start reads nothing.
//!
//! Invariant: of every part that was read, all entries in the table have their bits: who adds one sets its bit before the commit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::facts::OwnerId;
use crate::sqlite::hash_index::Entry;
use crate::sqlite::hash_runs;
use crate::sqlite::keys::PREFIX_BITS;
use crate::store::Result;

/// Bits for an entry where the filter is made, and where it is made anew: between them, one look-up of 16 to 8 searches in vain.
const BITS_MADE: usize = 16;
const BITS_MIN: usize = 8;

/// Bits of the smallest filter, and of the largest: 16 MB. Beyond 16 million entries more look-ups search in vain.
const SIZE_MIN: usize = 1 << 16;
const SIZE_MAX: usize = 1 << 27;

/// About how many entries are read at once, and most parts of an owner's keys as a power of two.
const PART_ENTRIES: usize = 512;
const PARTS_BITS_MAX: u32 = 12;

/// Owners whose parts are known. Beyond them all are read again.
const OWNERS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Filter(Mutex<Bits>);

#[derive(Debug)]
struct Bits {
    /// As many bits as a power of two.
    words: Vec<u64>,
    /// Entries that set their bits.
    count: usize,
    parts_bits: u32,
    /// By owner, which parts of the keys were read.
    read: HashMap<i64, Vec<bool>>,
}

impl Filter {
    /// An empty one, for an index of about so many entries.
    pub(super) fn for_entries(entries: usize) -> Self {
        let size = entries.saturating_mul(BITS_MADE).clamp(SIZE_MIN, SIZE_MAX);
        let parts = (entries / PART_ENTRIES).max(1).next_power_of_two();
        Filter(Mutex::new(Bits {
            words: vec![0; size.next_power_of_two() / 64],
            count: 0,
            parts_bits: parts.ilog2().min(PARTS_BITS_MAX),
            read: HashMap::new(),
        }))
    }

    /// The index has grown: a larger one finds more.
    pub(super) fn is_full(&mut self) -> bool {
        let bits = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let size = bits.words.len() * 64;
        size < SIZE_MAX && bits.count > size / BITS_MIN
    }

    /// Entries that it has seen.
    pub(super) fn count(&self) -> usize {
        self.bits().count
    }

    /// These come into the table.
    pub(super) fn add(&self, entries: &[Entry]) {
        let mut bits = self.bits();
        entries.iter().for_each(|(owner, key, _)| bits.add(*owner, *key));
    }

    /// Whether the table may have an entry with that key.
    pub(super) fn may_have(&self, connection: &Connection, owner: OwnerId, key: i64) -> Result<bool> {
        let mut bits = self.bits();
        bits.read_part(connection, owner, key)?;
        let (word, bit) = bits.place(owner.0, key);
        Ok(bits.words[word] & bit != 0)
    }

    fn bits(&self) -> MutexGuard<'_, Bits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bits {
    /// Keys are parts of hashes, but not all of their bits differ among those of one part.
    fn place(&self, owner: i64, key: i64) -> (usize, u64) {
        let mixed = (key ^ owner.rotate_right(16)).cast_unsigned();
        let mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = (mixed >> 32) as usize & (self.words.len() * 64 - 1);
        (place / 64, 1 << (place % 64))
    }

    fn add(&mut self, owner: i64, key: i64) {
        let (word, bit) = self.place(owner, key);
        self.words[word] |= bit;
        self.count += 1;
    }

    fn read_part(&mut self, connection: &Connection, owner: OwnerId, key: i64) -> Result<()> {
        let shift = PREFIX_BITS - self.parts_bits;
        let part = key >> shift;
        let place = part as usize;
        if self.read.get(&owner.0).is_some_and(|read| read[place]) {
            return Ok(());
        }
        let (first, last) = (part << shift, ((part + 1) << shift) - 1);
        hash_runs::each_between(connection, owner, first, last, |key, _| self.add(owner.0, key))?;
        if self.read.len() >= OWNERS_MAX && !self.read.contains_key(&owner.0) {
            self.read.clear();
        }
        let parts = 1 << self.parts_bits;
        let read = self.read.entry(owner.0).or_insert_with(|| vec![false; parts]);
        read[place] = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::migrate;

    /// Entries of two owners, whose keys are spread.
    fn entries(count: i64) -> Vec<Entry> {
        let spread =
            |row: i64| row.wrapping_mul(0x5851_F42D_4C95_7F2D) >> (64 - PREFIX_BITS) & ((1 << PREFIX_BITS) - 1);
        let mut entries: Vec<Entry> = (1..=count).map(|row| (1 + row % 2, spread(row), row)).collect();
        entries.sort_unstable();
        entries
    }

    #[test]
    fn whatever_is_there_may_be_there_and_hardly_anything_else() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let all = entries(40_000);
        let (stored, others) = all.split_at(20_000);
        let in_table: Vec<Entry> = stored.iter().step_by(2).copied().collect();
        hash_runs::insert(&connection, &in_table).unwrap();
        let filter = Filter::for_entries(stored.len());
        let added: Vec<Entry> = stored.iter().skip(1).step_by(2).copied().collect();
        filter.add(&added);
        let may_have = |(owner, key, _): &Entry| filter.may_have(&connection, OwnerId(*owner), *key).unwrap();
        assert!(stored.iter().all(may_have));
        let in_vain = others.iter().filter(|entry| may_have(entry)).count();
        assert!(in_vain < others.len() / 8, "{in_vain}");
    }

    #[test]
    fn it_is_full_when_too_many_bits_are_set() {
        let mut filter = Filter::for_entries(0);
        filter.add(&entries((SIZE_MIN / BITS_MIN) as i64));
        assert!(!filter.is_full());
        filter.add(&[(1, 1, 1)]);
        assert!(filter.is_full());
        assert_eq!(filter.count(), SIZE_MIN / BITS_MIN + 1);
        assert!(!Filter::for_entries(filter.count()).is_full());
    }
}
