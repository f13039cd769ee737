//! What PostgreSQL says went wrong, in the store's words.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// Keeps the source, so that a caller can find out whether trying again may help.
pub(super) fn problem(error: Error) -> StoreError {
    let Some(code) = error.code() else {
        if error.is_closed() {
            return database("the connection to PostgreSQL was lost", error);
        }
        // What the system or the encryption says; neither knows the password.
        let why = std::error::Error::source(&error).map(|source| format!(": {source}"));
        let what = format!("PostgreSQL cannot be reached{}", why.unwrap_or_default());
        return database(&what, error);
    };
    match code {
        code if *code == SqlState::DISK_FULL => StoreError::Full,
        code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly,
        code if *code == SqlState::LOCK_NOT_AVAILABLE => StoreError::Locked,
        code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::Damaged(said(&error))
        }
        code if *code == SqlState::QUERY_CANCELED => database("PostgreSQL took too long and was stopped", error),
        code if *code == SqlState::ADMIN_SHUTDOWN
            || *code == SqlState::CRASH_SHUTDOWN
            || *code == SqlState::CANNOT_CONNECT_NOW =>
        {
            database("PostgreSQL is shutting down or starting", error)
        }
        _ => {
            let what = format!("PostgreSQL refused: {}", said(&error));
            StoreError::Database {
                what,
                source: error.into(),
            }
        }
    }
}

pub(super) fn pool_problem(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => problem(error),
        PoolError::Timeout(_) => database("no connection to PostgreSQL became free in time", error),
        PoolError::Closed => StoreError::Stopped,
        _ => database("a connection to PostgreSQL could not be prepared", error),
    }
}

/// Whether the same transaction may succeed when it is run again: others were in its way, nothing is wrong with it.
/// A repeated key belongs here because another writer stored the same exchange between our look and our insert.
pub(super) fn others_were_in_the_way(error: &StoreError) -> bool {
    let StoreError::Database { source, .. } = error else {
        return false;
    };
    if source.is::<Raced>() {
        return true;
    }
    let code = source.downcast_ref::<Error>().and_then(Error::code);
    code.is_some_and(|code| {
        [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::UNIQUE_VIOLATION,
        ]
        .contains(code)
    })
}

/// Whether nobody knows what became of the transaction, or the server was not asked at all.
pub(super) fn is_of_connection(error: &StoreError) -> bool {
    let StoreError::Database { source, .. } = error else {
        return matches!(error, StoreError::Stopped);
    };
    let said_nothing = |error: &Error| error.code().is_none();
    source.is::<PoolError>() || source.downcast_ref::<Error>().is_some_and(said_nothing)
}

/// One failure of a connection, told to everybody whom it concerns.
pub(super) fn shared(error: &StoreError) -> StoreError {
    match error {
        StoreError::Database { what, source } => StoreError::Database {
            what: what.clone(),
            source: source.to_string().into(),
        },
        _ => StoreError::Stopped,
    }
}

/// Another writer changed a row between our look at it and our lock on it.
#[derive(Debug, thiserror::Error)]
#[error("another writer was faster")]
struct Raced;

pub(super) fn raced() -> StoreError {
    database("another writer changed the same exchange", Raced)
}

pub(super) fn database(what: &str, source: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Database {
        what: what.to_owned(),
        source: Box::new(source),
    }
}

pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged(what.into())
}

fn said(error: &Error) -> String {
    error
        .as_db_error()
        .map_or_else(String::new, |error| error.message().to_owned())
}
