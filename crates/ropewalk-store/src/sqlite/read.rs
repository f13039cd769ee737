//! Questions that do not change anything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ropewalk_core::hash::NodeHash;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::facts::{ExchangeNumber, HashKind, Key, KeyKind, Micros, OwnerId, Position};
use crate::packed::{read_hashes, read_keys, read_provenance, read_usage, status_of};
use crate::sqlite::bodies::Parts;
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, key, number};
use crate::sqlite::nodes::last_known;
use crate::sqlite::problem;
use crate::store::{Answers, ExchangeRow, KnownNode, PAGE_MAX, Questions, Result, Selection, Stats, StoreError};

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
    };
    let limit = questions.limit.clamp(1, PAGE_MAX);
    let deepest = questions
        .chains
        .iter()
        .map(|chain| view.deepest(chain, limit))
        .collect::<Result<_>>()?;
    let exchanges = questions
        .keys
        .iter()
        .map(|key| view.by_key(key, limit))
        .collect::<Result<_>>()?;
    Ok(Answers { deepest, exchanges })
}

/// Which end of an exchange a node is.
#[derive(Clone, Copy)]
enum End {
    Input,
    Output,
}

/// One owner's data at one time.
struct View<'v> {
    connection: &'v Connection,
    fresh: &'v Fresh,
    owner: OwnerId,
    as_of: Micros,
}

impl View<'_> {
    /// The deepest node of a chain that was known.
    fn deepest(&self, chain: &[NodeHash], limit: usize) -> Result<Option<KnownNode>> {
        let Some(found) = last_known(chain.len(), |at| self.node(&chain[at]))? else {
            return Ok(None);
        };
        let (index, (node, first)) = found;
        Ok(Some(KnownNode {
            index,
            as_input: self.ending_at(End::Input, node, limit)?,
            as_output: self.ending_at(End::Output, node, limit)?,
            first: ExchangeNumber(first),
        }))
    }

    /// Number of a node and of the exchange that first had it.
    fn node(&self, hash: &NodeHash) -> Result<Option<(i64, i64)>> {
        for candidate in hash_index::find(self.connection, &[], self.fresh, self.owner, Kind::Node, &hash.0)? {
            let select = "SELECT exchange FROM node WHERE key = ?1 AND owner_id = ?2 AND hash = ?3 AND at <= ?4";
            let mut statement = self.connection.prepare_cached(select).map_err(problem)?;
            let columns = params![key(self.owner, candidate), self.owner.0, hash.0, self.as_of.0];
            let first = statement
                .query_row(columns, |row| row.get(0))
                .optional()
                .map_err(problem)?;
            if let Some(first) = first {
                return Ok(Some((candidate, first)));
            }
        }
        Ok(None)
    }

    fn ending_at(&self, end: End, node: i64, limit: usize) -> Result<Vec<ExchangeNumber>> {
        // Left alone, the planner walks all exchanges in the order asked for.
        let (column, time, index) = match end {
            End::Input => ("input_node", "at", "exchange_input"),
            End::Output => ("output_node", "ended_at", "exchange_output"),
        };
        let select = format!(
            "SELECT key FROM exchange INDEXED BY {index} WHERE owner_id = ?1 AND {column} = ?2 \
             AND coalesce({time}, at) <= ?3 ORDER BY at DESC, key DESC LIMIT ?4"
        );
        let mut statement = self.connection.prepare_cached(&select).map_err(problem)?;
        let columns = params![self.owner.0, node, self.as_of.0, limit as i64];
        let rows = statement.query_map(columns, |row| row.get(0)).map_err(problem)?;
        rows.map(|row| row.map(|key| ExchangeNumber(number(key))).map_err(problem))
            .collect()
    }

    fn by_key(&self, wanted: &Key, limit: usize) -> Result<Vec<ExchangeNumber>> {
        let kind = Kind::Key(wanted.kind.code());
        let mut found = Vec::new();
        for candidate in hash_index::find(self.connection, &[], self.fresh, self.owner, kind, &wanted.hash)? {
            let select = "SELECT keys, hashes, at FROM exchange WHERE key = ?1 AND owner_id = ?2 AND at <= ?3 \
                          AND (?4 = 0 OR coalesce(ended_at, at) <= ?3)";
            let mut statement = self.connection.prepare_cached(select).map_err(problem)?;
            let of_answer = wanted.kind.is_of_answer();
            let columns = params![key(self.owner, candidate), self.owner.0, self.as_of.0, of_answer];
            let row = statement.query_row(columns, |row| {
                Ok((
                    row.get::<_, Vec<u8>>(0)?,
                    row.get::<_, Vec<u8>>(1)?,
                    row.get::<_, i64>(2)?,
                ))
            });
            if let Some((keys, hashes, at)) = row.optional().map_err(problem)?
                && (read_keys(&keys)?.contains(wanted) || has_hash(&hashes, wanted)?)
            {
                found.push((at, candidate));
            }
        }
        if wanted.kind == KeyKind::Hash {
            self.by_context(wanted, limit, &mut found)?;
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        Ok(found
            .into_iter()
            .take(limit)
            .map(|(_, number)| ExchangeNumber(number))
            .collect())
    }

    /// Exchanges whose context has this hash, newest first, as many as are wanted.
    fn by_context(&self, wanted: &Key, limit: usize, found: &mut Vec<(i64, i64)>) -> Result<()> {
        for context in hash_index::find(
            self.connection,
            &[],
            self.fresh,
            self.owner,
            Kind::Context,
            &wanted.hash,
        )? {
            let hashes = Parts::new(self.connection, self.owner).load(context)?.bytes;
            if !has_hash(&hashes, wanted)? {
                continue;
            }
            let select = "SELECT at, key FROM exchange INDEXED BY exchange_context WHERE owner_id = ?1 AND context = ?2 \
                          AND at <= ?3 ORDER BY at DESC, key DESC LIMIT ?4";
            let mut statement = self.connection.prepare_cached(select).map_err(problem)?;
            let columns = params![self.owner.0, context, self.as_of.0, limit as i64];
            let rows = statement
                .query_map(columns, |row| Ok((row.get(0)?, number(row.get(1)?))))
                .map_err(problem)?;
            for row in rows {
                found.push(row.map_err(problem)?);
            }
        }
        Ok(())
    }
}

