//! Where the store is, and one owner's part of it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use ropewalk_core::cost::{BundledPrices, PriceTable};
use ropewalk_engine::view::View;
use ropewalk_store::derived::LinkState;
use ropewalk_store::facts::OwnerId;
use ropewalk_store::{Micros, Store};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::read::audit::{Noted, Period};

/// A store that may not be there yet.
pub trait Source: Send + Sync + 'static {
    type Store: Store + 'static;

    /// `None` where nothing was ever recorded.
    fn open(&self) -> impl Future<Output = Result<Option<Arc<Self::Store>>, Problem>> + Send;

    /// The same as it stood at a time, with what the owner had linked by then.
    fn at_time(
        &self,
        store: &Self::Store,
        owner: OwnerId,
        name: &str,
        at: Micros,
    ) -> impl Future<Output = Result<Arc<Self::Store>, Problem>> + Send;

    /// What tokens cost, for what is estimated.
    fn prices(&self) -> Arc<Prices> {
        Arc::new(BundledPrices)
    }

    /// How the server that records is; nothing where the store is only read.
    fn health(&self) -> Option<Health> {
        None
    }

    /// Imports under way, and the last that ended.
    fn imports(&self, _owner: &str) -> Vec<Import> {
        Vec::new()
    }

    /// Changes of an owner's data, the newest first. It may take its time.
    fn noted(&self, _owner: &str, _period: Period) -> Vec<Noted> {
        Vec::new()
    }

    /// How the server is, and what is under way, as an owner may know it. Told to readers of events when it changed.
    fn standing(&self, _owner: &str) -> Vec<Standing> {
        Vec::new()
    }
}

/// Whether clients are served, which is always if this is read, and how far recording is behind.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Health {
    /// `ok` or `degraded`.
    pub status: &'static str,
    /// Of the program.
    pub version: &'static str,
    /// `up`, `opening`, or `down` while the journal keeps what the store cannot take.
    pub store: &'static str,
    /// That wait in the journal.
    pub journal_bytes: u64,
    /// Texts that search does not find yet.
    pub search_lag_texts: u64,
    /// For how long they have waited.
    pub search_lag_ms: u64,
    /// Since the start, because the journal was full or away.
    pub exchanges_not_kept: u64,
    /// Since the start, because the store would not have them.
    pub exchanges_rejected: u64,
}

/// What one command brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Import {
    /// Counted from the start of the server.
    pub import: u64,
    pub started_at: String,
    /// That it read as they were on the wire.
    pub exchanges: u64,
    /// Of logs that it read.
    pub lines: u64,
    /// Calls that were not there, or are known better now.
    pub new: u64,
    /// Calls that were there, or were forgotten and stay so.
    pub known: u64,
    /// Calls that were there with other bytes; the first stay.
    pub conflicts: u64,
    /// Lines that could not be put together.
    pub problems: u64,
    /// Nothing more will come.
    pub is_done: bool,
}

type Prices = dyn PriceTable + Send + Sync;

/// What the server says of itself: the event's name, what it is about, and the data.
pub type Standing = (&'static str, String, Value);

/// Linking again what was known at a time keeps all links of an owner in memory, so it is done for one caller after the other.
static LINKING_AGAIN: Semaphore = Semaphore::const_new(1);

/// Whose data is asked for, and where.
#[derive(Debug)]
pub struct Whose<S> {
    source: Arc<S>,
    name: Arc<str>,
}

impl<S: Source> Whose<S> {
    pub fn new(source: Arc<S>, name: Arc<str>) -> Self {
        Whose { source, name }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn health(&self) -> Option<Health> {
        self.source.health()
    }

    pub(crate) fn imports(&self) -> Vec<Import> {
        self.source.imports(&self.name)
    }

    pub(crate) fn noted(&self, period: Period) -> Vec<Noted> {
        self.source.noted(&self.name, period)
    }

    pub(crate) fn standing(&self) -> Vec<Standing> {
        self.source.standing(&self.name)
    }

    pub async fn now(&self) -> Result<Owned<S::Store>, Problem> {
        self.at(None).await
    }

    /// What was known at a time; what is known now where none is said.
    pub async fn at(&self, time: Option<Micros>) -> Result<Owned<S::Store>, Problem> {
        let nothing = Owned {
            name: Arc::clone(&self.name),
            found: None,
            prices: self.source.prices(),
            _turn: None,
        };
        let Some(store) = self.source.open().await? else {
            return Ok(nothing);
        };
        let Some(owner) = store.find_owner(&self.name).await? else {
            return Ok(nothing);
        };
        let Some(time) = time else {
            let found = Some((store, owner));
            return Ok(Owned { found, ..nothing });
        };
        // The semaphore is never closed.
        let turn = LINKING_AGAIN.acquire().await.ok();
        let then = self.source.at_time(&store, owner, &self.name, time).await?;
        Ok(Owned {
            found: Some((then, owner)),
            _turn: turn,
            ..nothing
        })
    }
}

/// What one owner has. Who has nothing gets the same answers as who does not exist.
pub struct Owned<S> {
    name: Arc<str>,
    found: Option<(Arc<S>, OwnerId)>,
    prices: Arc<Prices>,
    _turn: Option<SemaphorePermit<'static>>,
}

impl<S> fmt::Debug for Owned<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Owned<S> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn prices(&self) -> &Prices {
        &*self.prices
    }

    /// `None` for an owner without any data.
    pub fn view(&self) -> Option<View<'_, S>> {
        let (store, owner) = self.found.as_ref()?;
        Some(View::new(&**store, *owner, &*self.name))
    }

    /// Changes with everything that is recorded, linked or named. `None` for an owner without any data.
    pub(crate) async fn state(&self) -> Result<Option<LinkState>, Problem> {
        match &self.found {
            Some((store, owner)) => Ok(Some(store.link_state(*owner).await?)),
            None => Ok(None),
        }
    }

    /// For what is asked for by name.
    pub(crate) fn view_to_find(&self, reference: &str) -> Result<View<'_, S>, Problem> {
        self.view().ok_or_else(|| Problem::not_found(reference))
    }
}
