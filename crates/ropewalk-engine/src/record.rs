//! Recording: exchanges from the wire into the store, and then into their places.

use std::sync::Arc;

use ropewalk_core::cost::PriceTable;
use ropewalk_store::facts::OwnerId;
use ropewalk_store::log::LogChanges;
use ropewalk_store::store::{Outcome, Recorded};
use ropewalk_store::{Micros, Store, StoreError};

use crate::link::progress::Claim;
use crate::link::{LinkError, Linker, Overlay, Progress, Settings};
use crate::memos::Memos;
use crate::names::{self, Namer};
use crate::prepare::{Prepared, Preparer};
use crate::project::{Projector, Reprojected};
use crate::raw::RawExchange;
use crate::spawn::SpawnTools;
use crate::view::View;

/// Records one owner's exchanges.
pub struct Recorder<'s, S> {
    store: &'s S,
    owner: OwnerId,
    owner_name: String,
    prices: &'s dyn PriceTable,
    spawn_tools: SpawnTools,
    memos: Memos,
    linker: Linker<'s, S>,
    namer: Namer<'s, S>,
}

impl<S> std::fmt::Debug for Recorder<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl<'s, S: Store> Recorder<'s, S> {
    /// For the owner of that name, who is made on first use.
    pub async fn new(store: &'s S, owner: &str, prices: &'s dyn PriceTable) -> Result<Self, StoreError> {
        let id = store.owner(owner).await?;
        Ok(Recorder {
            store,
            owner: id,
            owner_name: owner.to_owned(),
            prices,
            spawn_tools: SpawnTools::default(),
            memos: Memos::default(),
            linker: Linker::new(store, id, owner, Settings::default()),
            namer: Namer::new(store, id, owner),
        })
    }

