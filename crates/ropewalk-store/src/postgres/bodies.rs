//! Bodies on their way in: which chunks and parts are new, and the numbers of all that the recipes name.
//!
//! Asked from the top: a chunk that is known is not looked into, so the questions depend on what changed, not on how long
//! a recipe is. Written from the bottom: a chunk is written with the numbers of what it is made of.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use deadpool_postgres::Transaction;
use ropewalk_core::hash::PartHash;
use ropewalk_core::rope::{ChunkName, Rope, RopeTree, Run, visit_parts, write_chunks};
use tokio_postgres::Row;

use super::known_parts::KnownParts;
use super::problem::{damaged, database};
use super::record::Taken;
use super::{hash_of, query, sql};
use crate::codec::Packer;
use crate::facts::{Body, OwnerId};
use crate::store::{Result, StoreError};

/// A body to be stored, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewBody<'b> {
    pub(super) id: &'b str,
    pub(super) body: &'b Body,
}

/// What storing bodies added, for the owner's totals.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Added {
    pub(super) parts: i64,
    pub(super) part_bytes: i64,
    pub(super) stored_bytes: i64,
}

#[derive(Debug)]
pub(super) struct Bodies<'b> {
    known: &'b KnownParts,
    bodies: Vec<NewBody<'b>>,
    trees: Vec<RopeTree<'b>>,
    chunks: HashMap<ChunkName, i64>,
    parts: HashMap<PartHash, i64>,
    /// Per tree and level: the chunks that have to be written.
    unknown: Vec<Vec<Vec<usize>>>,
    /// Parts that are to be written, by the body that names them.
    missing: BTreeMap<PartHash, usize>,
}

impl<'b> Bodies<'b> {
    pub(super) fn new(bodies: Vec<NewBody<'b>>, known: &'b KnownParts) -> Self {
        let trees: Vec<_> = bodies
            .iter()
            .map(|new| RopeTree::new(&*new.body.recipe, new.body.recipe.layout()))
            .collect();
        let unknown = trees.iter().map(|tree| vec![Vec::new(); tree.levels()]).collect();
        Bodies {
            known,
            bodies,
            trees,
            chunks: HashMap::new(),
            parts: HashMap::new(),
            unknown,
            missing: BTreeMap::new(),
        }
    }

    /// More numbers than storing will use.
    pub(super) fn numbers_needed(&self) -> usize {
        let chunks = |tree: &RopeTree<'_>| (0..tree.levels()).map(|level| tree.chunk_count(level)).sum::<usize>();
        let parts = self.bodies.iter().map(|new| new.body.recipe.parts().count());
        parts.chain(self.trees.iter().map(chunks)).sum()
    }

    /// Every part that was found or stored.
    pub(super) fn parts(&self) -> &HashMap<PartHash, i64> {
        &self.parts
    }

    pub(super) fn part_number(&self, part: &PartHash) -> Option<i64> {
        self.parts.get(part).copied()
    }

    /// The stored root of a body, by its place.
    pub(super) fn rope(&self, place: usize) -> Result<Rope> {
        let tree = &self.trees[place];
        let written: Result<Vec<_>> = tree.runs().iter().map(|run| self.write_entries(place, run)).collect();
        Ok(tree.root(&written?))
    }

    /// The entries of a root or of a chunk, as bytes.
    fn write_entries(&self, place: usize, run: &Run) -> Result<Vec<u8>> {
        let (tree, id) = (&self.trees[place], self.bodies[place].id);
        let Some(below) = run.level.checked_sub(1) else {
            return tree.write_pieces(run.entries.clone(), &mut |part| number_in(&self.parts, part, id));
        };
        let chunks = run.entries.clone();
        let numbers = chunks.map(|chunk| number_in(&self.chunks, &tree.chunk_name(below, chunk), id));
        Ok(write_chunks(&numbers.collect::<Result<Vec<_>>>()?))
    }

