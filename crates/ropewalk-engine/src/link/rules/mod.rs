//! The rules of linking, one subject each, in the order in which they are tried.

mod attempt;
mod auxiliary;
pub(in crate::link) mod claimed;
mod compacted;
mod continues;
pub(in crate::link) mod session;
pub(in crate::link) mod spawned;
