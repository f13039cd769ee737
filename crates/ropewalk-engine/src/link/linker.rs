//! Linking an owner's exchanges as they are recorded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ropewalk_store::derived::{ConversationRow, LinkChanges, LinkRow, LinkState, Links};
use ropewalk_store::facts::{ExchangeNumber, OwnerId, Position};
use ropewalk_store::store::{ExchangeRow, PAGE_MAX, Selection};
use ropewalk_store::{Micros, Store};

use crate::link::LinkError;
use crate::link::claims::Watched;
use crate::link::decide::Settings;
use crate::link::fact::Fact;
use crate::link::fetch::Source;
use crate::link::memory::Memory;
use crate::link::outline::Outline;
use crate::link::overlay::Overlay;
use crate::link::progress::{Claim, Moved, Progress, Standing};
use crate::link::round::Round;
use crate::link::settle::ConversationRecord;
use crate::view::thread::is_to_be_kept;

/// Exchanges that are linked and saved at once.
const BATCH: usize = 256;

/// How often a save may meet somebody else's before it gives up. Each time the other one got on.
const CONFLICTS_MAX: usize = 1_000;

/// Everything linked again, beside what the store has.
#[derive(Debug)]
pub struct Rebuilt<'s, S> {
    /// The links, to be read like a store's.
    pub overlay: Overlay<&'s S>,
    /// What is linked otherwise than in the store counts as moved.
    pub progress: Progress,
}

/// What was linked last, for whoever follows the log one step behind: where nobody came between, it need not be read again.
#[derive(Debug)]
pub(crate) struct JustLinked {
    /// In the order of the log.
    pub(crate) facts: Vec<Arc<Fact>>,
    pub(crate) links: HashMap<ExchangeNumber, LinkRow>,
    /// Those that are otherwise now, by their roots.
    pub(crate) conversations: HashMap<ExchangeNumber, ConversationRow>,
    pub(crate) linked_to: Position,
}

/// Links one owner's exchanges.
#[derive(Debug)]
pub struct Linker<'s, S> {
    store: &'s S,
    owner: OwnerId,
    owner_name: String,
    settings: Settings,
    memory: Memory,
    watched: Watched,
    just_linked: Option<JustLinked>,
    /// Conversations that have become so long that their courses are to be kept anew.
    grown: BTreeSet<ExchangeNumber>,
}

impl JustLinked {
    /// `None` where a link did not change and so is not among the changes.
    fn of(facts: &[Arc<Fact>], changed: &LinkChanges, linked_to: Position) -> Option<Self> {
        let links = changed.links.iter().map(|link| (link.exchange, link.clone()));
        let links: HashMap<_, _> = links.collect();
        let conversations = changed.conversations.iter().map(|row| (row.root, row.clone()));
        let mut facts = facts.to_vec();
        facts.sort_by_key(|fact| fact.row.position);
        let has_all = facts.iter().all(|fact| links.contains_key(&fact.number()));
        has_all.then_some(JustLinked {
            facts,
            links,
            conversations: conversations.collect(),
            linked_to,
        })
    }
}

impl<'s, S: Store> Linker<'s, S> {
    pub fn new(store: &'s S, owner: OwnerId, owner_name: &str, settings: Settings) -> Self {
        Linker {
            store,
            owner,
            owner_name: owner_name.to_owned(),
            settings,
            memory: Memory::default(),
            watched: Watched::default(),
            just_linked: None,
            grown: BTreeSet::new(),
        }
    }

    /// Conversations that have become much longer since the last time.
    pub(crate) fn take_grown(&mut self) -> BTreeSet<ExchangeNumber> {
        std::mem::take(&mut self.grown)
    }

    /// What the last [`Self::catch_up`] linked, if that was all that has no names yet, and little.
    pub(crate) fn take_just_linked(&mut self) -> Option<JustLinked> {
        self.just_linked.take()
    }

    /// An exchange was recorded that there was not before.
    pub fn expect_new(&mut self, exchange: ExchangeNumber) {
        self.memory.unlinked.insert(exchange);
    }

    /// Keeps the chain of an exchange that was just recorded, so that its body need not be read again.
    pub fn remember(&mut self, exchange: ExchangeNumber, outline: Arc<Outline>, sha256: [u8; 32], bytes: u64) {
        self.memory.outlines.keep_recorded(exchange, outline, sha256, bytes);
    }

    /// Links everything that was recorded up to now, and again what it changes.
    pub async fn catch_up(&mut self) -> Result<Progress, LinkError> {
        let mut progress = Progress::default();
        let mut conflicts = 0;
        self.just_linked = None;
        loop {
            let (state, first) = self.store.unlinked(self.owner, PAGE_MAX).await?;
            if state.linked_to >= state.newest {
                break;
            }
            let (pending, last) = self.pending(state.linked_to, first).await?;
            self.memory.trust(state.version);
            pending.iter().for_each(|fact| self.memory.learn(fact));
            if self.link_all(pending, last, state, &mut progress).await? {
                break;
            }
            conflicts += 1;
            if conflicts == CONFLICTS_MAX {
                return Err(LinkError::Busy);
            }
        }
        if let Some(newest) = self.memory.newest {
            progress.claims.expired = self.expire_claims(newest).await?;
        }
        Ok(progress)
    }

    /// Claims whose window is over at `now` and that nobody came for, each once. What is linked says the time as well, so this is
    /// for when nothing comes any more.
    pub async fn expire_claims(&mut self, now: Micros) -> Result<Vec<Claim>, LinkError> {
        let source = self.source();
        self.watched.expire(source, self.settings.claim_window, now).await
    }

