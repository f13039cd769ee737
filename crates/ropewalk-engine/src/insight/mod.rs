//! What a history that is kept once, with every byte in its place, can tell.

pub mod blame;
pub mod cache;
pub mod diff;
mod files;
pub mod merges;
mod passages;
pub mod spread;
pub mod suggest;
pub mod templates;
pub mod waste;
mod words;
