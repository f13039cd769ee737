//! Between the wire and the store.
//!
//! Read [`raw`] first (an exchange as a recorder or a file has it; [`decode`] reads compressed bodies, [`redact`] takes secrets out of
//! them; [`logged`] is one as a client's log has it), then [`mod@prepare`] (the finished facts that the store
//! takes), then its parts: [`spawn`] (which tool calls start agents), [`keys`] (what linking looks an exchange up by),
//! `texts` (what search finds it by) and `detail` (what is kept beside, and what never is), then [`record`] (with `memos`, what a turn shares with the one before), [`link`] and
//! [`names`] (what becomes of it), then [`view`] (how all of it is read), [`references`] (what it is quoted by), [`records`] (whether what logs told is
//! still whole) and [`project`] (what a newer program makes of it), [`matching`] (whether something was said before, and what was answered)
//! and [`reuse`] (answers for calls that were made before), [`replay`] (a recorded request for another model), [`hashed`] (every hash of what is not recorded), [`insight`] (what all of
//! it together tells) and [`forget`] (what goes again).
//!
//! Invariants: preparing is pure, never fails and never panics, whatever the bytes; joining a prepared body gives the bytes
//! that came; no credential reaches the facts outside the bodies.

mod arrival;
pub mod decode;
mod detail;
pub mod forget;
pub mod hashed;
pub mod insight;
pub mod keys;
pub mod link;
pub mod logged;
pub mod matching;
mod memos;
pub mod names;
pub mod prepare;
pub mod project;
pub mod raw;
mod recipe;
pub mod record;
mod recorders;
pub mod records;
pub mod redact;
pub mod references;
pub mod replay;
pub mod reuse;
pub mod spawn;
mod texts;
pub mod view;

pub use detail::{QUERY_PARAMETERS, REQUEST_HEADERS, RESPONSE_HEADERS};
pub use link::{LinkError, Progress, Settings};
pub use prepare::{Call, Prepared, Preparer, prepare};
pub use raw::{RawExchange, TimeError, Witness};
pub use recipe::SplitRecipe;
pub use record::Recorder;
pub use recorders::Recorders;
pub use texts::SEARCH_TEXT_BYTES_MAX;
