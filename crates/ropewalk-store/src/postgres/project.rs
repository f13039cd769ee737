//! Hashes and keys made again by a newer program.

use std::collections::{BTreeSet, HashMap};

use tokio_postgres::Row;

use super::problem::problem;
use super::record::until_through;
use super::rows::{insert_keys, version};
use super::{Postgres, query, sql};
use crate::facts::{HashKind, Key, OwnerId, Projected};
use crate::packed::{read_hashes, read_keys, write_hashes, write_keys};
use crate::store::Result;

pub(super) async fn project(store: &Postgres, owner: OwnerId, batch: &[Projected]) -> Result<u64> {
    until_through(|| try_project(store, owner, batch)).await
}

/// An exchange as it is found by now.
struct Known {
    at: i64,
    answered_at: Option<i64>,
    response_sha256: Option<Vec<u8>>,
    keys: BTreeSet<Key>,
}

impl Known {
    fn read(row: &Row) -> Result<(i64, Self)> {
        let known = Known {
            at: row.get(1),
            answered_at: row.get(2),
            response_sha256: row.get(3),
            keys: all_keys(&read_hashes(row.get(4))?, &read_keys(row.get(5))?),
        };
        Ok((row.get(0), known))
    }

    /// From when on a key is found that it did not have.
    fn seen_at(&self, key: Key) -> i64 {
        let with_answer = self.answered_at.filter(|_| key.kind.is_of_answer());
        with_answer.unwrap_or(self.at)
    }
}

fn all_keys(hashes: &[(HashKind, Vec<u8>)], keys: &[Key]) -> BTreeSet<Key> {
    let by_hash = hashes.iter().map(|(_, hash)| Key::of_hash(hash));
    keys.iter().copied().chain(by_hash).collect()
}

async fn try_project(store: &Postgres, owner: OwnerId, batch: &[Projected]) -> Result<u64> {
    let mut client = store.client().await?;
    let transaction = client.transaction().await.map_err(problem)?;
    // Recorders write rows under this lock.
    query(&transaction, sql::LOCK_OWNER, &[&owner.0]).await?;
    let numbers: Vec<i64> = batch.iter().map(|projected| projected.exchange.0).collect();
    let rows = query(&transaction, sql::PROJECTED, &[&owner.0, &numbers]).await?;
    let known: HashMap<i64, Known> = rows.iter().map(Known::read).collect::<Result<_>>()?;
    let same: Vec<(&Projected, &Known)> = batch
        .iter()
        .filter_map(|projected| Some((projected, known.get(&projected.exchange.0)?)))
        .filter(|(new, known)| {
            known.response_sha256.as_deref() == new.response_sha256.as_ref().map(<[u8; 32]>::as_slice)
        })
        .collect();
    let (mut gone, mut added) = (Vec::new(), Vec::new());
    for (new, known) in &same {
        let keys = all_keys(&new.hashes, &new.keys);
        gone.extend(known.keys.difference(&keys).map(|key| (*key, new.exchange.0)));
        added.extend(
            keys.difference(&known.keys)
                .map(|key| (*key, known.seen_at(*key), new.exchange.0)),
        );
    }
    let kinds: Vec<i16> = gone.iter().map(|(key, _)| i16::from(key.kind.code())).collect();
    let hashes: Vec<&[u8]> = gone.iter().map(|(key, _)| key.hash.as_slice()).collect();
    let exchanges: Vec<i64> = gone.iter().map(|(_, exchange)| *exchange).collect();
    query(&transaction, sql::DROP_KEYS, &[&owner.0, &kinds, &hashes, &exchanges]).await?;
    insert_keys(&transaction, owner, added).await?;
    let numbers: Vec<i64> = same.iter().map(|(new, _)| new.exchange.0).collect();
    let hashes: Vec<Vec<u8>> = same
        .iter()
        .map(|(new, _)| write_hashes(&new.hashes, |_| true))
        .collect();
    let keys: Vec<Vec<u8>> = same.iter().map(|(new, _)| write_keys(&new.keys)).collect();
    let versions: Vec<i16> = same.iter().map(|(new, _)| version(new.version)).collect();
    query(
        &transaction,
        sql::PROJECT,
        &[&owner.0, &numbers, &hashes, &keys, &versions],
    )
    .await?;
    transaction.commit().await.map_err(problem)?;
    Ok(same.len() as u64)
}
