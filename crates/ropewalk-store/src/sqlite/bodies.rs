//! Bodies put together again.

use std::collections::HashMap;
use std::ops::ControlFlow;

use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::recipe::{JoinError, PartSource, join};
use ropewalk_core::rope::{self, ChunkNumber, PartNumber, RopeError, RopeSource};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::facts::{ExchangeNumber, OwnerId};
use crate::packed::read_rope;
use crate::sqlite::hash_index::{self, Fresh};
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::packs::PackReader;
use crate::sqlite::problem;
use crate::store::{BodyEnd, Half, Result, StoreError};

/// Bytes of parts that are kept from one body for the next. Turns of one conversation share nearly all of theirs.
const SHARED_BYTES_MAX: usize = 16 << 20;

/// The recorded bytes of one direction, checked.
pub(super) fn body(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    half: Half,
) -> Result<Option<Vec<u8>>> {
    let found = find(connection, owner, exchange, half)?;
    let mut parts = Parts::new(connection, owner);
    found.map(|found| parts.checked(&found)).transpose()
}

/// Those of several exchanges, which lie together.
pub(super) fn bodies(
    connection: &Connection,
    owner: OwnerId,
    exchanges: &[ExchangeNumber],
    half: Half,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut parts = Parts::new(connection, owner);
    let each = exchanges.iter().map(|exchange| {
        let found = find(connection, owner, *exchange, half)?;
        parts.make_room();
        found.map(|found| parts.checked(&found)).transpose()
    });
    each.collect()
}

/// At least so many of its last bytes.
pub(super) fn body_end(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    half: Half,
    length: usize,
) -> Result<Option<BodyEnd>> {
    let Some((rope, sha256_of_all)) = find(connection, owner, exchange, half)? else {
        return Ok(None);
    };
    let mut parts = Parts::new(connection, owner);
    let mut ends: Vec<Vec<u8>> = Vec::new();
    let (mut found, mut is_whole) = (0, true);
    let taken = rope::load_from_end(&read_rope(&rope)?, &mut parts, |parts, pieces| {
        if found >= length {
            is_whole = false;
            return Ok(ControlFlow::Break(()));
        }
        let bytes = join(pieces, parts).map_err(|error| unjoined(&error))?;
        found += bytes.len();
        ends.push(bytes);
        Ok(ControlFlow::Continue(()))
    });
    taken.map_err(unread)?;
    ends.reverse();
    let bytes = ends.concat();
    if is_whole && sha256(&bytes)[..] != sha256_of_all[..] {
        return Err(not_recorded());
    }
    Ok(Some(BodyEnd { bytes, is_whole }))
}

/// The rope of a body, and the SHA-256 of what it stands for.
fn find(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    half: Half,
) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let select = match half {
        // Of one that lost something, the hash of what is left.
        Half::Request => {
            "SELECT request_rope, coalesce((SELECT h.sha256 FROM hole h WHERE h.owner_id = ?2 \
             AND h.exchange = (e.key & 1099511627775)), request_sha256) FROM exchange e \
             WHERE e.key = ?1 AND e.owner_id = ?2 AND length(request_rope) > 0"
        }
        Half::Sent => return sent(connection, owner, exchange),
        Half::Response => {
            "SELECT response_rope, response_sha256 FROM exchange WHERE key = ?1 AND owner_id = ?2 \
             AND response_rope IS NOT NULL"
        }
    };
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = statement.query_row(params![key(owner, exchange.0), owner.0], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    row.optional().map_err(problem)
}

/// A part by its name.
pub(super) fn part(connection: &Connection, fresh: &Fresh, owner: OwnerId, name: &PartHash) -> Result<Option<Vec<u8>>> {
    let mut parts = Parts::new(connection, owner);
    for number in hash_index::find(connection, &[], fresh, owner, Kind::Part, &name.0)? {
        let bytes = parts.load(number)?;
        // The index knows the beginning of a hash only.
        if sha256(bytes) == name.0 {
            return Ok(Some(bytes.to_vec()));
        }
    }
    Ok(None)
}

