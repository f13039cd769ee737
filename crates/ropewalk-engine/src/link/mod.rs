//! Linking: which exchanges belong together.
//!
//! Exchanges are facts; links are derived from them, the same live, on import and on rebuild. Read [`fact`] (an exchange as
//! linking sees it) and [`outline`] (its chain), then [`decide()`] (the rules, one after the other, over the [`evidence`]),
//! then [`settle`] (decisions folded into conversations and branches), then [`Linker`] (which fetches evidence, decides and
//! saves, in the order of the facts).
//!
//! Invariants: a decision reads only what precedes the exchange; the result depends on the set of facts, not on their arrival;
//! no exchange is left without a conversation.

mod claims;
mod decide;
pub mod decision;
pub mod evidence;
pub mod fact;
mod fetch;
mod linker;
mod maps;
mod memory;
mod outcome;
pub mod outline;
mod overlay;
mod places;
pub mod progress;
mod reach;
mod reach_claims;
mod round;
mod rules;
pub mod settle;
mod sharers;

pub use decide::{Settings, decide};
pub(crate) use linker::JustLinked;
pub use linker::Linker;
pub use memory::RECORDED_BYTES_MAX;
pub use overlay::Overlay;
pub use progress::Progress;

use ropewalk_store::StoreError;

use crate::link::decision::UnreadableLink;
use crate::link::settle::UnreadableRecord;
use crate::view::ViewError;

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Link(#[from] UnreadableLink),
    #[error(transparent)]
    Record(#[from] UnreadableRecord),
    #[error("what was linked cannot be named")]
    Names(#[source] Box<ViewError>),
    #[error("somebody else links this owner's exchanges all the time")]
    Busy,
}

impl From<ViewError> for LinkError {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Store(error) => LinkError::Store(error),
            ViewError::Link(error) => LinkError::Link(error),
            ViewError::Record(error) => LinkError::Record(error),
            other => LinkError::Names(Box::new(other)),
        }
    }
}
