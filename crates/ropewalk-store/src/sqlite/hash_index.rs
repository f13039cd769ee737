//! Look-ups by hash.
//!
//! Hashes are random, so an ordinary index on them writes another page for every row: measured, three quarters of
//! the time of a commit. Here new entries live in memory ([`Fresh`]) and, for the next start, in a log that is only appended
//! to. A cursor sweeps over the key space and moves the entries it passes into the table (`hash_runs`) in sorted slices, many per
//! page; when it has been all the way round, the log up to where it started is dropped.
//!
//! Invariants: an entry is in `Fresh` or in the table, or for a moment in both; the log has every entry that is only in
//! `Fresh`; entries of an uncommitted batch are in neither.

use std::collections::BTreeSet;

use ropewalk_core::leb128;
use rusqlite::{Connection, OptionalExtension as _, ToSql};

use crate::facts::OwnerId;
use crate::hash_prefix::HashPrefix;
use crate::sqlite::hash_filter::Filter;
use crate::sqlite::keys::{Kind, PREFIX_BITS, prefix, row_of, target};
use crate::sqlite::packs::SharedPacks;
use crate::sqlite::popular::Popular;
use crate::sqlite::{hash_runs, problem};
use crate::store::{Result, StoreError};

/// Entries in memory before the sweep begins: a share of those in the table, so that a slice of the sweep finds several a
/// run, between bounds. The most is some 20 MB.
const FRESH_SHARE: usize = 8;
const FRESH_MIN: usize = 512;
const FRESH_MAX: usize = 512 * 1024;

/// Entries that a reader keeps of what another process writes, before it forgets those that are in the table by now.
const READ_MAX: usize = 2 * FRESH_MAX;

/// The sweep moves this many entries for every four that come in, so that it always gets round.
const SWEEP_QUARTERS: usize = 5;

pub(super) type Entry = (i64, i64, i64);

/// Entries that are not in the table yet: owner, hash prefix, target.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    entries: BTreeSet<Entry>,
    /// Those that another process writes.
    of_others: Buckets,
    /// What the table does not have. Not where another process writes it.
    filter: Option<Filter>,
    /// What readers keep beside it. Not in memory, where a reader may see what is not committed yet.
    packs: Option<SharedPacks>,
    popular: Option<Popular>,
    /// The last row of the log that was read. Numbers begin anew when a log was dropped, so its bytes count as well.
    read_to: LogRow,
    /// The last row that there was when readers began to keep something.
    kept_at: LogRow,
}

/// How many buckets there are, as a power of two. With the most that a reader keeps, each has some hundred entries.
const BUCKETS_BITS: u32 = 12;

/// Entries by the beginnings of their hashes, in no other order: a command reads all of a log for a few questions, and sorting it would take
/// most of its time.
#[derive(Debug, Default)]
struct Buckets {
    buckets: Vec<Vec<Entry>>,
    count: usize,
}

impl Buckets {
    fn place(key: i64) -> usize {
        (key >> (PREFIX_BITS - BUCKETS_BITS)) as usize
    }

    fn add(&mut self, entry: Entry) {
        if self.buckets.is_empty() {
            self.buckets.resize_with(1 << BUCKETS_BITS, Vec::new);
        }
        self.buckets[Self::place(entry.1)].push(entry);
        self.count += 1;
    }

    /// Targets of an owner's keys from one to another.
    fn between(&self, owner: OwnerId, first: i64, last: i64) -> impl Iterator<Item = i64> + '_ {
        let found = self.buckets.get(Self::place(first)..=Self::place(last));
        let entries = found.into_iter().flatten().flatten();
        let asked = entries.filter(move |(of, key, _)| *of == owner.0 && (first..=last).contains(key));
        asked.map(|(_, _, target)| *target)
    }
}

/// What a reader of another process's store needs of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Rows by their numbers or their times. The log, which may be long, is not read for that.
    Rows,
    /// Rows by their hashes.
    Hashes,
}

/// A row of the log: its number, and the entries in it.
type LogRow = (i64, Vec<u8>);

impl Fresh {
    /// Reads the log that the last run left.
    pub(super) fn load(connection: &Connection) -> Result<Self> {
        let mut fresh = Fresh::default();
        let mut read = Vec::new();
        fresh.read_log(connection, |_, entry| read.push(entry))?;
        // Sorted and put together at once: a tenth of what it takes one by one. A set would sort by itself, but stably, which takes
        // a fifth longer.
        read.sort_unstable();
        fresh.entries = read.into_iter().collect();
        fresh.filter = Some(Filter::for_entries(about_in_table(connection)?));
        Ok(fresh)
    }

