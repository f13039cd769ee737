//! Decodes and redacts bodies on their way to the journal, by the rules of `ropewalk_engine::redact`.
//!
//! A body is held until it ends, because what is a secret in it may depend on its structure: JSON, or deltas that make a text
//! together. Only when the worker needs memory is a large body searched piece by piece, as plain text; then a secret that lies
//! across two pieces is found if it is shorter than [`OVERLAP_BYTES`].

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header;
use ropewalk_engine::decode::{DecodeLimits, Decoder, Encoded};
use ropewalk_engine::redact::{Redactor, TagKey};

use super::event::Keep;
use super::metadata::MetadataBody;
use super::scrub::{BodyOf, Half, Scrub, ScrubBody};

/// Longer than any key; private keys in PEM have 3 KB.
const OVERLAP_BYTES: usize = 16 << 10;

/// Owners whose keys are kept at hand.
const KEYS_MAX: usize = 1_024;

#[derive(Debug)]
pub struct Redacting {
    redactor: Arc<Redactor>,
    secret: [u8; 32],
    limits: DecodeLimits,
    keys: HashMap<String, Arc<Key>>,
}

/// An owner's key for tags.
struct Key(TagKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Redacting {
    /// With the key of this installation.
    pub fn new(redactor: Arc<Redactor>, secret: [u8; 32], limits: DecodeLimits) -> Self {
        Redacting {
            redactor,
            secret,
            limits,
            keys: HashMap::new(),
        }
    }

    fn key(&mut self, owner: &str) -> Arc<Key> {
        if let Some(key) = self.keys.get(owner) {
            return Arc::clone(key);
        }
        if self.keys.len() >= KEYS_MAX {
            self.keys.clear();
        }
        let key = Arc::new(Key(TagKey::of_owner(&self.secret, owner)));
        self.keys.insert(owner.to_owned(), Arc::clone(&key));
        key
    }
}

impl Scrub for Redacting {
    fn body(&mut self, of: &BodyOf<'_>) -> Option<Box<dyn ScrubBody>> {
        let encodings = of.headers.get_all(header::CONTENT_ENCODING).iter();
        let encodings: Vec<&str> = encodings.filter_map(|value| value.to_str().ok()).collect();
        let encoded = Decoder::new(&encodings.join(","), &self.limits);
        if of.keep == Keep::Metadata {
            return Some(Box::new(MetadataBody::new(of, encoded)));
        }
        let plain_bytes_left = match (&encoded, of.half) {
            (Encoded::Plainly | Encoded::Unknown, Half::Response) => self.limits.decoded_bytes_max,
            // A decoder has its own bound, and a request that is too large was refused.
            (Encoded::As(_), _) | (_, Half::Request) => usize::MAX,
        };
        Some(Box::new(RedactingBody {
            redactor: Arc::clone(&self.redactor),
            key: self.key(of.owner),
            encoded,
            plain_bytes_left,
            is_cut: false,
            text: Vec::new(),
            redactions: 0,
        }))
    }
}

#[derive(Debug)]
struct RedactingBody {
    redactor: Arc<Redactor>,
    key: Arc<Key>,
    encoded: Encoded,
    /// How much more is kept of a body that needs no decoding.
    plain_bytes_left: usize,
    is_cut: bool,
    /// Decoded, not searched yet.
    text: Vec<u8>,
    redactions: u32,
}

impl RedactingBody {
    fn redacted(&mut self, text: Vec<u8>) -> Bytes {
        let redacted = self.redactor.body(&Bytes::from(text), &self.key.0);
        let found = u32::try_from(redacted.found.total()).unwrap_or(u32::MAX);
        self.redactions = self.redactions.saturating_add(found);
        redacted.bytes
    }
}

impl ScrubBody for RedactingBody {
    fn piece(&mut self, piece: &[u8], _: &mut Vec<u8>) {
        let kept = piece.len().min(self.plain_bytes_left);
        self.is_cut |= kept < piece.len();
        self.plain_bytes_left -= kept;
        self.encoded.push(&piece[..kept], &mut self.text);
    }

    fn is_cut(&self) -> bool {
        self.is_cut || self.encoded.is_cut()
    }

    fn end(&mut self, out: &mut Vec<u8>) -> u32 {
        let text = std::mem::take(&mut self.text);
        let redacted = self.redacted(text);
        add(out, Vec::from(redacted));
        self.redactions
    }

    fn relieve(&mut self, out: &mut Vec<u8>) {
        if self.text.len() <= OVERLAP_BYTES {
            return;
        }
        // What is left behind is searched again with what follows; a placeholder in it is no secret.
        let text = std::mem::take(&mut self.text);
        let mut redacted = Vec::from(self.redacted(text));
        let keep = redacted.len().min(OVERLAP_BYTES);
        self.text = redacted.split_off(redacted.len() - keep);
        add(out, redacted);
    }

    fn held(&self) -> usize {
        self.text.capacity()
    }
}

/// A body may be large, so it is moved where nothing stands before it.
fn add(out: &mut Vec<u8>, bytes: Vec<u8>) {
    match out.is_empty() {
        true => *out = bytes,
        false => out.extend_from_slice(&bytes),
    }
}
