//! What linking asks. Every answer comes from an index, and none depends on how much is stored.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use ropewalk_core::hash::NodeHash;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use crate::facts::{ExchangeNumber, Key, KeyKind, Micros, OwnerId};
use crate::packed::read_keys;
use crate::sqlite::context::Context;
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, key, number, row_of};
use crate::sqlite::nodes::last_known;
use crate::sqlite::popular::{Newest, POPULAR_MIN, Popular, Shared, Times};
use crate::sqlite::read::{StoredHashes, has_hash};
use crate::sqlite::{derived, problem, spawns};
use crate::store::{Answers, KnownNode, PAGE_MAX, Questions, Result};

pub(super) fn look_up(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    questions: &Questions,
    as_of: Micros,
) -> Result<Answers> {
    let view = View {
        connection,
        fresh,
        owner,
        as_of,
        targets: &RefCell::default(),
    };
    let limit = questions.limit.clamp(1, PAGE_MAX);
    let deepest = questions
        .chains
        .iter()
        .map(|chain| view.deepest(chain, limit))
        .collect::<Result<_>>()?;
    let nodes = questions.nodes.iter().enumerate();
    let nodes = nodes.map(|(index, asked)| view.at(asked.as_of).known_node(index, &asked.what, limit));
    let keys = questions.keys.iter();
    let exchanges = keys.map(|asked| view.at(asked.as_of).by_key(&asked.what, limit));
    let spawns_of = questions.spawns_of.iter();
    let spawns_between = questions.spawns_between.iter();
    Ok(Answers {
        deepest,
        nodes: nodes.collect::<Result<_>>()?,
        exchanges: exchanges.collect::<Result<_>>()?,
        spawns_of: spawns_of
            .map(|exchange| spawns::of(connection, owner, *exchange, as_of))
            .collect::<Result<_>>()?,
        spawns_between: spawns_between
            .map(|between| spawns::between(connection, owner, *between, as_of))
            .collect::<Result<_>>()?,
        wanting: derived::wanting(connection, owner, &questions.wanting)?,
    })
}

/// One owner's data at one time.
struct View<'v> {
    connection: &'v Connection,
    fresh: &'v Fresh,
    owner: OwnerId,
    as_of: Micros,
    /// What the hash index says of a node, which is asked about at several times.
    targets: &'v RefCell<HashMap<NodeHash, Rc<[i64]>>>,
}

