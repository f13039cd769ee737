//! The schema, in versions. Each step is one transaction: killed at any statement, it leaves the old or the new one.

use rusqlite::{Connection, TransactionBehavior};

use crate::sqlite::problem;
use crate::store::{Result, StoreError, Versions};

/// SQLite below this can lose commits when a write-ahead log is reset.
pub(super) const SQLITE_MIN: (i32, &str) = (3_051_003, "3.51.3");

/// A file of another program is not touched ("rope" in ASCII).
const APPLICATION_ID: i32 = 0x726f_7065;

/// Every version's step, oldest first. Never change one that was released: add another.
const STEPS: [&str; 6] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5, VERSION_6];

/// For every version the oldest program that can read, and the oldest that can write what its step leaves, by the newest step that
/// they know: while these allow it, programs of two versions use one store, so that not all have to be updated at once.
const COMPATIBLE: [(u32, u32); STEPS.len()] = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (5, 6)];

/// The newest version that this program knows.
pub(super) const NEWEST: u32 = STEPS.len() as u32;

/// `key` is the owner's number and the row's own number in one integer (see `keys`): rows of an owner lie together and
/// are written at the end of the file. What is looked up by hash goes through `hash_run`, whose pages would
/// otherwise be written all over the place (see `hash_index`). Parts lie in packs (see `packs`); their names are the hashes
/// of their bytes and are not written down. `context` has what exchanges share with the one before.
/// An exchange's `position` is its number until it is completed, and NULL: most never move.
/// Its `parent_message` is the exchange whose current message has the hash of its parent message, where that is known.
///
/// `link`, `branch`, `conversation`, `conversation_alias` and `wanted` are derived (see `derived.rs`). Every turn has a link, so
/// its row is short: a `branch` or `agent` that begins with the conversation is NULL, and an index needs no `key` of
/// its own because SQLite ends every entry with it.
const VERSION_1: &str = "
CREATE TABLE owner (
    owner_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    secret BLOB NOT NULL,
    last_part INTEGER NOT NULL DEFAULT 0,
    last_chunk INTEGER NOT NULL DEFAULT 0,
    last_node INTEGER NOT NULL DEFAULT 0,
    last_context INTEGER NOT NULL DEFAULT 0,
    last_exchange INTEGER NOT NULL DEFAULT 0,
    last_text INTEGER NOT NULL DEFAULT 0,
    indexed_text INTEGER NOT NULL DEFAULT 0,
    last_position INTEGER NOT NULL DEFAULT 0,
    side_parts INTEGER NOT NULL DEFAULT 0,
    conflicts INTEGER NOT NULL DEFAULT 0,
    bytes_in INTEGER NOT NULL DEFAULT 0,
    part_bytes INTEGER NOT NULL DEFAULT 0,
    stored_bytes INTEGER NOT NULL DEFAULT 0,
    link_version INTEGER NOT NULL DEFAULT 0,
    linked_to INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE pack (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    lengths BLOB NOT NULL,
    codec INTEGER NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE chunk (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    name BLOB NOT NULL,
    bytes BLOB NOT NULL
);
CREATE TABLE node (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    hash BLOB NOT NULL,
    parent INTEGER,
    depth INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    at INTEGER NOT NULL
);
CREATE TABLE context (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT,
    kind TEXT NOT NULL,
    session TEXT,
    agent TEXT,
    project TEXT,
    hashes BLOB NOT NULL,
    keys BLOB NOT NULL,
    rules_version INTEGER NOT NULL
);
CREATE TABLE exchange (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    id NOT NULL,
    position INTEGER,
    at INTEGER NOT NULL,
    ended_at INTEGER,
    status INTEGER NOT NULL,
    http_status INTEGER,
    context INTEGER NOT NULL,
    detail INTEGER NOT NULL,
    input_node INTEGER NOT NULL,
    output_node INTEGER,
    hashes BLOB NOT NULL,
    parent_message INTEGER,
    keys BLOB NOT NULL,
    usage BLOB,
    cost_nano_usd INTEGER,
    cost_is_estimate INTEGER NOT NULL,
    request_sha256 BLOB NOT NULL,
    request_length INTEGER NOT NULL,
    request_rope BLOB NOT NULL,
    response_sha256 BLOB,
    response_length INTEGER,
    response_rope BLOB,
    provenance TEXT
);
CREATE INDEX exchange_at ON exchange (owner_id, at);
CREATE UNIQUE INDEX exchange_position ON exchange (owner_id, position) WHERE position IS NOT NULL;
CREATE INDEX exchange_context ON exchange (owner_id, context, at);
CREATE TABLE hash_run (
    owner_id INTEGER NOT NULL,
    key INTEGER NOT NULL,
    target INTEGER NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (owner_id, key, target)
) WITHOUT ROWID;
CREATE TABLE hash_log (
    number INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
);
CREATE TABLE search_text (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    source INTEGER NOT NULL,
    strings BLOB NOT NULL
);
CREATE TABLE spawn (
    owner_id INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    idx INTEGER NOT NULL,
    call TEXT,
    name TEXT,
    prompt BLOB,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner_id, exchange, idx)
) WITHOUT ROWID;
CREATE INDEX spawn_at ON spawn (owner_id, at);
CREATE TABLE link (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    branch INTEGER,
    agent INTEGER,
    parent INTEGER,
    decision BLOB NOT NULL
);
CREATE INDEX link_conversation ON link (owner_id, conversation, at);
CREATE INDEX link_parent ON link (owner_id, parent) WHERE parent IS NOT NULL;
CREATE TABLE branch (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    shown TEXT NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX branch_conversation ON branch (owner_id, conversation);
CREATE TABLE conversation (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    id BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    record BLOB NOT NULL
);
CREATE INDEX conversation_last_at ON conversation (owner_id, last_at);
CREATE TABLE conversation_alias (
    owner_id INTEGER NOT NULL,
    id BLOB NOT NULL,
    root INTEGER NOT NULL,
    PRIMARY KEY (owner_id, id)
) WITHOUT ROWID;
CREATE TABLE wanted (
    owner_id INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    PRIMARY KEY (owner_id, hash, exchange)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE search USING fts5 (
    text, content='', contentless_delete=1, detail=full, tokenize='unicode61 remove_diacritics 2'
);
";

/// Who made an exchange's hashes and keys. What was written before has no version: 0 is older than any.
const VERSION_2: &str = "ALTER TABLE exchange ADD COLUMN projections INTEGER NOT NULL DEFAULT 0";

/// What logs add (see `log.rs`). Records of a session lie together; an id that is not in its session is looked for in all of them,
/// which only a damaged tree asks for. `retold` has exchanges that were told anew, with the key of the first text that counts: those
/// before it are of the older telling.
const VERSION_3: &str = "
CREATE TABLE record (
    owner_id INTEGER NOT NULL,
    session TEXT NOT NULL,
    uuid TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (owner_id, session, uuid)
) WITHOUT ROWID;
CREATE TABLE imported_file (
    owner_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    tail BLOB NOT NULL,
    position INTEGER NOT NULL,
    problems INTEGER NOT NULL,
    PRIMARY KEY (owner_id, path)
) WITHOUT ROWID;
CREATE TABLE retold (
    owner_id INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    first_text INTEGER NOT NULL,
    PRIMARY KEY (owner_id, exchange)
) WITHOUT ROWID;
";

/// Names (see `names.rs`), pins, and what providers got in a request's place. A name's `conversation` is where its exchange was
/// linked when it was last looked at; a reader asks the link.
const VERSION_4: &str = "
ALTER TABLE owner ADD COLUMN named_to INTEGER NOT NULL DEFAULT 0;
CREATE TABLE conversation_name (
    owner_id INTEGER NOT NULL,
    friendly_id TEXT NOT NULL,
    exchange INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    title TEXT,
    PRIMARY KEY (owner_id, friendly_id)
) WITHOUT ROWID;
CREATE INDEX conversation_name_exchange ON conversation_name (owner_id, exchange);
CREATE INDEX conversation_name_conversation ON conversation_name (owner_id, conversation);
CREATE TABLE message_name (
    owner_id INTEGER NOT NULL,
    name INTEGER NOT NULL,
    short_hash TEXT NOT NULL,
    exchange INTEGER NOT NULL,
    node INTEGER NOT NULL,
    PRIMARY KEY (owner_id, name, short_hash)
) WITHOUT ROWID;
CREATE TABLE pin (
    owner_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (owner_id, key)
) WITHOUT ROWID;
CREATE TABLE sent_body (
    owner_id INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    length INTEGER NOT NULL,
    rope BLOB NOT NULL,
    PRIMARY KEY (owner_id, exchange)
) WITHOUT ROWID;
";

/// What was forgotten (see `forget.rs`). A pack's `gone` are the places in it whose parts are not there any more; `gone_parts` and
/// `gone_nodes` are numbers that were given out and name nothing now. A `hole` is an exchange that lost something, with the
/// decision that linked it: `sha256` is of what is left of its request, where something is.
const VERSION_5: &str = "
ALTER TABLE owner ADD COLUMN gone_parts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE owner ADD COLUMN gone_nodes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pack ADD COLUMN gone BLOB;
CREATE TABLE tombstone (
    owner_id INTEGER NOT NULL,
    hash BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner_id, hash)
) WITHOUT ROWID;
CREATE TABLE hole (
    owner_id INTEGER NOT NULL,
    exchange INTEGER NOT NULL,
    kind INTEGER,
    parent INTEGER,
    decision BLOB,
    sha256 BLOB,
    PRIMARY KEY (owner_id, exchange)
) WITHOUT ROWID;
";

/// How long conversations go on, for whoever reads a page of one; derived, with the key of its conversation. A writer that does not
/// know of it would leave in it what was forgotten.
const VERSION_6: &str = "
CREATE TABLE course (
    key INTEGER PRIMARY KEY,
    owner_id INTEGER NOT NULL,
    packed BLOB NOT NULL
);
";

/// Brings a store to the newest version, or refuses one that this program must not write.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    loop {
        // Immediate: two programs that open an old store migrate it one after the other.
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(problem)?;
        let found = versions(&transaction)?;
        let application = transaction
            .pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0))
            .map_err(problem)?;
        if !found.can_write() {
            return Err(found.too_new());
        }
        if found.version > 0 && application != APPLICATION_ID {
            return Err(StoreError::Damaged("this file belongs to another program".to_owned()));
        }
        let next = found.version as usize;
        let (Some(step), Some(compatible)) = (STEPS.get(next), COMPATIBLE.get(next)) else {
            return Ok(());
        };
        // SQLite keeps the statements as they are written: indentation would only take space.
        let compact: Vec<&str> = step.split_whitespace().collect();
        transaction.execute_batch(&compact.join(" ")).map_err(problem)?;
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(problem)?;
        transaction
            .pragma_update(None, "user_version", packed(found.version + 1, *compatible))
            .map_err(problem)?;
        transaction.commit().map_err(problem)?;
    }
}

