//! Links in memory, over a store's facts as they stood at a time.
//!
//! What a rebuild would change, and what was known at some moment, are answered by linking again without touching the
//! store: the facts come from it, the conclusions stay here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_store::derived::{
    BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links,
};
use ropewalk_store::facts::{ExchangeNumber, NewExchange, OwnerId, Position, Projected};
use ropewalk_store::forget::{Compacted, Forgetting, Forgotten};
use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken};
use ropewalk_store::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, PAGE_MAX, Questions, Recorded, Result, SearchLag,
    SearchQuery, Selection, Spent, Stats,
};
use ropewalk_store::{HashPrefix, Micros, Store, StoreError};

/// One owner's links at a time, over a store or a reference to one.
#[derive(Debug)]
pub struct Overlay<B> {
    base: B,
    as_of: Micros,
    derived: Mutex<Derived>,
}

#[derive(Debug, Default)]
struct Derived {
    version: u64,
    linked_to: Position,
    links: HashMap<ExchangeNumber, LinkRow>,
    children: HashMap<ExchangeNumber, BTreeSet<(Micros, ExchangeNumber)>>,
    members: HashMap<ExchangeNumber, BTreeSet<(Micros, ExchangeNumber)>>,
    branches: BTreeMap<ExchangeNumber, BranchRow>,
    branches_of: HashMap<ExchangeNumber, BTreeSet<ExchangeNumber>>,
    conversations: HashMap<ExchangeNumber, ConversationRow>,
    newest: BTreeSet<(Micros, ExchangeNumber)>,
    aliases: HashMap<[u8; 16], ExchangeNumber>,
    wanted: HashMap<[u8; 8], BTreeSet<ExchangeNumber>>,
}

