//! The table of the hash index: entries that lie next to each other, in one row.
//!
//! An entry is a few bytes; a row of its own would take three times as many. So a row holds a run of them in order, each
//! written as its distance from the one before, and is split where it grows too long.
//!
//! Invariants: an owner's first run begins before every entry; a run ends where the next begins.

use std::collections::BTreeSet;

use ropewalk_core::leb128;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::facts::OwnerId;
use crate::sqlite::hash_index::Entry;
use crate::sqlite::problem;
use crate::store::{Result, StoreError};

/// Entries of a run that is split. A row of so many stays below the quarter of a page that SQLite keeps in one piece.
const RUN_MAX: usize = 96;

/// Key and target of an entry: what entries of one owner are ordered by.
type Place = (i64, i64);

struct Run {
    start: Place,
    entries: Vec<Place>,
}

/// The targets of all entries with that key.
pub(super) fn targets(connection: &Connection, owner: OwnerId, wanted: i64) -> Result<Vec<i64>> {
    targets_between(connection, owner, wanted, wanted)
}

/// The targets of all entries with keys from `first` to `last`.
pub(super) fn targets_between(connection: &Connection, owner: OwnerId, first: i64, last: i64) -> Result<Vec<i64>> {
    let mut targets = Vec::new();
    each_between(connection, owner, first, last, |_, target| targets.push(target))?;
    Ok(targets)
}

/// Gives key and target of each entry with a key from `first` to `last`.
pub(super) fn each_between(
    connection: &Connection,
    owner: OwnerId,
    first: i64,
    last: i64,
    mut give: impl FnMut(i64, i64),
) -> Result<()> {
    let select = "SELECT key, target, entries FROM hash_run WHERE owner_id = ?1 AND key <= ?2 \
                  ORDER BY key DESC, target DESC";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let mut rows = statement.query(params![owner.0, last]).map_err(problem)?;
    while let Some(row) = rows.next().map_err(problem)? {
        let start: i64 = row.get(0).map_err(problem)?;
        // Not unpacked: most look-ups find nothing, and half of a run lies behind.
        for entry in Entries::of(row, start)? {
            let (key, target) = entry.ok_or_else(damaged)?;
            if key > last {
                break;
            }
            if key >= first {
                give(key, target);
            }
        }
        if start < first {
            break;
        }
    }
    Ok(())
}

/// Adds entries, which are sorted.
pub(super) fn insert(connection: &Connection, entries: &[Entry]) -> Result<()> {
    let mut rest = entries;
    let mut next: Option<(i64, Run)> = None;
    while let Some((owner, key, target)) = rest.first() {
        let first = (*key, *target);
        let (owner, mut run) = match next.take() {
            Some((next_owner, run)) if next_owner == *owner && run.start <= first => (*owner, run),
            _ => (*owner, Run::around(connection, *owner, first)?),
        };
        next = Run::behind(connection, owner, run.start)?.map(|run| (owner, run));
        let end = next.as_ref().map(|(_, run)| run.start);
        let is_inside = |(of, key, target): &&Entry| *of == owner && end.is_none_or(|end| (*key, *target) < end);
        let count = rest.iter().take_while(is_inside).count();
        if count > 0 {
            let (inside, behind) = rest.split_at(count);
            run.entries
                .extend(inside.iter().map(|(_, key, target)| (*key, *target)));
            // Both parts are in order, and this sort merges such parts.
            run.entries.sort();
            run.entries.dedup();
            run.save(connection, owner)?;
            rest = behind;
        } else if end.is_some_and(|end| end <= first) {
            // The entry lies beyond the next run's beginning: look for its own run rather than walk there.
            next = Some((owner, Run::around(connection, owner, first)?));
        }
    }
    Ok(())
}

/// Takes out entries, which are sorted; those that are not there are no error.
pub(super) fn remove(connection: &Connection, entries: &BTreeSet<Entry>) -> Result<()> {
    let mut rest = entries.iter().copied().peekable();
    while let Some((owner, key, target)) = rest.peek().copied() {
        let mut run = Run::around(connection, owner, (key, target))?;
        let end = Run::behind(connection, owner, run.start)?.map(|run| run.start);
        let mut gone = BTreeSet::new();
        let is_inside = |entry: &Entry| entry.0 == owner && end.is_none_or(|end| (entry.1, entry.2) < end);
        while let Some((_, key, target)) = rest.next_if(is_inside) {
            gone.insert((key, target));
        }
        let before = run.entries.len();
        run.entries.retain(|entry| !gone.contains(entry));
        if run.entries.len() < before {
            run.save_fewer(connection, owner)?;
        }
    }
    Ok(())
}

impl Run {
    /// Writes a run that lost entries. An empty one goes, but for the first.
    fn save_fewer(&self, connection: &Connection, owner: i64) -> Result<()> {
        if !self.entries.is_empty() {
            return self.save(connection, owner);
        }
        let statement = match self.start {
            (0, 0) => "UPDATE hash_run SET entries = x'' WHERE owner_id = ?1 AND key = ?2 AND target = ?3",
            _ => "DELETE FROM hash_run WHERE owner_id = ?1 AND key = ?2 AND target = ?3",
        };
        let mut statement = connection.prepare_cached(statement).map_err(problem)?;
        let (key, target) = self.start;
        statement.execute(params![owner, key, target]).map_err(problem)?;
        Ok(())
    }