/// Checks that a store can be read without changing it.
pub(super) fn check_version(connection: &Connection) -> Result<()> {
    versions(connection)?.check_readable()
}

pub(super) fn version(connection: &Connection) -> Result<u32> {
    Ok(versions(connection)?.version)
}

/// Bits of each of the three numbers that the file's `user_version` holds: version, oldest reader, oldest writer.
const VERSION_BITS: u32 = 8;

/// Where nobody older can do anything with it, the version stands alone.
fn packed(version: u32, (min_reader, min_writer): (u32, u32)) -> u32 {
    match min_reader == version && min_writer == version {
        true => version,
        false => version | min_reader << VERSION_BITS | min_writer << (2 * VERSION_BITS),
    }
}

/// Of the file, whatever this program knows.
pub(super) fn versions(connection: &Connection) -> Result<Versions> {
    let packed: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(problem)?;
    let number = |at: u32| packed >> (at * VERSION_BITS) & ((1 << VERSION_BITS) - 1);
    let version = number(0);
    let or_version = |minimum: u32| if minimum == 0 { version } else { minimum };
    Ok(Versions {
        version,
        known: NEWEST,
        min_reader: or_version(number(1)),
        min_writer: or_version(number(2)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(connection: &Connection) -> i64 {
        connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_migration_killed_at_any_point_leaves_the_old_or_the_new_schema() {
        let folder = tempfile::tempdir().unwrap();
        let whole = {
            let mut connection = Connection::open(folder.path().join("whole.db")).unwrap();
            migrate(&mut connection).unwrap();
            tables(&connection)
        };
        let mut at_versions = vec![(0, 0)];
        let stepwise = Connection::open_in_memory().unwrap();
        for (step, version) in STEPS.iter().zip(1..) {
            stepwise.execute_batch(step).unwrap();
            at_versions.push((version, tables(&stepwise)));
        }
        let mut interrupted = 0;
        for steps in (1..4_000).step_by(97) {
            let path = folder.path().join(format!("{steps}.db"));
            let mut connection = Connection::open(&path).unwrap();
            let mut left = steps;
            let countdown = move || {
                left -= 1;
                left <= 0
            };
            connection.progress_handler(1, Some(countdown)).unwrap();
            let outcome = migrate(&mut connection);
            drop(connection);
            let mut connection = Connection::open(&path).unwrap();
            if outcome.is_err() {
                interrupted += 1;
                let left = (version(&connection).unwrap(), tables(&connection));
                assert!(at_versions.contains(&left), "{left:?}");
            }
            migrate(&mut connection).unwrap();
            assert_eq!(
                (version(&connection).unwrap(), tables(&connection)),
                (STEPS.len() as u32, whole)
            );
        }
        assert!(interrupted > 5, "{interrupted} runs were interrupted");
    }

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(
            migrate(&mut connection),
            Err(StoreError::TooNew {
                found: 99,
                known: NEWEST
            })
        ));
        assert_eq!(tables(&connection), 0);
    }

    #[test]
    fn a_newer_store_says_who_may_still_read_and_write_it() {
        let of_newer = |min_reader, min_writer| {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate(&mut connection).unwrap();
            let newer = packed(NEWEST + 1, (min_reader, min_writer));
            connection.pragma_update(None, "user_version", newer).unwrap();
            let found = versions(&connection).unwrap();
            assert_eq!(
                (found.version, found.min_reader, found.min_writer),
                (NEWEST + 1, min_reader, min_writer)
            );
            (check_version(&connection).is_ok(), migrate(&mut connection).is_ok())
        };
        assert_eq!(of_newer(NEWEST, NEWEST), (true, true));
        assert_eq!(of_newer(NEWEST, NEWEST + 1), (true, false));
        assert_eq!(of_newer(NEWEST + 1, NEWEST + 1), (false, false));
        assert_eq!(packed(4, (4, 4)), 4, "as it was written before there was more to say");
        for (at, (min_reader, min_writer)) in COMPATIBLE.into_iter().enumerate() {
            let version = at as u32 + 1;
            assert!(min_reader <= min_writer && min_writer <= version, "version {version}");
            assert_eq!(packed(version, (min_reader, min_writer)) & 0xff, version);
        }
    }

    #[test]
    fn a_file_of_another_program_is_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE theirs (a); PRAGMA user_version = 1")
            .unwrap();
        assert!(matches!(migrate(&mut connection), Err(StoreError::Damaged(_))));
    }
}
