//! What prompt caches gave, and why not more.

use ropewalk_engine::insight::cache::{CacheReport, CacheStats, Period};
use ropewalk_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use super::time;
use crate::problem::Problem;
use crate::source::Owned;

/// Exchanges of one answer: as many as can be looked at within the time that an answer may take.
const EXCHANGES_MAX: u64 = 50_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CachePeriod {
    since: Option<String>,
    until: Option<String>,
    pub(crate) as_of: Option<String>,
}

pub async fn explain<S: Store>(owned: &Owned<S>, reference: &str) -> Result<CacheReport, Problem> {
    let view = owned.view_to_find(reference)?;
    let row = view.resolve_exchange(reference).await?;
    Ok(view.explain_cache(&row, owned.prices()).await?)
}

pub async fn stats<S: Store>(owned: &Owned<S>, asked: &CachePeriod) -> Result<CacheStats, Problem> {
    let period = Period {
        since: time(asked.since.as_deref())?,
        until: time(asked.until.as_deref())?,
        exchanges_max: Some(EXCHANGES_MAX),
    };
    match owned.view() {
        Some(view) => Ok(view.cache_stats(period, owned.prices()).await?),
        None => Ok(CacheStats::of_nobody(owned.name())),
    }
}
