//! The memory store with one broken promise, to try the claims on.

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::HashPrefix;
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Position, Projected};
use ropewalk_store::forget::{Compacted, Forgetting, Forgotten};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, ID_MAX, Outcome, Questions, Recorded, Result,
    SearchLag, SearchQuery, Selection, Severity, Stats, Store, StoreError,
};
use ropewalk_testkit::memory_store::MemoryStore;

/// A promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    BodyLosesAByte,
    BatchIsNotAtomic,
    RepetitionIsNew,
    RepetitionIsAnotherExchange,
    ConflictIsNotCounted,
    EndIsForgotten,
    OwnersAreOne,
    LookUpSeesTheFuture,
    RowsSeeTheFuture,
    NodesAreNotDeepest,
    KeysComeOldestFirst,
    LimitIsIgnored,
    LogRepeats,
    PagesSkip,
    NothingIsIndexed,
    FiltersAreIgnored,
    QuotesAreErrors,
    EverythingIsKeptTwice,
    FindingsAreMadeUp,
    IdsAreCut,
    NodesAreCountedTwice,
    QuestionsHaveNoTime,
    SpawnsAreForgotten,
    ProjectionsAreForgotten,
    ChainsComeBackwards,
    ChainsHaveNoLimit,
    DepthIsForgotten,
    AnyVersionSaves,
    NothingIsReplaced,
    AliasesAreForgotten,
    LinksComeByNumber,
    LinkPagesSkip,
    WantedIsForgotten,
    ConversationsComeOldestFirst,
    LinksAreNotChecked,
}

/// A store that is right but for one fault.
pub(crate) struct Faulty {
    pub(crate) inner: MemoryStore,
    pub(crate) fault: Fault,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn read_as(&self, owner: OwnerId) -> OwnerId {
        if self.has(Fault::OwnersAreOne) {
            OwnerId(1)
        } else {
            owner
        }
    }

    fn spoil(&self, exchange: &mut NewExchange) {
        if self.has(Fault::RepetitionIsAnotherExchange) {
            exchange.id += &format!("{:?}", std::time::Instant::now());
        }
        if self.has(Fault::IdsAreCut) {
            exchange.id.truncate(ID_MAX);
        }
        if self.has(Fault::EndIsForgotten) {
            exchange.response = None;
            exchange.answer_chain.clear();
            exchange.spawns.clear();
        }
        if self.has(Fault::SpawnsAreForgotten) {
            exchange.spawns.clear();
        }
    }
}

