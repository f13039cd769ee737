//! The schema, in versions.
//!
//! Each step is one transaction under an advisory lock: killed at any statement, it leaves the old or the new schema, and
//! two programs that start together migrate one after the other. Every step says which programs can still read and write
//! what it leaves, by the newest step that they know.

use deadpool_postgres::{Client, Transaction};

use super::problem::problem;
use super::sql;
use crate::store::{Result, StoreError, Versions};

/// Held while migrating ("rope" in ASCII).
const MIGRATION_LOCK: i64 = 0x726f_7065;

struct Step {
    /// The oldest program that can read what this step leaves.
    min_reader: i32,
    min_writer: i32,
    sql: &'static str,
}

/// Every version's step, oldest first. Never change one that was released: add another.
const STEPS: [Step; 6] = [
    Step {
        min_reader: 1,
        min_writer: 1,
        sql: include_str!("migrations/0001_facts.sql"),
    },
    Step {
        min_reader: 1,
        min_writer: 1,
        sql: include_str!("migrations/0002_projections.sql"),
    },
    // A writer that does not know of logs would record a call twice.
    Step {
        min_reader: 1,
        min_writer: 3,
        sql: include_str!("migrations/0003_logs.sql"),
    },
    // A linker that does not know of names would not let them follow a merge; what it leaves is still found.
    Step {
        min_reader: 1,
        min_writer: 3,
        sql: include_str!("migrations/0004_names.sql"),
    },
    // A writer that does not know of sweeps would name parts that are gone.
    Step {
        min_reader: 1,
        min_writer: 5,
        sql: include_str!("migrations/0005_forget.sql"),
    },
    // A writer that does not know of courses would leave in them what was forgotten.
    Step {
        min_reader: 1,
        min_writer: 6,
        sql: include_str!("migrations/0006_courses.sql"),
    },
];

/// The newest version that this program knows.
const KNOWN: i32 = STEPS.len() as i32;

/// Brings a database to the newest version, or refuses one that this program must not write.
pub(super) async fn migrate(client: &mut Client) -> Result<()> {
    loop {
        let transaction = client.transaction().await.map_err(problem)?;
        transaction
            .execute(sql::LOCK_SCHEMA, &[&MIGRATION_LOCK])
            .await
            .map_err(problem)?;
        transaction
            .batch_execute(sql::CREATE_SCHEMA_VERSION)
            .await
            .map_err(problem)?;
        let version = check_version(&transaction, false).await?;
        let Some(step) = usize::try_from(version).ok().and_then(|version| STEPS.get(version)) else {
            return Ok(());
        };
        apply(&transaction, version + 1, step).await?;
        transaction.commit().await.map_err(problem)?;
    }
}

async fn apply(transaction: &Transaction<'_>, version: i32, step: &Step) -> Result<()> {
    transaction.batch_execute(step.sql).await.map_err(problem)?;
    transaction
        .execute(
            sql::INSERT_SCHEMA_VERSION,
            &[&version, &step.min_reader, &step.min_writer],
        )
        .await
        .map_err(problem)?;
    Ok(())
}

/// Checks that a database can be read without changing it.
pub(super) async fn check_readable(client: &mut Client) -> Result<()> {
    let transaction = client.transaction().await.map_err(problem)?;
    match versions(&transaction).await? {
        Some(found) if found.version > 0 => found.check_readable(),
        _ => Err(StoreError::Damaged("the database holds no store".to_owned())),
    }
}

/// The version of a database that can be read.
pub(super) async fn found_version(client: &mut Client) -> Result<u32> {
    let transaction = client.transaction().await.map_err(problem)?;
    Ok(check_version(&transaction, true).await?.unsigned_abs())
}

/// The database's version, 0 where it has none. A newer one is refused unless it says that this program may go on.
async fn check_version(transaction: &Transaction<'_>, only_read: bool) -> Result<i32> {
    let Some(found) = versions(transaction).await? else {
        return Ok(0);
    };
    let is_allowed = if only_read { found.can_read() } else { found.can_write() };
    match is_allowed {
        true => Ok(found.version.cast_signed()),
        false => Err(found.too_new()),
    }
}

/// Of the database, whatever this program knows. `None` where it holds no store.
pub(super) async fn versions(transaction: &Transaction<'_>) -> Result<Option<Versions>> {
    let is_there: bool = transaction
        .query_one(sql::HAS_SCHEMA_VERSION, &[])
        .await
        .map_err(problem)?
        .get(0);
    if !is_there {
        return Ok(None);
    }
    let row = transaction
        .query_opt(sql::SELECT_SCHEMA_VERSION, &[])
        .await
        .map_err(problem)?;
    Ok(row.map(|row| {
        let number = |column: usize| row.get::<_, i32>(column).unsigned_abs();
        Versions {
            version: number(0),
            known: KNOWN.unsigned_abs(),
            min_reader: number(1),
            min_writer: number(2),
        }
    }))
}
