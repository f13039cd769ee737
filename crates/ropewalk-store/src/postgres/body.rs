//! Bodies on their way out: the recipe level by level, its parts in batches, joined and checked.

use std::collections::{BTreeSet, HashMap};

use deadpool_postgres::{Client, GenericClient};
use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::recipe::{self, PartSource, Piece};
use ropewalk_core::rope::{self, Rope, StoredRun};
use tokio_postgres::Row;

use super::problem::damaged;
use super::{hash_of, query, sql, unsigned};
use crate::codec::{Codec, Unpacker};
use crate::facts::{ExchangeNumber, OwnerId};
use crate::marks::{number_of, pieces};
use crate::store::{Half, Result};

/// Rows read by one statement.
const ROWS_MAX: usize = 1_000;

pub(super) async fn body(
    client: &Client,
    owner: OwnerId,
    exchange: ExchangeNumber,
    half: Half,
) -> Result<Option<Vec<u8>>> {
    let select = match half {
        Half::Request => sql::READ_REQUEST,
        Half::Sent => sql::READ_SENT,
        Half::Response => sql::READ_RESPONSE,
    };
    let rows = query(client, select, &[&owner.0, &exchange.0]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let stored = StoredBody::read(row, 0)?;
    let chunks = leaves(client, owner, &stored).await?;
    let pieces = pieces(&chunks)?;
    let parts = Parts::read(client, owner, &numbers_in(&pieces), &mut Unpacker::default()).await?;
    stored.join(&pieces, &parts).map(Some)
}

/// A part by its name.
pub(super) async fn part(client: &Client, owner: OwnerId, name: &PartHash) -> Result<Option<Vec<u8>>> {
    let names: [&[u8]; 1] = [&name.0];
    let found = query(client, sql::FIND_PARTS, &[&owner.0, &&names[..]]).await?;
    let numbers: Vec<i64> = found.iter().map(|row| row.get(1)).collect();
    let parts = Parts::read(client, owner, &numbers, &mut Unpacker::default()).await?;
    Ok(parts.into_bytes().pop())
}

/// A body as its row has it.
#[derive(Debug)]
pub(super) struct StoredBody {
    sha256: [u8; 32],
    length: u64,
    pub(super) rope: Rope,
}

impl StoredBody {
    /// From four columns in a row: hash, length, levels, root.
    pub(super) fn read(row: &Row, first: usize) -> Result<Self> {
        let levels = u8::try_from(row.get::<_, i16>(first + 2));
        let levels = levels.map_err(|_| damaged("a recipe has more levels than there can be"))?;
        Ok(StoredBody {
            sha256: hash_of(row, first)?,
            length: unsigned(row.get(first + 1)),
            rope: Rope {
                levels,
                root: row.get(first + 3),
            },
        })
    }

    pub(super) fn runs(&self) -> Result<Vec<StoredRun>> {
        self.rope.runs().ok_or_else(|| damaged("a recipe cannot be read"))
    }

    /// Puts the body together and proves that it is the recorded one.
    pub(super) fn join(&self, pieces: &[Piece], parts: &Parts) -> Result<Vec<u8>> {
        let joined = recipe::join(pieces, parts).map_err(|error| match error {
            recipe::JoinError::Missing(name) => damaged(format!("part {} is not there", number_of(&name))),
            recipe::JoinError::Misfit => damaged("a recipe does not fit its parts"),
        })?;
        if joined.len() as u64 != self.length || sha256(&joined) != self.sha256 {
            return Err(damaged("a body is not what was recorded: its SHA-256 differs"));
        }
        Ok(joined)
    }
}

/// A recipe's pieces as bytes, fetched level by level, each level in one go.
async fn leaves(client: &impl GenericClient, owner: OwnerId, stored: &StoredBody) -> Result<Vec<Vec<u8>>> {
    let mut runs = stored.runs()?;
    for level in (1..=stored.rope.levels).rev() {
        let mut numbers = Vec::new();
        for run in runs.iter().filter(|run| run.level == level) {
            numbers.extend(chunks_of(run)?);
        }
        let found = chunks(client, owner, &numbers).await?;
        for run in runs.iter_mut().filter(|run| run.level == level) {
            *run = lowered(level, &chunks_of(run)?, &found)?;
        }
    }
    Ok(runs.into_iter().flat_map(|run| run.entries).collect())
}

/// The chunks that a run lists.
pub(super) fn chunks_of(run: &StoredRun) -> Result<Vec<i64>> {
    let numbers = run.chunks().ok_or_else(|| damaged("a recipe cannot be read"))?;
    let signed = numbers.into_iter().map(i64::try_from);
    signed
        .map(|number| number.map_err(|_| damaged("a recipe names a number that cannot be")))
        .collect()
}

/// Chunks of a level as what they list.
pub(super) fn lowered(level: u8, numbers: &[i64], found: &HashMap<i64, Vec<u8>>) -> Result<StoredRun> {
    let missing = |number| damaged(format!("chunk {number} is not there"));
    let entries = numbers
        .iter()
        .map(|number| found.get(number).cloned().ok_or_else(|| missing(number)));
    Ok(StoredRun {
        level: level - 1,
        entries: entries.collect::<Result<_>>()?,
    })
}

pub(super) async fn chunks(
    client: &impl GenericClient,
    owner: OwnerId,
    numbers: &[i64],
) -> Result<HashMap<i64, Vec<u8>>> {
    let mut found = HashMap::with_capacity(numbers.len());
    for some in numbers.chunks(ROWS_MAX) {
        for row in query(client, sql::READ_CHUNKS, &[&owner.0, &some]).await? {
            found.insert(row.get(0), row.get(1));
        }
    }
    Ok(found)
}

/// The parts that pieces name, each once.
pub(super) fn numbers_in(pieces: &[Piece]) -> Vec<i64> {
    let mut numbers = BTreeSet::new();
    for piece in pieces {
        rope::visit_parts(piece, &mut |name| {
            numbers.insert(number_of(name));
        });
    }
    numbers.into_iter().collect()
}

/// Parts by number, unpacked.
#[derive(Debug, Default)]
pub(super) struct Parts(HashMap<i64, Vec<u8>>);

impl Parts {
    pub(super) async fn read(
        client: &impl GenericClient,
        owner: OwnerId,
        numbers: &[i64],
        unpacker: &mut Unpacker,
    ) -> Result<Self> {
        let mut parts = HashMap::with_capacity(numbers.len());
        for some in numbers.chunks(ROWS_MAX) {
            let rows = query(client, sql::READ_PARTS, &[&owner.0, &some]).await?;
            learn_dictionaries(client, owner, rows.iter().map(|row| row.get(1)), unpacker).await?;
            for row in rows {
                let number: i64 = row.get(0);
                parts.insert(number, unpack(unpacker, number, row.get(1), row.get(2), row.get(3))?);
            }
        }
        Ok(Parts(parts))
    }

    pub(super) fn into_bytes(self) -> Vec<Vec<u8>> {
        self.0.into_values().collect()
    }

    pub(super) fn get(&self, number: i64) -> Option<&[u8]> {
        self.0.get(&number).map(Vec::as_slice)
    }
}

impl PartSource for Parts {
    fn part(&self, name: &PartHash) -> Option<&[u8]> {
        self.get(number_of(name))
    }
}

pub(super) fn unpack(unpacker: &mut Unpacker, number: i64, codec: i64, length: i64, bytes: &[u8]) -> Result<Vec<u8>> {
    let broken = |why: String| damaged(format!("part {number} cannot be unpacked: {why}"));
    let codec = Codec::of_code(codec).ok_or_else(|| broken("its codec is unknown".to_owned()))?;
    let length = usize::try_from(length).map_err(|_| broken("its length is no length".to_owned()))?;
    unpacker
        .unpack(codec, bytes, length)
        .map_err(|error| broken(error.to_string()))
}

/// Reads the dictionaries that these codecs need and that were not met yet.
pub(super) async fn learn_dictionaries(
    client: &impl GenericClient,
    owner: OwnerId,
    codecs: impl Iterator<Item = i64>,
    unpacker: &mut Unpacker,
) -> Result<()> {
    let dictionary = |code| match Codec::of_code(code) {
        Some(Codec::Dictionary(number)) => Some(number),
        _ => None,
    };
    let numbers: BTreeSet<u32> = codecs
        .filter_map(dictionary)
        .filter(|number| !unpacker.knows(*number))
        .collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i64> = numbers.into_iter().map(i64::from).collect();
    for row in query(client, sql::READ_DICTIONARIES, &[&owner.0, &numbers]).await? {
        let number = u32::try_from(row.get::<_, i64>(0)).map_err(|_| damaged("a dictionary has no number"))?;
        let learnt = unpacker.learn(number, row.get(1));
        learnt.map_err(|error| damaged(format!("dictionary {number} cannot be used: {error}")))?;
    }
    Ok(())
}