impl View<'_> {
    /// The same data at an earlier time; never at a later one.
    fn at(&self, as_of: Micros) -> Self {
        View {
            as_of: as_of.min(self.as_of),
            ..*self
        }
    }

    /// The deepest node of a chain that was known.
    fn deepest(&self, chain: &[NodeHash], limit: usize) -> Result<Option<KnownNode>> {
        let Some((index, found)) = last_known(chain.len(), |at| self.node(&chain[at]))? else {
            return Ok(None);
        };
        self.what_is_known(index, chain[index], found, limit).map(Some)
    }

    /// What was known of exactly this node.
    fn known_node(&self, index: usize, hash: &NodeHash, limit: usize) -> Result<Option<KnownNode>> {
        let found = self.node(hash)?;
        found
            .map(|found| self.what_is_known(index, *hash, found, limit))
            .transpose()
    }

    /// All that the hash index has for a node.
    fn targets(&self, hash: &NodeHash) -> Result<Rc<[i64]>> {
        if let Some(known) = self.targets.borrow().get(hash) {
            return Ok(Rc::clone(known));
        }
        let found: Rc<[i64]> = hash_index::targets(self.connection, self.fresh, self.owner, &hash.0)?.into();
        self.targets.borrow_mut().insert(*hash, Rc::clone(&found));
        Ok(found)
    }

    /// `found` is the node's number, and the exchange that first had it.
    fn what_is_known(&self, index: usize, hash: NodeHash, found: (i64, i64), limit: usize) -> Result<KnownNode> {
        let (node, first) = found;
        let at_input = "SELECT at, at FROM exchange WHERE key = ?1 AND owner_id = ?2 AND input_node = ?3";
        let at_output = "SELECT at, coalesce(ended_at, at) FROM exchange \
                         WHERE key = ?1 AND owner_id = ?2 AND output_node = ?3";
        Ok(KnownNode {
            index,
            as_input: self.ending_at((node, hash), Shared::Input(hash), at_input, limit)?,
            as_output: self.ending_at((node, hash), Shared::Output(hash), at_output, limit)?,
            first: ExchangeNumber(first),
        })
    }

    /// Number of a node and of the exchange that first had it.
    fn node(&self, hash: &NodeHash) -> Result<Option<(i64, i64)>> {
        let popular = self.fresh.popular();
        if let Some(node) = popular.and_then(|popular| popular.node(self.owner, hash)) {
            return Ok(self.first_with(node, hash)?.map(|first| (node, first)));
        }
        let targets = self.targets(hash)?;
        for node in targets.iter().filter_map(|target| row_of(*target, Kind::Node)) {
            if let Some(first) = self.first_with(node, hash)? {
                return Ok(Some((node, first)));
            }
        }
        Ok(None)
    }

    /// The exchange that first had a node, if the node of that number has that hash and was known.
    fn first_with(&self, node: i64, hash: &NodeHash) -> Result<Option<i64>> {
        let select = "SELECT exchange FROM node WHERE key = ?1 AND owner_id = ?2 AND hash = ?3 AND at <= ?4";
        let mut statement = self.connection.prepare_cached(select).map_err(problem)?;
        let columns = params![key(self.owner, node), self.owner.0, hash.0, self.as_of.0];
        let first = statement.query_row(columns, |row| row.get(0));
        first.optional().map_err(problem)
    }

    /// Exchanges that end at a node, newest first. `select` gives the times of one that does.
    fn ending_at(
        &self,
        (node, hash): (i64, NodeHash),
        end: Shared,
        select: &str,
        limit: usize,
    ) -> Result<Vec<ExchangeNumber>> {
        // Most look for something new, and find nobody.
        let mut prepared: Option<CachedStatement<'_>> = None;
        let candidates = || {
            let targets = self.targets(&hash)?;
            if let Some(popular) = self.fresh.popular().filter(|_| targets.len() >= POPULAR_MIN) {
                popular.keep_node(self.owner, hash, node);
            }
            let candidates = targets.iter().filter_map(|target| row_of(*target, end.kind()));
            Ok((candidates.collect(), targets.len()))
        };
        let found = self.newest(end, limit, candidates, |candidate| {
            let statement = match &mut prepared {
                Some(statement) => statement,
                none => none.insert(self.connection.prepare_cached(select).map_err(problem)?),
            };
            let columns = [key(self.owner, candidate), self.owner.0, node];
            let times = statement.query_row(columns, |row| Ok((row.get(0)?, row.get(1)?)));
            times.optional().map_err(problem)
        })?;
        Ok(found.into_iter().map(|(_, number)| ExchangeNumber(number)).collect())
    }

    /// Times and numbers of those that have something and were known to have it, newest first. `candidates` are all that the hash
    /// index has, and out of how many entries; `read` gives the times of one that has it.
    fn newest(
        &self,
        what: Shared,
        limit: usize,
        candidates: impl FnOnce() -> Result<(Vec<i64>, usize)>,
        mut read: impl FnMut(i64) -> Result<Option<Times>>,
    ) -> Result<Vec<(i64, i64)>> {
        let asked = (self.as_of.0, limit);
        let ask = |popular: &Popular, read: &mut dyn FnMut(i64) -> Result<Option<Times>>| {
            popular.newest(self.owner, what, asked, read)
        };
        let popular = self.fresh.popular();
        let mut is_kept = false;
        if let Some(popular) = popular {
            match ask(popular, &mut read)? {
                Newest::Are(found) => return Ok(found),
                Newest::TooOld => is_kept = true,
                Newest::NotKept => {}
            }
        }
        let (candidates, entries) = candidates()?;
        if let Some(popular) = popular.filter(|_| !is_kept && entries >= POPULAR_MIN) {
            popular.keep(self.owner, what, candidates.clone());
            if let Newest::Are(found) = ask(popular, &mut read)? {
                return Ok(found);
            }
        }
        let mut found = Vec::with_capacity(candidates.len());
        for number in candidates {
            let times = read(number)?.filter(|(_, known_at)| *known_at <= self.as_of.0);
            found.extend(times.map(|(at, _)| (at, number)));
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.truncate(limit);
        Ok(found)
    }

    fn by_key(&self, wanted: &Key, limit: usize) -> Result<Vec<ExchangeNumber>> {
        let mut found = match wanted.kind.is_of_context() {
            true => Vec::new(),
            false => self.by_own_key(wanted, limit)?,
        };
        if wanted.kind.is_of_context() || wanted.kind == KeyKind::Hash {
            self.by_context(wanted, limit, &mut found)?;
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found
            .into_iter()
            .take(limit)
            .map(|(_, number)| ExchangeNumber(number))
            .collect())
    }

    /// Exchanges that have the key themselves, each with its time, newest first.
    fn by_own_key(&self, wanted: &Key, limit: usize) -> Result<Vec<(i64, i64)>> {
        let kind = wanted.kind.code();
        let candidates = || {
            let found = hash_index::find(
                self.connection,
                &[],
                self.fresh,
                self.owner,
                Kind::Key(kind),
                &wanted.hash,
            )?;
            let count = found.len();
            Ok((found, count))
        };
        let select = "SELECT e.keys, e.hashes, e.at, e.parent_message, (SELECT p.hashes FROM exchange p \
                      WHERE p.key = (e.owner_id << 40 | e.parent_message) AND p.owner_id = e.owner_id), \
                      coalesce(e.ended_at, e.at) FROM exchange e WHERE e.key = ?1 AND e.owner_id = ?2";
        let mut prepared: Option<CachedStatement<'_>> = None;
        self.newest(Shared::Key(kind, wanted.hash), limit, candidates, |candidate| {
            let statement = match &mut prepared {
                Some(statement) => statement,
                none => none.insert(self.connection.prepare_cached(select).map_err(problem)?),
            };
            let row = statement.query_row([key(self.owner, candidate), self.owner.0], |row| {
                let keys = row.get::<_, Vec<u8>>(0)?;
                let (at, ended_at) = (row.get(2)?, row.get(5)?);
                Ok((keys, StoredHashes::read(row, [1, 3, 4])?, at, ended_at))
            });
            let Some((keys, hashes, at, ended_at)) = row.optional().map_err(problem)? else {
                return Ok(None);
            };
            let has_it = read_keys(&keys)?.contains(wanted) || has_hash(hashes, wanted)?;
            let known_at = if wanted.kind.is_of_answer() { ended_at } else { at };
            Ok(has_it.then_some((at, known_at)))
        })
    }

    /// Exchanges whose context has this key, newest first, as many as are wanted.
    fn by_context(&self, wanted: &Key, limit: usize, found: &mut Vec<(i64, i64)>) -> Result<()> {
        let (connection, kind) = (self.connection, Kind::ContextKey);
        // A popular key is of many contexts. They come newest first and have most of the newest exchanges then, so of the others
        // only what is newer still is read.
        let mut since = i64::MIN;
        for context in hash_index::find(connection, &[], self.fresh, self.owner, kind, &wanted.hash)? {
            if found.len() >= limit.saturating_mul(2) {
                found.sort_unstable_by(|a, b| b.cmp(a));
                found.truncate(limit);
                since = found.last().map_or(since, |(at, _)| *at);
            }
            let select = "SELECT at, key FROM exchange INDEXED BY exchange_context WHERE owner_id = ?1 AND context = ?2 \
                          AND at <= ?3 AND at >= ?5 ORDER BY at DESC, key DESC LIMIT ?4";
            let mut statement = connection.prepare_cached(select).map_err(problem)?;
            let columns = params![self.owner.0, context, self.as_of.0, limit as i64, since];
            let rows = statement
                .query_map(columns, |row| Ok((row.get(0)?, number(row.get(1)?))))
                .map_err(problem)?;
            let rows: Vec<(i64, i64)> = rows.collect::<rusqlite::Result<_>>().map_err(problem)?;
            // The index knows the beginning of a hash only.
            if !rows.is_empty() && Context::load(connection, self.owner, context)?.has(wanted) {
                found.extend(rows);
            }
        }
        Ok(())
    }
}
