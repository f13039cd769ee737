//! Texts that were recorded and wait to be indexed.
//!
//! They are stored as numbers of parts, and their parts lie in packs: a path that was said a thousand times lies in the pack of its first
//! time, which would have to be unpacked for it. Most texts are indexed right after they were recorded, so they are kept until then.

use std::collections::HashMap;
use std::sync::Arc;

use crate::facts::OwnerId;

/// Bytes that are kept. What comes when they are full is read again when its turn comes: those that came first are indexed first.
const BYTES_MAX: usize = 8 << 20;

/// What an entry takes beside its strings.
const ENTRY_BYTES: usize = 64;

/// By owner and number of the text.
#[derive(Debug, Default)]
pub(super) struct FreshTexts {
    texts: HashMap<(OwnerId, i64), Vec<Arc<str>>>,
    bytes: usize,
}

impl FreshTexts {
    pub(super) fn keep(&mut self, owner: OwnerId, text: i64, strings: &[Arc<str>]) {
        let bytes = size(strings);
        if self.bytes + bytes <= BYTES_MAX {
            self.bytes += bytes;
            self.texts.insert((owner, text), strings.to_vec());
        }
    }

    pub(super) fn take(&mut self, owner: OwnerId, text: i64) -> Option<String> {
        let strings = self.texts.remove(&(owner, text))?;
        self.bytes -= size(&strings);
        Some(strings.join("\n"))
    }

    pub(super) fn clear(&mut self) {
        *self = FreshTexts::default();
    }
}

fn size(strings: &[Arc<str>]) -> usize {
    strings.iter().map(|string| string.len() + ENTRY_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_until_they_are_taken() {
        let mut fresh = FreshTexts::default();
        let long: Arc<str> = "x".repeat(BYTES_MAX / 2).into();
        fresh.keep(OwnerId(1), 1, &["a".into(), "b".into()]);
        fresh.keep(OwnerId(1), 2, &[Arc::clone(&long)]);
        fresh.keep(OwnerId(1), 3, &[Arc::clone(&long)]);
        assert_eq!(fresh.take(OwnerId(1), 1).as_deref(), Some("a\nb"));
        assert_eq!(fresh.take(OwnerId(2), 2), None);
        assert_eq!(fresh.take(OwnerId(1), 3), None);
        assert_eq!(fresh.take(OwnerId(1), 2).map(|text| text.len()), Some(long.len()));
        assert_eq!(fresh.bytes, 0);
    }
}
