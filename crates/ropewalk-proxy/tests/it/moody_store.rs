//! A real store that fails when it is told to.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Projected};
use ropewalk_store::forget::{Compacted, Forgetting, Forgotten};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::sqlite::Options;
use ropewalk_store::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag, SearchQuery,
    Selection, Stats, Store, StoreError,
};
use ropewalk_store::{HashPrefix, Micros, NewExchange, OwnerId, Sqlite};

pub(crate) struct Moody {
    inner: Sqlite,
    /// What recording answers while it is set.
    pub(crate) down: AtomicBool,
    pub(crate) stopped: AtomicBool,
    /// Requests of this many bytes are never taken, with a reason and without.
    pub(crate) bad_lengths: Mutex<HashSet<u64>>,
    pub(crate) doubtful_lengths: Mutex<HashSet<u64>>,
    pub(crate) attempts: AtomicU64,
}

impl Moody {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        Ok(Moody {
            inner: Sqlite::open(folder, &Options::default())?,
            down: AtomicBool::default(),
            stopped: AtomicBool::default(),
            bad_lengths: Mutex::default(),
            doubtful_lengths: Mutex::default(),
            attempts: AtomicU64::default(),
        })
    }

    fn mood(&self, batch: &[NewExchange]) -> Result<()> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) {
            return Err(StoreError::Locked);
        }
        if self.stopped.load(Ordering::SeqCst) {
            return Err(StoreError::Stopped);
        }
        let has =
            |lengths: &Mutex<HashSet<u64>>, new: &NewExchange| lengths.lock().unwrap().contains(&new.request.length);
        if let Some(bad) = batch.iter().find(|new| has(&self.bad_lengths, new)) {
            return Err(StoreError::MissingPart { id: bad.id.clone() });
        }
        if batch.iter().any(|new| has(&self.doubtful_lengths, new)) {
            return Err(StoreError::Database {
                what: "refused".to_owned(),
                source: "told to refuse".into(),
            });
        }
        Ok(())
    }
}

impl Store for Moody {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        self.inner.owner(name).await
    }
    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        self.inner.find_owner(name).await
    }
    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        self.inner.owners(after).await
    }
    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        self.mood(&batch)?;
        self.inner.record(owner, batch).await
    }
    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        self.inner.project(owner, batch).await
    }
    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        self.inner.look_up(owner, questions, as_of).await
    }
    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        self.inner.exchanges(owner, selection, as_of).await
    }
    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        self.inner.body(owner, exchange, half).await
    }
    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        self.inner.part(owner, name).await
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        self.inner.chain(owner, exchange, limit).await
    }
    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        self.inner.link_state(owner).await
    }
    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        self.inner.save_links(owner, changes).await
    }
    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        self.inner.links(owner, which).await
    }
    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        self.inner.branches(owner, conversation).await
    }
    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        self.inner.conversations(owner, which).await
    }
    async fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow) -> Result<bool> {
        self.inner.keep_course(owner, version, course).await
    }
    async fn find_course(&self, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        self.inner.find_course(owner, root).await
    }
    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        self.inner.save_log(owner, changes).await
    }
    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        self.inner.records(owner, which).await
    }
    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        self.inner.imported_files(owner, which).await
    }
    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        self.inner.save_names(owner, changes).await
    }
    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        self.inner.names(owner, which).await
    }
    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        self.inner.message_names(owner, which).await
    }
    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        self.inner.pin(owner, pins).await
    }
    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        self.inner.pins(owner, keys).await
    }
    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        self.inner.beginning_with(owner, prefix, limit).await
    }
    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        self.inner.search(owner, query).await
    }
    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        self.inner.search_lag(owner).await
    }
    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        self.inner.index_texts(limit).await
    }
    async fn forget(&self, owner: OwnerId, what: Forgetting) -> Result<Forgotten> {
        self.inner.forget(owner, what).await
    }
    async fn sweep(&self, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
        self.inner.sweep(owner, is_dry).await
    }
    async fn compact(&self) -> Result<Compacted> {
        self.inner.compact().await
    }
    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        self.inner.forgotten(owner, names).await
    }
    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        self.inner.stats(owner).await
    }
    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        self.inner.check(owner, depth).await
    }
}
