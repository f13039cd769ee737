//! What nobody uses any more: marked by reading every recipe of an owner, then removed, under the owner's lock.
//!
//! In order: chunks, parts (and dictionaries that know something of one that goes), nodes. The owner's figures are counted again.

use std::collections::{BTreeMap, HashMap, HashSet};

use deadpool_postgres::Transaction;
use ropewalk_core::rope::Rope;
use tokio_postgres::Row;

use super::body::{Parts, chunks, learn_dictionaries, unpack};
use super::dictionaries::cannot_start;
use super::problem::{damaged, database, problem};
use super::record::until_through;
use super::{Postgres, query, sql, unsigned};
use crate::codec::{Codec, Packer, Unpacker};
use crate::facts::OwnerId;
use crate::forget::Forgotten;
use crate::marks::{Marks, NumberSet};
use crate::store::Result;

/// Rows looked at or written by one statement.
const ROWS_MAX: i64 = 1_000;

/// A dictionary that shares so many bytes in a row with a part that goes may have them from it.
const SHARED_MIN: usize = 12;

/// A sweep on its own.
pub(super) async fn run(store: &Postgres, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
    let went = until_through(async || {
        let mut client = store.client().await?;
        let transaction = client.transaction().await.map_err(problem)?;
        query(&transaction, sql::LOCK_OWNER, &[&owner.0]).await?;
        let went = sweep(&transaction, owner, is_dry, 0).await?;
        transaction.commit().await.map_err(problem)?;
        Ok(went)
    });
    let went = went.await?;
    if !is_dry {
        store.known_parts.forget();
        store.dictionaries.forget(owner);
    }
    Ok(went)
}

/// Removes what nobody uses, and so many bytes from what the owner was handed.
pub(super) async fn sweep(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    is_dry: bool,
    bytes_in: i64,
) -> Result<Forgotten> {
    let mut sweep = Sweep {
        transaction,
        owner,
        is_dry,
        went: Forgotten::default(),
        marks: Marks::default(),
        exchanges: NumberSet::default(),
    };
    sweep.mark().await?;
    sweep.chunks().await?;
    sweep.parts().await?;
    sweep.nodes().await?;
    if !is_dry {
        query(transaction, sql::COUNT_AGAIN, &[&owner.0, &bytes_in]).await?;
    }
    Ok(sweep.went)
}

struct Sweep<'t> {
    transaction: &'t Transaction<'t>,
    owner: OwnerId,
    is_dry: bool,
    went: Forgotten,
    marks: Marks,
    /// Exchanges that are there.
    exchanges: NumberSet,
}

/// A node whose exchange is gone.
struct Orphan {
    depth: i64,
    parent: Option<Vec<u8>>,
    heir: Option<Heir>,
}

/// Who said a node first of those who are still there: when, who, and whether in an answer.
type Heir = (i64, i64, bool);