impl Store for Faulty {
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        self.inner.owner(name).await
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        self.inner.find_owner(name).await
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        self.inner.owners(after).await
    }

    async fn record(&self, owner: OwnerId, mut batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        batch.iter_mut().for_each(|exchange| self.spoil(exchange));
        if self.has(Fault::BatchIsNotAtomic) {
            let mut recorded = Vec::new();
            for exchange in batch {
                recorded.extend(self.inner.record(owner, vec![exchange]).await?);
            }
            return Ok(recorded);
        }
        let mut recorded = self.inner.record(owner, batch).await?;
        if self.has(Fault::RepetitionIsNew) {
            recorded.iter_mut().for_each(|recorded| recorded.outcome = Outcome::New);
        }
        Ok(recorded)
    }

    async fn project(&self, owner: OwnerId, batch: Vec<Projected>) -> Result<u64> {
        if self.has(Fault::ProjectionsAreForgotten) {
            return Ok(batch.len() as u64);
        }
        self.inner.project(owner, batch).await
    }

    async fn look_up(&self, owner: OwnerId, mut questions: Questions, as_of: Micros) -> Result<Answers> {
        if self.has(Fault::LimitIsIgnored) {
            questions.limit = usize::MAX;
        }
        if self.has(Fault::NodesAreNotDeepest) {
            for chain in &mut questions.chains {
                chain.pop();
            }
        }
        if self.has(Fault::QuestionsHaveNoTime) {
            questions.keys.iter_mut().for_each(|asked| asked.as_of = Micros::MAX);
            questions.nodes.iter_mut().for_each(|asked| asked.as_of = Micros::MAX);
        }
        let as_of = if self.has(Fault::LookUpSeesTheFuture) {
            Micros::MAX
        } else {
            as_of
        };
        let mut answers = self.inner.look_up(self.read_as(owner), questions, as_of).await?;
        if self.has(Fault::KeysComeOldestFirst) {
            answers.exchanges.iter_mut().for_each(|found| found.reverse());
        }
        Ok(answers)
    }

    async fn exchanges(&self, owner: OwnerId, mut selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        let as_of = if self.has(Fault::RowsSeeTheFuture) {
            Micros::MAX
        } else {
            as_of
        };
        match &mut selection {
            Selection::Log { after, .. } if self.has(Fault::LogRepeats) => *after = Position(after.0 - 1),
            // Skips one rather than repeating it: a claim that pages to the end must come to an end.
            Selection::Since {
                after: Some((_, number)),
                ..
            } if self.has(Fault::PagesSkip) => number.0 += 1,
            _ => {}
        }
        let mut rows = self.inner.exchanges(self.read_as(owner), selection, as_of).await?;
        if self.has(Fault::DepthIsForgotten) {
            rows.iter_mut().for_each(|row| row.depth = 0);
        }
        Ok(rows)
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        let mut body = self.inner.body(self.read_as(owner), exchange, half).await?;
        if self.has(Fault::BodyLosesAByte) {
            body = body.map(|bytes| bytes[..bytes.len().saturating_sub(1)].to_vec());
        }
        Ok(body)
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        self.inner.part(self.read_as(owner), name).await
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        let limit = if self.has(Fault::ChainsHaveNoLimit) {
            usize::MAX
        } else {
            limit
        };
        let mut chain = self.inner.chain(self.read_as(owner), exchange, limit).await?;
        if self.has(Fault::ChainsComeBackwards) {
            chain.reverse();
        }
        Ok(chain)
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        self.inner.link_state(owner).await
    }

    async fn save_links(&self, owner: OwnerId, mut changes: LinkChanges) -> Result<bool> {
        match self.fault {
            Fault::AnyVersionSaves => changes.version = self.inner.link_state(owner).await?.version,
            Fault::WantedIsForgotten => changes.wanted.clear(),
            Fault::NothingIsReplaced => {
                let known = Links::Of(changes.links.iter().map(|link| link.exchange).collect());
                let known = self.inner.links(owner, known).await?;
                changes
                    .links
                    .retain(|link| known.iter().all(|known| known.exchange != link.exchange));
            }
            _ => {}
        }
        self.inner.save_links(owner, changes).await
    }

    async fn links(&self, owner: OwnerId, mut which: Links) -> Result<Vec<LinkRow>> {
        match &mut which {
            Links::InConversation {
                after: Some((_, exchange)),
                ..
            } if self.has(Fault::LinkPagesSkip) => exchange.0 += 1,
            _ => {}
        }
        let mut links = self.inner.links(self.read_as(owner), which).await?;
        if self.has(Fault::LinksComeByNumber) {
            links.sort_by_key(|link| link.exchange);
        }
        Ok(links)
    }

    async fn branches(&self, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        self.inner.branches(self.read_as(owner), conversation).await
    }

    async fn conversations(&self, owner: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        let ids = match &which {
            Conversations::Ids(ids) => Some(ids.clone()),
            _ => None,
        };
        let mut rows = self.inner.conversations(self.read_as(owner), which).await?;
        match self.fault {
            Fault::AliasesAreForgotten => rows.retain(|row| ids.as_ref().is_none_or(|ids| ids.contains(&row.id))),
            Fault::ConversationsComeOldestFirst => rows.reverse(),
            _ => {}
        }
        Ok(rows)
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
        self.inner.records(self.read_as(owner), which).await
    }

    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        self.inner.imported_files(self.read_as(owner), which).await
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
        self.inner.beginning_with(self.read_as(owner), prefix, limit).await
    }

    async fn search(&self, owner: OwnerId, mut query: SearchQuery) -> Result<Vec<Hit>> {
        if self.has(Fault::QuotesAreErrors) && query.text.matches('"').count() % 2 == 1 {
            return Err(StoreError::Stopped);
        }
        if self.has(Fault::FiltersAreIgnored) {
            (query.source, query.model, query.since) = (None, None, None);
        }
        self.inner.search(self.read_as(owner), query).await
    }

    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        self.inner.search_lag(owner).await
    }

    async fn index_texts(&self, limit: usize) -> Result<SearchLag> {
        if self.has(Fault::NothingIsIndexed) {
            return Ok(SearchLag::default());
        }
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
        let mut stats = self.inner.stats(owner).await?;
        match self.fault {
            Fault::ConflictIsNotCounted => stats.conflicts = 0,
            Fault::EverythingIsKeptTwice => stats.part_bytes = stats.bytes_in * 2,
            Fault::NodesAreCountedTwice => stats.nodes += owner.0 as u64,
            _ => {}
        }
        Ok(stats)
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        let mut findings = self.inner.check(owner, depth).await?;
        if self.has(Fault::LinksAreNotChecked) {
            findings.clear();
        }
        if self.has(Fault::FindingsAreMadeUp) {
            findings.push(Finding {
                severity: Severity::Warning,
                rule: "made-up",
                what: String::new(),
            });
        }
        Ok(findings)
    }
}
