//! A store that counts what it is asked, to show that an answer does not depend on how much is stored.

use std::sync::atomic::{AtomicUsize, Ordering};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::derived::{BranchRow, ConversationRow, Conversations, LinkChanges, LinkRow, LinkState, Links};
use ropewalk_store::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Projected};
use ropewalk_store::log::{ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, Questions, Recorded, Result, SearchLag, SearchQuery,
    Selection, Stats,
};
use ropewalk_store::{HashPrefix, Store};

#[derive(Debug)]
pub(crate) struct Counting<'s, S> {
    inner: &'s S,
    questions: AtomicUsize,
    rows: AtomicUsize,
}

impl<'s, S> Counting<'s, S> {
    pub(crate) fn new(inner: &'s S) -> Self {
        Counting {
            inner,
            questions: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
        }
    }

    /// Questions that were asked, and exchanges and links that were given.
    pub(crate) fn counted(&self) -> (usize, usize) {
        (
            self.questions.load(Ordering::Relaxed),
            self.rows.load(Ordering::Relaxed),
        )
    }

    fn asked(&self) -> &'s S {
        self.questions.fetch_add(1, Ordering::Relaxed);
        self.inner
    }
}

impl<S: Store> Store for Counting<'_, S> {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        self.asked().owner(name).await
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        self.asked().find_owner(name).await
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        self.asked().owners(after).await
    }

    async fn record(&self, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        self.asked().record(owner, batch).await
    }

    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        self.asked().project(owner, batch).await
    }

    async fn look_up(&self, owner: OwnerId, questions: Questions, as_of: Micros) -> Result<Answers> {
        self.asked().look_up(owner, questions, as_of).await
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        let rows = self.asked().exchanges(owner, selection, as_of).await?;
        self.rows.fetch_add(rows.len(), Ordering::Relaxed);
        Ok(rows)
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        self.asked().body(owner, exchange, half).await
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        self.asked().part(owner, name).await
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        self.asked().chain(owner, exchange, limit).await
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        self.asked().link_state(owner).await
    }

    async fn save_links(&self, owner: OwnerId, changes: LinkChanges) -> Result<bool> {
        self.asked().save_links(owner, changes).await
    }

    async fn links(&self, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        let rows = self.asked().links(owner, which).await?;
        self.rows.fetch_add(rows.len(), Ordering::Relaxed);
        Ok(rows)
    }

    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        self.asked().branches(owner, conversation).await
    }

    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        self.asked().conversations(owner, which).await
    }

    async fn save_log(&self, owner: OwnerId, changes: LogChanges) -> Result<()> {
        self.asked().save_log(owner, changes).await
    }

    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        self.asked().records(owner, which).await
    }

    async fn imported_files(&self, owner: OwnerId, paths: Vec<String>) -> Result<Vec<ImportedFile>> {
        self.asked().imported_files(owner, paths).await
    }

    async fn save_names(&self, owner: OwnerId, changes: NameChanges) -> Result<Taken> {
        self.asked().save_names(owner, changes).await
    }

    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        self.asked().names(owner, which).await
    }

    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        self.asked().message_names(owner, which).await
    }

    async fn pin(&self, owner: OwnerId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
        self.asked().pin(owner, pins).await
    }

    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        self.asked().pins(owner, keys).await
    }

    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        self.asked().beginning_with(owner, prefix, limit).await
    }

    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        self.asked().search(owner, query).await
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        self.asked().index_texts(limit).await
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        self.asked().stats(owner).await
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        self.asked().check(owner, depth).await
    }
}