impl Sweep<'_> {
    /// The rows of a statement, page by page behind the number in their first column.
    async fn page(&self, statement: &'static str, after: &mut i64) -> Result<Vec<Row>> {
        let rows = query(self.transaction, statement, &[&self.owner.0, &*after, &ROWS_MAX]).await?;
        if let Some(last) = rows.last() {
            *after = last.get(0);
        }
        Ok(rows)
    }

    async fn mark(&mut self) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let rows = self.page(sql::ROPES, &mut after).await?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                self.exchanges.insert(row.get(0))?;
                for levels in [4, 8, 12] {
                    self.mark_rope(row, levels)?;
                }
            }
            self.mark_chunks().await?;
        }
        for row in query(self.transaction, sql::PARTS_OF_TEXTS, &[&self.owner.0]).await? {
            self.marks.part(row.get(0))?;
        }
        Ok(())
    }

    /// A recipe, from its levels and its root; one that is gone has -1 levels.
    fn mark_rope(&mut self, row: &Row, levels: usize) -> Result<()> {
        let (Some(levels), Some(root)) = (
            row.get::<_, Option<i16>>(levels),
            row.get::<_, Option<Vec<u8>>>(levels + 1),
        ) else {
            return Ok(());
        };
        let Ok(levels) = u8::try_from(levels) else {
            return Ok(());
        };
        self.marks.rope(&Rope { levels, root })
    }

    async fn mark_chunks(&mut self) -> Result<()> {
        loop {
            let wanted = self.marks.wanted();
            if wanted.is_empty() {
                return Ok(());
            }
            let numbers: Vec<i64> = wanted.iter().map(|(number, _)| *number).collect();
            let mut found = chunks(self.transaction, self.owner, &numbers).await?;
            for (number, level) in wanted {
                let missing = || damaged(format!("chunk {number} is not there"));
                self.marks.chunk(level, found.remove(&number).ok_or_else(missing)?)?;
            }
        }
    }

    async fn chunks(&mut self) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let rows = self.page(sql::CHUNK_NUMBERS_FROM, &mut after).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let unused = rows.iter().map(|row| row.get(0));
            let unused: Vec<i64> = unused.filter(|chunk| !self.marks.chunks.contains(*chunk)).collect();
            self.went.chunks += unused.len() as u64;
            if !self.is_dry && !unused.is_empty() {
                query(self.transaction, sql::DELETE_CHUNKS, &[&self.owner.0, &unused]).await?;
            }
        }
    }

    async fn parts(&mut self) -> Result<()> {
        let mut learned = Learned::read(self.transaction, self.owner).await?;
        let mut unpacker = Unpacker::default();
        let mut after = i64::MIN;
        loop {
            let rows = self.page(sql::PART_LENGTHS_FROM, &mut after).await?;
            if rows.is_empty() {
                break;
            }
            let mut unused: Vec<i64> = Vec::new();
            for row in rows.iter().filter(|row| !self.marks.parts.contains(row.get(0))) {
                unused.push(row.get(0));
                self.went.part_bytes += unsigned(row.get(1));
            }
            self.went.parts += unused.len() as u64;
            if self.is_dry || unused.is_empty() {
                continue;
            }
            let gone = Parts::read(self.transaction, self.owner, &unused, &mut unpacker).await?;
            gone.into_bytes().iter().for_each(|bytes| learned.compare(bytes));
            query(self.transaction, sql::DELETE_PARTS, &[&self.owner.0, &unused]).await?;
        }
        for number in learned.compromised {
            self.drop_dictionary(number).await?;
        }
        Ok(())
    }

    /// Packs what was packed with a dictionary without it, and drops the dictionary.
    async fn drop_dictionary(&self, number: u32) -> Result<()> {
        let codec = Codec::Dictionary(number).code();
        let (mut unpacker, mut packer) = (Unpacker::default(), Packer::new().map_err(cannot_start)?);
        let mut after = i64::MIN;
        loop {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&self.owner.0, &after, &ROWS_MAX, &codec];
            let rows = query(self.transaction, sql::PARTS_PACKED_WITH, &values).await?;
            let Some(last) = rows.last() else { break };
            after = last.get(0);
            learn_dictionaries(self.transaction, self.owner, [codec].into_iter(), &mut unpacker).await?;
            let (mut numbers, mut codecs, mut packed) = (Vec::new(), Vec::new(), Vec::new());
            for row in &rows {
                let bytes = unpack(&mut unpacker, row.get(0), row.get(1), row.get(2), row.get(3))?;
                let cannot_pack = |error| database("a part cannot be compressed", error);
                let (codec, bytes) = packer.pack(&bytes).map_err(cannot_pack)?;
                numbers.push(row.get::<_, i64>(0));
                codecs.push(codec.code());
                packed.push(bytes);
            }
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&self.owner.0, &numbers, &codecs, &packed];
            query(self.transaction, sql::REPACK_PARTS, &values).await?;
        }
        let number = i64::from(number);
        query(self.transaction, sql::DELETE_DICTIONARY, &[&self.owner.0, &number]).await?;
        Ok(())
    }

    /// Nodes that a removed exchange brought: those that others have as well are theirs now.
    async fn nodes(&mut self) -> Result<()> {
        let mut orphans: HashMap<Vec<u8>, Orphan> = HashMap::new();
        let mut after = Vec::new();
        while let Some(rows) = self.nodes_behind(&mut after).await? {
            for row in rows.iter().filter(|row| self.is_orphan(row)) {
                let orphan = Orphan {
                    depth: row.get(2),
                    parent: row.get(1),
                    heir: None,
                };
                orphans.insert(row.get(0), orphan);
            }
        }
        if orphans.is_empty() {
            return Ok(());
        }
        let mut after = Vec::new();
        while let Some(rows) = self.nodes_behind(&mut after).await? {
            for row in rows.iter().filter(|row| !self.is_orphan(row)) {
                if let Some(parent) = row.get::<_, Option<&[u8]>>(1) {
                    self.inherit(&mut orphans, parent, (row.get(4), row.get(3), row.get(5)))
                        .await?;
                }
            }
        }
        let mut after = i64::MIN;
        loop {
            let rows = self.page(sql::EXCHANGE_ENDS_FROM, &mut after).await?;
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                let asked = (row.get(1), row.get(0), false);
                self.inherit(&mut orphans, row.get(3), asked).await?;
                if let Some(output) = row.get::<_, Option<&[u8]>>(4) {
                    let answered = (row.get(2), row.get(0), true);
                    self.inherit(&mut orphans, output, answered).await?;
                }
            }
        }
        // From the deepest: what is behind a node is known when it is its turn.
        let by_depth: BTreeMap<(i64, Vec<u8>), ()> = orphans
            .iter()
            .map(|(hash, orphan)| ((orphan.depth, hash.clone()), ()))
            .collect();
        for (_, hash) in by_depth.into_keys().rev() {
            let Some(Orphan {
                parent: Some(parent),
                heir: Some(heir),
                ..
            }) = orphans.get(&hash)
            else {
                continue;
            };
            let (parent, heir) = (parent.clone(), *heir);
            self.inherit(&mut orphans, &parent, heir).await?;
        }
        self.write_nodes(&orphans).await
    }

    async fn nodes_behind(&self, after: &mut Vec<u8>) -> Result<Option<Vec<Row>>> {
        let rows = query(self.transaction, sql::NODES_FROM, &[&self.owner.0, &*after, &ROWS_MAX]).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        *after = last.get(0);
        Ok(Some(rows))
    }

    /// Whether a node was brought by somebody who is gone.
    fn is_orphan(&self, node: &Row) -> bool {
        !self.exchanges.contains(node.get(3))
    }

    async fn inherit(&self, orphans: &mut HashMap<Vec<u8>, Orphan>, node: &[u8], heir: Heir) -> Result<()> {
        if let Some(orphan) = orphans.get_mut(node) {
            let is_first = match orphan.heir {
                Some(known) => self.is_first(heir, known).await?,
                None => true,
            };
            if is_first {
                orphan.heir = Some(heir);
            }
        }
        Ok(())
    }

    async fn is_first(&self, heir: Heir, known: Heir) -> Result<bool> {
        let ((at, exchange, _), (known_at, known_exchange, _)) = (heir, known);
        if at != known_at || exchange == known_exchange {
            return Ok(at < known_at);
        }
        let both = [exchange, known_exchange].to_vec();
        let places = query(self.transaction, sql::PLACES, &[&self.owner.0, &both]).await?;
        let first = places
            .iter()
            .min_by_key(|row| (row.get::<_, i64>(1), row.get::<_, &str>(2)));
        Ok(first.is_some_and(|row| row.get::<_, i64>(0) == exchange))
    }

    async fn write_nodes(&mut self, orphans: &HashMap<Vec<u8>, Orphan>) -> Result<()> {
        let mut gone: Vec<&[u8]> = Vec::new();
        let (mut hashes, mut exchanges, mut seen_at, mut in_answer) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (hash, orphan) in orphans {
            match orphan.heir {
                None => gone.push(hash),
                Some((at, exchange, is_answer)) => {
                    hashes.push(&hash[..]);
                    exchanges.push(exchange);
                    seen_at.push(at);
                    in_answer.push(is_answer);
                }
            }
        }
        self.went.nodes += gone.len() as u64;
        if self.is_dry {
            return Ok(());
        }
        query(self.transaction, sql::DELETE_NODES, &[&self.owner.0, &gone]).await?;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&self.owner.0, &hashes, &exchanges, &seen_at, &in_answer];
        query(self.transaction, sql::INHERIT_NODES, &values).await?;
        Ok(())
    }
}

