//! What was recorded, for programs: MCP and the API over any store.
//!
//! [`source`] says where the store is and opens it for one owner, [`read`] has what may be asked of it, and both doors are thin above
//! that: [`mcp`] for agents, [`api`] for everybody else. [`access`] says whose data a caller gets to see, [`problem`] what a caller is
//! told instead, `bounds` how much of anything. [`pages`] is the dashboard, which asks through the API as anybody does.
//!
//! Invariants: every question is asked for one owner, and what is another's is answered as what does not exist; nothing here
//! writes but the title that somebody gives a conversation; every answer is bounded and says what was left out; what people and models said is a value in JSON, never anything else.

pub mod access;
pub mod api;
mod bounds;
pub mod mcp;
pub mod pages;
pub mod problem;
pub mod read;
pub mod source;

pub use access::Access;
pub use api::Api;
pub use problem::Problem;
pub use source::{Owned, Source, Whose};
