//! Finding by what people type: the name of an owner, the beginning of a hash.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::facts::{ExchangeNumber, KeyKind, Micros, OwnerId};
use crate::hash_prefix::HashPrefix;
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, key, number};
use crate::sqlite::{problem, read};
use crate::store::{Beginning, PAGE_MAX, Result, Selection};

pub(super) fn owner(connection: &Connection, name: &str) -> Result<Option<OwnerId>> {
    let select = "SELECT owner_id FROM owner WHERE name = ?1";
    let found = connection.query_row(select, [name], |row| row.get(0));
    Ok(found.optional().map_err(problem)?.map(OwnerId))
}

pub(super) fn owners(connection: &Connection, after: Option<&str>) -> Result<Vec<(OwnerId, String)>> {
    let select = "SELECT owner_id, name FROM owner WHERE ?1 IS NULL OR name > ?1 ORDER BY name LIMIT ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let rows = statement
        .query_map(params![after, PAGE_MAX as i64], |row| {
            Ok((OwnerId(row.get(0)?), row.get(1)?))
        })
        .map_err(problem)?;
    rows.map(|row| row.map_err(problem)).collect()
}

pub(super) fn beginning_with(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    prefix: &HashPrefix,
    limit: usize,
) -> Result<Beginning> {
    let limit = limit.min(PAGE_MAX);
    Ok(Beginning {
        conversations: conversations(connection, owner, prefix, limit)?,
        nodes: nodes(connection, fresh, owner, prefix, limit)?,
        exchanges: exchanges(connection, fresh, owner, prefix, limit)?,
    })
}

fn conversations(connection: &Connection, owner: OwnerId, prefix: &HashPrefix, limit: usize) -> Result<Vec<[u8; 16]>> {
    let select = "SELECT id FROM conversation_alias WHERE owner_id = ?1 AND id BETWEEN ?2 AND ?3 ORDER BY id LIMIT ?4";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let columns = params![owner.0, &prefix.first()[..16], &prefix.last()[..16], limit as i64];
    let rows = statement.query_map(columns, |row| row.get(0)).map_err(problem)?;
    rows.map(|row| row.map_err(problem)).collect()
}

fn nodes(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    prefix: &HashPrefix,
    limit: usize,
) -> Result<Vec<ropewalk_core::hash::NodeHash>> {
    let select = "SELECT hash FROM node WHERE key = ?1 AND owner_id = ?2";
    let mut found = BTreeSet::new();
    for row in hash_index::between(connection, fresh, owner, Kind::Node, prefix)? {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let hash = statement.query_row(params![key(owner, row), owner.0], |row| row.get::<_, [u8; 32]>(0));
        let hash = hash.optional().map_err(problem)?.filter(|hash| prefix.begins(hash));
        found.extend(hash.map(ropewalk_core::hash::NodeHash));
        if found.len() == limit {
            break;
        }
    }
    Ok(found.into_iter().collect())
}

fn exchanges(
    connection: &Connection,
    fresh: &Fresh,
    owner: OwnerId,
    prefix: &HashPrefix,
    limit: usize,
) -> Result<Vec<ExchangeNumber>> {
    let by_own_hash = Kind::Key(KeyKind::Hash.code());
    let mut candidates = hash_index::between(connection, fresh, owner, by_own_hash, prefix)?;
    let select = "SELECT key FROM exchange INDEXED BY exchange_context WHERE owner_id = ?1 AND context = ?2 \
                  ORDER BY at DESC, key DESC LIMIT ?3";
    for context in hash_index::between(connection, fresh, owner, Kind::ContextKey, prefix)? {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let columns = params![owner.0, context, limit as i64];
        let rows = statement.query_map(columns, |row| row.get(0)).map_err(problem)?;
        for row in rows {
            candidates.insert(number(row.map_err(problem)?));
        }
    }
    let mut found = Vec::new();
    for candidate in candidates {
        // The index holds the beginning of a hash only, and not of which kind it is.
        let selection = Selection::Numbers(vec![ExchangeNumber(candidate)]);
        let rows = read::exchanges(connection, fresh, owner, &selection, Micros::MAX)?;
        let has_it = |row: &&crate::store::ExchangeRow| row.hashes.iter().any(|(_, hash)| prefix.begins(hash));
        found.extend(rows.iter().filter(has_it).map(|row| row.number));
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}