    /// Whether somebody else has written to the log since it was read, or since something was kept.
    pub(super) fn is_behind(&self, connection: &Connection, needs: Needs) -> Result<bool> {
        let newest = newest_row(connection)?;
        Ok(newest != self.kept_at || needs == Needs::Hashes && newest != self.read_to)
    }

    /// Reads what was written to the log since, where that is needed; all of it where what was read is no longer there.
    pub(super) fn catch_up(&mut self, connection: &Connection, needs: Needs) -> Result<()> {
        self.kept_at = newest_row(connection)?;
        if needs == Needs::Hashes {
            self.read_on(connection)?;
        }
        // What was kept of packs and times is not what it was either.
        *self = std::mem::take(self).keeping_packs();
        Ok(())
    }

    fn read_on(&mut self, connection: &Connection) -> Result<()> {
        let select = "SELECT number, entries FROM hash_log WHERE number = ?1";
        let is_there = log_row(connection, select, &[&self.read_to.0])?.as_ref() == Some(&self.read_to);
        if !is_there || self.of_others.count > READ_MAX {
            // What is not in the log any more is in the table.
            self.of_others = Buckets::default();
            self.read_to = LogRow::default();
        }
        self.read_log(connection, |fresh, entry| fresh.of_others.add(entry))
    }

    fn read_log(&mut self, connection: &Connection, mut take: impl FnMut(&mut Self, Entry)) -> Result<()> {
        let mut statement = connection
            .prepare("SELECT number, entries FROM hash_log WHERE number > ?1 ORDER BY number")
            .map_err(problem)?;
        let mut rows = statement.query([self.read_to.0]).map_err(problem)?;
        while let Some(row) = rows.next().map_err(problem)? {
            let (number, entries): LogRow = (row.get(0).map_err(problem)?, row.get(1).map_err(problem)?);
            let mut rest = &entries[..];
            while !rest.is_empty() {
                let half = || StoreError::Damaged("the hash log has something that is no entry".to_owned());
                take(self, read_entry(&mut rest).ok_or_else(half)?);
            }
            self.read_to = (number, entries);
        }
        Ok(())
    }

    /// For a store whose readers see only what is committed.
    pub(super) fn keeping_packs(mut self) -> Self {
        self.packs = Some(SharedPacks::default());
        self.popular = Some(Popular::default());
        self
    }

    pub(super) fn packs(&self) -> Option<&SharedPacks> {
        self.packs.as_ref()
    }

    pub(super) fn popular(&self) -> Option<&Popular> {
        self.popular.as_ref()
    }

    /// Rows were written anew: what readers kept of them may be wrong.
    pub(super) fn forget_what_was_read(&mut self) {
        if self.popular.is_some() {
            self.popular = Some(Popular::default());
        }
    }

    pub(super) fn add(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let popular = &mut self.popular;
        self.entries.extend(entries.into_iter().inspect(|entry| {
            if let Some(popular) = popular {
                popular.learn(*entry);
            }
        }));
        if let Some(filter) = &mut self.filter
            && filter.is_full()
        {
            *filter = Filter::for_entries(filter.count());
        }
    }

    /// These come into the table with the next commit.
    fn will_be_in_table(&self, entries: &[Entry]) {
        if let Some(filter) = &self.filter {
            filter.add(entries);
        }
    }

    /// Targets of an owner's key.
    fn targets(&self, connection: &Connection, owner: OwnerId, key: i64) -> Result<Vec<i64>> {
        let filter = self.filter.as_ref();
        let may_be_in_table = filter
            .map(|filter| filter.may_have(connection, owner, key))
            .transpose()?;
        let mut targets = match may_be_in_table {
            Some(false) => Vec::new(),
            _ => hash_runs::targets(connection, owner, key)?,
        };
        targets.extend(self.between(owner, key, key));
        Ok(targets)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Targets of an owner's keys from one to another.
    fn between(&self, owner: OwnerId, first: i64, last: i64) -> impl Iterator<Item = i64> + '_ {
        let range = (owner.0, first, i64::MIN)..=(owner.0, last, i64::MAX);
        let own = self.entries.range(range).map(|(_, _, target)| *target);
        own.chain(self.of_others.between(owner, first, last))
    }
}

fn newest_row(connection: &Connection) -> Result<LogRow> {
    let select = "SELECT number, entries FROM hash_log ORDER BY number DESC LIMIT 1";
    Ok(log_row(connection, select, &[])?.unwrap_or_default())
}