impl<B> Overlay<B>
where
    B: Deref,
    B::Target: Store,
{
    /// Nothing is linked in it yet.
    pub fn new(base: B, as_of: Micros) -> Self {
        Overlay {
            base,
            as_of,
            derived: Mutex::default(),
        }
    }

    /// Everything that was concluded, to be saved in place of what the store has.
    pub fn into_changes(self) -> LinkChanges {
        let derived = self.derived.into_inner().unwrap_or_else(PoisonError::into_inner);
        let wanted = derived.wanted.into_iter();
        LinkChanges {
            version: 0,
            linked_to: derived.linked_to,
            from_scratch: true,
            links: derived.links.into_values().collect(),
            branches: derived.branches.into_values().collect(),
            conversations: derived.conversations.into_values().collect(),
            wanted: wanted
                .flat_map(|(hash, numbers)| numbers.into_iter().map(move |number| (hash, number)))
                .collect(),
            ..LinkChanges::default()
        }
    }

    fn derived(&self) -> MutexGuard<'_, Derived> {
        self.derived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Derived {
    fn save(&mut self, changes: LinkChanges) {
        if changes.from_scratch {
            let aliases = std::mem::take(&mut self.aliases);
            *self = Derived {
                version: self.version,
                aliases,
                ..Derived::default()
            };
        }
        for number in changes.gone_branches {
            if let Some(row) = self.branches.remove(&number) {
                self.branches_of.entry(row.conversation).or_default().remove(&number);
            }
        }
        for root in changes.gone_conversations {
            if let Some(row) = self.conversations.remove(&root) {
                self.newest.remove(&(row.last_at, root));
            }
        }
        changes.links.into_iter().for_each(|row| self.save_link(row));
        for row in changes.branches {
            if let Some(old) = self.branches.insert(row.first, row.clone()) {
                self.branches_of.entry(old.conversation).or_default().remove(&row.first);
            }
            self.branches_of.entry(row.conversation).or_default().insert(row.first);
        }
        for row in changes.conversations {
            self.aliases.insert(row.id, row.root);
            self.newest.insert((row.last_at, row.root));
            if let Some(old) = self.conversations.insert(row.root, row.clone())
                && old.last_at != row.last_at
            {
                self.newest.remove(&(old.last_at, old.root));
            }
        }
        for (hash, number) in changes.wanted {
            self.wanted.entry(hash).or_default().insert(number);
        }
        self.linked_to = changes.linked_to;
        self.version += 1;
    }

    fn save_link(&mut self, row: LinkRow) {
        let place = (row.at, row.exchange);
        if let Some(old) = self.links.get(&row.exchange) {
            self.members.entry(old.conversation).or_default().remove(&place);
            if let Some(parent) = old.parent {
                self.children.entry(parent).or_default().remove(&place);
            }
        }
        self.members.entry(row.conversation).or_default().insert(place);
        if let Some(parent) = row.parent {
            self.children.entry(parent).or_default().insert(place);
        }
        self.links.insert(row.exchange, row);
    }

    fn links(&self, which: Links) -> Vec<LinkRow> {
        let found: Vec<ExchangeNumber> = match which {
            Links::Of(numbers) => numbers,
            Links::Children(parents) => {
                let children = parents.iter().filter_map(|parent| self.children.get(parent)).flatten();
                let mut children: Vec<_> = children.copied().collect();
                children.sort_unstable();
                children.into_iter().map(|(_, number)| number).take(PAGE_MAX).collect()
            }
            Links::InConversation {
                conversation,
                after,
                limit,
            } => {
                let after = after.unwrap_or((Micros(i64::MIN), ExchangeNumber(i64::MIN)));
                let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
                let members = self
                    .members
                    .get(&conversation)
                    .into_iter()
                    .flat_map(|members| members.range(behind));
                members.map(|(_, number)| *number).take(limit.min(PAGE_MAX)).collect()
            }
        };
        found
            .iter()
            .filter_map(|number| self.links.get(number).cloned())
            .collect()
    }

    fn wanting(&self, hashes: &[[u8; 8]]) -> Vec<Vec<ExchangeNumber>> {
        let waiting = |hash: &[u8; 8]| {
            let waiting = self.wanted.get(hash).into_iter().flatten();
            waiting.copied().take(PAGE_MAX).collect()
        };
        hashes.iter().map(waiting).collect()
    }

    fn conversations(&self, which: Conversations) -> Vec<ConversationRow> {
        let roots: Vec<ExchangeNumber> = match which {
            Conversations::Of(roots) => roots,
            Conversations::Ids(ids) => {
                let exchanges = ids.iter().filter_map(|id| self.aliases.get(id));
                exchanges
                    .filter_map(|number| Some(self.links.get(number)?.conversation))
                    .collect()
            }
            Conversations::Newest { before, limit } => {
                let before = before.unwrap_or((Micros::MAX, ExchangeNumber(i64::MAX)));
                let older = self.newest.range(..before).rev();
                older.map(|(_, root)| *root).take(limit.min(PAGE_MAX)).collect()
            }
        };
        roots
            .iter()
            .filter_map(|root| self.conversations.get(root).cloned())
            .collect()
    }
}

impl<B> Store for Overlay<B>
where
    B: Deref + Send + Sync,
    B::Target: Store + Sized,
{
    async fn owner(&self, name: &str) -> Result<OwnerId> {
        self.base.owner(name).await
    }

    async fn find_owner(&self, name: &str) -> Result<Option<OwnerId>> {
        self.base.find_owner(name).await
    }

    async fn owners(&self, after: Option<String>) -> Result<Vec<(OwnerId, String)>> {
        self.base.owners(after).await
    }

    async fn record(&self, _: OwnerId, _: Vec<NewExchange>) -> Result<Vec<Recorded>> {
        Err(StoreError::ReadOnly)
    }

    async fn project(&self, _: OwnerId, _: Vec<Projected>) -> Result<u64> {
        Err(StoreError::ReadOnly)
    }

    /// Facts of the store, and who waits here.
    async fn look_up(&self, owner: OwnerId, mut questions: Questions, as_of: Micros) -> Result<Answers> {
        let wanting = self.derived().wanting(&std::mem::take(&mut questions.wanting));
        let answers = self.base.look_up(owner, questions, as_of.min(self.as_of)).await?;
        Ok(Answers { wanting, ..answers })
    }

    async fn exchanges(&self, owner: OwnerId, selection: Selection, as_of: Micros) -> Result<Vec<ExchangeRow>> {
        self.base.exchanges(owner, selection, as_of.min(self.as_of)).await
    }

    async fn spent(
        &self,
        owner: OwnerId,
        after: Option<(Micros, ExchangeNumber)>,
        limit: usize,
        as_of: Micros,
    ) -> Result<Vec<Spent>> {
        self.base.spent(owner, after, limit, as_of.min(self.as_of)).await
    }

    async fn body(&self, owner: OwnerId, exchange: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        // A rebuild reads all of them, and hides none.
        let mut is_known = self.as_of == Micros::MAX;
        if !is_known {
            let selection = Selection::Numbers(vec![exchange]);
            let rows = self.base.exchanges(owner, selection, self.as_of).await?;
            is_known = rows
                .iter()
                .any(|row| half != Half::Response || row.response_sha256.is_some());
        }
        match is_known {
            true => self.base.body(owner, exchange, half).await,
            false => Ok(None),
        }
    }

    async fn part(&self, owner: OwnerId, name: PartHash) -> Result<Option<Vec<u8>>> {
        self.base.part(owner, name).await
    }

    async fn chain(&self, owner: OwnerId, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        self.base.chain(owner, exchange, limit).await
    }

    async fn link_state(&self, owner: OwnerId) -> Result<LinkState> {
        let newest = self.base.link_state(owner).await?.newest;
        let derived = self.derived();
        Ok(LinkState {
            version: derived.version,
            linked_to: derived.linked_to,
            // Names are facts, which are not made here.
            named_to: newest,
            newest,
        })
    }

    async fn save_links(&self, _: OwnerId, changes: LinkChanges) -> Result<bool> {
        let mut derived = self.derived();
        let is_current = derived.version == changes.version;
        if is_current {
            derived.save(changes);
        }
        Ok(is_current)
    }

    async fn links(&self, _: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
        Ok(self.derived().links(which))
    }

    async fn branches(&self, _: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
        let derived = self.derived();
        let numbers = derived.branches_of.get(&conversation).into_iter().flatten();
        Ok(numbers
            .filter_map(|number| derived.branches.get(number).cloned())
            .collect())
    }

    async fn conversations(&self, _: OwnerId, which: Conversations) -> Result<Vec<ConversationRow>> {
        Ok(self.derived().conversations(which))
    }

    /// What the store keeps was read from other links.
    async fn keep_course(&self, _: OwnerId, _: u64, _: CourseRow) -> Result<bool> {
        Ok(false)
    }

    async fn find_course(&self, _: OwnerId, _: ExchangeNumber) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn save_log(&self, _: OwnerId, _: LogChanges) -> Result<()> {
        Err(StoreError::ReadOnly)
    }

    async fn records(&self, owner: OwnerId, which: Records) -> Result<Vec<RecordRow>> {
        self.base.records(owner, which).await
    }

    async fn imported_files(&self, owner: OwnerId, which: Files) -> Result<Vec<ImportedFile>> {
        self.base.imported_files(owner, which).await
    }

    async fn save_names(&self, _: OwnerId, _: NameChanges) -> Result<Taken> {
        Err(StoreError::ReadOnly)
    }

    /// Wherever their exchanges are linked here.
    async fn names(&self, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
        let Names::OfConversations(roots) = which else {
            return self.base.names(owner, which).await;
        };
        let members: Vec<ExchangeNumber> = {
            let derived = self.derived();
            let members = roots.iter().filter_map(|root| derived.members.get(root));
            members.flatten().map(|(_, number)| *number).collect()
        };
        let mut names = Vec::new();
        for page in members.chunks(PAGE_MAX) {
            names.extend(self.base.names(owner, Names::MintedFor(page.to_vec())).await?);
        }
        names.sort();
        Ok(names)
    }

    async fn message_names(&self, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
        self.base.message_names(owner, which).await
    }

    async fn pin(&self, _: OwnerId, _: Vec<Pin>) -> Result<Vec<Pin>> {
        Err(StoreError::ReadOnly)
    }

    async fn pins(&self, owner: OwnerId, keys: Vec<[u8; 32]>) -> Result<Vec<Pin>> {
        self.base.pins(owner, keys).await
    }

    async fn beginning_with(&self, owner: OwnerId, prefix: HashPrefix, limit: usize) -> Result<Beginning> {
        self.base.beginning_with(owner, prefix, limit).await
    }

    /// What had been said by then, of what is found now.
    async fn search(&self, owner: OwnerId, query: SearchQuery) -> Result<Vec<Hit>> {
        let mut hits = self.base.search(owner, query).await?;
        let numbers = hits.iter().map(|hit| hit.exchange).collect();
        let rows = self.exchanges(owner, Selection::Numbers(numbers), self.as_of).await?;
        let known: HashMap<ExchangeNumber, bool> = rows
            .iter()
            .map(|row| (row.number, row.response_sha256.is_some()))
            .collect();
        hits.retain(|hit| {
            known
                .get(&hit.exchange)
                .is_some_and(|has_ended| *has_ended || !hit.source.is_of_answer())
        });
        Ok(hits)
    }

    async fn search_lag(&self, owner: OwnerId) -> Result<SearchLag> {
        self.base.search_lag(owner).await
    }

    async fn index_texts(&self, _: usize) -> Result<SearchLag> {
        Err(StoreError::ReadOnly)
    }

    async fn forget(&self, _: OwnerId, _: Forgetting) -> Result<Forgotten> {
        Err(StoreError::ReadOnly)
    }

    async fn sweep(&self, _: OwnerId, _: bool) -> Result<Forgotten> {
        Err(StoreError::ReadOnly)
    }

    async fn compact(&self) -> Result<Compacted> {
        Err(StoreError::ReadOnly)
    }

    async fn forgotten(&self, owner: OwnerId, names: Vec<String>) -> Result<Vec<Option<Micros>>> {
        self.base.forgotten(owner, names).await
    }

    async fn stats(&self, owner: OwnerId) -> Result<Stats> {
        self.base.stats(owner).await
    }

    async fn check(&self, owner: OwnerId, depth: Depth) -> Result<Vec<Finding>> {
        self.base.check(owner, depth).await
    }
}
