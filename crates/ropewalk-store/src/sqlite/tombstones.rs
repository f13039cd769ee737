//! What was forgotten is not to come back.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::facts::{Micros, NewExchange, OwnerId};
use crate::forget::Grave;
use crate::sqlite::problem;
use crate::store::{Result, StoreError};

/// An owner's tombstones. Most owners have none, and are asked nothing more then.
pub(super) struct Tombstones {
    owner: OwnerId,
    /// The owner's secret, where there is any tombstone.
    secret: Option<Vec<u8>>,
}

impl Tombstones {
    pub(super) fn of(connection: &Connection, owner: OwnerId) -> Result<Self> {
        let select =
            "SELECT secret FROM owner WHERE owner_id = ?1 AND EXISTS (SELECT 1 FROM tombstone WHERE owner_id = ?1)";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let secret = statement.query_row([owner.0], |row| row.get(0));
        Ok(Tombstones {
            owner,
            secret: secret.optional().map_err(problem)?,
        })
    }

    pub(super) fn has(&self, connection: &Connection, grave: Grave<'_>) -> Result<bool> {
        Ok(self.find(connection, grave)?.is_some())
    }

    /// Whether the exchange was forgotten.
    pub(super) fn are_of(&self, connection: &Connection, exchange: &NewExchange) -> Result<bool> {
        for grave in Grave::of(exchange) {
            if self.has(connection, grave)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn find(&self, connection: &Connection, grave: Grave<'_>) -> Result<Option<Micros>> {
        let Some(secret) = &self.secret else { return Ok(None) };
        let select = "SELECT at FROM tombstone WHERE owner_id = ?1 AND hash = ?2";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let found = statement.query_row(params![self.owner.0, grave.tombstone(secret)], |row| row.get(0));
        Ok(found.optional().map_err(problem)?.map(Micros))
    }
}

pub(super) fn find(connection: &Connection, owner: OwnerId, names: &[String]) -> Result<Vec<Option<Micros>>> {
    let tombstones = Tombstones::of(connection, owner)?;
    let find = |name: &String| {
        let exchange = tombstones.find(connection, Grave::Exchange(name))?;
        let named = tombstones.find(connection, Grave::Name(name))?;
        Ok(exchange.or(named))
    };
    names.iter().map(find).collect()
}

/// Puts up tombstones; those that are there stay as they are.
pub(super) fn put_up<'g>(
    connection: &Connection,
    owner: OwnerId,
    at: Micros,
    graves: impl IntoIterator<Item = Grave<'g>>,
) -> Result<()> {
    let select = "SELECT secret FROM owner WHERE owner_id = ?1";
    let secret = connection.query_row(select, [owner.0], |row| row.get::<_, Vec<u8>>(0));
    let secret = secret.optional().map_err(problem)?.ok_or(StoreError::NoOwner)?;
    let insert =
        "INSERT INTO tombstone (owner_id, hash, at) VALUES (?1, ?2, ?3) ON CONFLICT (owner_id, hash) DO NOTHING";
    let mut statement = connection.prepare_cached(insert).map_err(problem)?;
    for grave in graves {
        let row = params![owner.0, grave.tombstone(&secret), at.0];
        statement.execute(row).map_err(problem)?;
    }
    Ok(())
}
