//! Where the store is, and one owner's part of it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use ropewalk_core::cost::{BundledPrices, PriceTable};
use ropewalk_engine::view::View;
use ropewalk_store::derived::LinkState;
use ropewalk_store::facts::OwnerId;
use ropewalk_store::{Micros, Store};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::problem::Problem;

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

    /// How the server is, and what is under way, as an owner may know it. Told to readers of events when it changed.
    fn standing(&self, _owner: &str) -> Vec<Standing> {
        Vec::new()
    }
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