    /// With what the configuration says about linking, and spawning tools beside the built-in ones.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings, spawn_tools: SpawnTools) -> Self {
        self.linker = Linker::new(self.store, self.owner, &self.owner_name, settings);
        self.spawn_tools = spawn_tools;
        self
    }

    pub fn store(&self) -> &'s S {
        self.store
    }

    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    pub fn owner_name(&self) -> &str {
        &self.owner_name
    }

    /// Stores exchanges, all or none. They are facts then, and not linked yet.
    pub async fn record(&mut self, batch: &[RawExchange]) -> Result<Vec<Recorded>, StoreError> {
        self.record_telling(batch, |_, _| ()).await
    }

    /// Like [`Self::record`], and shows each exchange as it is stored, in order.
    pub async fn record_telling(
        &mut self,
        batch: &[RawExchange],
        mut tell: impl FnMut(&RawExchange, &Prepared),
    ) -> Result<Vec<Recorded>, StoreError> {
        let prepared = self.prepare(batch);
        for (raw, prepared) in batch.iter().zip(&prepared) {
            tell(raw, prepared);
        }
        let recorded = match self.record_prepared(prepared).await {
            // A turn that others of the batch were read with was not stored, or what was stored is forgotten by now.
            Err(StoreError::MissingPart { .. }) => self.record_prepared(self.prepare_alone(batch)).await,
            recorded => recorded,
        };
        let recorded = recorded?;
        let names = batch.iter().zip(&recorded);
        let names = names.filter(|(raw, recorded)| !raw.names.is_empty() && recorded.outcome != Outcome::Forgotten);
        let names: Vec<_> = names.map(|(raw, recorded)| (recorded.number, &raw.names)).collect();
        if !names.is_empty() {
            names::import(self.store, self.owner, &names).await?;
        }
        Ok(recorded)
    }

    /// Each is read with what was recorded before it, in this batch or earlier.
    fn prepare(&mut self, batch: &[RawExchange]) -> Vec<Prepared> {
        let mut memos = std::mem::take(&mut self.memos);
        let preparer = self.preparer();
        let prepared = batch.iter().map(|raw| {
            let mut prepared = preparer.prepare(raw, memos.like(&raw.request_body));
            if let Some(memo) = prepared.memo.take() {
                memos.keep(memo);
            }
            prepared
        });
        let prepared = prepared.collect();
        self.memos = memos;
        prepared
    }

    /// Each is read by itself, so that all of its parts are there.
    fn prepare_alone(&self, batch: &[RawExchange]) -> Vec<Prepared> {
        let preparer = self.preparer();
        batch.iter().map(|raw| preparer.prepare(raw, None)).collect()
    }

    fn preparer(&self) -> Preparer<'_> {
        Preparer {
            prices: self.prices,
            spawn_tools: &self.spawn_tools,
        }
    }

    /// Stores exchanges that were prepared elsewhere, all or none.
    pub async fn record_prepared(&mut self, batch: Vec<Prepared>) -> Result<Vec<Recorded>, StoreError> {
        let (exchanges, outlines): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|prepared| {
                let request = &prepared.exchange.request;
                let outline = (
                    prepared.outline,
                    request.sha256,
                    prepared.outline_bytes,
                    prepared.answer,
                );
                (prepared.exchange, outline)
            })
            .unzip();
        let recorded = self.store.record(self.owner, exchanges).await;
        let is_stored = |recorded: &Recorded| !matches!(recorded.outcome, Outcome::Forgotten | Outcome::Conflict);
        if !recorded.as_ref().is_ok_and(|recorded| recorded.iter().all(is_stored)) {
            self.memos.clear();
        }
        let recorded = recorded?;
        for (recorded, (outline, sha256, bytes, answer)) in recorded.iter().zip(outlines) {
            if recorded.outcome == Outcome::New {
                self.linker.expect_new(recorded.number);
            }
            if matches!(recorded.outcome, Outcome::New | Outcome::Completed | Outcome::Replaced) {
                self.linker
                    .remember(recorded.number, Arc::clone(&outline), sha256, bytes);
                self.namer.fresh().keep(recorded.number, outline, bytes, answer);
            }
        }
        Ok(recorded)
    }

    /// Stores what was read of logs beside their exchanges.
    pub async fn save_log(&self, changes: LogChanges) -> Result<(), StoreError> {
        self.store.save_log(self.owner, changes).await
    }

    /// Links what was recorded, by anybody, since the last time, and gives it names.
    pub async fn link(&mut self) -> Result<Progress, LinkError> {
        let progress = self.linker.catch_up().await?;
        match self.linker.take_just_linked() {
            Some(just_linked) => self.namer.name_linked(&just_linked).await?,
            None => self.namer.catch_up().await?,
        }
        self.keep_courses().await;
        Ok(progress)
    }

    /// Long conversations are counted here, a little each time, so that who asks for a page of one need not.
    async fn keep_courses(&mut self) {
        let view = View::new(self.store, self.owner, &*self.owner_name);
        for root in self.linker.take_grown() {
            // Recording does not end with what cannot be counted: who reads it finds the same, and can show it.
            let _ = view.keep_course(root).await;
        }
    }

    /// Claims that nobody came for by `now`, each once, for when nothing is recorded that says the time.
    pub async fn expire_claims(&mut self, now: Micros) -> Result<Vec<Claim>, LinkError> {
        self.linker.expire_claims(now).await
    }

    /// The links as they were at a time, to be read like a store's.
    pub async fn as_of(&self, at: Micros) -> Result<Overlay<&'s S>, LinkError> {
        Ok(self.linker.try_rebuild(at).await?.overlay)
    }

    /// Makes hashes and keys that an older program made again from the bodies. Links do not know it until they are rebuilt.
    pub async fn project(&self) -> Result<Reprojected, StoreError> {
        let projector = Projector {
            store: self.store,
            owner: self.owner,
            prices: self.prices,
            spawn_tools: &self.spawn_tools,
        };
        projector.run(false).await
    }

    /// Links everything again. Names stay; what is a conversation of its own now gets one.
    pub async fn rebuild(&mut self) -> Result<Progress, LinkError> {
        let progress = self.linker.rebuild().await?;
        self.namer.catch_up().await?;
        self.namer.name_split_off().await?;
        self.keep_courses().await;
        Ok(progress)
    }
}