    fn source(&self) -> Source<'s, S> {
        Source {
            store: self.store,
            owner: self.owner,
            as_of: Micros::MAX,
        }
    }

    /// What linking everything again, over the facts as they stood at a time, would change.
    pub async fn try_rebuild(&self, as_of: Micros) -> Result<Rebuilt<'s, S>, LinkError> {
        let overlay = Overlay::new(self.store, as_of);
        let mut again = Linker::new(&overlay, self.owner, &self.owner_name, self.settings);
        let done = again.catch_up().await?;
        let progress = Progress {
            linked: done.linked,
            methods: done.methods,
            moved: self.differences(&overlay).await?,
            ..Progress::default()
        };
        Ok(Rebuilt { overlay, progress })
    }

    /// Links everything again, and saves the result in place of what there was, at once.
    pub async fn rebuild(&mut self) -> Result<Progress, LinkError> {
        for _ in 0..CONFLICTS_MAX {
            let version = self.store.link_state(self.owner).await?.version;
            let rebuilt = self.try_rebuild(Micros::MAX).await?;
            let mut changes = rebuilt.overlay.into_changes();
            changes.version = version;
            let grown = grown(&changes)?;
            if self.store.save_links(self.owner, changes).await? {
                self.grown.extend(grown);
                return Ok(rebuilt.progress);
            }
        }
        Err(LinkError::Busy)
    }

    /// Exchanges that are linked otherwise in the overlay.
    async fn differences(&self, overlay: &Overlay<&'s S>) -> Result<Vec<Moved>, LinkError> {
        let mut moved = Vec::new();
        let mut after = None;
        loop {
            let page = Selection::Since { after, limit: PAGE_MAX };
            let rows = overlay.exchanges(self.owner, page, Micros::MAX).await?;
            let Some(last) = rows.last() else { return Ok(moved) };
            after = Some((last.at, last.number));
            let numbers: Vec<_> = rows.iter().map(|row| row.number).collect();
            let before = self.store.links(self.owner, Links::Of(numbers.clone())).await?;
            let now = overlay.links(self.owner, Links::Of(numbers)).await?;
            let before: HashMap<_, _> = before.iter().map(|row| (row.exchange, Standing::from(row))).collect();
            let both = now.iter().filter_map(|row| {
                Some(Moved {
                    exchange: row.exchange,
                    from: *before.get(&row.exchange)?,
                    to: Standing::from(row),
                })
            });
            moved.extend(both.filter(|both| both.from != both.to));
        }
    }

    /// Facts behind a position, in their own order rather than in the order of their arrival. The first page of them is there.
    async fn pending(
        &self,
        after: Position,
        mut rows: Vec<ExchangeRow>,
    ) -> Result<(Vec<Arc<Fact>>, Position), LinkError> {
        let mut pending = Vec::new();
        let mut last = after;
        loop {
            let is_last = rows.len() < PAGE_MAX;
            for row in rows {
                last = last.max(row.position);
                pending.push(Arc::new(Fact::new(row)));
            }
            if is_last {
                break;
            }
            let page = Selection::Log {
                after: last,
                limit: PAGE_MAX,
            };
            rows = self.store.exchanges(self.owner, page, Micros::MAX).await?;
        }
        pending.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok((pending, last))
    }

    /// Links facts in order, batch by batch. `false` if somebody else linked meanwhile.
    async fn link_all(
        &mut self,
        pending: Vec<Arc<Fact>>,
        last: Position,
        state: LinkState,
        progress: &mut Progress,
    ) -> Result<bool, LinkError> {
        let source = self.source();
        let batches: Vec<&[Arc<Fact>]> = pending.chunks(BATCH).collect();
        for (version, (index, batch)) in (state.version..).zip(batches.iter().enumerate()) {
            let mut round = Round::new(
                source,
                &self.owner_name,
                &self.settings,
                std::mem::take(&mut self.memory),
            );
            for fact in *batch {
                round.add(fact.clone()).await?;
            }
            round.run().await?;
            let (mut done, claims) = round.progress().await?;
            done.linked = batch.len();
            let (mut changes, mut memory) = round.finish(version + 1);
            let is_all_unnamed = batches.len() == 1 && state.named_to == state.linked_to;
            let just_linked = is_all_unnamed.then(|| JustLinked::of(batch, &changes, last)).flatten();
            changes.version = version;
            changes.linked_to = if index + 1 == batches.len() {
                last
            } else {
                state.linked_to
            };
            let grown = grown(&changes)?;
            let is_saved = self.store.save_links(self.owner, changes).await?;
            if !is_saved {
                memory.forget();
            }
            self.memory = memory;
            if !is_saved {
                return Ok(false);
            }
            self.just_linked = just_linked;
            self.grown.extend(grown);
            progress.add(done);
            for (parent, spawn) in claims {
                self.watched.add(parent, spawn);
            }
        }
        Ok(true)
    }
}

/// Conversations that these links make so much longer that their courses are to be kept anew.
fn grown(changes: &LinkChanges) -> Result<Vec<ExchangeNumber>, LinkError> {
    let mut added: HashMap<ExchangeNumber, u64> = HashMap::new();
    for link in &changes.links {
        *added.entry(link.conversation).or_default() += 1;
    }
    let mut grown = Vec::new();
    for row in &changes.conversations {
        let added = added.get(&row.root).copied().unwrap_or_default();
        if is_to_be_kept(ConversationRecord::read(row)?.exchanges, added) {
            grown.push(row.root);
        }
    }
    Ok(grown)
}