    /// Finds out what is known. Takes no locks.
    pub(super) async fn find(&mut self, transaction: &Transaction<'_>, owner: OwnerId) -> Result<()> {
        let deepest = self.trees.iter().map(RopeTree::levels).max().unwrap_or_default();
        // Per tree, the chunks of the level at hand that are worth asking for.
        let mut asked: Vec<Vec<usize>> = vec![Vec::new(); self.trees.len()];
        for level in (0..deepest).rev() {
            for (tree, asked) in self.trees.iter().zip(&mut asked) {
                let in_root = tree.runs().iter().filter(|run| run.level == level + 1);
                asked.extend(in_root.flat_map(|run| run.entries.clone()));
            }
            let names = self.names_of(level, &asked);
            find_into(
                transaction,
                sql::FIND_CHUNKS,
                owner,
                &names,
                chunk_name,
                &mut self.chunks,
            )
            .await?;
            for (place, asked) in asked.iter_mut().enumerate() {
                *asked = self.look_into(place, level, std::mem::take(asked));
            }
        }
        let wanted = self.wanted_parts();
        self.known.recall(owner, wanted.keys(), &mut self.parts);
        let unknown = wanted.keys().filter(|part| !self.parts.contains_key(part));
        let names: Vec<&[u8]> = unknown.map(|part| part.0.as_slice()).collect();
        find_into(transaction, sql::FIND_PARTS, owner, &names, part_name, &mut self.parts).await?;
        self.missing = wanted
            .into_iter()
            .filter(|(part, _)| !self.parts.contains_key(part))
            .collect();
        Ok(())
    }

    fn names_of(&self, level: usize, asked: &[Vec<usize>]) -> Vec<Vec<u8>> {
        let names: BTreeSet<ChunkName> = self
            .trees
            .iter()
            .zip(asked)
            .flat_map(|(tree, chunks)| chunks.iter().map(|chunk| tree.chunk_name(level, *chunk)))
            .collect();
        names.into_iter().map(|name| name.0.to_vec()).collect()
    }

    /// Remembers the unknown among these chunks of a level, and gives what they are made of.
    fn look_into(&mut self, place: usize, level: usize, asked: Vec<usize>) -> Vec<usize> {
        let tree = &self.trees[place];
        if tree.levels() <= level {
            return asked;
        }
        let is_unknown = |chunk: &usize| !self.chunks.contains_key(&tree.chunk_name(level, *chunk));
        let unknown: Vec<usize> = asked.into_iter().filter(is_unknown).collect();
        let below = unknown
            .iter()
            .flat_map(|chunk| tree.inside(level, *chunk).entries)
            .collect();
        self.unknown[place][level] = unknown;
        below
    }

    /// The parts whose numbers are needed, each with a body that names it.
    fn wanted_parts(&self) -> BTreeMap<PartHash, usize> {
        let mut wanted = BTreeMap::new();
        for (place, tree) in self.trees.iter().enumerate() {
            let in_root = tree.runs().iter().filter(|run| run.level == 0).cloned();
            let leaves = self.unknown[place].first().into_iter().flatten();
            let in_leaves = leaves.map(|leaf| tree.inside(0, *leaf));
            for piece in in_root.chain(in_leaves).flat_map(|run| tree.pieces(run.entries)) {
                visit_parts(piece, &mut |part| {
                    wanted.insert(*part, place);
                });
            }
        }
        wanted
    }

    /// Stores what is new.
    pub(super) async fn store(
        &mut self,
        transaction: &Transaction<'_>,
        owner: OwnerId,
        numbers: &mut Taken,
        packer: &mut Packer,
    ) -> Result<Added> {
        let added = self.store_parts(transaction, owner, numbers, packer).await?;
        let deepest = self.trees.iter().map(RopeTree::levels).max().unwrap_or_default();
        for level in 0..deepest {
            self.store_chunks(transaction, owner, numbers, level).await?;
        }
        Ok(added)
    }

    async fn store_parts(
        &mut self,
        transaction: &Transaction<'_>,
        owner: OwnerId,
        numbers: &mut Taken,
        packer: &mut Packer,
    ) -> Result<Added> {
        if self.missing.is_empty() {
            return Ok(Added::default());
        }
        let rows = self.pack_missing(numbers, packer)?;
        let returned = query(
            transaction,
            sql::INSERT_PARTS,
            &[
                &owner.0,
                &rows.hashes,
                &rows.numbers,
                &rows.lengths,
                &rows.codecs,
                &rows.bytes,
            ],
        )
        .await?;
        let mut added = Added::default();
        for row in &returned {
            self.parts.insert(PartHash(hash_of(row, 0)?), row.get(1));
        }
        for (at, hash) in rows.hashes.iter().enumerate() {
            // What another writer was faster with is not ours to count.
            if self.parts.contains_key(&part_hash(hash)) {
                added.parts += 1;
                added.part_bytes += rows.lengths[at];
                added.stored_bytes += rows.bytes[at].len() as i64;
            }
        }
        // Those that were not inserted, another writer has just committed.
        let mut others = rows.hashes;
        others.retain(|hash| !self.parts.contains_key(&part_hash(hash)));
        find_into(transaction, sql::FIND_PARTS, owner, &others, part_name, &mut self.parts).await?;
        Ok(added)
    }