/// Numbers of the rows that may have this hash, newest first. The caller compares the whole hash.
pub(super) fn find(
    connection: &Connection,
    sets: &[&BTreeSet<Entry>],
    fresh: &Fresh,
    owner: OwnerId,
    kind: Kind,
    hash: &[u8],
) -> Result<Vec<i64>> {
    let key = prefix(hash);
    let range = (owner.0, key, 0)..=(owner.0, key, i64::MAX);
    let uncommitted = sets.iter().flat_map(|set| set.range(range.clone()));
    let mut targets = fresh.targets(connection, owner, key)?;
    targets.extend(uncommitted.map(|(_, _, target)| *target));
    let numbers = targets.into_iter().filter_map(|target| row_of(target, kind));
    let mut found: Vec<i64> = numbers.collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    Ok(found)
}

/// All that may have this hash, of every kind, the newest first: for those who look for several kinds.
pub(super) fn targets(connection: &Connection, fresh: &Fresh, owner: OwnerId, hash: &[u8]) -> Result<Vec<i64>> {
    let mut found = fresh.targets(connection, owner, prefix(hash))?;
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    Ok(found)
}

/// Numbers of the rows that may have a hash with this beginning, each once. The caller compares the whole hash.
pub(super) fn between(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    kind: Kind,
    hashes: &HashPrefix,
) -> Result<BTreeSet<i64>> {
    let (first, last) = (prefix(hashes.first()), prefix(hashes.last()));
    let mut targets = hash_runs::targets_between(connection, owner, first, last)?;
    targets.extend(fresh.between(owner, first, last));
    Ok(targets.into_iter().filter_map(|target| row_of(target, kind)).collect())
}

pub(super) fn entry(owner: OwnerId, kind: Kind, hash: &[u8], row: i64) -> Entry {
    (owner.0, prefix(hash), target(kind, row))
}

/// The cursor that moves entries from memory into the table.
#[derive(Debug)]
pub(super) struct Sweep {
    /// Everything up to here was moved in this round.
    cursor: Option<Entry>,
    /// The last log row when this round began.
    round_began_at: i64,
    /// About how many entries the table has.
    in_table: usize,
}

impl Sweep {
    /// Begins a round over what [`Fresh::load`] read.
    pub(super) fn new(connection: &Connection) -> Result<Self> {
        Ok(Sweep {
            cursor: None,
            round_began_at: newest_log(connection)?,
            in_table: about_in_table(connection)?,
        })
    }

    /// Writes the log of a group of commits, and moves a slice if there is enough to move. Returns what was moved: to be
    /// taken out of memory once the transaction is committed.
    pub(super) fn step(&mut self, connection: &Connection, fresh: &Fresh, added: &[Entry]) -> Result<Vec<Entry>> {
        if added.is_empty() {
            // The round goes on with the next group that adds something.
            return Ok(Vec::new());
        }
        let mut bytes = Vec::with_capacity(added.len() * 10);
        added.iter().for_each(|entry| write_entry(entry, &mut bytes));
        let mut statement = connection
            .prepare_cached("INSERT INTO hash_log (entries) VALUES (?1)")
            .map_err(problem)?;
        statement.execute([bytes]).map_err(problem)?;
        if fresh.len() < (self.in_table / FRESH_SHARE).clamp(FRESH_MIN, FRESH_MAX) {
            return Ok(Vec::new());
        }
        self.move_slice(connection, fresh, added.len() * SWEEP_QUARTERS / 4)
    }

    /// Moves everything but what was removed, and takes that out of the table: nothing in the file has it any more. Memory is
    /// to be emptied once the transaction is committed.
    pub(super) fn remove(
        &mut self,
        connection: &Connection,
        fresh: &Fresh,
        added: &BTreeSet<Entry>,
        removed: &BTreeSet<Entry>,
    ) -> Result<()> {
        let left: BTreeSet<Entry> = fresh.entries.union(added).copied().collect();
        let left: Vec<Entry> = left.difference(removed).copied().collect();
        hash_runs::insert(connection, &left)?;
        hash_runs::remove(connection, removed)?;
        connection.execute("DELETE FROM hash_log", []).map_err(problem)?;
        self.in_table += left.len();
        (self.cursor, self.round_began_at) = (None, 0);
        Ok(())
    }

