//! What a history that is kept part by part can tell: answers over everything that was recorded.

pub mod blame;
pub mod cache;
