//! One module per verb.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bisect;
pub(crate) mod blame;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod explain;
mod explain_cache;
pub(crate) mod export;
mod follow;
pub(crate) mod forget;
pub(crate) mod fsck;
pub(crate) mod gc;
mod graph;
pub(crate) mod hash;
pub(crate) mod import;
pub(crate) mod log;
pub(crate) mod matching;
pub(crate) mod mcp;
pub(crate) mod rebuild;
pub(crate) mod replay;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod retain;
pub(crate) mod run;
pub(crate) mod search;
mod selected;
pub(crate) mod serve;
pub(crate) mod show;
mod show_answers;
mod show_tree;
pub(crate) mod spread;
pub(crate) mod stats;
pub(crate) mod statusline;
pub(crate) mod store;
pub(crate) mod suggest;
pub(crate) mod templates;
pub(crate) mod title;
pub(crate) mod tree;

/// Rows that are read at once where a list is walked from one end to the other.
const PAGE: usize = 256;
