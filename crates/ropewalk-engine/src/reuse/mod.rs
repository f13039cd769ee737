//! Answers for calls that were made before.
//!
//! An exchange whose answer is complete has a key over what of its request reached the model
//! ([`Essence`]), within its owner. [`find`] looks a call up by it, and compares the bytes before it
//! believes it. An answer that was given in this way is an exchange of its own. Its mark is a header of its response, so it is
//! exported, imported and prepared again like everything else; it has no key of its own, and what it would have cost is
//! [`Saved`], not spent.

mod find;

use ropewalk_core::model::Usage;
use ropewalk_store::NewExchange;
use ropewalk_store::facts::{Key, KeyKind};
use ropewalk_store::store::ExchangeRow;
use ropewalk_wire::RequestBody;
use ropewalk_wire::provider::Route;
use ropewalk_wire::reuse::Essence;
use serde::{Deserialize, Serialize};

pub use find::{Reusable, find};

use crate::detail::Kept;
use crate::raw::RawExchange;

/// Says of an answer that it was reused ([`HIT`]), or that it may be ([`STORED`]).
pub const REUSE_HEADER: &str = "x-ropewalk-reuse";

/// Names the exchange that a reused answer was first given in. It is recorded and not sent.
pub const REUSED_FROM_HEADER: &str = "x-ropewalk-reused-from";

pub const HIT: &str = "hit";
pub const STORED: &str = "stored";

/// What a reused answer would have cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_nano_usd: u64,
    pub cost_is_estimate: bool,
}

impl Saved {
    /// Takes it out of what an exchange has spent.
    pub(crate) fn take(exchange: &mut NewExchange) -> Self {
        let usage: Usage = exchange.usage.take().unwrap_or_default();
        let cost = exchange.cost_nano_usd.replace(0).unwrap_or_default();
        Saved {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            cost_nano_usd: cost,
            cost_is_estimate: std::mem::take(&mut exchange.cost_is_estimate),
        }
    }
}

/// How a recorded exchange stands to reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody asked for any.
    None,
    /// A provider answered, and the answer may be given again.
    Stored,
    Hit(Saved),
}

impl Standing {
    pub fn of(row: &ExchangeRow) -> Self {
        Standing::of_detail(&row.detail)
    }

    pub(crate) fn of_detail(detail: &str) -> Self {
        // Of most exchanges there is nothing to say, and many are looked at.
        if !detail.contains("\"reuse\":") {
            return Standing::None;
        }
        let detail = Kept::read(detail);
        match (detail.reuse(), detail.saved) {
            (HIT, saved) => Standing::Hit(saved.unwrap_or_default()),
            (STORED, _) => Standing::Stored,
            _ => Standing::None,
        }
    }
}

/// Whether the answer was taken from the store.
pub(crate) fn is_hit(raw: &RawExchange) -> bool {
    raw.witness.is_reused || raw.response_header(REUSE_HEADER) == Some(HIT)
}

/// The key of a call; `None` where it has none, see [`Essence::of`]. Nor has one of which the model saw something else than the
/// client sent.
pub(crate) fn key(raw: &RawExchange, route: &Route<'_>, read: &RequestBody) -> Option<Key> {
    if raw.sent_body.is_some() {
        return None;
    }
    let headers = raw.request_headers.iter();
    let essence = Essence::of(read, route, headers.map(|(name, value)| (&**name, &**value)))?;
    Some(key_of(essence.hash()))
}

fn key_of(hash: [u8; 32]) -> Key {
    // Short: the bytes are compared before it is believed.
    Key::short(KeyKind::Reuse, hash)
}

/// How an exchange stands to reuse; `None` where nobody asked for any.
pub(crate) fn standing(raw: &RawExchange, has_key: bool) -> Option<&'static str> {
    match raw.response_header(REUSE_HEADER) {
        _ if is_hit(raw) => Some(HIT),
        Some(STORED) if has_key => Some(STORED),
        _ => None,
    }
}
