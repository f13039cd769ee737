//! Questions that do not change anything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ropewalk_core::hash::NodeHash;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use crate::facts::{ExchangeNumber, HashKind, Key, Micros, OwnerId, Position};
use crate::forget::{Hole, KeptLink};
use crate::packed::{link_kind_of, read_hashes, read_keys, read_provenance, read_usage, status_of};
use crate::sqlite::bodies::Parts;
use crate::sqlite::context::Context;
use crate::sqlite::exchange_id::ExchangeId;
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, NUMBER_MAX, key, keys_of, number};
use crate::sqlite::packs::{SharedPacks, not_a_text};
use crate::sqlite::problem;
use crate::store::{ExchangeRow, PAGE_MAX, Result, Selection, Spent, Stats, StoreError};

/// Hashes of an exchange's own, as they are stored.
pub(super) struct StoredHashes {
    own: Vec<u8>,
    /// The exchange that has the hash of its parent message.
    parent_message: Option<i64>,
    of_parent: Option<Vec<u8>>,
}

impl StoredHashes {
    /// From its own hashes, the number of the other exchange, and that one's hashes.
    pub(super) fn read(row: &Row<'_>, [own, parent_message, of_parent]: [usize; 3]) -> rusqlite::Result<Self> {
        Ok(StoredHashes {
            own: row.get(own)?,
            parent_message: row.get(parent_message)?,
            of_parent: row.get(of_parent)?,
        })
    }

    fn unpack(self) -> Result<Vec<(HashKind, Vec<u8>)>> {
        let mut hashes = read_hashes(&self.own)?;
        if let Some(parent) = self.parent_message {
            let of_parent = read_hashes(&self.of_parent.unwrap_or_default())?;
            let message = of_parent
                .into_iter()
                .find(|(kind, _)| *kind == HashKind::CurrentMessage);
            let missing = || StoreError::Damaged(format!("exchange {parent} has no message to go on from"));
            hashes.push((HashKind::ParentMessage, message.ok_or_else(missing)?.1));
        }
        Ok(hashes)
    }
}

pub(super) fn has_hash(hashes: StoredHashes, wanted: &Key) -> Result<bool> {
    Ok(hashes.unpack()?.iter().any(|(_, hash)| Key::of_hash(hash) == *wanted))
}

const COLUMNS: &str = "SELECT e.key, coalesce(e.position, e.key & 1099511627775), e.id, e.at, e.ended_at, e.status, e.http_status, e.context, e.detail, \
     (SELECT hash FROM node WHERE node.key = (e.owner_id << 40 | e.input_node) AND node.owner_id = e.owner_id), \
     (SELECT hash FROM node WHERE node.key = (e.owner_id << 40 | e.output_node) AND node.owner_id = e.owner_id), \
     e.hashes, e.keys, e.usage, e.cost_nano_usd, e.cost_is_estimate, e.request_sha256, e.response_sha256, \
     e.request_length, e.response_length, e.provenance, \
     (SELECT depth FROM node WHERE node.key = (e.owner_id << 40 | e.input_node) AND node.owner_id = e.owner_id), \
     e.parent_message, \
     (SELECT p.hashes FROM exchange p WHERE p.key = (e.owner_id << 40 | e.parent_message) AND p.owner_id = e.owner_id), \
     e.projections, h.exchange, h.kind, h.parent, h.decision, \
     h.exchange IS NOT NULL AND length(e.request_rope) > 0, h.exchange IS NOT NULL AND e.response_rope IS NOT NULL FROM exchange e \
     LEFT JOIN hole h ON h.owner_id = ?1 AND h.exchange = (e.key & 1099511627775) WHERE e.owner_id = ?1 AND ";

