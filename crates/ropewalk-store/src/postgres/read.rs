//! Reading exchanges and totals.

use deadpool_postgres::Client;
use ropewalk_core::hash::NodeHash;
use tokio_postgres::Row;

use super::packed::{escape, read_texts, unescape};
use super::problem::damaged;
use super::{hash_of, query, sql, unsigned};
use crate::facts::{ExchangeNumber, Micros, OwnerId, Position, Provenance};
use crate::forget::{Hole, KeptLink};
use crate::packed::{link_kind_of, read_hashes, read_keys, read_usage, status_of};
use crate::store::{ExchangeRow, PAGE_MAX, Result, Selection, Stats, StoreError};

pub(super) async fn exchanges(
    client: &Client,
    owner: OwnerId,
    selection: Selection,
    as_of: Micros,
) -> Result<Vec<ExchangeRow>> {
    let owner = &owner.0;
    let as_of = &as_of.0;
    let rows = match selection {
        Selection::Numbers(numbers) => {
            let numbers: Vec<i64> = numbers.iter().take(PAGE_MAX).map(|number| number.0).collect();
            let found = query(client, sql::EXCHANGES_BY_NUMBER, &[owner, as_of, &numbers]).await?;
            in_order(&numbers, read(&found, *as_of)?, |row| row.number.0)
        }
        Selection::Ids(ids) => {
            let escaped: Vec<_> = ids.iter().take(PAGE_MAX).map(|id| escape(id)).collect();
            let found = query(client, sql::EXCHANGES_BY_ID, &[owner, as_of, &escaped]).await?;
            in_order(&ids, read(&found, *as_of)?, |row| row.id.clone())
        }
        Selection::Since { after, limit } => {
            let (at, number) = after.map_or((i64::MIN, i64::MIN), |(at, number)| (at.0, number.0));
            let limit = page(limit);
            let found = query(client, sql::EXCHANGES_SINCE, &[owner, as_of, &at, &number, &limit]).await?;
            read(&found, *as_of)?
        }
        Selection::Newest { before, limit } => {
            let (at, number) = before.map_or((i64::MAX, i64::MAX), |(at, number)| (at.0, number.0));
            let limit = page(limit);
            let found = query(client, sql::EXCHANGES_NEWEST, &[owner, as_of, &at, &number, &limit]).await?;
            read(&found, *as_of)?
        }
        Selection::Log { after, limit } => {
            let limit = page(limit);
            let found = query(client, sql::EXCHANGES_LOG, &[owner, as_of, &after.0, &limit]).await?;
            read(&found, *as_of)?
        }
    };
    Ok(rows)
}

/// A bounded limit, as SQL wants it.
pub(super) fn page(limit: usize) -> i64 {
    limit.min(PAGE_MAX) as i64
}

/// The rows in the order in which they were asked for.
fn in_order<K: Eq + std::hash::Hash>(
    asked: &[K],
    rows: Vec<ExchangeRow>,
    key: impl Fn(&ExchangeRow) -> K,
) -> Vec<ExchangeRow> {
    let mut found: std::collections::HashMap<K, ExchangeRow> = rows.into_iter().map(|row| (key(&row), row)).collect();
    asked.iter().filter_map(|asked| found.remove(asked)).collect()
}

fn read(rows: &[Row], as_of: i64) -> Result<Vec<ExchangeRow>> {
    rows.iter()
        .map(|row| {
            let answered_at: Option<i64> = row.get(5);
            let ended_at: Option<i64> = row.get(4);
            let mut exchange = exchange(row)?;
            // What ended later had not ended then.
            if answered_at.or(ended_at).is_some_and(|at| at > as_of) {
                exchange.hide_end();
            }
            Ok(exchange)
        })
        .collect()
}

/// The columns in the order of `exchange_columns`.
fn exchange(row: &Row) -> Result<ExchangeRow> {
    let hash = |column: usize| -> Result<Option<[u8; 32]>> {
        match row.get::<_, Option<&[u8]>>(column) {
            Some(_) => hash_of(row, column).map(Some),
            None => Ok(None),
        }
    };
    let text = |column: usize| row.get::<_, Option<String>>(column).map(unescape);
    let file: Option<String> = text(27);
    let provenance = file.map(|file| Provenance {
        file,
        line: unsigned(row.get(28)),
        uuid: text(29),
        aliases: read_texts(row.get(30)),
        log_begun: row.get::<_, Option<i64>>(31).map(Micros),
    });
    Ok(ExchangeRow {
        number: ExchangeNumber(row.get(0)),
        position: Position(row.get(1)),
        id: unescape(row.get(2)),
        at: Micros(row.get(3)),
        ended_at: row.get::<_, Option<i64>>(4).map(Micros),
        status: status_of(row.get(6))?,
        http_status: row.get::<_, Option<i16>>(7).map(i16::cast_unsigned),
        provider: unescape(row.get(8)),
        model: text(9),
        kind: unescape(row.get(10)),
        session: text(11),
        agent: text(12),
        project: text(13),
        input_node: NodeHash(hash_of(row, 14)?),
        depth: row
            .get::<_, Option<i64>>(32)
            .and_then(|depth| u32::try_from(depth).ok())
            .ok_or_else(|| damaged("an exchange ends at a node that is not there"))?,
        output_node: hash(15)?.map(NodeHash),
        hashes: read_hashes(row.get(16))?,
        keys: read_keys(row.get(17))?,
        usage: row.get::<_, Option<&[u8]>>(18).map(read_usage).transpose()?,
        cost_nano_usd: row.get::<_, Option<i64>>(19).map(unsigned),
        cost_is_estimate: row.get(20),
        request_sha256: hash_of(row, 21)?,
        response_sha256: hash(22)?,
        request_length: unsigned(row.get(23)),
        response_length: row.get::<_, Option<i64>>(24).map(unsigned),
        detail: unescape(row.get(25)),
        provenance,
        rules_version: u32::try_from(row.get::<_, i64>(26))
            .map_err(|_| damaged("the version of the rules is no number"))?,
        projections_version: u32::from(row.get::<_, i16>(33).cast_unsigned()),
        hole: hole(row)?,
    })
}

/// What an exchange lost something with, from the last columns of its row.
fn hole(row: &Row) -> Result<Option<Hole>> {
    if row.get::<_, Option<i64>>(34).is_none() {
        return Ok(None);
    }
    let link = match row.get::<_, Option<i16>>(35) {
        Some(kind) => Some(KeptLink {
            kind: link_kind_of(kind)?,
            parent: row.get::<_, Option<i64>>(36).map(ExchangeNumber),
            decision: row.get(37),
        }),
        None => None,
    };
    Ok(Some(Hole {
        link,
        has_request: row.get(38),
        has_response: row.get(39),
    }))
}

pub(super) async fn stats(client: &Client, owner: OwnerId) -> Result<Stats> {
    let rows = query(client, sql::STATS, &[&owner.0]).await?;
    let row = rows.first().ok_or(StoreError::NoOwner)?;
    let count = |column: usize| unsigned(row.get(column));
    Ok(Stats {
        exchanges: count(0),
        parts: count(1),
        nodes: count(2),
        bytes_in: count(3),
        part_bytes: count(4),
        stored_bytes: count(5),
        conflicts: count(6),
    })
}
