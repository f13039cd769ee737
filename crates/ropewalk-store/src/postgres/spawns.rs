//! The calls in answers that start agents.

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::ToSql;

use super::packed::{escape, unescape};
use super::problem::damaged;
use super::read::page;
use super::rows::Row;
use super::{hash_of, query, sql};
use crate::facts::{ExchangeNumber, Micros, OwnerId, Spawn};
use crate::store::{PAGE_MAX, Questions, Result};

/// They come with the answer: with the exchange that has one, or with its end.
pub(super) async fn store(transaction: &Transaction<'_>, owner: OwnerId, rows: &[Row<'_>]) -> Result<()> {
    let mut all: Vec<(i64, &Spawn)> = rows
        .iter()
        .flat_map(|row| row.end.spawns.iter().map(|spawn| (row.number, spawn)))
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    all.sort_unstable_by_key(|(exchange, spawn)| (*exchange, spawn.index));
    let exchanges: Vec<i64> = all.iter().map(|(exchange, _)| *exchange).collect();
    let indexes: Vec<i64> = all.iter().map(|(_, spawn)| i64::from(spawn.index)).collect();
    let calls: Vec<_> = all.iter().map(|(_, spawn)| spawn.call.as_deref().map(escape)).collect();
    let names: Vec<_> = all.iter().map(|(_, spawn)| spawn.name.as_deref().map(escape)).collect();
    let prompts: Vec<_> = all
        .iter()
        .map(|(_, spawn)| spawn.prompt.as_ref().map(<[u8; 32]>::as_slice))
        .collect();
    let at: Vec<i64> = all.iter().map(|(_, spawn)| spawn.at.0).collect();
    let values: [&(dyn ToSql + Sync); 7] = [&owner.0, &exchanges, &indexes, &calls, &names, &prompts, &at];
    query(transaction, sql::INSERT_SPAWNS, &values).await?;
    Ok(())
}

pub(super) async fn of(
    client: &Client,
    owner: OwnerId,
    questions: &Questions,
    as_of: Micros,
) -> Result<Vec<Vec<Spawn>>> {
    if questions.spawns_of.is_empty() {
        return Ok(Vec::new());
    }
    let exchanges: Vec<i64> = questions.spawns_of.iter().map(|exchange| exchange.0).collect();
    let values: [&(dyn ToSql + Sync); 4] = [&owner.0, &exchanges, &as_of.0, &page(PAGE_MAX)];
    let rows = query(client, sql::SPAWNS_OF, &values).await?;
    by_place(&rows, exchanges.len(), |row| Ok(read(row)?.1))
}

pub(super) async fn between(
    client: &Client,
    owner: OwnerId,
    questions: &Questions,
    as_of: Micros,
) -> Result<Vec<Vec<(ExchangeNumber, Spawn)>>> {
    if questions.spawns_between.is_empty() {
        return Ok(Vec::new());
    }
    let first: Vec<i64> = questions.spawns_between.iter().map(|(first, _)| first.0).collect();
    let last: Vec<i64> = questions
        .spawns_between
        .iter()
        .map(|(_, last)| last.min(&as_of).0)
        .collect();
    let values: [&(dyn ToSql + Sync); 4] = [&owner.0, &first, &last, &page(PAGE_MAX)];
    let rows = query(client, sql::SPAWNS_BETWEEN, &values).await?;
    by_place(&rows, first.len(), read)
}

/// Rows by the place of what was asked, which SQL counts from 1.
fn by_place<T: Clone>(rows: &[SqlRow], count: usize, read: impl Fn(&SqlRow) -> Result<T>) -> Result<Vec<Vec<T>>> {
    let mut found = vec![Vec::new(); count];
    for row in rows {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        if let Some(found) = found.get_mut(place) {
            found.push(read(row)?);
        }
    }
    Ok(found)
}

fn read(row: &SqlRow) -> Result<(ExchangeNumber, Spawn)> {
    let text = |column: usize| row.get::<_, Option<String>>(column).map(unescape);
    let prompt: Option<&[u8]> = row.get(5);
    let spawn = Spawn {
        index: u32::try_from(row.get::<_, i64>(2)).map_err(|_| damaged("a spawning call has no number"))?,
        call: text(3),
        name: text(4),
        prompt: prompt.map(|_| hash_of(row, 5)).transpose()?,
        at: Micros(row.get(6)),
    };
    Ok((ExchangeNumber(row.get(1)), spawn))
}