pub(super) fn exchanges(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    selection: &Selection,
    as_of: Micros,
) -> Result<Vec<ExchangeRow>> {
    let keys = match selection {
        Selection::Log { after, limit } => log(connection, owner, *after, as_of, (*limit).min(PAGE_MAX))?,
        _ => Vec::new(),
    };
    let mut rows = Vec::with_capacity(keys.len());
    let mut reader = RowReader::new(connection, fresh.packs(), owner);
    let prepare = |filter: &str| {
        connection
            .prepare_cached(&format!("{COLUMNS}{filter}"))
            .map_err(problem)
    };
    let mut read = |statement: &mut CachedStatement<'_>, columns: &[&dyn rusqlite::ToSql]| -> Result<()> {
        let mut found = statement.query(columns).map_err(problem)?;
        while let Some(row) = found.next().map_err(problem)? {
            rows.push(reader.row(row)?);
        }
        Ok(())
    };
    match selection {
        Selection::Numbers(numbers) => {
            let mut select = prepare("e.key = ?2 AND e.at <= ?3")?;
            for number in numbers {
                read(&mut select, &[&owner.0, &key(owner, number.0), &as_of.0])?;
            }
        }
        Selection::Ids(ids) => {
            let mut select = prepare("e.key = ?2 AND e.at <= ?3 AND e.id = ?4")?;
            for id in ids {
                let hash = ropewalk_core::hash::sha256(id.as_bytes());
                for number in hash_index::find(connection, &[], fresh, owner, Kind::ExchangeId, &hash)? {
                    let stored = ExchangeId(id.clone());
                    read(&mut select, &[&owner.0, &key(owner, number), &as_of.0, &stored])?;
                }
            }
        }
        Selection::Since { after, limit } => {
            let (at, number) = after.unwrap_or((Micros(i64::MIN), ExchangeNumber(0)));
            let filter = "(e.at, e.key) > (?2, ?3) AND e.at <= ?4 ORDER BY e.at, e.key LIMIT ?5";
            let limit = (*limit).min(PAGE_MAX) as i64;
            let columns: [&dyn rusqlite::ToSql; 5] = [&owner.0, &at.0, &key(owner, number.0), &as_of.0, &limit];
            read(&mut prepare(filter)?, &columns)?;
        }
        Selection::Newest { before, limit } => {
            let (at, number) = before.unwrap_or((Micros(i64::MAX), ExchangeNumber(NUMBER_MAX)));
            let filter = "(e.at, e.key) < (?2, ?3) AND e.at <= ?4 ORDER BY e.at DESC, e.key DESC LIMIT ?5";
            let limit = (*limit).min(PAGE_MAX) as i64;
            let columns: [&dyn rusqlite::ToSql; 5] = [&owner.0, &at.0, &key(owner, number.0), &as_of.0, &limit];
            read(&mut prepare(filter)?, &columns)?;
        }
        Selection::Log { .. } => {
            let mut select = prepare("e.key = ?2")?;
            for key in keys {
                read(&mut select, &[&owner.0, &key])?;
            }
        }
    }
    // An answer that had not ended by then is not there yet.
    let unended = rows
        .iter_mut()
        .filter(|row| row.ended_at.is_some_and(|ended_at| ended_at > as_of));
    unended.for_each(ExchangeRow::hide_end);
    Ok(rows)
}

