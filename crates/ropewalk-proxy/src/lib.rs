//! Between clients and providers.
//!
//! The forwarding path passes bytes on and hands a reference to each piece to the [`tee`]; nothing is parsed there. The tee
//! worker, a thread of its own, decodes and redacts a copy and writes it to the [`journal`]. A recorder reads the journal and
//! brings it into the store; what is said of that to others is [`telemetry`]. [`reuse`] answers from the store
//! where somebody asked for it. Order of reading: [`tee`] (where the two sides meet), [`journal`].
//!
//! Invariants: forwarded bytes are never changed but for [`references`] that are resolved; the last piece of an answer is released when
//! the whole exchange is in the journal; every queue is bounded in bytes; a slow store or disk slows nobody down before a bound with a name is reached.

mod clock;
pub mod counters;
pub mod forward;
pub mod journal;
pub mod recorder;
pub mod references;
pub mod reuse;
pub mod tee;
pub mod telemetry;