    /// The rows of parts to be stored, sorted by hash.
    fn pack_missing(&self, numbers: &mut Taken, packer: &mut Packer) -> Result<PartRows> {
        let mut packed = BTreeMap::new();
        for new in &self.bodies {
            for part in new.body.recipe.parts() {
                if self.missing.contains_key(&part.hash) && !packed.contains_key(&part.hash) {
                    let bytes = part.as_bytes();
                    let stored = packer.pack(bytes);
                    let (codec, stored) = stored.map_err(|error| database("a part cannot be compressed", error))?;
                    packed.insert(part.hash, (bytes.len() as i64, codec.code(), stored));
                }
            }
        }
        if let Some((_, place)) = self.missing.iter().find(|(part, _)| !packed.contains_key(part)) {
            return Err(StoreError::MissingPart {
                id: self.bodies[*place].id.to_owned(),
            });
        }
        let mut rows = PartRows::default();
        for (hash, (length, codec, bytes)) in packed {
            rows.hashes.push(hash.0.to_vec());
            rows.numbers.push(numbers.next());
            rows.lengths.push(length);
            rows.codecs.push(codec);
            rows.bytes.push(bytes);
        }
        Ok(rows)
    }

    async fn store_chunks(
        &mut self,
        transaction: &Transaction<'_>,
        owner: OwnerId,
        numbers: &mut Taken,
        level: usize,
    ) -> Result<()> {
        let mut rows = BTreeMap::new();
        for (place, tree) in self.trees.iter().enumerate() {
            for chunk in self.unknown[place].get(level).into_iter().flatten() {
                let name = tree.chunk_name(level, *chunk);
                if let Entry::Vacant(row) = rows.entry(name) {
                    row.insert(self.write_entries(place, &tree.inside(level, *chunk))?);
                }
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let names: Vec<ChunkName> = rows.keys().copied().collect();
        let hashes: Vec<&[u8]> = names.iter().map(|name| &name.0[..]).collect();
        let new_numbers: Vec<i64> = rows.keys().map(|_| numbers.next()).collect();
        let bytes: Vec<Vec<u8>> = rows.into_values().collect();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&owner.0, &hashes, &new_numbers, &bytes];
        for row in query(transaction, sql::INSERT_CHUNKS, &values).await? {
            self.chunks.insert(chunk_name(&row)?, row.get(1));
        }
        let mut others = names;
        others.retain(|name| !self.chunks.contains_key(name));
        let hashes: Vec<&[u8]> = others.iter().map(|name| &name.0[..]).collect();
        find_into(
            transaction,
            sql::FIND_CHUNKS,
            owner,
            &hashes,
            chunk_name,
            &mut self.chunks,
        )
        .await
    }
}

#[derive(Debug, Default)]
struct PartRows {
    hashes: Vec<Vec<u8>>,
    numbers: Vec<i64>,
    lengths: Vec<i64>,
    codecs: Vec<i64>,
    bytes: Vec<Vec<u8>>,
}

fn part_hash(bytes: &[u8]) -> PartHash {
    PartHash(bytes.try_into().unwrap_or_default())
}

fn part_name(row: &Row) -> Result<PartHash> {
    hash_of(row, 0).map(PartHash)
}

fn chunk_name(row: &Row) -> Result<ChunkName> {
    let name: &[u8] = row.get(0);
    let name = name.try_into().map_err(|_| damaged("a chunk has no name"))?;
    Ok(ChunkName(name))
}

fn number_in<N: Eq + Hash>(numbers: &HashMap<N, i64>, name: &N, id: &str) -> Result<u64> {
    let number = numbers.get(name).and_then(|number| u64::try_from(*number).ok());
    number.ok_or_else(|| StoreError::MissingPart { id: id.to_owned() })
}

async fn find_into<N: Eq + Hash, H: AsRef<[u8]> + tokio_postgres::types::ToSql + Sync>(
    transaction: &Transaction<'_>,
    find: &'static str,
    owner: OwnerId,
    hashes: &Vec<H>,
    name: fn(&Row) -> Result<N>,
    known: &mut HashMap<N, i64>,
) -> Result<()> {
    if hashes.is_empty() {
        return Ok(());
    }
    for row in query(transaction, find, &[&owner.0, hashes]).await? {
        known.insert(name(&row)?, row.get(1));
    }
    Ok(())
}
