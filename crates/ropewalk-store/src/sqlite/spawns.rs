//! The calls in answers that start agents.

use rusqlite::{Connection, Row, params};

use crate::facts::{ExchangeNumber, Micros, OwnerId, Spawn};
use crate::sqlite::problem;
use crate::sqlite::record::Recorder;
use crate::store::{PAGE_MAX, Result};

/// They come with the answer: with the exchange that has one, or with its end.
pub(super) fn insert(recorder: &Recorder<'_>, spawns: &[Spawn], exchange: i64) -> Result<()> {
    let insert = "INSERT OR IGNORE INTO spawn (owner_id, exchange, idx, call, name, prompt, at) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for spawn in spawns {
        let mut statement = recorder.session.connection().prepare_cached(insert).map_err(problem)?;
        let columns = params![
            recorder.owner.0,
            exchange,
            spawn.index,
            spawn.call,
            spawn.name,
            spawn.prompt,
            spawn.at.0
        ];
        statement.execute(columns).map_err(problem)?;
    }
    Ok(())
}

pub(super) fn of(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    as_of: Micros,
) -> Result<Vec<Spawn>> {
    let select = "SELECT idx, call, name, prompt, at FROM spawn \
                  WHERE owner_id = ?1 AND exchange = ?2 AND at <= ?3 ORDER BY idx LIMIT ?4";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let columns = params![owner.0, exchange.0, as_of.0, PAGE_MAX as i64];
    let rows = statement.query_map(columns, read).map_err(problem)?;
    rows.map(|row| row.map_err(problem)).collect()
}

pub(super) fn between(
    connection: &Connection,
    owner: OwnerId,
    (first, last): (Micros, Micros),
    as_of: Micros,
) -> Result<Vec<(ExchangeNumber, Spawn)>> {
    let select = "SELECT idx, call, name, prompt, at, exchange FROM spawn INDEXED BY spawn_at \
                  WHERE owner_id = ?1 AND at BETWEEN ?2 AND ?3 ORDER BY at, exchange, idx LIMIT ?4";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let columns = params![owner.0, first.0, last.min(as_of).0, PAGE_MAX as i64];
    let rows = statement
        .query_map(columns, |row| Ok((ExchangeNumber(row.get(5)?), read(row)?)))
        .map_err(problem)?;
    rows.map(|row| row.map_err(problem)).collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Spawn> {
    Ok(Spawn {
        index: row.get(0)?,
        call: row.get(1)?,
        name: row.get(2)?,
        prompt: row.get(3)?,
        at: Micros(row.get(4)?),
    })
}
