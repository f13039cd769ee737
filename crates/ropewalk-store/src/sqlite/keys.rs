//! Numbers of rows. An owner's number and a row's number share one integer, so that every table is clustered by owner
//! and appended to at the owner's end.

use crate::facts::OwnerId;

/// Bits of a row's number within its owner.
const NUMBER_BITS: u32 = 40;

pub(super) fn key(owner: OwnerId, number: i64) -> i64 {
    owner.0 << NUMBER_BITS | number
}

pub(super) fn number(key: i64) -> i64 {
    key & ((1 << NUMBER_BITS) - 1)
}

/// What an entry of the hash index points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Part,
    Node,
    ExchangeId,
    /// A part that holds the hashes of a context.
    Context,
    Key(u8),
}

impl Kind {
    fn code(self) -> i64 {
        match self {
            Kind::Part => 0,
            Kind::Node => 1,
            Kind::ExchangeId => 2,
            Kind::Context => 3,
            Kind::Key(kind) => 8 + i64::from(kind),
        }
    }
}

/// Bits of a target's kind. They stand below the number, so that small numbers make short targets.
const KIND_BITS: u32 = 4;

/// A target of the hash index: a row's number and its kind.
pub(super) fn target(kind: Kind, number: i64) -> i64 {
    number << KIND_BITS | kind.code()
}

/// The row that a target points at, if it is of that kind.
pub(super) fn row_of(target: i64, kind: Kind) -> Option<i64> {
    (target & ((1 << KIND_BITS) - 1) == kind.code()).then_some(target >> KIND_BITS)
}

/// The first eight bytes of a hash; the row that an entry points at has the rest.
pub(super) fn prefix(hash: &[u8; 32]) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    i64::from_be_bytes(bytes)
}