/// See [`Store::spent`](crate::store::Store::spent): a few columns of a row, and no look at the nodes.
pub(super) fn spent(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    after: Option<(Micros, ExchangeNumber)>,
    limit: usize,
    as_of: Micros,
) -> Result<Vec<Spent>> {
    let (at, after) = after.unwrap_or((Micros(i64::MIN), ExchangeNumber(0)));
    let select = "SELECT key, at, ended_at, context, detail, usage, cost_nano_usd, cost_is_estimate, request_length, \
                  coalesce(response_length, 0) FROM exchange \
                  WHERE owner_id = ?1 AND (at, key) > (?2, ?3) AND at <= ?4 ORDER BY at, key LIMIT ?5";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let columns = params![owner.0, at.0, key(owner, after.0), as_of.0, limit.min(PAGE_MAX) as i64];
    let mut found = statement.query(columns).map_err(problem)?;
    let mut reader = RowReader::new(connection, fresh.packs(), owner);
    let mut all = Vec::new();
    while let Some(row) = found.next().map_err(problem)? {
        let ended_at: Option<i64> = row.get(2).map_err(problem)?;
        // An answer that had not ended by then is not there yet.
        let is_unended = ended_at.is_some_and(|ended_at| ended_at > as_of.0);
        let usage: Option<Vec<u8>> = row.get(5).map_err(problem)?;
        let cost: Option<i64> = row.get(6).map_err(problem)?;
        let detail = reader.detail(row.get(4).map_err(problem)?)?;
        let (request, response): (i64, i64) = (row.get(8).map_err(problem)?, row.get(9).map_err(problem)?);
        let context = reader.shared_context(row.get(3).map_err(problem)?)?;
        all.push(Spent {
            number: ExchangeNumber(number(row.get(0).map_err(problem)?)),
            at: Micros(row.get(1).map_err(problem)?),
            model: context.model.clone(),
            session: context.session.clone(),
            project: context.project.clone(),
            usage: match usage.filter(|_| !is_unended) {
                Some(bytes) => Some(read_usage(&bytes)?),
                None => None,
            },
            cost_nano_usd: cost.filter(|_| !is_unended).map(|cost| cost as u64),
            cost_is_estimate: row.get::<_, bool>(7).map_err(problem)? && !is_unended,
            bytes: (request + if is_unended { 0 } else { response }) as u64,
            detail,
        });
    }
    Ok(all)
}

/// Keys of exchanges behind a position, in the order of their positions.
fn log(connection: &Connection, owner: OwnerId, after: Position, as_of: Micros, limit: usize) -> Result<Vec<i64>> {
    // Those that never moved lie in that order; those that did have an index.
    let unmoved = "SELECT key & 1099511627775, key FROM exchange NOT INDEXED WHERE owner_id = ?1 AND key > ?2 AND key < ?3 \
                   AND position IS NULL AND at <= ?4 ORDER BY key LIMIT ?5";
    let moved = "SELECT position, key FROM exchange INDEXED BY exchange_position WHERE owner_id = ?1 AND position > ?2 \
                 AND position < ?3 AND at <= ?4 ORDER BY position LIMIT ?5";
    let after = after.0.clamp(0, NUMBER_MAX);
    let mut found: Vec<(i64, i64)> = Vec::new();
    for (select, first, end) in [
        (unmoved, key(owner, after), keys_of(owner).end),
        (moved, after, i64::MAX),
    ] {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let columns = params![owner.0, first, end, as_of.0, limit as i64];
        let rows = statement.query_map(columns, |row| Ok((row.get(0)?, row.get(1)?)));
        for row in rows.map_err(problem)? {
            found.push(row.map_err(problem)?);
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().take(limit).map(|(_, key)| key).collect())
}

/// Reads rows, most of which share their context.
struct RowReader<'c> {
    connection: &'c Connection,
    owner: OwnerId,
    parts: Parts<'c>,
    packs: Option<&'c SharedPacks>,
    contexts: HashMap<i64, Context>,
}

impl<'c> RowReader<'c> {
    fn new(connection: &'c Connection, packs: Option<&'c SharedPacks>, owner: OwnerId) -> Self {
        RowReader {
            connection,
            owner,
            parts: Parts::new(connection, owner),
            packs,
            contexts: HashMap::new(),
        }
    }