/// What dictionaries have learnt, as all runs of [`SHARED_MIN`] bytes in them.
struct Learned {
    runs: HashMap<[u8; SHARED_MIN], Vec<u32>>,
    /// Those that may have learnt it from something that goes.
    compromised: HashSet<u32>,
}

impl Learned {
    async fn read(transaction: &Transaction<'_>, owner: OwnerId) -> Result<Self> {
        let mut runs: HashMap<[u8; SHARED_MIN], Vec<u32>> = HashMap::new();
        for row in query(transaction, sql::ALL_DICTIONARIES, &[&owner.0]).await? {
            let number = u32::try_from(row.get::<_, i64>(0)).map_err(|_| damaged("a dictionary has no number"))?;
            for run in row.get::<_, &[u8]>(1).windows(SHARED_MIN) {
                let run = run.try_into().map_err(|_| damaged("a dictionary cannot be read"))?;
                let knowing: &mut Vec<u32> = runs.entry(run).or_default();
                if !knowing.contains(&number) {
                    knowing.push(number);
                }
            }
        }
        Ok(Learned {
            runs,
            compromised: HashSet::new(),
        })
    }

    fn compare(&mut self, bytes: &[u8]) {
        if self.runs.is_empty() {
            return;
        }
        for run in bytes.windows(SHARED_MIN) {
            if let Some(knowing) = <[u8; SHARED_MIN]>::try_from(run)
                .ok()
                .and_then(|run| self.runs.get(&run))
            {
                self.compromised.extend(knowing);
            }
        }
    }
}
