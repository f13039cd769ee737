//! `ropewalk mcp`: what was recorded, for an agent, over standard input and output.

use std::sync::Arc;

use ropewalk_core::cost::PriceTable;
use ropewalk_server::{Problem, Source, mcp};
use ropewalk_store::{Micros, OwnerId};
use tokio::sync::OnceCell;

use crate::any_store::AnyStore;
use crate::config::DEFAULT_OWNER;
use crate::context::Context;
use crate::failure::{Failure, Kind};

pub(crate) async fn run(context: Context) -> Result<(), Failure> {
    let store = context.read_now().await?;
    let owner = match &store {
        Some(store) => context.owner_in(store).await?,
        None => context.config.asked_owner().map(str::to_owned),
    };
    let owner = Arc::from(owner.as_deref().unwrap_or(DEFAULT_OWNER));
    let reading = Reading {
        context,
        opened: OnceCell::new_with(store.map(Arc::new)),
    };
    mcp::stdio(Arc::new(reading), owner)
        .await
        .map_err(|error| Failure::from_error(Kind::Internal, &error))
}

/// The store beside whoever writes it, opened when it is there: agents are set up before anything is recorded.
struct Reading {
    context: Context,
    opened: OnceCell<Arc<AnyStore>>,
}

impl Source for Reading {
    type Store = AnyStore;

    async fn open(&self) -> Result<Option<Arc<AnyStore>>, Problem> {
        if let Some(store) = self.opened.get() {
            return Ok(Some(Arc::clone(store)));
        }
        let store = self.context.read_now().await.map_err(|failure| {
            tracing::error!("{}", failure.message());
            Problem::unavailable()
        })?;
        let Some(store) = store else { return Ok(None) };
        // Somebody may have been faster.
        let store = self.opened.get_or_init(async || Arc::new(store)).await;
        Ok(Some(Arc::clone(store)))
    }

    async fn at_time(
        &self,
        store: &AnyStore,
        owner: OwnerId,
        name: &str,
        at: Micros,
    ) -> Result<Arc<AnyStore>, Problem> {
        let linking = self.context.config.linking;
        Ok(Arc::new(store.linked_at(owner, name, at, linking).await?))
    }

    fn prices(&self) -> Arc<dyn PriceTable + Send + Sync> {
        self.context.config.prices.clone()
    }
}
