//! The store in one file.
//!
//! One at a time writes (`writer`): takes what has queued up, runs each request in a savepoint of its own, and commits the
//! group with one fsync. Readers have connections of their own and never wait for it. Read `schema` first, then `record`
//! (what a write does), `packs`, `tail` and `packing` (how parts lie together), `context` (what exchanges share), `hash_index` (why look-ups by
//! hash are fast), `forget` and `sweep` (how things go again), `read`, `look_up` (what linking asks), `derived` (what linking stores and reads).

mod backup;
mod bodies;
mod check;
mod context;
mod derived;
mod exchange_id;
mod find;
mod forget;
mod fresh_texts;
mod hash_filter;
mod hash_index;
mod hash_runs;
mod keys;
mod known_bodies;
mod link_check;
mod log;
mod look_up;
mod names;
mod nodes;
mod packing;
mod packs;
mod popular;
mod project;
mod read;
mod record;
mod schema;
mod search;
mod spawns;
mod sweep;
mod tail;
mod tombstones;
mod writer;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ropewalk_core::hash::{NodeHash, PartHash};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::derived::{BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links};
use crate::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Projected};
use crate::forget::{Compacted, Forgetting, Forgotten};
use crate::hash_prefix::HashPrefix;
use crate::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use crate::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use crate::sqlite::hash_index::{Fresh, Needs};
use crate::sqlite::writer::{Durability, Session, Writer};
use crate::store::{
    Answers, Beginning, BodyEnd, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag,
    SearchQuery, Selection, Spent, Stats, Store, StoreError, Versions,
};

/// The file inside the data folder, and the lock that its writer holds.
pub const FILE_NAME: &str = "ropewalk.db";
pub const LOCK_NAME: &str = "ropewalk.lock";

/// Connections kept for readers; more are opened for a moment when more read at once.
const READERS_KEPT: usize = 8;

/// Statements that a connection keeps prepared: all there are.
const STATEMENTS_KEPT: usize = 256;

/// How long a reader waits for a lock that only a checkpoint or a migration holds.
const BUSY_MS: u64 = 5_000;

/// The version of SQLite that is built in.
pub fn engine_version() -> &'static str {
    rusqlite::version()
}

/// The version of the schema that this program makes.
pub const SCHEMA_VERSION: u32 = schema::NEWEST;

#[derive(Debug, Clone)]
pub struct Options {
    /// Page cache of the writer in KiB.
    pub cache_kib: u32,
    /// Most pages that the file may grow to; beyond them the store is full. 0: no bound but the disk.
    pub pages_max: u32,
    /// For tests that make fsync slow: this long after every commit.
    pub commit_delay: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cache_kib: 128 * 1024,
            pages_max: 0,
            commit_delay: Duration::ZERO,
        }
    }
}

/// A store in a file, or in memory.
#[derive(Debug)]
pub struct Sqlite {
    /// Closed before the writer, whose connection is then the last and leaves no write-ahead log behind.
    readers: Option<Readers>,
    /// `None` where the store was opened for reading only.
    writer: Option<Arc<Writer>>,
    fresh: Arc<RwLock<Fresh>>,
    /// Held as long as this process may write.
    _lock: Option<Arc<File>>,
    /// Whoever asks has a thread of its own, and reads and writes on it.
    has_own_thread: bool,
}

