//! What tests of several crates share. A dev-dependency, never part of what users run.

pub mod captures;
pub mod conversation;
pub mod part_store;
