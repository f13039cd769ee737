//! Where a text went: every conversation, model and provider that was sent it, or said it.
//!
//! The full-text index finds the exchanges that said it first, and their bytes confirm it. From there links lead: who goes on from an
//! exchange sends its history again, as far as it shares it. So the work grows with the places that are found, not with the store.
//!
//! Invariants: an exchange is listed with `is_certain` only if the chain or its own bytes prove that it holds the text; where neither was
//! looked at, it is listed without. What is not looked at is counted.

mod follow;
mod held;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ropewalk_core::hash::{NodeHash, PartHash};
use ropewalk_core::json::{Style, quote};
use ropewalk_store::Store;
use ropewalk_store::derived::Conversations;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{ExchangeRow, PAGE_MAX, SearchQuery};
use serde::Serialize;
use utoipa::ToSchema;

use crate::texts::SEARCH_TEXT_BYTES_MAX;
use crate::view::{Result, View, utc, uuid_text};
use follow::Following;
pub use held::Half;

/// Longest text that is looked for, in bytes: what is longer was never found as a whole by its words.
pub const TEXT_BYTES_MAX: usize = SEARCH_TEXT_BYTES_MAX;

/// Words that the index is asked for; the bytes decide.
const WORDS_ASKED: usize = 16;

/// Exchanges that are listed, the oldest; the sums are of all.
pub const EXCHANGES_MAX: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum UnsearchableText {
    #[error("the text has no word to look for")]
    NoWords,
    #[error("the part is no text")]
    NoText,
    #[error("the text has {length} bytes; {TEXT_BYTES_MAX} is the most")]
    TooLong { length: usize },
}

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    text: String,
    /// As it stands inside a JSON string.
    in_json: String,
}

impl Wanted {
    pub fn new(text: &str) -> std::result::Result<Self, UnsearchableText> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(UnsearchableText::TooLong { length: text.len() });
        }
        if !text.contains(char::is_alphanumeric) {
            return Err(UnsearchableText::NoWords);
        }
        let quoted = quote(text, Style::Plain);
        Ok(Wanted {
            in_json: quoted[1..quoted.len() - 1].to_owned(),
            text: text.to_owned(),
        })
    }

    /// The text of a part.
    pub fn of_part(bytes: Vec<u8>) -> std::result::Result<Self, UnsearchableText> {
        let text = String::from_utf8(bytes).map_err(|_| UnsearchableText::NoText)?;
        Wanted::new(&text)
    }

    /// The first words as one phrase. Whole words: the index knows no others.
    fn phrase(&self) -> String {
        let clean: String = self
            .text
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { ' ' })
            .collect();
        let words: Vec<&str> = clean.split_whitespace().take(WORDS_ASKED).collect();
        format!("\"{}\"", words.join(" "))
    }

    fn is_in(&self, text: &str) -> bool {
        text.contains(&self.text)
    }

    /// In a part, which is a text or a piece of JSON.
    fn is_in_part(&self, bytes: &[u8]) -> bool {
        let has = |text: &str| memchr::memmem::find(bytes, text.as_bytes()).is_some();
        has(&self.text) || self.in_json != self.text && has(&self.in_json)
    }
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Spread {
    pub v: u32,
    /// Where it was said first, oldest first.
    pub first_said: Vec<FirstSaid>,
    pub conversations: Vec<SeenConversation>,
    pub models: Vec<NamedSeen>,
    /// Providers that were sent it, or answered with it.
    pub destinations: Vec<NamedSeen>,
    /// Every exchange with the text in it, oldest first.
    pub exchanges: Vec<SeenExchange>,
    pub exchanges_left_out: usize,
    /// The nodes that hold it.
    #[schema(value_type = Vec<String>)]
    pub nodes: Vec<NodeHash>,
    /// The parts that its bytes lie in, by their SHA-256.
    #[schema(value_type = Vec<String>)]
    pub parts: Vec<PartHash>,
    /// Whether all that the index has was followed. It has no words of system prompts, tool lists and reminders.
    pub is_complete: bool,
}

/// An exchange that brought the text.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FirstSaid {
    pub exchange_id: String,
    pub at: String,
    /// `user`, `assistant`, `tool_use` or `tool_result`.
    pub said_by: &'static str,
    /// `None` for a block that is in no chain.
    #[schema(value_type = Option<String>)]
    pub node: Option<NodeHash>,
}

