//! What time it is, as records say it.

use std::time::{SystemTime, UNIX_EPOCH};

use ropewalk_store::Micros;

pub(crate) fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