    /// Moves everything, for a clean end: the next start has nothing to load.
    pub(super) fn finish(&mut self, connection: &Connection, fresh: &Fresh) -> Result<Vec<Entry>> {
        self.cursor = None;
        let moved = self.move_slice(connection, fresh, fresh.len() + 1)?;
        connection.execute("DELETE FROM hash_log", []).map_err(problem)?;
        Ok(moved)
    }

    fn move_slice(&mut self, connection: &Connection, fresh: &Fresh, count: usize) -> Result<Vec<Entry>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = self.cursor.map_or(Unbounded, Excluded);
        let slice: Vec<Entry> = fresh.entries.range((from, Unbounded)).take(count).copied().collect();
        fresh.will_be_in_table(&slice);
        hash_runs::insert(connection, &slice)?;
        self.in_table += slice.len();
        self.cursor = slice.last().copied();
        if slice.len() < count {
            self.end_round(connection)?;
        }
        Ok(slice)
    }

    /// All that the log had when the round began is in the table now.
    fn end_round(&mut self, connection: &Connection) -> Result<()> {
        let mut trim = connection
            .prepare_cached("DELETE FROM hash_log WHERE number <= ?1")
            .map_err(problem)?;
        trim.execute([self.round_began_at]).map_err(problem)?;
        self.cursor = None;
        self.round_began_at = newest_log(connection)?;
        Ok(())
    }
}

/// Counting would read the whole table; what was numbered is close enough.
fn about_in_table(connection: &Connection) -> Result<usize> {
    let numbered = "SELECT coalesce(sum(last_part + last_node + 14 * last_exchange), 0) FROM owner";
    let count: i64 = connection.query_row(numbered, [], |row| row.get(0)).map_err(problem)?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn log_row(connection: &Connection, select: &str, values: &[&dyn ToSql]) -> Result<Option<LogRow>> {
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = statement.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)));
    row.optional().map_err(problem)
}

fn newest_log(connection: &Connection) -> Result<i64> {
    let newest = "SELECT coalesce(max(number), 0) FROM hash_log";
    connection.query_row(newest, [], |row| row.get(0)).map_err(problem)
}

/// Everything is in the table, and what was kept beside it may be gone.
pub(super) fn start_over(fresh: &mut Fresh) {
    let keeps_packs = fresh.packs.is_some();
    let filter = fresh.filter.as_ref();
    let filter = filter.map(|filter| Filter::for_entries(filter.count()));
    *fresh = Fresh::default();
    if keeps_packs {
        *fresh = std::mem::take(fresh).keeping_packs();
    }
    fresh.filter = filter;
}

/// Takes out of memory what a committed sweep moved.
pub(super) fn forget(fresh: &mut Fresh, moved: &[Entry]) {
    for entry in moved {
        fresh.entries.remove(entry);
    }
}

/// Entries have nothing below zero: numbers of owners, parts of hashes, numbers of rows.
fn write_entry(entry: &Entry, out: &mut Vec<u8>) {
    for field in [entry.0, entry.1, entry.2] {
        leb128::write(field as u64, out);
    }
}

fn read_entry(bytes: &mut &[u8]) -> Option<Entry> {
    let mut field = || i64::try_from(leb128::read(bytes)?).ok();
    let entry = (field()?, field()?, field()?);
    (entry.1 >> PREFIX_BITS == 0).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: i64 = 300;

    #[test]
    fn the_log_is_cut_also_when_groups_come_between_that_add_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        let tables = "CREATE TABLE owner (last_part, last_node, last_exchange);
            CREATE TABLE hash_log (number INTEGER PRIMARY KEY, entries BLOB NOT NULL);
            CREATE TABLE hash_run (owner_id, key, target, entries, PRIMARY KEY (owner_id, key, target)) WITHOUT ROWID";
        connection.execute_batch(tables).unwrap();
        let mut sweep = Sweep::new(&connection).unwrap();
        let mut fresh = Fresh::default();
        let mut commit = |added: &[Entry]| {
            let moved = sweep.step(&connection, &fresh, added).unwrap();
            fresh.add(added.iter().copied());
            forget(&mut fresh, &moved);
        };
        for round in 0..ROUNDS {
            let spread = |row: i64| (round * 100 + row).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
            let added: Vec<Entry> = (0..100)
                .map(|row| entry(OwnerId(1), Kind::Part, &spread(row).to_be_bytes(), round * 100 + row))
                .collect();
            commit(&added);
            commit(&[]);
        }
        let left: i64 = connection
            .query_row("SELECT count(*) FROM hash_log", [], |row| row.get(0))
            .unwrap();
        assert!(left < ROUNDS / 4, "{left} groups are still in the log");
    }
}
