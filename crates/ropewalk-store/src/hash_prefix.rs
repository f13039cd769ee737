//! The beginning of a hash, as people type it.

use std::str::FromStr;

use crate::facts::Key;

/// Fewer digits name too much.
pub const DIGITS_MIN: usize = 4;
const DIGITS_MAX: usize = 64;

/// All hashes that begin with some hex digits: those from `first` to `last`. Shorter hashes count as filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashPrefix {
    first: [u8; 32],
    last: [u8; 32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the beginning of a hash has {DIGITS_MIN} to {DIGITS_MAX} hex digits")]
pub struct HashPrefixError;

impl FromStr for HashPrefix {
    type Err = HashPrefixError;

    fn from_str(digits: &str) -> Result<Self, HashPrefixError> {
        if !(DIGITS_MIN..=DIGITS_MAX).contains(&digits.len()) {
            return Err(HashPrefixError);
        }
        let filled = |with: u8| -> Result<[u8; 32], HashPrefixError> {
            let mut bytes = [with << 4 | with; 32];
            for (at, digit) in digits.chars().enumerate() {
                let digit = digit.to_digit(16).ok_or(HashPrefixError)? as u8;
                let byte = &mut bytes[at / 2];
                *byte = if at % 2 == 0 {
                    digit << 4 | *byte & 0x0f
                } else {
                    *byte & 0xf0 | digit
                };
            }
            Ok(bytes)
        };
        Ok(HashPrefix {
            first: filled(0)?,
            last: filled(0xf)?,
        })
    }
}

impl HashPrefix {
    pub fn first(&self) -> &[u8; 32] {
        &self.first
    }

    pub fn last(&self) -> &[u8; 32] {
        &self.last
    }

    pub fn begins(&self, hash: &[u8]) -> bool {
        (self.first..=self.last).contains(&Key::of_hash(hash).hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_range_of_hashes() {
        let prefix: HashPrefix = "aB3fc".parse().unwrap();
        assert_eq!((&prefix.first()[..3], prefix.first()[3]), (&[0xab, 0x3f, 0xc0][..], 0));
        assert_eq!((&prefix.last()[..3], prefix.last()[3]), (&[0xab, 0x3f, 0xcf][..], 0xff));
        assert!(prefix.begins(&[0xab, 0x3f, 0xc7, 1, 2, 3, 4, 5]));
        assert!(!prefix.begins(&[0xab, 0x3f, 0xd0]));
    }

    #[test]
    fn anything_else_is_none() {
        let too_long = "0".repeat(65);
        for digits in ["", "abc", "xyzw", "abc-", &too_long, "äääääääää"] {
            assert!(digits.parse::<HashPrefix>().is_err(), "{digits}");
        }
        assert!("0".repeat(64).parse::<HashPrefix>().is_ok());
    }
}