#[derive(Debug, Clone)]
struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Sqlite {
    /// Opens the store of a data folder for writing, making or migrating it where needed. One process at a time can. What is
    /// made here can be read by its user only: it holds what people said.
    pub fn open(folder: &Path, options: &Options) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| cannot("make", folder, error))?;
        let lock = lock(folder)?;
        let path = folder.join(FILE_NAME);
        // SQLite would make it readable for all; what it makes beside it is as private as the file.
        private(&path)?;
        let connection = Connection::open(&path).map_err(problem)?;
        let mut store = Self::start(connection, Some(Readers::new(path)), options)?;
        store._lock = Some(Arc::new(lock));
        Ok(store)
    }

    /// Opens the store of a data folder beside whoever writes it.
    pub fn open_read_only(folder: &Path) -> Result<Self> {
        let readers = Readers::new(folder.join(FILE_NAME));
        readers.give_back(readers.take()?);
        let fresh = Arc::new(RwLock::new(Fresh::default().keeping_packs()));
        Ok(Sqlite {
            writer: None,
            readers: Some(readers),
            fresh,
            _lock: None,
            has_own_thread: false,
        })
    }

    /// Which version the store of a folder has, also one that this program can do nothing with. `None` where there is none.
    pub fn versions(folder: &Path) -> Result<Option<Versions>> {
        let path = folder.join(FILE_NAME);
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(problem)?;
        schema::versions(&connection).map(Some)
    }

    /// The version of its schema.
    pub async fn schema_version(&self) -> Result<u32> {
        self.read(|connection, _| schema::version(connection)).await
    }

    /// A store that ends with the value.
    pub fn in_memory(options: &Options) -> Result<Self> {
        let connection = Connection::open_in_memory().map_err(problem)?;
        Self::start(connection, None, options)
    }

    fn start(mut connection: Connection, readers: Option<Readers>, options: &Options) -> Result<Self> {
        let (needed, name) = schema::SQLITE_MIN;
        if rusqlite::version_number() < needed {
            return Err(StoreError::SqliteTooOld {
                found: rusqlite::version().to_owned(),
                needed: name,
            });
        }
        configure(&connection, options)?;
        schema::migrate(&mut connection)?;
        let mut fresh = Fresh::load(&connection)?;
        if readers.is_some() {
            fresh = fresh.keeping_packs();
        }
        let fresh = Arc::new(RwLock::new(fresh));
        let writer = Writer::start(connection, Arc::clone(&fresh), options.commit_delay)?;
        Ok(Sqlite {
            writer: Some(Arc::new(writer)),
            readers,
            fresh,
            _lock: None,
            has_own_thread: false,
        })
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_deref().ok_or(StoreError::ReadOnly)
    }

    /// Writes in one piece, and is done when it is committed.
    async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        request: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let writer = self.writer()?;
        match self.has_own_thread {
            true => writer.run_here(durability, request).await,
            false => writer.run(durability, request).await,
        }
    }

    /// Runs a query that looks for no hash.
    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection, &Fresh) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.read_with(Needs::Rows, query).await
    }

    /// Runs a query on a connection of its own, beside the writer; in memory there is only the writer's. Who has a thread of their own, and
    /// finds nobody writing, reads where they write.
    async fn read_with<T: Send + 'static>(
        &self,
        needs: Needs,
        query: impl FnOnce(&Connection, &Fresh) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let fresh = Arc::clone(&self.fresh);
        let with_fresh = move |connection: &Connection| {
            let fresh = fresh.read().unwrap_or_else(PoisonError::into_inner);
            query(connection, &fresh)
        };
        let Some(readers) = self.readers.clone() else {
            return self
                .write(Durability::OnDisk, move |session| with_fresh(session.connection()))
                .await;
        };
        let writer = self.writer.as_deref().filter(|_| self.has_own_thread);
        if let Some(desk) = writer.and_then(Writer::find_free_desk) {
            return look(desk.connection(), with_fresh);
        }
        let written_elsewhere = self.writer.is_none().then(|| Arc::clone(&self.fresh));
        let read = move || {
            let connection = readers.take()?;
            if let Some(fresh) = written_elsewhere {
                catch_up(&connection, &fresh, needs)?;
            }
            let outcome = look(&connection, with_fresh);
            readers.give_back(connection);
            outcome
        };
        if self.has_own_thread {
            return read();
        }
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|_| StoreError::Stopped)?
    }
}

/// One look at the store for all statements of a query: it is the same throughout, and is locked once.
fn look<T>(connection: &Connection, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let snapshot = connection.unchecked_transaction().map_err(problem)?;
    let outcome = query(&snapshot);
    snapshot.finish().map_err(problem)?;
    outcome
}

/// Learns of what another process has recorded. Before a look at the store begins: whoever looks then sees at least as much of
/// the table as was taken out of memory here.
fn catch_up(connection: &Connection, fresh: &RwLock<Fresh>, needs: Needs) -> Result<()> {
    let known = fresh.read().unwrap_or_else(PoisonError::into_inner);
    if !known.is_behind(connection, needs)? {
        return Ok(());
    }
    drop(known);
    fresh
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .catch_up(connection, needs)
}

impl Readers {
    fn new(path: PathBuf) -> Self {
        Readers {
            path,
            idle: Arc::default(),
        }
    }

