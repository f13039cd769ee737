//! Secrets out of bodies, before anything is kept.
//!
//! One set of rules for what is recorded and what is imported. Order of reading: [`rules`](RedactRules) (what users say),
//! `detectors` (what is looked for by default), `find` (how), `placeholder` (what stands there afterwards), `pass` (how a body is
//! changed: JSON, events, or neither), then [`Redactor`] here.
//!
//! Invariants: what is found in a text depends on that text alone, so that a message has the same chain whether it came as a
//! string, a block or a stream of deltas; redacting twice is redacting once; JSON stays JSON and events stay events; every
//! byte that is not part of a secret stays; a body without secrets is returned as it is, without a copy. Nothing takes more than
//! linear time, whatever the text.

mod detectors;
mod find;
mod pass;
mod paths;
mod placeholder;
mod rules;

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::decode::{DecodeLimits, decode};
use crate::logged::Logged;
use crate::raw::RawExchange;
use find::Finder;
use pass::Pass;
use paths::Path;

pub use paths::PathError;
pub use placeholder::{TagKey, count_redactions};
pub use rules::{PatternRule, RedactError, RedactRules};

/// A placeholder may bring two texts together that make a new match. Patterns that do so twice are not known; this bounds
/// those that would do it for ever.
const ROUNDS_MAX: usize = 4;

/// Compiled rules. Made once, used by all threads.
#[derive(Debug)]
pub struct Redactor {
    finder: Finder,
    paths: Vec<Path>,
}

/// A body after redaction.
#[derive(Debug, Clone)]
pub struct Redacted {
    /// The very same bytes if nothing was found.
    pub bytes: Bytes,
    pub found: Found,
}

/// How many secrets were found, by detector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found(BTreeMap<String, u64>);

impl Found {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Detectors and their counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn extend(&mut self, other: &Found) {
        for (name, count) in other.iter() {
            *self.0.entry(name.to_owned()).or_default() += count;
        }
    }
}

impl Redactor {
    pub fn new(rules: &RedactRules) -> Result<Redactor, RedactError> {
        let paths = rules.paths.iter().map(|path| {
            Path::parse(path).map_err(|source| RedactError::Path {
                path: path.clone(),
                source,
            })
        });
        Ok(Redactor {
            finder: Finder::new(rules)?,
            paths: paths.collect::<Result<_, _>>()?,
        })
    }

    /// Redacts a decoded body: JSON, server-sent events, or any text.
    pub fn body(&self, bytes: &Bytes, key: &TagKey) -> Redacted {
        let mut redacted = Redacted {
            bytes: bytes.clone(),
            found: Found::default(),
        };
        for _ in 0..ROUNDS_MAX {
            match Pass::over(self, key, &redacted.bytes) {
                Some((bytes, found)) => {
                    redacted.bytes = bytes;
                    redacted.found.extend(&found);
                }
                None => break,
            }
        }
        redacted
    }

    /// Redacts both bodies of an exchange that was not recorded by us, before it is prepared. A body that is compressed and has
    /// a secret in it is kept decoded.
    pub fn exchange(&self, raw: &mut RawExchange, key: &TagKey) -> Found {
        let mut found = self.half(&mut raw.request_body, &mut raw.request_headers, key);
        if let Some(body) = &mut raw.response_body {
            found.extend(&self.half(body, &mut raw.response_headers, key));
        }
        found
    }

    /// Redacts what was found in a log, before anything is made of it.
    pub fn logged(&self, logged: &mut Logged, key: &TagKey) {
        match logged {
            Logged::Message(message) => message.json = self.body(&message.json, key).bytes,
            Logged::Turn(turn) => turn.answer = self.body(&turn.answer, key).bytes,
            Logged::Record(row, _) => {
                if let Some(text) = row.text.take() {
                    let bytes = self.body(&Bytes::from(text), key).bytes;
                    row.text = Some(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
            Logged::Exchange { raw, .. } => drop(self.exchange(raw, key)),
        }
    }

    fn half(&self, body: &mut Bytes, headers: &mut Vec<(String, String)>, key: &TagKey) -> Found {
        let is_encoding = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-encoding");
        let encodings: Vec<&str> = headers
            .iter()
            .filter(|header| is_encoding(header))
            .map(|(_, value)| value.as_str())
            .collect();
        let decoded = decode(body, &encodings.join(","), &DecodeLimits::default());
        // Importers often keep a decoded body beside the headers of the compressed one.
        let is_decoded = decoded.bytes.is_empty() && !body.is_empty();
        let text = if is_decoded { body.clone() } else { decoded.bytes };
        let redacted = self.body(&text, key);
        if !redacted.found.is_empty() {
            headers.retain(|header| !is_encoding(header));
            *body = redacted.bytes;
        }
        redacted.found
    }
}

#[cfg(test)]
mod tests;
