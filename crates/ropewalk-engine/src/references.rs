//! References in a request, resolved once and for all (seed 003).
//!
//! The user's texts are looked at in the order they stand in. What the references of a text come to is pinned under the text
//! itself: whoever sends the same text again, as a string or as a block, in the next turn, in a continued conversation or in a subagent's
//! prompt, gets the same words behind it, or the provider's prompt cache would miss. Reminders and outer white space do
//! not count, because clients add and drop them.
//!
//! Invariants: a pin is in the store before its text goes anywhere; what is asked is asked for one owner; a text without a
//! reference costs a search for five bytes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use ropewalk_core::hash::sha256;
use ropewalk_core::model::Provider;
use ropewalk_core::normalise::normalise;
use ropewalk_core::reference::{self, Found};
use ropewalk_store::Store;
use ropewalk_store::names::Pin;
use ropewalk_wire::inject::{self, UserText};
use serde::{Deserialize, Serialize};

use crate::view::{Resolution, Result, View};

/// Bounds of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub references: usize,
    /// Of all that is injected.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            references: 10,
            bytes: 64 << 10,
        }
    }
}

/// What became of the references in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Injected {
    /// The body with the texts in it; `None` where nothing is to be added.
    pub body: Option<Bytes>,
    /// References that were injected, as often as they were.
    pub resolved: usize,
    /// References that stay as they are, as they were written.
    pub unresolved: Vec<String>,
}

/// What the references of one text come to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Outcome {
    /// Elements to be appended, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    elements: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unresolved: Vec<String>,
}

impl Outcome {
    fn bytes(&self) -> usize {
        self.elements.iter().map(String::len).sum()
    }
}

impl<S: Store> View<'_, S> {
    /// The request as the provider is to get it. A body that cannot be read stays as it is.
    pub async fn inject(&self, provider: Provider, body: &Bytes, bounds: Bounds) -> Result<Injected> {
        let texts = inject::user_texts(provider, body, reference::may_contain).unwrap_or_default();
        let texts: Vec<(UserText<'_>, String)> = texts.into_iter().filter_map(with_references).collect();
        if texts.is_empty() {
            return Ok(Injected::default());
        }
        let outcomes = self.outcomes(&texts, bounds).await?;
        let mut injected = Injected::default();
        let mut additions = Vec::new();
        for (text, said) in &texts {
            let Some(outcome) = outcomes.get(&key(said)) else {
                continue;
            };
            injected.resolved += outcome.elements.len();
            injected.unresolved.extend(outcome.unresolved.iter().cloned());
            if !outcome.elements.is_empty() {
                additions.push((text, reference::append("", &outcome.elements)));
            }
        }
        if !additions.is_empty() {
            let additions: Vec<(&UserText<'_>, &str)> =
                additions.iter().map(|(text, added)| (*text, &**added)).collect();
            injected.body = Some(inject::append(body, &additions).into());
        }
        Ok(injected)
    }

    /// The outcome of every text, by its key: those that are pinned as they are, the others pinned now.
    async fn outcomes(&self, texts: &[(UserText<'_>, String)], bounds: Bounds) -> Result<HashMap<[u8; 32], Outcome>> {
        let keys: Vec<[u8; 32]> = texts.iter().map(|(_, said)| key(said)).collect();
        let mut outcomes = read_all(self.store.pins(self.owner, keys.clone()).await?);
        let mut left = bounds;
        let mut new = Vec::new();
        for ((_, said), key) in texts.iter().zip(keys) {
            let outcome = match outcomes.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let outcome = self.resolve_all(said, left).await?;
                    new.push(Pin {
                        key,
                        outcome: serde_json::to_string(&outcome).unwrap_or_default(),
                    });
                    place.insert(outcome)
                }
            };
            left.references = left.references.saturating_sub(outcome.elements.len());
            left.bytes = left.bytes.saturating_sub(outcome.bytes());
        }
        if !new.is_empty() {
            // Somebody may have been faster, and theirs is what the provider has seen.
            outcomes.extend(read_all(self.store.pin(self.owner, new).await?));
        }
        Ok(outcomes)
    }

    /// The references of a text, each once, as far as the bounds allow.
    async fn resolve_all(&self, said: &str, left: Bounds) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut met = HashSet::new();
        for Found { range, reference } in reference::find(said) {
            if !met.insert(reference.clone()) {
                continue;
            }
            let written = &said[range];
            let has_room = outcome.elements.len() < left.references;
            let found = match has_room {
                true => self.find_message(&reference, written).await?,
                false => Resolution::Unknown,
            };
            let element = match found {
                Resolution::Found(message) => Some(message.injected()),
                Resolution::Unknown | Resolution::Ambiguous(_) => None,
            };
            match element.filter(|element| outcome.bytes() + element.len() <= left.bytes) {
                Some(element) => outcome.elements.push(element),
                None => outcome.unresolved.push(written.to_owned()),
            }
        }
        Ok(outcome)
    }
}

/// A text and what of it is the user's own, if there is a reference in that.
fn with_references(text: UserText<'_>) -> Option<(UserText<'_>, String)> {
    let said = normalise(&text.text).into_owned();
    (!reference::find(&said).is_empty()).then_some((text, said))
}

fn key(said: &str) -> [u8; 32] {
    sha256(format!("v1:pin\0{said}").as_bytes())
}

/// What cannot be read was pinned by a newer program; the text stays literal then.
fn read_all(pins: Vec<Pin>) -> HashMap<[u8; 32], Outcome> {
    let read = |pin: Pin| (pin.key, serde_json::from_str(&pin.outcome).unwrap_or_default());
    pins.into_iter().map(read).collect()
}
