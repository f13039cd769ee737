//! Hashes as types. One newtype per meaning, so that a value is never looked up as a node.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// Version of the chain rules (docs/hashing.md). Written in front of every hash they make.
pub const RULES_VERSION: u32 = 1;

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of a text, as 64 hex digits.
pub fn sha256_hex(text: &str) -> String {
    hex_digits(&sha256(text.as_bytes()))
}

/// The 64 hex digits of a hash. A call has some fifteen of them, and put together character by character their digits took longer than what they
/// are of took to hash.
pub(crate) fn hex_digits(hash: &[u8; 32]) -> String {
    let mut digits = [0; 64];
    hex::encode_to_slice(hash, &mut digits).expect("a byte has two digits");
    str::from_utf8(&digits).expect("digits are ASCII").to_owned()
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a hash: {1} is expected")]
pub struct HashParseError(String, &'static str);

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $shape:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; 32]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, hex_digits(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = HashParseError;

            fn from_str(text: &str) -> Result<Self, HashParseError> {
                let mut bytes = [0; 32];
                text.strip_prefix($prefix)
                    .and_then(|digits| hex::decode_to_slice(digits, &mut bytes).ok())
                    .map(|()| Self(bytes))
                    .ok_or_else(|| HashParseError(text.to_owned(), $shape))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

hash_type!(
    /// Names a value: one content block with its role.
    ValueHash, "v1:", "`v1:` and 64 hex digits"
);
hash_type!(
    /// Names a position: a value after everything before it.
    NodeHash, "v1:", "`v1:` and 64 hex digits"
);
hash_type!(
    /// Names a stored part by the SHA-256 of its bytes. No rules, hence no version.
    PartHash, "", "64 hex digits"
);
