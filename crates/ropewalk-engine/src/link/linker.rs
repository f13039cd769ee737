//! Linking an owner's exchanges as they are recorded.

use std::collections::HashMap;
use std::sync::Arc;

use ropewalk_store::derived::{LinkRow, LinkState, Links};
use ropewalk_store::facts::{ExchangeNumber, OwnerId, Position};
use ropewalk_store::store::{PAGE_MAX, Selection};
use ropewalk_store::{Micros, Store};

use crate::link::LinkError;
use crate::link::decide::Settings;
use crate::link::fact::Fact;
use crate::link::fetch::Source;
use crate::link::outline::Outline;
use crate::link::overlay::Overlay;
use crate::link::round::Round;

/// Exchanges that are linked and saved at once.
const BATCH: usize = 256;

/// How often a save may meet somebody else's before it gives up. Each time the other one got on.
const CONFLICTS_MAX: usize = 1_000;

/// How many chains of requests are kept for linking; others are read from their bodies.
const OUTLINES_MAX: usize = 4 * BATCH;

/// What a run of linking did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    pub linked: usize,
    /// Exchanges that were linked before and now are linked otherwise.
    pub moved: Vec<ExchangeNumber>,
}

/// Everything linked again, beside what the store has.
#[derive(Debug)]
pub struct Rebuilt<'s, S> {
    /// The links, to be read like a store's.
    pub overlay: Overlay<&'s S>,
    /// What is linked otherwise than in the store counts as moved.
    pub progress: Progress,
}

/// Links one owner's exchanges.
#[derive(Debug)]
pub struct Linker<'s, S> {
    store: &'s S,
    owner: OwnerId,
    owner_name: String,
    settings: Settings,
    outlines: HashMap<ExchangeNumber, Arc<Outline>>,
}

impl<'s, S: Store> Linker<'s, S> {
    pub fn new(store: &'s S, owner: OwnerId, owner_name: &str, settings: Settings) -> Self {
        Linker {
            store,
            owner,
            owner_name: owner_name.to_owned(),
            settings,
            outlines: HashMap::new(),
        }
    }

    /// Keeps the chain of an exchange that was just recorded, so that its body need not be read again.
    pub fn remember(&mut self, exchange: ExchangeNumber, outline: Arc<Outline>) {
        if self.outlines.len() < OUTLINES_MAX {
            self.outlines.insert(exchange, outline);
        }
    }

    /// Links everything that was recorded up to now, and again what it changes.
    pub async fn catch_up(&mut self) -> Result<Progress, LinkError> {
        let mut progress = Progress::default();
        let mut conflicts = 0;
        loop {
            let state = self.store.link_state(self.owner).await?;
            if state.linked_to >= state.newest {
                self.outlines.clear();
                return Ok(progress);
            }
            let (pending, last) = self.pending(state.linked_to).await?;
            if self.link_all(pending, last, state, &mut progress).await? {
                self.outlines.clear();
                return Ok(progress);
            }
            conflicts += 1;
            if conflicts == CONFLICTS_MAX {
                return Err(LinkError::Busy);
            }
        }
    }

    /// What linking everything again, over the facts as they stood at a time, would change.
    pub async fn try_rebuild(&self, as_of: Micros) -> Result<Rebuilt<'s, S>, LinkError> {
        let overlay = Overlay::new(self.store, as_of);
        let mut again = Linker::new(&overlay, self.owner, &self.owner_name, self.settings);
        let progress = Progress {
            linked: again.catch_up().await?.linked,
            moved: self.differences(&overlay).await?,
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
            if self.store.save_links(self.owner, changes).await? {
                return Ok(rebuilt.progress);
            }
        }
        Err(LinkError::Busy)
    }

    /// Exchanges that are linked otherwise in the overlay.
    async fn differences(&self, overlay: &Overlay<&'s S>) -> Result<Vec<ExchangeNumber>, LinkError> {
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
            let before: HashMap<_, _> = before.iter().map(|row| (row.exchange, place(row))).collect();
            let differing = now
                .iter()
                .filter(|row| before.get(&row.exchange).is_some_and(|before| *before != place(row)));
            moved.extend(differing.map(|row| row.exchange));
        }
    }

    /// Facts behind a position, in their own order rather than in the order of their arrival.
    async fn pending(&self, after: Position) -> Result<(Vec<Arc<Fact>>, Position), LinkError> {
        let mut pending = Vec::new();
        let mut last = after;
        loop {
            let page = Selection::Log {
                after: last,
                limit: PAGE_MAX,
            };
            let rows = self.store.exchanges(self.owner, page, Micros::MAX).await?;
            let count = rows.len();
            for row in rows {
                last = last.max(row.position);
                pending.push(Arc::new(Fact::new(row)));
            }
            if count < PAGE_MAX {
                break;
            }
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
        let source = Source {
            store: self.store,
            owner: self.owner,
            as_of: Micros::MAX,
        };
        let batches: Vec<&[Arc<Fact>]> = pending.chunks(BATCH).collect();
        for (version, (index, batch)) in (state.version..).zip(batches.iter().enumerate()) {
            let mut round = Round::new(source, &self.owner_name, &self.settings);
            for fact in *batch {
                let outline = match self.outlines.remove(&fact.number()) {
                    Some(outline) => outline,
                    None => Arc::new(source.outline(fact).await?),
                };
                round.add(fact.clone(), outline);
            }
            round.run().await?;
            let moved = round.moved();
            let mut changes = round.changes();
            changes.version = version;
            changes.linked_to = if index + 1 == batches.len() {
                last
            } else {
                state.linked_to
            };
            if !self.store.save_links(self.owner, changes).await? {
                return Ok(false);
            }
            progress.linked += batch.len();
            progress.moved.extend(moved);
        }
        Ok(true)
    }
}

/// What people see of a link.
fn place(row: &LinkRow) -> (ExchangeNumber, ExchangeNumber, ExchangeNumber, Option<ExchangeNumber>) {
    (row.conversation, row.branch, row.agent, row.parent)
}