    fn take(&self) -> Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(problem)?;
        connection
            .busy_timeout(Duration::from_millis(BUSY_MS))
            .map_err(problem)?;
        keep_statements(&connection)?;
        schema::check_version(&connection)?;
        Ok(connection)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < READERS_KEPT {
            idle.push(connection);
        }
    }
}

/// Makes this process the folder's only writer.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK_NAME);
    let file = private(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(TryLockError::Error(error)) => Err(cannot("lock", &path, error)),
    }
}

/// A file to write to, made for its user only where it is missing.
fn private(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.create(true).truncate(false).write(true).mode(0o600).open(path);
    opened.map_err(|error| cannot("open", path, error))
}

fn cannot(verb: &str, path: &Path, error: std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull => StoreError::Full,
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => StoreError::ReadOnly,
        _ => StoreError::Database {
            what: format!("cannot {verb} {}", path.display()),
            source: error.into(),
        },
    }
}

/// Statements are planned once. Without this SQLite, built with STAT4, plans one anew whenever a bound of a range changes, to
/// look at statistics that there are none of.
fn keep_statements(connection: &Connection) -> Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    let stable = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
    stable.map(|_| ()).map_err(problem)
}

fn configure(connection: &Connection, options: &Options) -> Result<()> {
    connection
        .busy_timeout(Duration::from_millis(BUSY_MS))
        .map_err(problem)?;
    keep_statements(connection)?;
    let pragmas = [
        ("journal_mode", "WAL".to_owned()),
        // For what is done before there is a writer, who chooses for each group.
        ("synchronous", "FULL".to_owned()),
        ("cache_size", format!("-{}", options.cache_kib)),
        ("temp_store", "MEMORY".to_owned()),
        // Fewer, larger checkpoints: pages that many commits touched are copied once.
        ("wal_autocheckpoint", "16000".to_owned()),
    ];
    for (name, value) in pragmas {
        connection.pragma_update(None, name, value).map_err(problem)?;
    }
    if options.pages_max > 0 {
        connection
            .pragma_update(None, "max_page_count", options.pages_max)
            .map_err(problem)?;
    }
    Ok(())
}

/// SQLite's errors as ours.
fn problem(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(error.to_string()),
        _ => StoreError::Database {
            what: "the database refused".to_owned(),
            source: error.into(),
        },
    }
}

impl Store for Sqlite {
    fn on_own_thread(self: Arc<Self>) -> Arc<Self> {
        // Most reads and writes take less than it takes to wake another thread up.
        Arc::new(Sqlite {
            readers: self.readers.clone(),
            writer: self.writer.clone(),
            fresh: Arc::clone(&self.fresh),
            _lock: self._lock.clone(),
            has_own_thread: true,
        })
    }

