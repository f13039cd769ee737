//! When an owner's dictionary is trained, and on what. SQLite has none: its parts are compressed in packs.
//!
//! Most parts are a few hundred bytes, too short to compress on their own. One dictionary is trained when an owner has
//! enough parts to learn from, and again when it has many more; older parts keep the one they were written with. An
//! owner's dictionary is never used for another's parts: it contains pieces of what it learned from.

/// A number of parts at which a dictionary is trained, and how large it may be: it has to pay for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) parts: i64,
    pub(crate) size: usize,
}

pub(crate) const MARKS: [Mark; 3] = [
    Mark {
        parts: 200,
        size: 8 * 1024,
    },
    Mark {
        parts: 2_000,
        size: 16 * 1024,
    },
    Mark {
        parts: 50_000,
        size: 64 * 1024,
    },
];

/// Parts it learns from, the latest, and how much of each.
pub(crate) const SAMPLES_MAX: i64 = 2_000;
pub(crate) const SAMPLE_BYTES_MAX: usize = 8 * 1024;
