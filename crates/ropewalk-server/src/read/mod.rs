//! What may be asked, each with its arguments and its answer.
//!
//! [`search`] finds words, [`conversations`], [`exchanges`] and [`agents`] list, [`messages`] reads for agents and [`whole`] for
//! programs, [`tree`] shows who branched off and who started whom, [`resolve`] follows references, [`matched`] finds what was said and
//! answered before, [`cache`] says what prompt caches gave, [`blame`] who brought each system block and tool, [`changes`] when a
//! conversation got others, [`insight`] what else the
//! history shows, [`stats`] adds up, [`health`] tells of the server and of checks, [`audit`] of changes, [`hashed`] hashes what is not recorded, `kept` remembers what takes long and `written` how messages were written. The engine's views do the work; here it is bounded and cut into pages.
//!
//! A cursor is a text that only means something here. It names what the page before it ended with, never a place in the store;
//! only a search, whose order is that of the best match, counts.

pub mod agents;
pub mod audit;
pub mod blame;
pub mod cache;
pub mod changes;
pub mod conversations;
pub mod exchanges;
pub mod hashed;
pub mod health;
pub mod insight;
mod kept;
pub mod matched;
pub mod messages;
pub mod replay;
pub mod resolve;
pub mod search;
pub mod stats;
pub mod tree;
pub mod whole;
mod written;

use jiff::Timestamp;
use ropewalk_store::Micros;

use crate::problem::Problem;

/// As many as were asked for, within bounds.
fn bounded(asked: Option<usize>, usual: usize, most: usize) -> usize {
    asked.unwrap_or(usual).clamp(1, most)
}

pub(crate) fn time(text: Option<&str>) -> Result<Option<Micros>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let time: Timestamp = text
        .parse()
        .map_err(|_| Problem::bad_request("this is no time").hint("write it like 2026-03-01T10:00:00Z"))?;
    Ok(Some(Micros(time.as_microsecond())))
}
