//! Identity of LLM conversations.
//!
//! Pure: no I/O, no async, no clock, no randomness. What goes in decides what comes out.
//!
//! Read [`model`] first (what requests and responses say), then [`chain`] (what linking stands on), then [`part`], [`recipe`]
//! and [`rope`] (how bytes are kept). [`projections`] gathers the hashes of earlier systems, each in a module of its own.

pub mod agent_identity;
pub mod chain;
pub mod claim;
pub mod cost;
pub mod friendly;
pub mod hash;
pub mod hierarchy;
pub mod json;
pub mod leb128;
pub mod model;
pub mod normalise;
pub mod part;
pub mod projections;
pub mod prompt_path;
pub mod recipe;
pub mod reference;
pub mod rope;
pub mod shared_list;
pub mod system_prompt;
pub mod text;
pub mod transcript;
