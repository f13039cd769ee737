//! What nobody uses any more: marked by reading every recipe of an owner, then removed.
//!
//! In order: texts that nobody finds, chunks, parts (the packs that lose some are written anew), contexts, nodes. The owner's
//! figures are counted again on the way. With `is_dry` nothing is written.

use std::collections::{BTreeMap, HashMap};

use ropewalk_core::hash::sha256;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec::Unpacker;
use crate::facts::OwnerId;
use crate::forget::Forgotten;
use crate::marks::{Marks, NumberSet};
use crate::packed::read_rope;
use crate::sqlite::context::Context;
use crate::sqlite::keys::{Kind, key, number};
use crate::sqlite::link_check::each;
use crate::sqlite::packs::{StoredPack, read_ends, read_gone};
use crate::sqlite::writer::Session;
use crate::sqlite::{nodes, problem, search};
use crate::store::{Result, StoreError};

pub(super) fn sweep(session: &mut Session, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
    let mut sweep = Sweep {
        session,
        owner,
        is_dry,
        went: Forgotten::default(),
        marks: Marks::default(),
        exchanges: NumberSet::default(),
        contexts: NumberSet::default(),
        details: Vec::new(),
    };
    sweep.retold_texts()?;
    sweep.mark()?;
    sweep.chunks()?;
    let figures = sweep.parts()?;
    sweep.contexts()?;
    sweep.nodes()?;
    sweep.count(&figures)?;
    let went = sweep.went;
    if !is_dry {
        session.forget_known();
    }
    Ok(went)
}

struct Sweep<'s> {
    session: &'s mut Session,
    owner: OwnerId,
    is_dry: bool,
    went: Forgotten,
    marks: Marks,
    /// Exchanges and contexts that are there.
    exchanges: NumberSet,
    contexts: NumberSet,
    /// Parts that exchanges say something about themselves with.
    details: Vec<i64>,
}

/// What is known of a pack without its bytes.
struct PackRow {
    first: i64,
    lengths: Vec<u8>,
    gone: Option<Vec<u8>>,
    /// How long it is as it is stored.
    stored: i64,
}

/// What the packs hold behind a sweep.
#[derive(Default)]
struct Figures {
    parts: i64,
    side_parts: i64,
    part_bytes: i64,
    stored_bytes: i64,
}

