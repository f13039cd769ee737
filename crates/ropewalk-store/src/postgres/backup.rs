//! A copy of the whole store, in one snapshot, as a file for each table; and a store made of one.
//!
//! Rows are in the server's binary format, with their columns named, so that a copy is read by the columns it has.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::pin::pin;

use bytes::Bytes;
use deadpool_postgres::Transaction;
use futures_util::{SinkExt as _, StreamExt as _};

use super::problem::{damaged, database, problem};
use super::{Postgres, query, snapshot, sql};
use crate::store::{Result, StoreError};

/// Every table but the schema's version, and [`NOT_COPIED`]. The directory of owners first.
pub(super) const TABLES: [&str; 26] = [
    "owner_name",
    "owner",
    "owner_number",
    "dictionary",
    "part",
    "chunk",
    "node",
    "exchange",
    "exchange_key",
    "provenance",
    "spawn",
    "link",
    "branch",
    "conversation",
    "conversation_alias",
    "wanted",
    "search_queue",
    "search_text",
    "record",
    "imported_file",
    "conversation_name",
    "message_name",
    "pin",
    "sent_body",
    "tombstone",
    "hole",
];

/// Whoever reads a page counts again what is in it; and a copy of an older program, which has none, can be read.
#[cfg(test)]
pub(super) const NOT_COPIED: &str = "course";

/// Bytes that are sent at once.
const PIECE: usize = 256 << 10;

/// The rows of a table, and the columns that they have.
fn names(table: &str) -> (String, String) {
    (format!("{table}.rows"), format!("{table}.columns"))
}

impl Postgres {
    /// Writes the store as it stands into files of a folder. Recording goes on meanwhile.
    pub async fn copy_to(&self, folder: &Path) -> Result<()> {
        let mut client = self.client().await?;
        let snapshot = snapshot(&mut client).await?;
        snapshot.batch_execute(sql::NO_TIMEOUT_HERE).await.map_err(problem)?;
        for table in TABLES {
            let columns = columns(&snapshot, table).await?.join(", ");
            let (rows_name, columns_name) = names(table);
            std::fs::write(folder.join(columns_name), &columns).map_err(cannot_write)?;
            let mut file = File::create(folder.join(rows_name)).map_err(cannot_write)?;
            let copy = format!("COPY {table} ({columns}) TO STDOUT (FORMAT binary)");
            let mut rows = pin!(snapshot.copy_out(&copy).await.map_err(problem)?);
            while let Some(bytes) = rows.next().await {
                file.write_all(&bytes.map_err(problem)?).map_err(cannot_write)?;
            }
            file.sync_all().map_err(cannot_write)?;
        }
        snapshot.commit().await.map_err(problem)
    }

    /// Whether nothing was ever recorded in it.
    pub async fn is_empty(&self) -> Result<bool> {
        let client = self.client().await?;
        let found = query(&client, sql::OWNERS, &[&None::<&str>, &1_i64]).await?;
        Ok(found.is_empty())
    }

    /// Fills a store in which nothing was ever recorded with what [`Postgres::copy_to`] wrote, all or nothing.
    pub async fn fill_from(&self, folder: &Path) -> Result<()> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await.map_err(problem)?;
        transaction.batch_execute(sql::NO_TIMEOUT_HERE).await.map_err(problem)?;
        for table in TABLES {
            let known = columns(&transaction, table).await?;
            let (rows_name, columns_name) = names(table);
            let written = std::fs::read_to_string(folder.join(columns_name)).map_err(cannot_read)?;
            // A name that is no column of ours has no place in a statement.
            if let Some(other) = written
                .split(", ")
                .find(|name| !known.iter().any(|known| known == name))
            {
                return Err(damaged(format!("the copy has a column `{other}` in {table}")));
            }
            let copy = format!("COPY {table} ({written}) FROM STDIN (FORMAT binary)");
            let mut rows = pin!(transaction.copy_in::<_, Bytes>(&copy).await.map_err(problem)?);
            let mut file = File::open(folder.join(rows_name)).map_err(cannot_read)?;
            loop {
                let mut piece = vec![0; PIECE];
                let length = file.read(&mut piece).map_err(cannot_read)?;
                if length == 0 {
                    break;
                }
                piece.truncate(length);
                rows.send(Bytes::from(piece)).await.map_err(problem)?;
            }
            rows.close().await.map_err(problem)?;
        }
        transaction.execute(sql::NEXT_OWNER, &[]).await.map_err(problem)?;
        transaction.commit().await.map_err(problem)?;
        self.known_parts.forget();
        Ok(())
    }
}

async fn columns(transaction: &Transaction<'_>, table: &str) -> Result<Vec<String>> {
    let rows = query(transaction, sql::COLUMNS, &[&table]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn cannot_write(error: std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full,
        _ => database("the copy cannot be written", error),
    }
}

fn cannot_read(error: std::io::Error) -> StoreError {
    database("the copy cannot be read", error)
}