/// What the provider got in the request's place.
fn sent(connection: &Connection, owner: OwnerId, exchange: ExchangeNumber) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let select = "SELECT rope, sha256 FROM sent_body WHERE owner_id = ?1 AND exchange = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = statement.query_row([owner.0, exchange.0], |row| Ok((row.get(0)?, row.get(1)?)));
    row.optional().map_err(problem)
}

fn not_recorded() -> StoreError {
    StoreError::Damaged("a body is not what was recorded".to_owned())
}

fn unread(error: RopeError<StoreError>) -> StoreError {
    match error {
        RopeError::Damaged => StoreError::Damaged("a recipe cannot be read".to_owned()),
        RopeError::Store(error) => error,
    }
}

fn unjoined(error: &JoinError) -> StoreError {
    StoreError::Damaged(error.to_string())
}

/// Parts of one owner, loaded as they are asked for.
pub(super) struct Parts<'c> {
    connection: &'c Connection,
    owner: OwnerId,
    packs: PackReader,
    loaded: HashMap<PartHash, Vec<u8>>,
    loaded_bytes: usize,
    /// The names of those that are loaded.
    names: HashMap<PartNumber, PartHash>,
}

impl<'c> Parts<'c> {
    pub(super) fn new(connection: &'c Connection, owner: OwnerId) -> Self {
        Parts {
            connection,
            owner,
            packs: PackReader::default(),
            loaded: HashMap::new(),
            loaded_bytes: 0,
            names: HashMap::new(),
        }
    }

    /// Lets go of what the bodies before had, once that is much.
    fn make_room(&mut self) {
        if self.loaded_bytes > SHARED_BYTES_MAX {
            self.loaded.clear();
            self.names.clear();
            self.loaded_bytes = 0;
        }
    }

    /// The bytes of a stored rope, if they are those that were recorded.
    fn checked(&mut self, (rope, expected): &(Vec<u8>, Vec<u8>)) -> Result<Vec<u8>> {
        let bytes = self.join(rope)?;
        if sha256(&bytes)[..] != expected[..] {
            return Err(not_recorded());
        }
        Ok(bytes)
    }

    /// The bytes that a stored rope stands for.
    pub(super) fn join(&mut self, rope: &[u8]) -> Result<Vec<u8>> {
        let rope = read_rope(rope)?;
        let pieces = rope::load(&rope, self).map_err(unread)?;
        join(&pieces, self).map_err(|error| unjoined(&error))
    }

    pub(super) fn load(&mut self, number: i64) -> Result<&[u8]> {
        self.packs.part(self.connection, self.owner, number)
    }
}

impl RopeSource for Parts<'_> {
    type Error = StoreError;

    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash> {
        if let Some(known) = self.names.get(&number) {
            return Ok(*known);
        }
        let bytes = self.load(number as i64)?.to_vec();
        let hash = PartHash(sha256(&bytes));
        self.loaded_bytes += bytes.len();
        self.loaded.insert(hash, bytes);
        self.names.insert(number, hash);
        Ok(hash)
    }

    fn chunk(&mut self, number: ChunkNumber) -> Result<Vec<u8>> {
        let select = "SELECT bytes FROM chunk WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.connection.prepare_cached(select).map_err(problem)?;
        let row = params![key(self.owner, number as i64), self.owner.0];
        let found = statement.query_row(row, |row| row.get(0));
        let missing = || StoreError::Damaged(format!("chunk {number} is not there"));
        found.optional().map_err(problem)?.ok_or_else(missing)
    }
}

impl PartSource for Parts<'_> {
    fn part(&self, hash: &PartHash) -> Option<&[u8]> {
        self.loaded.get(hash).map(Vec::as_slice)
    }
}