impl Sweep<'_> {
    fn connection(&self) -> &Connection {
        self.session.connection()
    }

    /// Texts of older tellings of a call.
    fn retold_texts(&mut self) -> Result<()> {
        let select = "SELECT t.key FROM search_text t WHERE t.owner_id = ?1 AND EXISTS (SELECT 1 FROM retold r \
                      WHERE r.owner_id = ?1 AND r.exchange = t.exchange AND r.first_text > t.key)";
        let keys = numbers(self.connection(), select, self.owner)?;
        self.went.texts += keys.len() as u64;
        if !self.is_dry {
            search::remove(self.connection(), self.owner, &keys)?;
        }
        Ok(())
    }

    fn mark(&mut self) -> Result<()> {
        self.mark_exchanges()?;
        let connection = self.session.connection();
        let select = "SELECT rope FROM sent_body WHERE owner_id = ?1";
        each(connection, select, self.owner, |row| {
            self.marks
                .rope(&read_rope(&row.get::<_, Vec<u8>>(0).map_err(problem)?)?)
        })?;
        let select = "SELECT strings FROM search_text WHERE owner_id = ?1";
        each(connection, select, self.owner, |row| {
            let strings: Vec<u8> = row.get(0).map_err(problem)?;
            search::parts_of(&strings)?
                .into_iter()
                .try_for_each(|part| self.marks.part(part))
        })?;
        let select = "SELECT bytes FROM chunk WHERE key = ?1 AND owner_id = ?2";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        loop {
            let wanted = self.marks.wanted();
            if wanted.is_empty() {
                return Ok(());
            }
            for (chunk, level) in wanted {
                let found = statement.query_row([key(self.owner, chunk), self.owner.0], |row| row.get::<_, Vec<u8>>(0));
                let missing = || StoreError::Damaged(format!("chunk {chunk} is not there"));
                let bytes = found.optional().map_err(problem)?.ok_or_else(missing)?;
                self.marks.chunk(level, bytes)?;
            }
        }
    }

    fn mark_exchanges(&mut self) -> Result<()> {
        let select = "SELECT key, context, detail, request_rope, response_rope FROM exchange WHERE owner_id = ?1";
        let connection = self.session.connection();
        each(connection, select, self.owner, |row| {
            self.exchanges.insert(number(row.get(0).map_err(problem)?))?;
            self.contexts.insert(row.get(1).map_err(problem)?)?;
            self.details.push(row.get(2).map_err(problem)?);
            for column in [3, 4] {
                let rope: Option<Vec<u8>> = row.get(column).map_err(problem)?;
                // A request that was forgotten has nothing left.
                if let Some(rope) = rope.filter(|rope| !rope.is_empty()) {
                    self.marks.rope(&read_rope(&rope)?)?;
                }
            }
            Ok(())
        })
    }

    fn chunks(&mut self) -> Result<()> {
        let mut unused: Vec<(i64, Vec<u8>)> = Vec::new();
        let select = "SELECT key, name FROM chunk WHERE owner_id = ?1";
        each(self.connection(), select, self.owner, |row| {
            let chunk = number(row.get(0).map_err(problem)?);
            if !self.marks.chunks.contains(chunk) {
                unused.push((chunk, row.get(1).map_err(problem)?));
            }
            Ok(())
        })?;
        self.went.chunks += unused.len() as u64;
        for (chunk, name) in unused {
            self.remove(
                Kind::Chunk,
                &name,
                chunk,
                "DELETE FROM chunk WHERE key = ?1 AND owner_id = ?2",
            )?;
        }
        Ok(())
    }

    /// Removes a row and the entry that finds it.
    fn remove(&mut self, kind: Kind, hash: &[u8], row: i64, delete: &str) -> Result<()> {
        if self.is_dry {
            return Ok(());
        }
        self.session.unindex(self.owner, kind, hash, row);
        let mut statement = self.connection().prepare_cached(delete).map_err(problem)?;
        statement
            .execute([key(self.owner, row), self.owner.0])
            .map_err(problem)?;
        Ok(())
    }

    fn parts(&mut self) -> Result<Figures> {
        // What bodies name counts as a part of theirs; what only an exchange says about itself does not.
        let mut figures = Figures::default();
        for detail in std::mem::take(&mut self.details) {
            figures.side_parts += i64::from(self.marks.parts.insert(detail)?);
        }
        let mut packs: Vec<PackRow> = Vec::new();
        let select = "SELECT key, lengths, gone, length(bytes) FROM pack WHERE owner_id = ?1 ORDER BY key";
        each(self.connection(), select, self.owner, |row| {
            packs.push(PackRow {
                first: number(row.get(0).map_err(problem)?),
                lengths: row.get(1).map_err(problem)?,
                gone: row.get(2).map_err(problem)?,
                stored: row.get(3).map_err(problem)?,
            });
            Ok(())
        })?;
        for PackRow {
            first,
            lengths,
            gone,
            stored,
        } in packs
        {
            let ends = read_ends(first, &lengths)?;
            let gone = read_gone(first, gone.as_deref())?;
            let mut start = 0;
            let mut is_touched = false;
            for (place, end) in ends.into_iter().enumerate() {
                let length = (end - start) as i64;
                start = end;
                if gone.contains(&place) {
                    continue;
                }
                if self.marks.parts.contains(first + place as i64) {
                    figures.parts += 1;
                    figures.part_bytes += length;
                } else {
                    self.went.parts += 1;
                    self.went.part_bytes += length as u64;
                    is_touched = true;
                }
            }
            figures.stored_bytes += match is_touched && !self.is_dry {
                true => self.rewrite_pack(first)?,
                false => stored,
            };
        }
        Ok(figures)
    }

    /// Writes a pack without what is not marked; gives its size.
    fn rewrite_pack(&mut self, first: i64) -> Result<i64> {
        let missing = || StoreError::Damaged(format!("pack {first} is not there"));
        let stored = StoredPack::find(self.connection(), self.owner, first)?.ok_or_else(missing)?;
        let pack = stored.unpack(&mut Unpacker::default())?;
        for part in pack.numbers() {
            if let Some(bytes) = pack.part(part).filter(|_| !self.marks.parts.contains(part)) {
                let hash = sha256(bytes);
                self.session.unindex(self.owner, Kind::Part, &hash, part);
            }
        }
        let left = pack.without(|part| !self.marks.parts.contains(part));
        let delete = "DELETE FROM pack WHERE key = ?1 AND owner_id = ?2";
        let connection = self.session.connection();
        let mut statement = connection.prepare_cached(delete).map_err(problem)?;
        statement
            .execute([key(self.owner, first), self.owner.0])
            .map_err(problem)?;
        drop(statement);
        let (connection, packer) = self.session.packer()?;
        left.save_packed(connection, self.owner, packer)
    }

    fn contexts(&mut self) -> Result<()> {
        let select = "SELECT key FROM context WHERE owner_id = ?1";
        let all = numbers(self.connection(), select, self.owner)?;
        for context in all
            .into_iter()
            .map(number)
            .filter(|context| !self.contexts.contains(*context))
            .collect::<Vec<_>>()
        {
            self.went.contexts += 1;
            if self.is_dry {
                continue;
            }
            let known = Context::load(self.connection(), self.owner, context)?;
            for entry in known.index_keys() {
                self.session.unindex(self.owner, Kind::ContextKey, &entry.hash, context);
            }
            let delete = "DELETE FROM context WHERE key = ?1 AND owner_id = ?2";
            self.remove(Kind::Context, &known.digest(), context, delete)?;
        }
        Ok(())
    }

    /// Nodes that a removed exchange brought: those that others have as well are theirs now.
    fn nodes(&mut self) -> Result<()> {
        let mut orphans: BTreeMap<(i64, i64), Orphan> = BTreeMap::new();
        let mut depths: HashMap<i64, i64> = HashMap::new();
        let select = "SELECT key, exchange, depth, parent, hash FROM node WHERE owner_id = ?1";
        each(self.session.connection(), select, self.owner, |row| {
            let brought_by: i64 = row.get(1).map_err(problem)?;
            if !self.exchanges.contains(brought_by) {
                let (node, depth) = (number(row.get(0).map_err(problem)?), row.get(2).map_err(problem)?);
                depths.insert(node, depth);
                let orphan = Orphan {
                    parent: row.get(3).map_err(problem)?,
                    hash: row.get(4).map_err(problem)?,
                    heir: None,
                };
                orphans.insert((depth, node), orphan);
            }
            Ok(())
        })?;
        if orphans.is_empty() {
            return Ok(());
        }
        let connection = self.session.connection();
        let is_first = |heir: (i64, i64), known: (i64, i64)| {
            if heir.0 != known.0 || heir.1 == known.1 {
                return Ok(heir.0 < known.0);
            }
            let place = |exchange| nodes::place(connection, self.owner, exchange);
            Ok::<bool, StoreError>(place(heir.1)? < place(known.1)?)
        };
        let inherit = |node: Option<i64>, heir: (i64, i64), orphans: &mut BTreeMap<(i64, i64), Orphan>| {
            let place = node.and_then(|node| Some((*depths.get(&node)?, node)));
            if let Some(orphan) = place.and_then(|place| orphans.get_mut(&place))
                && orphan.heir.map_or(Ok(true), |known| is_first(heir, known))?
            {
                orphan.heir = Some(heir);
            }
            Ok::<(), StoreError>(())
        };
        let select = "SELECT parent, at, exchange FROM node WHERE owner_id = ?1 AND parent IS NOT NULL";
        each(self.session.connection(), select, self.owner, |row| {
            let heir: (i64, i64) = (row.get(1).map_err(problem)?, row.get(2).map_err(problem)?);
            if self.exchanges.contains(heir.1) {
                inherit(row.get(0).map_err(problem)?, heir, &mut orphans)?;
            }
            Ok(())
        })?;
        let select = "SELECT key, at, max(at, coalesce(ended_at, at)), input_node, output_node FROM exchange \
                      WHERE owner_id = ?1";
        each(self.session.connection(), select, self.owner, |row| {
            let exchange = number(row.get(0).map_err(problem)?);
            inherit(
                row.get(3).map_err(problem)?,
                (row.get(1).map_err(problem)?, exchange),
                &mut orphans,
            )?;
            inherit(
                row.get(4).map_err(problem)?,
                (row.get(2).map_err(problem)?, exchange),
                &mut orphans,
            )
        })?;
        // From the deepest: what is behind a node is known when it is its turn.
        let places: Vec<(i64, i64)> = orphans.keys().rev().copied().collect();
        for place in places {
            let Some(orphan) = orphans.get(&place) else { continue };
            let (parent, heir) = (orphan.parent, orphan.heir);
            if let Some(heir) = heir {
                inherit(parent, heir, &mut orphans)?;
            }
        }
        for ((_, node), orphan) in orphans {
            self.node(node, &orphan)?;
        }
        Ok(())
    }

    fn node(&mut self, node: i64, orphan: &Orphan) -> Result<()> {
        let Some((at, exchange)) = orphan.heir else {
            self.went.nodes += 1;
            let delete = "DELETE FROM node WHERE key = ?1 AND owner_id = ?2";
            return self.remove(Kind::Node, &orphan.hash, node, delete);
        };
        if self.is_dry {
            return Ok(());
        }
        let update = "UPDATE node SET at = ?3, exchange = ?4 WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.connection().prepare_cached(update).map_err(problem)?;
        let row = [key(self.owner, node), self.owner.0, at, exchange];
        statement.execute(row).map_err(problem)?;
        Ok(())
    }

    fn count(&self, figures: &Figures) -> Result<()> {
        if self.is_dry {
            return Ok(());
        }
        let update = "UPDATE owner SET side_parts = ?2, gone_parts = last_part - ?3, part_bytes = ?4, stored_bytes = ?5, \
                      gone_nodes = last_node - (SELECT count(*) FROM node WHERE owner_id = ?1) WHERE owner_id = ?1";
        let row = params![
            self.owner.0,
            figures.side_parts,
            figures.parts,
            figures.part_bytes,
            figures.stored_bytes
        ];
        self.connection().execute(update, row).map_err(problem)?;
        Ok(())
    }
}

/// A node whose exchange is gone.
struct Orphan {
    parent: Option<i64>,
    hash: Vec<u8>,
    /// When it was said first by somebody who is still there, and who that is.
    heir: Option<(i64, i64)>,
}

fn numbers(connection: &Connection, select: &str, owner: OwnerId) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    each(connection, select, owner, |row| {
        found.push(row.get(0).map_err(problem)?);
        Ok(())
    })?;
    Ok(found)
}
