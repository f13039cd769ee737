//! What tests of several crates share. A dev-dependency, never part of what users run.
//!
//! Exchanges: [`captures`] (recorded and hand-made), [`conversation`] (generated), [`turns`] (finished, to measure with),
//! [`traffic`] (generated, of many conversations at once, with the truth about who belongs to whom); what conversations and
//! turns say comes from [`source_text`]; [`labelled`] has conversations and prompts of which is known which are alike.
//! Stores: [`part_store`] (parts only), [`memory_store`] (everything, strictly), [`watched_store`] (another one that is looked
//! over its shoulder), [`conformance`] (what every store must do).
//! [`postgres`] starts a database server of the tests' own; [`upstream`] is a provider that does what a test says,
//! [`collector`] somebody who is sent telemetry.

pub mod captures;
pub mod collector;
pub mod conformance;
pub mod conversation;
pub mod labelled;
pub mod memory_store;
pub mod part_store;
pub mod postgres;
pub mod source_text;
pub mod traffic;
pub mod turns;
pub mod upstream;
pub mod watched_store;
mod word_search;
