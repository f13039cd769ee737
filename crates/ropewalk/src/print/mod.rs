//! How things look: stdout is data, stderr is talk.

pub(crate) mod number;
pub(crate) mod out;
pub(crate) mod screen;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod words;
