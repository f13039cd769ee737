//! The store that was asked for: a folder with SQLite, or a PostgreSQL server.

use std::sync::Arc;

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_engine::link::{LinkError, Linker, Overlay, Settings};
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Projected};
use ropewalk_store::forget::{Compacted, Forgetting, Forgotten};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::store::{
    Answers, Beginning, BodyEnd, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag,
    SearchQuery, Selection, Spent, Stats,
};
use ropewalk_store::{HashPrefix, Postgres, Sqlite, Store};

/// Clones are the same store.
#[derive(Debug, Clone)]
pub(crate) enum AnyStore {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
    /// As it stood at some time.
    SqliteThen(Arc<Overlay<Arc<Sqlite>>>),
    PostgresThen(Arc<Overlay<Arc<Postgres>>>),
}

impl AnyStore {
    /// The same as it stood at a time; nothing is linked in it yet.
    pub(crate) fn at_time(&self, at: Micros) -> Self {
        match self {
            AnyStore::Sqlite(store) => AnyStore::SqliteThen(Arc::new(Overlay::new(Arc::clone(store), at))),
            AnyStore::Postgres(store) => AnyStore::PostgresThen(Arc::new(Overlay::new(Arc::clone(store), at))),
            AnyStore::SqliteThen(then) => AnyStore::SqliteThen(Arc::clone(then)),
            AnyStore::PostgresThen(then) => AnyStore::PostgresThen(Arc::clone(then)),
        }
    }

    /// As it stood at a time, with one owner's links.
    pub(crate) async fn linked_at(
        &self,
        owner: OwnerId,
        name: &str,
        at: Micros,
        settings: Settings,
    ) -> std::result::Result<Self, LinkError> {
        let then = self.at_time(at);
        Linker::new(&then, owner, name, settings).catch_up().await?;
        Ok(then)
    }

    /// Every owner, of all pages.
    pub(crate) async fn all_owners(&self) -> Result<Vec<(OwnerId, String)>> {
        let mut all: Vec<(OwnerId, String)> = Vec::new();
        loop {
            let after = all.last().map(|(_, name)| name.clone());
            let page = self.owners(after).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }
}

macro_rules! delegate {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            AnyStore::Sqlite($store) => $call.await,
            AnyStore::Postgres($store) => $call.await,
            AnyStore::SqliteThen($store) => $call.await,
            AnyStore::PostgresThen($store) => $call.await,
        }
    };
}

impl Store for AnyStore {
    fn on_own_thread(self: Arc<Self>) -> Arc<Self> {
        match &*self {
            AnyStore::Sqlite(store) => Arc::new(AnyStore::Sqlite(Arc::clone(store).on_own_thread())),
            _ => self,
        }
    }

    async fn owner(&self, name: &str) -> Result<OwnerId> {
        delegate!(self, store => store.owner(name))
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        delegate!(self, store => store.find_owner(name))
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        delegate!(self, store => store.owners(after))
    }

    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        delegate!(self, store => store.record(owner, batch))
    }

    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        delegate!(self, store => store.project(owner, batch))
    }

    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        delegate!(self, store => store.look_up(owner, questions, as_of))
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        delegate!(self, store => store.exchanges(owner, selection, as_of))
    }

    async fn spent(
        &self,
        owner: OwnerId,
        after: Option<(Micros, ExchangeNumber)>,
        limit: usize,
        as_of: Micros,
    ) -> Result<Vec<Spent>> {
        delegate!(self, store => store.spent(owner, after, limit, as_of))
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        delegate!(self, store => store.body(owner, exchange, half))
    }

    async fn bodies(&self, owner: OwnerId, exchanges: Vec<ExchangeNumber>, half: Half) -> Result<Vec<Option<Vec<u8>>>> {
        delegate!(self, store => store.bodies(owner, exchanges, half))
    }

    async fn body_end(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        half: Half,
        length: usize,
    ) -> Result<Option<BodyEnd>> {
        delegate!(self, store => store.body_end(owner, exchange, half, length))
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        delegate!(self, store => store.part(owner, name))
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        delegate!(self, store => store.chain(owner, exchange, limit))
    }

    async fn chain_end(&self, owner: OwnerId, exchange: ExchangeNumber, count: usize) -> Result<Vec<NodeHash>> {
        delegate!(self, store => store.chain_end(owner, exchange, count))
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        delegate!(self, store => store.link_state(owner))
    }

    async fn unlinked(&self, owner: OwnerId, limit: usize) -> Result<(LinkState, Vec<ExchangeRow>)> {
        delegate!(self, store => store.unlinked(owner, limit))
    }

    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        delegate!(self, store => store.save_links(owner, changes))
    }

    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        delegate!(self, store => store.links(owner, which))
    }

    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        delegate!(self, store => store.branches(owner, conversation))
    }

    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        delegate!(self, store => store.conversations(owner, which))
    }

    async fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow) -> Result<bool> {
        delegate!(self, store => store.keep_course(owner, version, course))
    }

    async fn find_course(&self, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        delegate!(self, store => store.find_course(owner, root))
    }

    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        delegate!(self, store => store.save_log(owner, changes))
    }

    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        delegate!(self, store => store.records(owner, which))
    }

    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        delegate!(self, store => store.imported_files(owner, which))
    }

    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        delegate!(self, store => store.save_names(owner, changes))
    }

    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        delegate!(self, store => store.names(owner, which))
    }

    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        delegate!(self, store => store.message_names(owner, which))
    }

    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        delegate!(self, store => store.pin(owner, pins))
    }

    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        delegate!(self, store => store.pins(owner, keys))
    }

    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        delegate!(self, store => store.beginning_with(owner, prefix, limit))
    }

    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        delegate!(self, store => store.search(owner, query))
    }

    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        delegate!(self, store => store.search_lag(owner))
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        delegate!(self, store => store.index_texts(limit))
    }

    async fn forget(&self, owner: OwnerId, what: Forgetting) -> Result<Forgotten> {
        delegate!(self, store => store.forget(owner, what))
    }

    async fn sweep(&self, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
        delegate!(self, store => store.sweep(owner, is_dry))
    }

    async fn compact(&self) -> Result<Compacted> {
        delegate!(self, store => store.compact())
    }

    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        delegate!(self, store => store.forgotten(owner, names))
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        delegate!(self, store => store.stats(owner))
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        delegate!(self, store => store.check(owner, depth))
    }
}