    async fn owner(&self, name: &str) -> Result<OwnerId> {
        let name = name.to_owned();
        self.write(Durability::OnDisk, move |session| record::owner(session, &name))
            .await
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        let name = name.to_owned();
        self.read(move |connection, _| find::owner(connection, &name)).await
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        self.read(move |connection, _| find::owners(connection, after.as_deref()))
            .await
    }

    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        self.write(Durability::OnDisk, move |session| {
            record::record(session, owner, &batch)
        })
        .await
    }

    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        self.write(Durability::OnDisk, move |session| {
            project::project(session, owner, &batch)
        })
        .await
    }

    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        self.read_with(Needs::Hashes, move |connection, fresh| {
            look_up::look_up(connection, fresh, owner, &questions, as_of)
        })
        .await
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        let needs = match selection {
            Selection::Ids(_) => Needs::Hashes,
            _ => Needs::Rows,
        };
        self.read_with(needs, move |connection, fresh| {
            read::exchanges(connection, fresh, owner, &selection, as_of)
        })
        .await
    }

    async fn spent(
        &self,
        owner: OwnerId,
        after: Option<(Micros, ExchangeNumber)>,
        limit: usize,
        as_of: Micros,
    ) -> Result<Vec<Spent>> {
        self.read(move |connection, fresh| read::spent(connection, fresh, owner, after, limit, as_of))
            .await
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        self.read(move |connection, _| bodies::body(connection, owner, exchange, half))
            .await
    }

    async fn bodies(&self, owner: OwnerId, exchanges: Vec<ExchangeNumber>, half: Half) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(move |connection, _| bodies::bodies(connection, owner, &exchanges, half))
            .await
    }

    async fn body_end(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        half: Half,
        length: usize,
    ) -> Result<Option<BodyEnd>> {
        self.read(move |connection, _| bodies::body_end(connection, owner, exchange, half, length))
            .await
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        self.read_with(Needs::Hashes, move |connection, fresh| {
            bodies::part(connection, fresh, owner, &name)
        })
        .await
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        self.read(move |connection, _| nodes::chain(connection, owner, exchange, limit))
            .await
    }

    async fn chain_end(&self, owner: OwnerId, exchange: ExchangeNumber, count: usize) -> Result<Vec<NodeHash>> {
        self.read(move |connection, _| nodes::chain_end(connection, owner, exchange, count))
            .await
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        self.read(move |connection, _| derived::state(connection, owner)).await
    }

    async fn unlinked(&self, owner: OwnerId, limit: usize) -> Result<(LinkState, Vec<ExchangeRow>)> {
        self.read(move |connection, fresh| {
            let state = derived::state(connection, owner)?;
            let rows = match state.linked_to < state.newest {
                true => read::exchanges(connection, fresh, owner, &state.unlinked(limit), Micros::MAX)?,
                false => Vec::new(),
            };
            Ok((state, rows))
        })
        .await
    }

    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        self.write(Durability::Repeatable, move |session| {
            derived::save(session.connection(), owner, &changes)
        })
        .await
    }

    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        self.read(move |connection, _| derived::links(connection, owner, &which))
            .await
    }

    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        self.read(move |connection, _| derived::branches(connection, owner, conversation))
            .await
    }

    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        self.read(move |connection, _| derived::conversations(connection, owner, &which))
            .await
    }

    async fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow) -> Result<bool> {
        self.write(Durability::Repeatable, move |session| {
            derived::keep_course(session.connection(), owner, version, &course)
        })
        .await
    }

    async fn find_course(&self, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        self.read(move |connection, _| derived::find_course(connection, owner, root))
            .await
    }

    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        self.write(Durability::OnDisk, move |session| {
            log::save(session.connection(), owner, &changes)
        })
        .await
    }

    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        self.read(move |connection, _| log::records(connection, owner, &which))
            .await
    }

    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        self.read(move |connection, _| log::imported_files(connection, owner, &which))
            .await
    }

    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        // Short hashes follow from what is recorded. An id depends on who came first, and a title is what a person wrote.
        let durability = match changes.names.is_empty() && changes.titles.is_empty() {
            true => Durability::Repeatable,
            false => Durability::OnDisk,
        };
        self.write(durability, move |session| {
            names::save(session.connection(), owner, &changes)
        })
        .await
    }

    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        self.read(move |connection, _| names::names(connection, owner, &which))
            .await
    }

    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        self.read(move |connection, _| names::message_names(connection, owner, &which))
            .await
    }

    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        self.write(Durability::OnDisk, move |session| {
            names::pin(session.connection(), owner, &pins)
        })
        .await
    }

    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        self.read(move |connection, _| names::pins(connection, owner, &keys))
            .await
    }

    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        self.read_with(Needs::Hashes, move |connection, fresh| {
            find::beginning_with(connection, fresh, owner, &prefix, limit)
        })
        .await
    }

    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        self.read(move |connection, _| search::search(connection, owner, &query))
            .await
    }

    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        self.read(move |connection, _| search::lag(connection, owner)).await
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        self.write(Durability::Repeatable, move |session| {
            search::index_texts(session, limit)
        })
        .await
    }

    async fn forget(&self, owner: OwnerId, what: Forgetting) -> Result<Forgotten> {
        self.write(Durability::OnDisk, move |session| forget::forget(session, owner, &what))
            .await
    }

    async fn sweep(&self, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
        self.write(Durability::OnDisk, move |session| sweep::sweep(session, owner, is_dry))
            .await
    }

    async fn compact(&self) -> Result<Compacted> {
        self.writer()?
            .run_alone(|session| forget::compact(session.connection()))
            .await
    }

    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        self.read(move |connection, _| tombstones::find(connection, owner, &names))
            .await
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        self.read(move |connection, _| read::stats(connection, owner)).await
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        self.read_with(Needs::Hashes, move |connection, fresh| {
            check::check(connection, fresh, owner, depth)
        })
        .await
    }
}
