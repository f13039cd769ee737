//! Where the store is, and one owner's part of it.

use std::future::Future;
use std::sync::Arc;

use ropewalk_engine::view::View;
use ropewalk_store::Store;
use ropewalk_store::facts::OwnerId;

use crate::problem::Problem;

/// A store that may not be there yet.
pub trait Source: Send + Sync + 'static {
    type Store: Store + 'static;

    /// `None` where nothing was ever recorded.
    fn open(&self) -> impl Future<Output = Result<Option<Arc<Self::Store>>, Problem>> + Send;
}

/// What one owner has. Who has nothing gets the same answers as who does not exist.
#[derive(Debug)]
pub struct Owned<S> {
    name: Arc<str>,
    found: Option<(Arc<S>, OwnerId)>,
}

impl<S: Store> Owned<S> {
    pub async fn by(source: &impl Source<Store = S>, name: Arc<str>) -> Result<Self, Problem> {
        let Some(store) = source.open().await? else {
            return Ok(Owned { name, found: None });
        };
        let owner = store.find_owner(&name).await?;
        let found = owner.map(|owner| (store, owner));
        Ok(Owned { name, found })
    }

    /// `None` for an owner without any data.
    pub fn view(&self) -> Option<View<'_, S>> {
        let (store, owner) = self.found.as_ref()?;
        Some(View::new(&**store, *owner, &*self.name))
    }

    /// For what is asked for by name.
    pub(crate) fn view_to_find(&self, reference: &str) -> Result<View<'_, S>, Problem> {
        self.view().ok_or_else(|| Problem::not_found(reference))
    }
}
