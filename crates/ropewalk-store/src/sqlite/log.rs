//! Records of logs, and how far files were read.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::facts::OwnerId;
use crate::forget::Grave;
use crate::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use crate::packed::{read_record, write_record};
use crate::sqlite::tombstones::Tombstones;
use crate::sqlite::{derived, problem};
use crate::store::{PAGE_MAX, Result};

pub(super) fn save(connection: &Connection, owner: OwnerId, changes: &LogChanges) -> Result<()> {
    let delete = "DELETE FROM record WHERE owner_id = ?1 AND session = ?2";
    for session in &changes.replaced {
        let mut statement = connection.prepare_cached(delete).map_err(problem)?;
        statement.execute(params![owner.0, session]).map_err(problem)?;
    }
    let graves = Tombstones::of(connection, owner)?;
    let mut last = None;
    for record in &changes.records {
        // Records of a session come one after the other.
        let (session, is_forgotten) = match last {
            Some((session, is_forgotten)) if session == record.session.as_str() => (session, is_forgotten),
            _ => (
                &*record.session,
                graves.has(connection, Grave::Session(&record.session))?,
            ),
        };
        last = Some((session, is_forgotten));
        if !is_forgotten {
            save_record(connection, owner, record)?;
        }
    }
    if changes.is_seen() {
        derived::touch(connection, owner)?;
    }
    let insert = "INSERT INTO imported_file (owner_id, path, size, modified, tail, position, problems) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (owner_id, path) DO UPDATE SET size = excluded.size, \
                  modified = excluded.modified, tail = excluded.tail, position = excluded.position, \
                  problems = excluded.problems";
    for file in &changes.files {
        let row = params![
            owner.0,
            file.path,
            file.size as i64,
            file.modified,
            file.tail,
            file.offset as i64,
            file.problems as i64
        ];
        let mut statement = connection.prepare_cached(insert).map_err(problem)?;
        statement.execute(row).map_err(problem)?;
    }
    Ok(())
}

fn save_record(connection: &Connection, owner: OwnerId, record: &RecordRow) -> Result<()> {
    let insert = "INSERT INTO record (owner_id, session, uuid, record) VALUES (?1, ?2, ?3, ?4) \
                  ON CONFLICT (owner_id, session, uuid) DO NOTHING";
    let bytes = write_record(record);
    let mut statement = connection.prepare_cached(insert).map_err(problem)?;
    let row = params![owner.0, record.session, record.uuid, bytes];
    if statement.execute(row).map_err(problem)? > 0 {
        return Ok(());
    }
    let select = "SELECT record FROM record WHERE owner_id = ?1 AND session = ?2 AND uuid = ?3";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let name = params![owner.0, record.session, record.uuid];
    let known: Option<Vec<u8>> = statement
        .query_row(name, |row| row.get(0))
        .optional()
        .map_err(problem)?;
    let known = known.map(|known| read_record(record.session.clone(), record.uuid.clone(), &known));
    if known.transpose()?.is_some_and(|known| record.outranks(&known)) {
        let update = "UPDATE record SET record = ?4 WHERE owner_id = ?1 AND session = ?2 AND uuid = ?3";
        let mut statement = connection.prepare_cached(update).map_err(problem)?;
        statement.execute(row).map_err(problem)?;
    }
    Ok(())
}

pub(super) fn records(connection: &Connection, owner: OwnerId, which: &Records) -> Result<Vec<RecordRow>> {
    let (select, session, uuid, limit) = match which {
        Records::Named(names) => return named(connection, owner, names),
        Records::OfSession { session, after, limit } => (
            "SELECT session, uuid, record FROM record WHERE owner_id = ?1 AND session = ?2 AND uuid > ?3 \
             ORDER BY uuid LIMIT ?4",
            session.as_str(),
            after.as_deref().unwrap_or_default(),
            limit,
        ),
        Records::All { after, limit } => {
            let after = after.as_ref();
            (
                "SELECT session, uuid, record FROM record WHERE owner_id = ?1 AND (session, uuid) > (?2, ?3) \
                 ORDER BY session, uuid LIMIT ?4",
                after.map_or("", |(session, _)| session),
                after.map_or("", |(_, uuid)| uuid),
                limit,
            )
        }
    };
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let bounds = params![owner.0, session, uuid, (*limit).min(PAGE_MAX) as i64];
    let mut rows = statement.query(bounds).map_err(problem)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().map_err(problem)? {
        let bytes: Vec<u8> = row.get(2).map_err(problem)?;
        records.push(read_record(
            row.get(0).map_err(problem)?,
            row.get(1).map_err(problem)?,
            &bytes,
        )?);
    }
    Ok(records)
}

fn named(connection: &Connection, owner: OwnerId, names: &[(String, String)]) -> Result<Vec<RecordRow>> {
    let select = "SELECT record FROM record WHERE owner_id = ?1 AND session = ?2 AND uuid = ?3";
    let mut records = Vec::new();
    for (session, uuid) in names.iter().take(PAGE_MAX) {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let found = statement.query_row(params![owner.0, session, uuid], |row| row.get::<_, Vec<u8>>(0));
        if let Some(bytes) = found.optional().map_err(problem)? {
            records.push(read_record(session.clone(), uuid.clone(), &bytes)?);
        }
    }
    Ok(records)
}

const FILES: &str =
    "SELECT path, size, modified, tail, position, problems FROM imported_file WHERE owner_id = ?1 AND path ";

pub(super) fn imported_files(connection: &Connection, owner: OwnerId, which: &Files) -> Result<Vec<ImportedFile>> {
    let mut files = Vec::new();
    let mut select = |filter: &str, path: &str, limit: usize| -> Result<()> {
        let mut statement = connection
            .prepare_cached(&format!("{FILES}{filter} ORDER BY path LIMIT ?3"))
            .map_err(problem)?;
        let rows = statement.query_map(params![owner.0, path, limit as i64], file);
        for row in rows.map_err(problem)? {
            files.push(row.map_err(problem)?);
        }
        Ok(())
    };
    match which {
        Files::Named(paths) => paths.iter().try_for_each(|path| select("= ?2", path, 1))?,
        Files::All { after, limit } => select("> ?2", after.as_deref().unwrap_or_default(), (*limit).min(PAGE_MAX))?,
    }
    Ok(files)
}

fn file(row: &Row<'_>) -> rusqlite::Result<ImportedFile> {
    Ok(ImportedFile {
        path: row.get(0)?,
        size: row.get::<_, i64>(1)?.cast_unsigned(),
        modified: row.get(2)?,
        tail: row.get(3)?,
        offset: row.get::<_, i64>(4)?.cast_unsigned(),
        problems: row.get::<_, i64>(5)?.cast_unsigned(),
    })
}
