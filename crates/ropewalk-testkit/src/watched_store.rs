//! A store that notes what it is asked, for claims about which look-ups are made.

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Projected};
use ropewalk_store::forget::{Compacted, Forgetting, Forgotten};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::store::{
    Answers, Beginning, BodyEnd, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag,
    SearchQuery, Selection, Stats,
};
use ropewalk_store::{HashPrefix, Micros, NewExchange, OwnerId, Store};

/// Another store, and all that it was asked.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    calls: Mutex<Vec<String>>,
    rows: AtomicUsize,
}

impl<S> Watched<S> {
    pub fn new(inner: S) -> Self {
        Watched {
            inner,
            calls: Mutex::default(),
            rows: AtomicUsize::new(0),
        }
    }

    /// What was asked since the last time: each call with its arguments, in order.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Exchanges and links that were given since the last time.
    pub fn take_rows(&self) -> usize {
        self.rows.swap(0, Ordering::Relaxed)
    }

    fn given<T>(&self, rows: Result<Vec<T>>) -> Result<Vec<T>> {
        let rows = rows?;
        self.rows.fetch_add(rows.len(), Ordering::Relaxed);
        Ok(rows)
    }

    fn note(&self, call: &str, arguments: &[&dyn Debug]) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(format!("{call}{arguments:?}"));
    }
}

macro_rules! watched {
    ($self:ident.$call:ident($($argument:ident),*)) => {{
        $self.note(stringify!($call), &[$(&$argument),*]);
        $self.inner.$call($($argument),*).await
    }};
}

impl<S: Store> Store for Watched<S> {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        watched!(self.owner(name))
    }
    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        watched!(self.find_owner(name))
    }
    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        watched!(self.owners(after))
    }
    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        watched!(self.record(owner, batch))
    }
    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        watched!(self.project(owner, batch))
    }
    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        watched!(self.look_up(owner, questions, as_of))
    }
    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        self.given(watched!(self.exchanges(owner, selection, as_of)))
    }
    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        watched!(self.body(owner, exchange, half))
    }
    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        watched!(self.part(owner, name))
    }
    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        watched!(self.chain(owner, exchange, limit))
    }
    async fn bodies(&self, owner: OwnerId, exchanges: Vec<ExchangeNumber>, half: Half) -> Result<Vec<Option<Vec<u8>>>> {
        watched!(self.bodies(owner, exchanges, half))
    }

    async fn body_end(
        &self,
        owner: OwnerId,
        exchange: ExchangeNumber,
        half: Half,
        length: usize,
    ) -> Result<Option<BodyEnd>> {
        watched!(self.body_end(owner, exchange, half, length))
    }
    async fn chain_end(&self, owner: OwnerId, exchange: ExchangeNumber, count: usize) -> Result<Vec<NodeHash>> {
        watched!(self.chain_end(owner, exchange, count))
    }
    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        watched!(self.link_state(owner))
    }
    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        watched!(self.save_links(owner, changes))
    }
    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        self.given(watched!(self.links(owner, which)))
    }
    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        watched!(self.branches(owner, conversation))
    }
    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        watched!(self.conversations(owner, which))
    }
    async fn keep_course(&self, owner: OwnerId, version: u64, course: CourseRow) -> Result<bool> {
        watched!(self.keep_course(owner, version, course))
    }
    async fn find_course(&self, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        watched!(self.find_course(owner, root))
    }
    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        watched!(self.save_log(owner, changes))
    }
    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        watched!(self.records(owner, which))
    }
    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        watched!(self.imported_files(owner, which))
    }
    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        watched!(self.save_names(owner, changes))
    }
    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        watched!(self.names(owner, which))
    }
    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        watched!(self.message_names(owner, which))
    }
    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        watched!(self.pin(owner, pins))
    }
    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        watched!(self.pins(owner, keys))
    }
    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        watched!(self.beginning_with(owner, prefix, limit))
    }
    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        watched!(self.search(owner, query))
    }
    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        watched!(self.search_lag(owner))
    }
    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        watched!(self.index_texts(limit))
    }
    async fn forget(&self, owner: OwnerId, what: Forgetting) -> Result<Forgotten> {
        watched!(self.forget(owner, what))
    }
    async fn sweep(&self, owner: OwnerId, is_dry: bool) -> Result<Forgotten> {
        watched!(self.sweep(owner, is_dry))
    }
    async fn compact(&self) -> Result<Compacted> {
        watched!(self.compact())
    }
    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        watched!(self.forgotten(owner, names))
    }
    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        watched!(self.stats(owner))
    }
    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        watched!(self.check(owner, depth))
    }
}
