//! Records of logs, and how far files were read.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::Row;

use super::packed::{escape, unescape};
use super::problem::problem;
use super::record::until_through;
use super::tombstones::Sweeps;
use super::{Postgres, hash_of, query, signed, sql, unsigned};
use crate::facts::OwnerId;
use crate::forget::Grave;
use crate::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use crate::packed::{read_record, write_record};
use crate::store::{PAGE_MAX, Result};

pub(super) async fn save(store: &Postgres, owner: OwnerId, changes: &LogChanges) -> Result<()> {
    until_through(|| try_save(store, owner, changes)).await
}

async fn try_save(store: &Postgres, owner: OwnerId, changes: &LogChanges) -> Result<()> {
    let mut client = store.client().await?;
    let transaction = client.transaction().await.map_err(problem)?;
    if !changes.replaced.is_empty() {
        let sessions: Vec<_> = changes.replaced.iter().map(|session| escape(session)).collect();
        query(&transaction, sql::DELETE_RECORDS, &[&owner.0, &sessions]).await?;
    }
    let sessions: BTreeSet<&str> = changes.records.iter().map(|record| &*record.session).collect();
    let graves: Vec<Grave<'_>> = sessions.iter().map(|session| Grave::Session(session)).collect();
    let found = match graves.is_empty() {
        true => Vec::new(),
        false => {
            Sweeps::read(&transaction, owner)
                .await?
                .find(&transaction, owner, &graves)
                .await?
        }
    };
    let forgotten: BTreeSet<&str> = sessions
        .into_iter()
        .zip(found)
        .filter_map(|(session, at)| at.map(|_| session))
        .collect();
    let records = changes
        .records
        .iter()
        .filter(|record| !forgotten.contains(&*record.session));
    save_records(&transaction, owner, records).await?;
    save_files(&transaction, owner, &changes.files).await?;
    if changes.is_seen() {
        query(&transaction, sql::TOUCH_LINKS, &[&owner.0]).await?;
    }
    transaction.commit().await.map_err(problem)
}

async fn save_records<'r>(
    client: &impl GenericClient,
    owner: OwnerId,
    records: impl Iterator<Item = &'r RecordRow>,
) -> Result<()> {
    // One of each name, in one order for everybody.
    let mut best: BTreeMap<(&str, &str), &RecordRow> = BTreeMap::new();
    for record in records {
        let place = best.entry((&record.session, &record.uuid)).or_insert(record);
        if record.outranks(place) {
            *place = record;
        }
    }
    if best.is_empty() {
        return Ok(());
    }
    let names = |best: &BTreeMap<(&str, &str), &RecordRow>| -> (Vec<String>, Vec<String>) {
        let names = best.keys();
        names
            .map(|(session, uuid)| (escape(session).into_owned(), escape(uuid).into_owned()))
            .unzip()
    };
    let (sessions, uuids) = names(&best);
    let known = query(client, sql::LOCK_RECORDS, &[&owner.0, &sessions, &uuids]).await?;
    let known = known.iter().map(record).collect::<Result<Vec<_>>>()?;
    for known in &known {
        let name = (&*known.session, &*known.uuid);
        if best.get(&name).is_some_and(|new| !new.outranks(known)) {
            best.remove(&name);
        }
    }
    let (sessions, uuids) = names(&best);
    let packed: Vec<Vec<u8>> = best.values().map(|record| write_record(record)).collect();
    query(client, sql::SAVE_RECORDS, &[&owner.0, &sessions, &uuids, &packed]).await?;
    Ok(())
}

async fn save_files(client: &impl GenericClient, owner: OwnerId, files: &[ImportedFile]) -> Result<()> {
    let newest: BTreeMap<&str, &ImportedFile> = files.iter().map(|file| (&*file.path, file)).collect();
    if newest.is_empty() {
        return Ok(());
    }
    let paths: Vec<_> = newest.keys().map(|path| escape(path)).collect();
    let sizes: Vec<i64> = newest.values().map(|file| signed(file.size)).collect();
    let modified: Vec<i64> = newest.values().map(|file| file.modified).collect();
    let tails: Vec<&[u8]> = newest.values().map(|file| &file.tail[..]).collect();
    let offsets: Vec<i64> = newest.values().map(|file| signed(file.offset)).collect();
    let problems: Vec<i64> = newest.values().map(|file| signed(file.problems)).collect();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&owner.0, &paths, &sizes, &modified, &tails, &offsets, &problems];
    query(client, sql::SAVE_FILES, &values).await?;
    Ok(())
}

pub(super) async fn records(client: &Client, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
    let page = |limit: usize| limit.min(PAGE_MAX) as i64;
    let rows = match which {
        Records::Named(names) => {
            let names = names.iter().take(PAGE_MAX);
            let (sessions, uuids): (Vec<_>, Vec<_>) =
                names.map(|(session, uuid)| (escape(session), escape(uuid))).unzip();
            query(client, sql::RECORDS_NAMED, &[&owner.0, &sessions, &uuids]).await?
        }
        Records::OfSession { session, after, limit } => {
            let (session, after) = (escape(&session), after.unwrap_or_default());
            let after = escape(&after);
            query(
                client,
                sql::RECORDS_OF_SESSION,
                &[&owner.0, &session, &after, &page(limit)],
            )
            .await?
        }
        Records::All { after, limit } => {
            let (session, uuid) = after.unwrap_or_default();
            let (session, uuid) = (escape(&session), escape(&uuid));
            query(client, sql::ALL_RECORDS, &[&owner.0, &session, &uuid, &page(limit)]).await?
        }
    };
    rows.iter().map(record).collect()
}

fn record(row: &Row) -> Result<RecordRow> {
    read_record(unescape(row.get(0)), unescape(row.get(1)), row.get(2))
}

pub(super) async fn imported_files(client: &Client, owner: OwnerId, which: &Files) -> Result<Vec<ImportedFile>> {
    let rows = match which {
        Files::Named(paths) => {
            let paths: Vec<_> = paths.iter().map(|path| escape(path)).collect();
            query(client, sql::IMPORTED_FILES, &[&owner.0, &paths]).await?
        }
        Files::All { after, limit } => {
            let after = escape(after.as_deref().unwrap_or_default());
            let limit = (*limit).min(PAGE_MAX) as i64;
            query(client, sql::ALL_IMPORTED_FILES, &[&owner.0, &after, &limit]).await?
        }
    };
    let file = |row: &Row| {
        Ok(ImportedFile {
            path: unescape(row.get(0)),
            size: unsigned(row.get(1)),
            modified: row.get(2),
            tail: hash_of(row, 3)?,
            offset: unsigned(row.get(4)),
            problems: unsigned(row.get(5)),
        })
    };
    rows.iter().map(file).collect()
}
