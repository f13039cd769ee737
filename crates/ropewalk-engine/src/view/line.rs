//! A recorded exchange in the exchange format, so that importing it again gives the same exchange.

use ropewalk_store::facts::{OwnerId, Status};
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_store::{Micros, Store, StoreError};
use ropewalk_wire::exchange::ExchangeLine;

use crate::detail::Kept;
use crate::names::NamesOfLine;
use crate::raw::{RawExchange, Witness};
use crate::view::{Result, View};

impl<S: Store> View<'_, S> {
    /// An exchange as a line of the exchange format, with the names that were given out for it.
    pub async fn line(&self, row: &ExchangeRow, names: &mut NamesOfLine) -> Result<ExchangeLine> {
        let mut line = recorded(self.store, self.owner, row).await?.to_line(&self.owner_name);
        line.names = self.names_of_line(row, names).await?;
        Ok(line)
    }
}

/// An exchange as it was handed in, as far as it is kept.
pub(crate) async fn recorded<S: Store>(
    store: &S,
    owner: OwnerId,
    row: &ExchangeRow,
) -> std::result::Result<RawExchange, StoreError> {
    let detail = Kept::of(row);
    let request = store.body(owner, row.number, Half::Request).await?;
    let sent = store.body(owner, row.number, Half::Sent).await?;
    let response = store.body(owner, row.number, Half::Response).await?;
    let spawned_at = detail.spawned_at.iter();
    Ok(RawExchange {
        id: row.id.clone(),
        at: row.at,
        ended_at: row.ended_at,
        spawned_at: spawned_at.map(|(call, at)| (call.clone(), Micros(*at))).collect(),
        path: detail.target(row),
        method: detail.method,
        request_headers: detail.request_headers.into_iter().collect(),
        request_body: request.unwrap_or_default().into(),
        sent_body: sent.map(Into::into),
        names: Default::default(),
        status: row.http_status,
        response_headers: detail.response_headers.into_iter().collect(),
        response_body: response.map(Into::into),
        cut_off: matches!(row.status, Status::Truncated | Status::ClientCancelled),
        witness: Witness::default(),
        provenance: row.provenance.clone(),
    })
}
