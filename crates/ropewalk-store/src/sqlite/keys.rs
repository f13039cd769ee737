//! Numbers of rows. An owner's number and a row's number share one integer, so that every table is clustered by owner
//! and appended to at the owner's end.

use crate::facts::OwnerId;

/// Bits of a row's number within its owner.
const NUMBER_BITS: u32 = 40;
pub(super) const NUMBER_MAX: i64 = (1 << NUMBER_BITS) - 1;

pub(super) fn key(owner: OwnerId, number: i64) -> i64 {
    owner.0 << NUMBER_BITS | number
}

pub(super) fn number(key: i64) -> i64 {
    key & NUMBER_MAX
}

/// The keys of all rows of an owner.
pub(super) fn keys_of(owner: OwnerId) -> std::ops::Range<i64> {
    key(owner, 0)..key(OwnerId(owner.0 + 1), 0)
}

/// What an entry of the hash index points at, and by which hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Part,
    Chunk,
    Node,
    ExchangeId,
    /// A context by all that it says.
    Context,
    /// A context by one of its hashes or keys.
    ContextKey,
    /// An exchange by the node that its request ends at, or its answer.
    Input,
    Output,
    /// An exchange by one of its own hashes or keys, of that kind.
    Key(u8),
}

impl Kind {
    fn code(self) -> i64 {
        match self {
            Kind::Part => 0,
            Kind::Node => 1,
            Kind::ExchangeId => 2,
            Kind::Context => 3,
            Kind::Chunk => 4,
            Kind::ContextKey => 5,
            Kind::Input => 6,
            Kind::Output => 7,
            Kind::Key(kind) => 8 + i64::from(kind),
        }
    }
}

/// Bits of a target's kind. They stand below the number, so that small numbers make short targets.
const KIND_BITS: u32 = 5;

/// A target of the hash index: a row's number and its kind.
pub(super) fn target(kind: Kind, number: i64) -> i64 {
    number << KIND_BITS | kind.code()
}

/// The row that a target points at, if it is of that kind.
pub(super) fn row_of(target: i64, kind: Kind) -> Option<i64> {
    (target & ((1 << KIND_BITS) - 1) == kind.code()).then_some(target >> KIND_BITS)
}

/// Bits of a [`prefix`].
pub(super) const PREFIX_BITS: u32 = 40;

/// The first five bytes of a hash; the row that an entry points at has the rest.
pub(super) fn prefix(hash: &[u8]) -> i64 {
    let mut bytes = [0; 8];
    bytes[3..].copy_from_slice(&hash[..5]);
    i64::from_be_bytes(bytes)
}