    fn shared_context(&mut self, number: i64) -> Result<&Context> {
        Ok(match self.contexts.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Context::load(self.connection, self.owner, number)?),
        })
    }

    fn detail(&mut self, part: i64) -> Result<String> {
        match self.packs {
            Some(packs) => Ok(packs.detail(self.connection, self.owner, part)?.to_string()),
            None => String::from_utf8(self.parts.load(part)?.to_vec()).map_err(|_| not_a_text()),
        }
    }

    fn row(&mut self, row: &Row<'_>) -> Result<ExchangeRow> {
        let damaged = |what: &str| StoreError::Damaged(format!("an exchange has no {what}"));
        let hash = |column: usize| -> Result<Option<[u8; 32]>> {
            let bytes: Option<Vec<u8>> = row.get(column).map_err(problem)?;
            bytes
                .map(|bytes| bytes.try_into().map_err(|_| damaged("whole hash")))
                .transpose()
        };
        let context = self.shared_context(row.get(7).map_err(problem)?)?.clone();
        let mut hashes = StoredHashes::read(row, [11, 22, 23]).map_err(problem)?.unpack()?;
        hashes.extend(context.hashes);
        hashes.sort();
        let mut keys = read_keys(&row.get::<_, Vec<u8>>(12).map_err(problem)?)?;
        keys.extend(context.keys);
        let usage: Option<Vec<u8>> = row.get(13).map_err(problem)?;
        let provenance: Option<String> = row.get(20).map_err(problem)?;
        Ok(ExchangeRow {
            number: ExchangeNumber(number(row.get(0).map_err(problem)?)),
            position: Position(row.get(1).map_err(problem)?),
            id: row.get::<_, ExchangeId>(2).map_err(problem)?.0,
            at: Micros(row.get(3).map_err(problem)?),
            ended_at: row.get::<_, Option<i64>>(4).map_err(problem)?.map(Micros),
            status: status_of(row.get(5).map_err(problem)?)?,
            http_status: row.get(6).map_err(problem)?,
            provider: context.provider,
            model: context.model,
            kind: context.kind,
            session: context.session,
            agent: context.agent,
            project: context.project,
            input_node: NodeHash(hash(9)?.ok_or_else(|| damaged("input node"))?),
            depth: row.get(21).map_err(problem)?,
            output_node: hash(10)?.map(NodeHash),
            hashes,
            keys,
            usage: usage.map(|bytes| read_usage(&bytes)).transpose()?,
            cost_nano_usd: row.get::<_, Option<i64>>(14).map_err(problem)?.map(|cost| cost as u64),
            cost_is_estimate: row.get(15).map_err(problem)?,
            request_sha256: hash(16)?.ok_or_else(|| damaged("request hash"))?,
            response_sha256: hash(17)?,
            request_length: row.get::<_, i64>(18).map_err(problem)? as u64,
            response_length: row
                .get::<_, Option<i64>>(19)
                .map_err(problem)?
                .map(|length| length as u64),
            detail: self.detail(row.get(8).map_err(problem)?)?,
            provenance: provenance.map(|text| read_provenance(&text)).transpose()?,
            rules_version: context.rules_version,
            projections_version: row.get(24).map_err(problem)?,
            hole: hole(row)?,
        })
    }
}

/// What an exchange lost something with, from the last columns of its row.
fn hole(row: &Row<'_>) -> Result<Option<Hole>> {
    let is_there = row.get::<_, Option<i64>>(25).map_err(problem)?.is_some();
    let kind: Option<i16> = row.get(26).map_err(problem)?;
    let link = match kind.filter(|_| is_there) {
        Some(kind) => Some(KeptLink {
            kind: link_kind_of(kind)?,
            parent: row.get::<_, Option<i64>>(27).map_err(problem)?.map(ExchangeNumber),
            decision: row.get(28).map_err(problem)?,
        }),
        None => None,
    };
    let hole = Hole {
        link,
        has_request: row.get(29).map_err(problem)?,
        has_response: row.get(30).map_err(problem)?,
    };
    Ok(is_there.then_some(hole))
}

pub(super) fn stats(connection: &Connection, owner: OwnerId) -> Result<Stats> {
    let select = "SELECT last_exchange, last_part - gone_parts - side_parts, last_node - gone_nodes, bytes_in, part_bytes, stored_bytes, conflicts \
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
