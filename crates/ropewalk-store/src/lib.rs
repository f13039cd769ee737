//! Everything that was on the wire, kept once.
//!
//! The only crate with SQL. [`Store`] is the one trait; [`Sqlite`] and [`Postgres`] stand behind it and pass the same
//! conformance suite. Callers hand in finished values ([`NewExchange`]): the store reads no clock, makes no id
//! and decides no link.
//!
//! Read [`facts`] first (what is stored), [`derived`] (what linking concludes from it), [`log`] (what clients' logs add),
//! [`forget`] (what goes again), then [`store`] (what can be asked),
//! then an engine: [`sqlite`] or [`postgres`].

mod chain_search;
pub mod codec;
pub mod derived;
pub mod facts;
pub mod forget;
pub mod hash_prefix;
pub mod log;
mod marks;
pub mod names;
mod packed;
mod parent_cycles;
pub mod postgres;
pub mod sqlite;
pub mod store;
mod training;

pub use facts::{Micros, NewExchange, OwnerId};
pub use hash_prefix::HashPrefix;
pub use postgres::Postgres;
pub use sqlite::Sqlite;
pub use store::{Store, StoreError};