fn has_hash(hashes: &[u8], wanted: &Key) -> Result<bool> {
    Ok(read_hashes(hashes)?
        .iter()
        .any(|(_, hash)| Key::of_hash(hash) == *wanted))
}

const COLUMNS: &str = "SELECT e.key, e.position, e.id, e.at, e.ended_at, e.status, e.http_status, e.provider, e.model, \
     e.kind, e.session, e.agent, e.project, \
     (SELECT hash FROM node WHERE node.key = (e.owner_id << 40 | e.input_node) AND node.owner_id = e.owner_id), \
     (SELECT hash FROM node WHERE node.key = (e.owner_id << 40 | e.output_node) AND node.owner_id = e.owner_id), \
     e.hashes, e.keys, e.usage, e.cost_nano_usd, e.cost_is_estimate, e.request_sha256, e.response_sha256, \
     e.request_length, e.response_length, e.detail, e.provenance, e.rules_version, e.context \
     FROM exchange e WHERE e.owner_id = ?1 AND ";

pub(super) fn exchanges(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    selection: &Selection,
    as_of: Micros,
) -> Result<Vec<ExchangeRow>> {
    let mut rows = Vec::new();
    let mut reader = RowReader::new(connection, owner);
    let mut select = |filter: &str, columns: &[&dyn rusqlite::ToSql]| -> Result<()> {
        let mut statement = connection
            .prepare_cached(&format!("{COLUMNS}{filter}"))
            .map_err(problem)?;
        let mut found = statement.query(columns).map_err(problem)?;
        while let Some(row) = found.next().map_err(problem)? {
            rows.push(reader.row(row)?);
        }
        Ok(())
    };
    match selection {
        Selection::Numbers(numbers) => {
            for number in numbers {
                select(
                    "e.key = ?2 AND e.at <= ?3",
                    &[&owner.0, &key(owner, number.0), &as_of.0],
                )?;
            }
        }
        Selection::Ids(ids) => {
            for id in ids {
                let hash = ropewalk_core::hash::sha256(id.as_bytes());
                for number in hash_index::find(connection, &[], fresh, owner, Kind::ExchangeId, &hash)? {
                    let filter = "e.key = ?2 AND e.at <= ?3 AND e.id = ?4";
                    select(filter, &[&owner.0, &key(owner, number), &as_of.0, id])?;
                }
            }
        }
        Selection::Since { after, limit } => {
            let (at, number) = after.unwrap_or((Micros(i64::MIN), ExchangeNumber(0)));
            let filter = "(e.at, e.key) > (?2, ?3) AND e.at <= ?4 ORDER BY e.at, e.key LIMIT ?5";
            let limit = (*limit).min(PAGE_MAX) as i64;
            select(filter, &[&owner.0, &at.0, &key(owner, number.0), &as_of.0, &limit])?;
        }
        Selection::Log { after, limit } => {
            let filter = "e.position > ?2 AND e.at <= ?3 ORDER BY e.position LIMIT ?4";
            select(
                filter,
                &[&owner.0, &after.0, &as_of.0, &((*limit).min(PAGE_MAX) as i64)],
            )?;
        }
    }
    // An answer that had not ended by then is not there yet.
    let unended = rows
        .iter_mut()
        .filter(|row| row.ended_at.is_some_and(|ended_at| ended_at > as_of));
    unended.for_each(ExchangeRow::hide_end);
    Ok(rows)
}

