//! A recorded exchange in the exchange format, so that importing it again gives the same exchange.

use std::collections::BTreeMap;

use ropewalk_store::facts::Status;
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_store::{Micros, Store};
use ropewalk_wire::exchange::{self, ExchangeLine};

use crate::detail::Kept;
use crate::view::{Result, View, utc};

impl<S: Store> View<'_, S> {
    /// An exchange as a line of the exchange format.
    pub async fn line(&self, row: &ExchangeRow) -> Result<ExchangeLine> {
        let detail = Kept::of(row);
        let request = self.store.body(self.owner, row.number, Half::Request).await?;
        let response = self.store.body(self.owner, row.number, Half::Response).await?;
        let path = detail.target(row);
        let half = |headers: BTreeMap<String, String>, body: Vec<u8>| exchange::Half {
            headers: headers.into_iter().collect(),
            body,
        };
        let spawned_at = detail.spawned_at.into_iter();
        Ok(ExchangeLine {
            id: row.id.clone(),
            at: utc(row.at),
            ended_at: row.ended_at.map(utc),
            spawned_at: spawned_at.map(|(call, at)| (call, utc(Micros(at)))).collect(),
            owner: Some(self.owner_name.clone()),
            method: detail.method,
            path,
            request: half(detail.request_headers, request.unwrap_or_default()),
            response: response.map(|body| half(detail.response_headers, body)),
            status: row.http_status,
            cut_off: matches!(row.status, Status::Truncated | Status::ClientCancelled),
        })
    }
}
