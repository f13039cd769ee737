//! Why an exchange is linked where it is, and what else it might have been.

use std::collections::BTreeMap;

use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;
use serde::Serialize;
use utoipa::ToSchema;

use crate::detail::Kept;
use crate::view::reason::reason;
use crate::view::{ExchangeView, Result, View, ViewError};

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Explanation {
    pub exchange: ExchangeView,
    /// How many blocks of its request it shares with what it is linked to.
    pub shared_blocks: u32,
    /// First and last block that the client rewrote, counted from 1.
    pub rewritten_blocks: Option<(u32, u32)>,
    pub discontinuous: bool,
    pub orphan: bool,
    /// Whom the spawning call asked for.
    pub asked_for: Option<String>,
    pub reason: String,
    pub rejected: Vec<RejectedCandidate>,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RejectedCandidate {
    pub exchange_id: String,
    pub reason: &'static str,
}

/// What was sent around the bodies, as far as it is kept; what opens anything never is.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Envelope {
    pub http_method: String,
    /// The path that was asked for, with what is kept of its query.
    pub http_target: String,
    /// Of the answer, where there is one.
    pub http_status: Option<u16>,
    /// By their names in lower case.
    pub request_headers: BTreeMap<String, String>,
    /// Those of the answer.
    pub response_headers: BTreeMap<String, String>,
}

impl Envelope {
    pub fn of(row: &ExchangeRow) -> Self {
        let kept = Kept::of(row);
        Envelope {
            http_target: kept.target(row),
            http_method: kept.method,
            http_status: row.http_status,
            request_headers: kept.request_headers,
            response_headers: kept.response_headers,
        }
    }
}

impl<S: Store> View<'_, S> {
    pub async fn explain(&self, row: &ExchangeRow) -> Result<Explanation> {
        let link = self.find_link(row.number).await?;
        let link = link.ok_or_else(|| ViewError::NotLinked { id: row.id.clone() })?;
        let ids = self.ids_named_in(std::iter::once(&link)).await?;
        let decision = &link.decision;
        let rejected = decision.rejected.iter().map(|rejected| {
            let id = ids.get(&ExchangeNumber(rejected.exchange)).cloned();
            RejectedCandidate {
                exchange_id: id.unwrap_or_else(|| format!("#{}", rejected.exchange)),
                reason: rejected.why.explained(),
            }
        });
        Ok(Explanation {
            exchange: self.exchange(row).await?,
            shared_blocks: decision.shared,
            rewritten_blocks: decision.rewritten.map(|(first, last)| (first + 1, last + 1)),
            discontinuous: decision.discontinuous,
            orphan: decision.orphan,
            asked_for: decision.spawned.as_ref().and_then(|spawned| spawned.name.clone()),
            reason: reason(&link, &ids),
            rejected: rejected.collect(),
        })
    }
}