/// Reads rows that share most of what is packed in them.
struct RowReader<'c> {
    parts: Parts<'c>,
    contexts: HashMap<i64, Vec<(HashKind, Vec<u8>)>>,
}

impl<'c> RowReader<'c> {
    fn new(connection: &'c Connection, owner: OwnerId) -> Self {
        RowReader {
            parts: Parts::new(connection, owner),
            contexts: HashMap::new(),
        }
    }

    fn hashes(&mut self, row: &Row<'_>) -> Result<Vec<(HashKind, Vec<u8>)>> {
        let mut hashes = read_hashes(&row.get::<_, Vec<u8>>(15).map_err(problem)?)?;
        let context: i64 = row.get(27).map_err(problem)?;
        let of_context = match self.contexts.entry(context) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(read_hashes(&self.parts.load(context)?.bytes)?),
        };
        hashes.extend(of_context.iter().cloned());
        hashes.sort();
        Ok(hashes)
    }

    fn detail(&mut self, row: &Row<'_>) -> Result<String> {
        let part = self.parts.load(row.get(24).map_err(problem)?)?;
        String::from_utf8(part.bytes)
            .map_err(|_| StoreError::Damaged("the detail of an exchange is no text".to_owned()))
    }

    fn row(&mut self, row: &Row<'_>) -> Result<ExchangeRow> {
        let damaged = |what: &str| StoreError::Damaged(format!("an exchange has no {what}"));
        let hash = |column: usize| -> Result<Option<[u8; 32]>> {
            let bytes: Option<Vec<u8>> = row.get(column).map_err(problem)?;
            bytes
                .map(|bytes| bytes.try_into().map_err(|_| damaged("whole hash")))
                .transpose()
        };
        let usage: Option<Vec<u8>> = row.get(17).map_err(problem)?;
        let provenance: Option<String> = row.get(25).map_err(problem)?;
        Ok(ExchangeRow {
            number: ExchangeNumber(number(row.get(0).map_err(problem)?)),
            position: Position(row.get(1).map_err(problem)?),
            id: row.get(2).map_err(problem)?,
            at: Micros(row.get(3).map_err(problem)?),
            ended_at: row.get::<_, Option<i64>>(4).map_err(problem)?.map(Micros),
            status: status_of(row.get(5).map_err(problem)?)?,
            http_status: row.get(6).map_err(problem)?,
            provider: row.get(7).map_err(problem)?,
            model: row.get(8).map_err(problem)?,
            kind: row.get(9).map_err(problem)?,
            session: row.get(10).map_err(problem)?,
            agent: row.get(11).map_err(problem)?,
            project: row.get(12).map_err(problem)?,
            input_node: NodeHash(hash(13)?.ok_or_else(|| damaged("input node"))?),
            output_node: hash(14)?.map(NodeHash),
            hashes: self.hashes(row)?,
            keys: read_keys(&row.get::<_, Vec<u8>>(16).map_err(problem)?)?,
            usage: usage.map(|bytes| read_usage(&bytes)).transpose()?,
            cost_nano_usd: row.get::<_, Option<i64>>(18).map_err(problem)?.map(|cost| cost as u64),
            cost_is_estimate: row.get(19).map_err(problem)?,
            request_sha256: hash(20)?.ok_or_else(|| damaged("request hash"))?,
            response_sha256: hash(21)?,
            request_length: row.get::<_, i64>(22).map_err(problem)? as u64,
            response_length: row
                .get::<_, Option<i64>>(23)
                .map_err(problem)?
                .map(|length| length as u64),
            detail: self.detail(row)?,
            provenance: provenance.map(|text| read_provenance(&text)).transpose()?,
            rules_version: row.get(26).map_err(problem)?,
        })
    }
}

pub(super) fn stats(connection: &Connection, owner: OwnerId) -> Result<Stats> {
    let select = "SELECT last_exchange, last_part - side_parts, last_node, bytes_in, part_bytes, stored_bytes, conflicts \
                  FROM owner WHERE owner_id = ?1";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let found = statement.query_row([owner.0], |row| {
        let count = |column: usize| row.get::<_, i64>(column).map(|count| count as u64);
        Ok(Stats {
            exchanges: count(0)?,
            parts: count(1)?,
            nodes: count(2)?,
            bytes_in: count(3)?,
            part_bytes: count(4)?,
            stored_bytes: count(5)?,
            conflicts: count(6)?,
        })
    });
    found.optional().map_err(problem)?.ok_or(StoreError::NoOwner)
}
