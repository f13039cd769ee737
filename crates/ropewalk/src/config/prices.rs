//! Prices: the configuration's before those that are built in.

use std::sync::{Arc, PoisonError, RwLock};

use ropewalk_core::cost::{BundledPrices, Cost, OverriddenPrices, PriceOverride, PriceTable, Served};
use ropewalk_core::model::Usage;

/// Shared by all that ask for them: whoever holds them gets those that were read again.
pub(crate) type Prices = Arc<CurrentPrices>;

#[derive(Debug)]
pub(crate) struct CurrentPrices {
    table: RwLock<Arc<OverriddenPrices<BundledPrices>>>,
}

impl CurrentPrices {
    pub(super) fn new(overrides: Vec<PriceOverride>) -> Self {
        let table = OverriddenPrices::new(overrides, BundledPrices);
        CurrentPrices {
            table: RwLock::new(Arc::new(table)),
        }
    }

    /// From now on the prices are those.
    pub(crate) fn follow(&self, newer: &CurrentPrices) {
        let table = newer.table();
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn table(&self) -> Arc<OverriddenPrices<BundledPrices>> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PriceTable for CurrentPrices {
    fn price(&self, served: &Served<'_>, usage: &Usage) -> Option<Cost> {
        self.table().price(served, usage)
    }
}
