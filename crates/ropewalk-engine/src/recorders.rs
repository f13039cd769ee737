//! A recorder for each owner that has something to record.

use std::collections::HashMap;

use ropewalk_core::cost::PriceTable;
use ropewalk_store::{Store, StoreError};

use crate::link::Settings;
use crate::record::Recorder;
use crate::spawn::SpawnTools;

/// How many owners have a recorder at hand. A new one costs a look-up.
const OWNERS_MAX: usize = 64;

/// The recorders that were used last, by owner.
pub struct Recorders<'s, S> {
    store: &'s S,
    prices: &'s dyn PriceTable,
    settings: Settings,
    spawn_tools: SpawnTools,
    by_owner: HashMap<String, Used<'s, S>>,
    uses: u64,
}

struct Used<'s, S> {
    recorder: Recorder<'s, S>,
    last: u64,
}

impl<S> std::fmt::Debug for Recorders<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorders")
            .field("owners", &self.by_owner.len())
            .finish_non_exhaustive()
    }
}

impl<'s, S: Store> Recorders<'s, S> {
    pub fn new(store: &'s S, prices: &'s dyn PriceTable, settings: Settings, spawn_tools: SpawnTools) -> Self {
        Recorders {
            store,
            prices,
            settings,
            spawn_tools,
            by_owner: HashMap::new(),
            uses: 0,
        }
    }

    pub fn store(&self) -> &'s S {
        self.store
    }

    /// The recorder of the owner of that name, who is made on first use.
    pub async fn of(&mut self, owner: &str) -> Result<&mut Recorder<'s, S>, StoreError> {
        self.uses += 1;
        if !self.by_owner.contains_key(owner) {
            if self.by_owner.len() >= OWNERS_MAX {
                let oldest = self.by_owner.iter().min_by_key(|(_, used)| used.last);
                let oldest = oldest.map(|(name, _)| name.clone());
                self.by_owner.remove(&oldest.unwrap_or_default());
            }
            let recorder = Recorder::new(self.store, owner, self.prices).await?;
            let recorder = recorder.with_settings(self.settings, self.spawn_tools.clone());
            self.by_owner.insert(owner.to_owned(), Used { recorder, last: 0 });
        }
        match self.by_owner.get_mut(owner) {
            Some(used) => {
                used.last = self.uses;
                Ok(&mut used.recorder)
            }
            // It was put there a moment ago.
            None => Err(StoreError::NoOwner),
        }
    }
}
