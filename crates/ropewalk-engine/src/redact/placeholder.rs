//! What stands in the place of a secret: `[redacted:anthropic-key:3f9a1c0b]`.
//!
//! The tag is a keyed hash of the secret. Within an owner equal secrets have equal tags, so that texts that were equal stay
//! equal; without the owner's key nobody can try a guess against it.

use std::fmt;
use std::ops::Range;

use hmac::{Hmac, KeyInit, Mac};
use memchr::memmem;
use sha2::Sha256;

pub(super) const START: &str = "[redacted:";
const TAG_DIGITS: usize = 8;
/// Longest name of a detector; also how far the second colon is looked for.
pub(super) const NAME_BYTES_MAX: usize = 32;

/// An owner's key for tags.
#[derive(Clone)]
pub struct TagKey(Hmac<Sha256>);

impl TagKey {
    /// Any length; 32 random bytes are right.
    pub fn new(secret: &[u8]) -> TagKey {
        TagKey(Hmac::new_from_slice(secret).expect("HMAC takes keys of every length"))
    }

    /// An owner's own key, from the one of the installation: equal secrets of two owners have tags that tell nothing of each other.
    pub fn of_owner(secret: &[u8], owner: &str) -> TagKey {
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(secret).expect("HMAC takes keys of every length");
        mac.update(owner.as_bytes());
        TagKey::new(&mac.finalize().into_bytes())
    }

    /// A key file is the same secret whether its line ends are escaped never, once or twice.
    fn tag(&self, secret: &[u8]) -> String {
        let mut mac = self.0.clone();
        let mut bytes = secret.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            if byte == b'\\' {
                while bytes.next_if_eq(&b'\\').is_some() {}
                bytes.next_if(|next| b"nr".contains(next));
            } else if !byte.is_ascii_whitespace() {
                mac.update(&[byte]);
            }
        }
        let mut tag = hex::encode(mac.finalize().into_bytes());
        tag.truncate(TAG_DIGITS);
        tag
    }
}

impl fmt::Debug for TagKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TagKey")
    }
}

/// No character of it is ever escaped, in JSON or elsewhere.
pub(super) fn write(name: &str, secret: &[u8], key: &TagKey) -> String {
    format!("{START}{name}:{}]", key.tag(secret))
}

pub(super) fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_letter)
}

/// How many placeholders there are in these bytes.
pub fn count_redactions(bytes: &[u8]) -> u64 {
    ranges(bytes).count() as u64
}

/// Where placeholders stand.
pub(super) fn ranges(text: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    memmem::find_iter(text, START).filter_map(|start| {
        let inside = &text[start + START.len()..];
        let colon = inside.iter().take(NAME_BYTES_MAX + 1).position(|byte| *byte == b':')?;
        let name = str::from_utf8(&inside[..colon]).ok()?;
        let tag = inside.get(colon + 1..colon + 1 + TAG_DIGITS)?;
        let is_tag = tag
            .iter()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
        let end = colon + 1 + TAG_DIGITS;
        (is_name(name) && is_tag && inside.get(end) == Some(&b']')).then(|| start..start + START.len() + end + 1)
    })
}
