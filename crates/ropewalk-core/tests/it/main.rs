//! Tests over the public surface, one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops where it is")]

mod anthropic;
mod chain;
mod claims;
mod costs;
mod golden;
mod hierarchy;
mod projections;
mod rope;
mod vectors;