    /// The run that an entry lies in, or would lie in.
    fn around(connection: &Connection, owner: i64, entry: Place) -> Result<Self> {
        let select = "SELECT key, target, entries FROM hash_run WHERE owner_id = ?1 AND (key, target) <= (?2, ?3) \
                      ORDER BY key DESC, target DESC LIMIT 1";
        let found = Run::select(connection, select, owner, entry)?;
        Ok(found.unwrap_or(Run {
            start: (0, 0),
            entries: Vec::new(),
        }))
    }

    /// The next run.
    fn behind(connection: &Connection, owner: i64, start: Place) -> Result<Option<Self>> {
        let select = "SELECT key, target, entries FROM hash_run WHERE owner_id = ?1 AND (key, target) > (?2, ?3) \
                      ORDER BY key, target LIMIT 1";
        Run::select(connection, select, owner, start)
    }

    fn select(connection: &Connection, select: &str, owner: i64, place: Place) -> Result<Option<Self>> {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let found = statement.query_row(params![owner, place.0, place.1], |row| Ok(Run::read(row)));
        found.optional().map_err(problem)?.transpose()
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let start = (row.get(0).map_err(problem)?, row.get(1).map_err(problem)?);
        let entries: Option<Vec<Place>> = Entries::of(row, start.0)?.collect();
        Ok(Run {
            start,
            entries: entries.ok_or_else(damaged)?,
        })
    }

    /// Writes the run, as several if it has become too long.
    fn save(&self, connection: &Connection, owner: i64) -> Result<()> {
        let insert = "INSERT INTO hash_run (owner_id, key, target, entries) VALUES (?1, ?2, ?3, ?4) \
                      ON CONFLICT (owner_id, key, target) DO UPDATE SET entries = excluded.entries";
        let mut statement = connection.prepare_cached(insert).map_err(problem)?;
        let pieces = self.entries.len().div_ceil(RUN_MAX).max(1);
        let length = self.entries.len().div_ceil(pieces).max(1);
        for (index, piece) in self.entries.chunks(length).enumerate() {
            let (key, target) = if index == 0 { self.start } else { piece[0] };
            let row = params![owner, key, target, write_entries(key, piece)];
            statement.execute(row).map_err(problem)?;
        }
        Ok(())
    }
}

fn write_entries(start: i64, entries: &[Place]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 8);
    let mut last = start;
    for (key, target) in entries {
        leb128::write((key - last) as u64, &mut out);
        leb128::write(*target as u64, &mut out);
        last = *key;
    }
    out
}

/// The entries of a run, as they are stored; `None` for one that is damaged.
struct Entries<'r> {
    last: i64,
    rest: &'r [u8],
}

impl<'r> Entries<'r> {
    /// Those of a row whose third column they are.
    fn of(row: &'r Row<'_>, start: i64) -> Result<Self> {
        let bytes = row.get_ref(2).map_err(problem)?;
        let rest = bytes.as_blob().map_err(|_| damaged())?;
        Ok(Entries { last: start, rest })
    }

    fn read(&mut self) -> Option<Place> {
        self.last = self.last.checked_add_unsigned(leb128::read(&mut self.rest)?)?;
        let target = i64::try_from(leb128::read(&mut self.rest)?).ok()?;
        Some((self.last, target))
    }
}

impl Iterator for Entries<'_> {
    type Item = Option<Place>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.read())
    }
}

fn damaged() -> StoreError {
    StoreError::Damaged("the hash index has a run that cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema::migrate;

    fn store() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection
    }

    fn assert_found(connection: &Connection, all: &BTreeSet<Entry>) {
        for owner in [1, 2] {
            let keys: BTreeSet<i64> = all.iter().map(|(_, key, _)| *key).chain([0, 1 << 39]).collect();
            for key in keys {
                let mut found = targets(connection, OwnerId(owner), key).unwrap();
                found.sort_unstable();
                let expected: Vec<i64> = all
                    .range((owner, key, 0)..=(owner, key, i64::MAX))
                    .map(|e| e.2)
                    .collect();
                assert_eq!(found, expected, "owner {owner}, key {key}");
            }
        }
    }

    /// Slices of entries of two owners: spread over all keys, crowded around a few, and many with the same key.
    fn slices() -> Vec<BTreeSet<Entry>> {
        let mut state = 7_u64;
        let mut random = move |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 20) % bound) as i64
        };
        let mut slice = |bound| {
            (0..150)
                .map(|_| (1 + random(2), random(bound), random(1 << 20)))
                .collect()
        };
        [1 << 40, 1 << 40, 5, 1 << 40, 300, 1, 1 << 40, 5]
            .into_iter()
            .map(&mut slice)
            .collect()
    }

    #[test]
    fn every_entry_is_found_by_its_key() {
        let connection = store();
        let mut all = BTreeSet::new();
        for slice in slices() {
            let sorted: Vec<Entry> = slice.iter().copied().collect();
            insert(&connection, &sorted).unwrap();
            insert(&connection, &sorted[..sorted.len() / 2]).unwrap();
            all.extend(slice);
            assert_found(&connection, &all);
        }
        let stored: i64 = connection
            .query_row("SELECT max(length(entries)) FROM hash_run", [], |row| row.get(0))
            .unwrap();
        assert!(stored <= (RUN_MAX * 10) as i64, "a run has {stored} bytes");
    }

    #[test]
    fn damaged_runs_are_errors() {
        let read = |last, rest: &[u8]| Entries { last, rest }.collect::<Option<Vec<Place>>>();
        let entries = [(3, 0), (900, i64::MAX)];
        assert_eq!(read(3, &write_entries(3, &entries)), Some(entries.to_vec()));
        assert_eq!(read(0, &[0x80]), None);
        assert_eq!(read(0, &[1]), None);
        assert_eq!(read(i64::MAX, &[1, 1]), None);
    }
}
