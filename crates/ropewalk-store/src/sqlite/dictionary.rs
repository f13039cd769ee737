//! Dictionaries: what an owner's parts have in common, so that the next one need not say it again.
//!
//! Most parts are a few hundred bytes, too short to compress on their own. One is trained when an owner has enough parts to
//! learn from, and again when it has many more; older parts keep the one they were written with. An owner's dictionary
//! is never used for another's parts: it contains pieces of what it learned from.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec::{Packer, train};
use crate::facts::OwnerId;
use crate::sqlite::bodies::Parts;
use crate::sqlite::keys::{key, number};
use crate::sqlite::problem;
use crate::sqlite::record::cannot_pack;
use crate::store::Result;

/// Numbers of parts at which a dictionary is trained, and how large it may be: it has to pay for itself.
const TRAINED_AT: [(i64, usize); 3] = [(200, 8 * 1024), (2_000, 16 * 1024), (50_000, 64 * 1024)];

/// Parts it learns from, and how much of each.
const SAMPLES_MAX: i64 = 2_000;
const SAMPLE_BYTES_MAX: usize = 8 * 1024;

/// A packer with the owner's newest dictionary, if there is one.
pub(super) fn packer(connection: &Connection, owner: OwnerId) -> Result<Packer> {
    let mut packer = Packer::new().map_err(cannot_pack)?;
    let select = "SELECT number, bytes FROM dictionary WHERE owner_id = ?1 ORDER BY number DESC LIMIT 1";
    let newest = connection.query_row(select, [owner.0], |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    if let Some((number, dictionary)) = newest.optional().map_err(problem)? {
        packer.use_dictionary(number, &dictionary).map_err(cannot_pack)?;
    }
    Ok(packer)
}

/// Trains a dictionary if a batch brought the owner to one of the marks. Returns whether it did.
pub(super) fn train_if_due(connection: &Connection, owner: OwnerId, before: i64, after: i64) -> Result<bool> {
    let Some((_, size)) = TRAINED_AT.iter().rfind(|(mark, _)| before < *mark && *mark <= after) else {
        return Ok(false);
    };
    let samples = samples(connection, owner)?;
    let Some(dictionary) = train(&samples, *size) else {
        return Ok(false);
    };
    let insert = "INSERT INTO dictionary (owner_id, bytes) VALUES (?1, ?2)";
    connection
        .execute(insert, params![owner.0, dictionary])
        .map_err(problem)?;
    Ok(true)
}

/// The owner's latest parts, chunks of recipes left out.
fn samples(connection: &Connection, owner: OwnerId) -> Result<Vec<Vec<u8>>> {
    let select = "SELECT key FROM part WHERE owner_id = ?1 AND key BETWEEN ?2 AND ?3 AND hash IS NULL \
                  ORDER BY key DESC LIMIT ?4";
    let mut statement = connection.prepare(select).map_err(problem)?;
    let range = params![owner.0, key(owner, 0), key(OwnerId(owner.0 + 1), 0), SAMPLES_MAX];
    let keys: Vec<i64> = statement
        .query_map(range, |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(problem)?;
    let mut parts = Parts::new(connection, owner);
    let mut samples = Vec::with_capacity(keys.len());
    for part in keys {
        let mut bytes = parts.load(number(part))?.bytes;
        bytes.truncate(SAMPLE_BYTES_MAX);
        samples.push(bytes);
    }
    Ok(samples)
}
