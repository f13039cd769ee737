//! The rules of linking, one subject each, in the order in which they are tried.

mod attempt;
mod auxiliary;
mod compacted;
mod continues;
mod session;
mod spawned;