/// How often it was seen, and when.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Seen {
    pub exchanges: u64,
    pub first_at: String,
    pub last_at: String,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct NamedSeen {
    pub name: String,
    #[serde(flatten)]
    pub seen: Seen,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SeenConversation {
    pub conversation_id: String,
    pub friendly_id: Option<String>,
    pub title: Option<String>,
    #[serde(flatten)]
    pub seen: Seen,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SeenExchange {
    pub exchange_id: String,
    pub at: String,
    pub provider: String,
    pub model: Option<String>,
    pub conversation_id: Option<String>,
    pub session: Option<String>,
    /// Whether the provider was sent it, said it, or had it from a call before.
    pub half: Half,
    pub is_certain: bool,
}

impl<S: Store> View<'_, S> {
    /// Everybody who saw a text.
    pub async fn spread(&self, wanted: &Wanted) -> Result<Spread> {
        let query = SearchQuery {
            text: wanted.phrase(),
            source: None,
            model: None,
            since: None,
            limit: PAGE_MAX,
        };
        let hits = self.store.search(self.owner, query).await?;
        let numbers: HashSet<ExchangeNumber> = hits.iter().map(|hit| hit.exchange).collect();
        let rows = self.rows(numbers.into_iter().collect()).await?;
        let mut following = Following::new(wanted);
        following.begin(self, rows).await?;
        following.follow(self).await?;
        let is_complete = hits.len() < PAGE_MAX;
        self.described(following, is_complete).await
    }

    async fn described(&self, mut following: Following<'_>, is_complete: bool) -> Result<Spread> {
        let mut rows = std::mem::take(&mut following.rows);
        let read: HashSet<ExchangeNumber> = rows.iter().map(|row| row.number).collect();
        let repeating = following.held.keys().filter(|number| !read.contains(number));
        rows.extend(self.rows(repeating.copied().collect()).await?);
        rows.sort_by_key(|row| (row.at, row.number));
        let mut conversations: BTreeMap<ExchangeNumber, Seen> = BTreeMap::new();
        let (mut models, mut destinations) = (BTreeMap::new(), BTreeMap::new());
        for row in &rows {
            let model = row.model.as_deref().unwrap_or("unknown");
            seen(&mut models, model.to_owned(), row);
            seen(&mut destinations, row.provider.clone(), row);
            if let Some(root) = following.conversations.get(&row.number) {
                seen(&mut conversations, *root, row);
            }
        }
        let (conversations, ids) = self.seen_conversations(conversations).await?;
        let listed = rows.iter().take(EXCHANGES_MAX).map(|row| {
            let held = &following.held[&row.number];
            let root = following.conversations.get(&row.number);
            SeenExchange {
                exchange_id: row.id.clone(),
                at: utc(row.at),
                provider: row.provider.clone(),
                model: row.model.clone(),
                conversation_id: root.and_then(|root| ids.get(root).cloned()),
                session: row.session.clone(),
                half: held.half,
                is_certain: held.is_certain,
            }
        });
        let exchanges = listed.collect();
        let first_said = following.first_said();
        let nodes: BTreeSet<NodeHash> = first_said.iter().filter_map(|said| said.node).collect();
        let parts: BTreeSet<PartHash> = following.parts.into_iter().collect();
        Ok(Spread {
            v: 1,
            exchanges,
            exchanges_left_out: rows.len().saturating_sub(EXCHANGES_MAX),
            first_said,
            conversations,
            models: named(models),
            destinations: named(destinations),
            nodes: nodes.into_iter().collect(),
            parts: parts.into_iter().collect(),
            is_complete,
        })
    }

    async fn seen_conversations(
        &self,
        by_root: BTreeMap<ExchangeNumber, Seen>,
    ) -> Result<(Vec<SeenConversation>, HashMap<ExchangeNumber, String>)> {
        let mut shown = Vec::with_capacity(by_root.len());
        let mut ids = HashMap::new();
        let mut roots: Vec<(ExchangeNumber, Seen)> = by_root.into_iter().collect();
        roots.sort_by(|(_, a), (_, b)| a.first_at.cmp(&b.first_at));
        for page in roots.chunks(PAGE_MAX) {
            let page_roots: Vec<ExchangeNumber> = page.iter().map(|(root, _)| *root).collect();
            let rows = self
                .store
                .conversations(self.owner, Conversations::Of(page_roots))
                .await?;
            let called = self.called(&rows).await?;
            let mut known: HashMap<ExchangeNumber, _> = rows
                .iter()
                .zip(called)
                .map(|(row, called)| (row.root, (row.id, called)))
                .collect();
            for (root, seen) in page {
                let Some((id, called)) = known.remove(root) else {
                    continue;
                };
                let id = uuid_text(&id);
                ids.insert(*root, id.clone());
                shown.push(SeenConversation {
                    conversation_id: id,
                    friendly_id: called.friendly_id,
                    title: called.title,
                    seen: seen.clone(),
                });
            }
        }
        Ok((shown, ids))
    }
}

fn seen<K: Ord>(by: &mut BTreeMap<K, Seen>, key: K, row: &ExchangeRow) {
    let at = utc(row.at);
    let seen = by.entry(key).or_insert_with(|| Seen {
        exchanges: 0,
        first_at: at.clone(),
        last_at: String::new(),
    });
    seen.exchanges += 1;
    seen.last_at = at;
}

fn named(by_name: BTreeMap<String, Seen>) -> Vec<NamedSeen> {
    let named = by_name.into_iter().map(|(name, seen)| NamedSeen { name, seen });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_asked_for_by_its_first_words_and_found_by_its_bytes() {
        let wanted = Wanted::new(" the \"off-by-one\" in parse()\n").unwrap();
        assert_eq!(wanted.phrase(), "\"the off by one in parse\"");
        assert!(wanted.is_in("I saw the \"off-by-one\" in parse() again"));
        assert!(!wanted.is_in("I saw the off by one in parse again"));
        assert!(wanted.is_in_part(br#"{"text":"the \"off-by-one\" in parse()"}"#));
    }

    #[test]
    fn what_has_no_words_or_too_many_is_refused() {
        assert!(matches!(Wanted::new(" -- "), Err(UnsearchableText::NoWords)));
        let long = "word ".repeat(TEXT_BYTES_MAX);
        assert!(matches!(Wanted::new(&long), Err(UnsearchableText::TooLong { .. })));
    }
}
