//! A call looked up among those that were answered.

use bytes::Bytes;
use ropewalk_store::facts::OwnerId;
use ropewalk_store::store::{Asked, ExchangeRow, Half, Questions, Selection};
use ropewalk_store::{Micros, Store, StoreError};
use ropewalk_wire::provider::route;
use ropewalk_wire::read_request;
use ropewalk_wire::reuse::Essence;

use super::key_of;
use crate::detail::Kept;

/// Answers with the same key that are looked at. All of them are equal inputs, unless two hashes of 256 bits meet, so the first
/// will do; the others are for one whose bytes cannot be read.
const CANDIDATES_MAX: usize = 4;

/// A stored answer that may be given again.
#[derive(Debug, Clone)]
pub struct Reusable {
    /// The exchange that it was first given in.
    pub id: String,
    pub ended_at: Micros,
    pub status: u16,
    pub content_type: Option<String>,
    /// As it was sent, but decoded.
    pub body: Bytes,
}

/// The newest complete answer to a call of which the model saw the same, byte for byte: `essence` is the bytes of its
/// [`Essence`], and `hash` theirs.
pub async fn find<S: Store>(
    store: &S,
    owner: OwnerId,
    hash: [u8; 32],
    essence: &[u8],
    as_of: Micros,
) -> Result<Option<Reusable>, StoreError> {
    let questions = Questions {
        keys: vec![Asked::of(key_of(hash))],
        limit: CANDIDATES_MAX,
        ..Questions::default()
    };
    let mut answers = store.look_up(owner, questions, as_of).await?;
    let Some(numbers) = answers.exchanges.pop().filter(|numbers| !numbers.is_empty()) else {
        return Ok(None);
    };
    let mut rows = store.exchanges(owner, Selection::Numbers(numbers), as_of).await?;
    rows.sort_by_key(|row| std::cmp::Reverse((row.ended_at, row.number)));
    for row in rows {
        if let Some(found) = confirm(store, owner, essence, row).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

async fn confirm<S: Store>(
    store: &S,
    owner: OwnerId,
    essence: &[u8],
    row: ExchangeRow,
) -> Result<Option<Reusable>, StoreError> {
    let detail = Kept::of(&row);
    let target = detail.target(&row);
    let route = route(&target);
    let Some(provider) = route.endpoint.provider() else {
        return Ok(None);
    };
    let request = store.body(owner, row.number, Half::Request).await?;
    let Ok(read) = read_request(provider, &Bytes::from(request.unwrap_or_default()), None) else {
        return Ok(None);
    };
    let headers = detail.request_headers.iter();
    let known = Essence::of(&read, &route, headers.map(|(name, value)| (&**name, &**value)));
    if !known.is_some_and(|known| known.is(essence)) {
        return Ok(None);
    }
    let Some(body) = store.body(owner, row.number, Half::Response).await? else {
        return Ok(None);
    };
    Ok(Some(Reusable {
        ended_at: row.ended_at.unwrap_or(row.at),
        status: row.http_status.unwrap_or(200),
        content_type: detail.response_headers.get("content-type").cloned(),
        body: body.into(),
        id: row.id,
    }))
}
