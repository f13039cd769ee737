//! Bodies put together again.

use std::collections::HashMap;
use std::io;

use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::recipe::{JoinError, PartSource, join};
use ropewalk_core::rope::{self, PartNumber, RopeError, RopeSource};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::codec::{Codec, Unpacker};
use crate::facts::{ExchangeNumber, OwnerId};
use crate::packed::read_rope;
use crate::sqlite::keys::key;
use crate::sqlite::problem;
use crate::store::{Half, Result, StoreError};

/// The recorded bytes of one direction, checked.
pub(super) fn body(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    half: Half,
) -> Result<Option<Vec<u8>>> {
    let select = match half {
        Half::Request => "SELECT request_rope, request_sha256 FROM exchange WHERE key = ?1 AND owner_id = ?2",
        Half::Response => {
            "SELECT response_rope, response_sha256 FROM exchange WHERE key = ?1 AND owner_id = ?2 \
             AND response_rope IS NOT NULL"
        }
    };
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = statement.query_row(params![key(owner, exchange.0), owner.0], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let Some((rope, expected)) = row.optional().map_err(problem)? else {
        return Ok(None);
    };
    let bytes = Parts::new(connection, owner).join(&rope)?;
    if sha256(&bytes)[..] != expected[..] {
        return Err(StoreError::Damaged("a body is not what was recorded".to_owned()));
    }
    Ok(Some(bytes))
}

/// Packed bytes of one owner, unpacked; dictionaries are loaded as they are met.
pub(super) struct Unpacking<'c> {
    connection: &'c Connection,
    owner: OwnerId,
    unpacker: Unpacker,
}

impl<'c> Unpacking<'c> {
    pub(super) fn new(connection: &'c Connection, owner: OwnerId) -> Self {
        Unpacking {
            connection,
            owner,
            unpacker: Unpacker::default(),
        }
    }

    pub(super) fn unpack(&mut self, codec: i64, bytes: &[u8], length: i64) -> Result<Vec<u8>> {
        let damaged = |what: String| StoreError::Damaged(format!("packed bytes cannot be read: {what}"));
        let codec = Codec::of_code(codec).ok_or_else(|| damaged(format!("codec {codec} is unknown")))?;
        if let Codec::Dictionary(number) = codec
            && !self.unpacker.knows(number)
        {
            let select = "SELECT bytes FROM dictionary WHERE owner_id = ?1 AND number = ?2";
            let row = params![self.owner.0, number];
            let dictionary: Option<Vec<u8>> = self
                .connection
                .query_row(select, row, |row| row.get(0))
                .optional()
                .map_err(problem)?;
            let dictionary = dictionary.ok_or_else(|| damaged(format!("dictionary {number} is not there")))?;
            self.unpacker
                .learn(number, &dictionary)
                .map_err(|error| damaged(error.to_string()))?;
        }
        let length = usize::try_from(length).map_err(|_| damaged("a length below zero".to_owned()))?;
        let unpacked = self.unpacker.unpack(codec, bytes, length);
        unpacked.map_err(|error: io::Error| damaged(error.to_string()))
    }
}

/// Parts of one owner, loaded as they are asked for.
pub(super) struct Parts<'c> {
    unpacking: Unpacking<'c>,
    loaded: HashMap<PartHash, Vec<u8>>,
}

/// A part as it was before it was packed.
pub(super) struct LoadedPart {
    /// What its row or its bytes say it is called.
    pub(super) name: PartHash,
    pub(super) bytes: Vec<u8>,
}

impl<'c> Parts<'c> {
    pub(super) fn new(connection: &'c Connection, owner: OwnerId) -> Self {
        Parts {
            unpacking: Unpacking::new(connection, owner),
            loaded: HashMap::new(),
        }
    }

    /// The bytes that a stored rope stands for.
    pub(super) fn join(&mut self, rope: &[u8]) -> Result<Vec<u8>> {
        let rope = read_rope(rope)?;
        let pieces = rope::load(&rope, self).map_err(|error| match error {
            RopeError::Damaged => StoreError::Damaged("a recipe cannot be read".to_owned()),
            RopeError::Store(error) => error,
        })?;
        join(&pieces, self).map_err(|error: JoinError| StoreError::Damaged(error.to_string()))
    }

    pub(super) fn load(&mut self, number: i64) -> Result<LoadedPart> {
        let Unpacking { connection, owner, .. } = self.unpacking;
        let select = "SELECT hash, length, codec, bytes FROM part WHERE key = ?1 AND owner_id = ?2";
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let mut rows = statement.query(params![key(owner, number), owner.0]).map_err(problem)?;
        let Some(row) = rows.next().map_err(problem)? else {
            return Err(StoreError::Damaged(format!("part {number} is not there")));
        };
        let name: Option<Vec<u8>> = row.get(0).map_err(problem)?;
        let packed: Vec<u8> = row.get(3).map_err(problem)?;
        let (length, codec) = (row.get(1).map_err(problem)?, row.get(2).map_err(problem)?);
        let bytes = self.unpacking.unpack(codec, &packed, length)?;
        let name = match name {
            Some(name) => name
                .try_into()
                .map_err(|_| StoreError::Damaged(format!("chunk {number} has no name")))?,
            None => sha256(&bytes),
        };
        Ok(LoadedPart {
            name: PartHash(name),
            bytes,
        })
    }
}

impl RopeSource for Parts<'_> {
    type Error = StoreError;

    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash> {
        let LoadedPart { name, bytes } = self.load(number as i64)?;
        self.loaded.insert(name, bytes);
        Ok(name)
    }

    fn chunk(&mut self, number: PartNumber) -> Result<Vec<u8>> {
        self.load(number as i64).map(|part| part.bytes)
    }
}

impl PartSource for Parts<'_> {
    fn part(&self, hash: &PartHash) -> Option<&[u8]> {
        self.loaded.get(hash).map(Vec::as_slice)
    }
}
