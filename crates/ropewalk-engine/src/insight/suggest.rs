//! Conversations that are nearly the same, or that a passage was copied between: suggestions with a score, never links.
//!
//! Lexical, in two steps. `sketch` keeps a sample of every conversation's runs of words; which runs are in the sample depends on the run
//! alone, so what two conversations share is in the samples of both. Pairs that share several rare runs are candidates. Those are then
//! read, and compared word by word (`compare`).
//!
//! Invariants: runs that many conversations have, such as what a client says to every model, suggest nothing; memory is bounded by
//! sampling less of everything, never by leaving conversations out unsaid.

mod compare;
mod sketch;

use std::collections::{HashMap, VecDeque};

use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use serde::Serialize;
use utoipa::ToSchema;

use super::passages::Passage;
use crate::view::{Result, View, utc};
use compare::{Likeness, Spoken};
use sketch::{Shared, Sketches};

pub use compare::Kind;

/// Conversations that are read again and again while pairs are compared.
const KEPT_MAX: usize = 512;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Conversations that are looked at, the newest.
    pub conversations_max: usize,
    /// Pairs that are compared, those that share most first.
    pub compared_max: usize,
    /// Pairs that are given, the best.
    pub given_max: usize,
    /// What a pair must score, from 0 to 1.
    pub score_min: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            conversations_max: 100_000,
            compared_max: 10_000,
            given_max: 20,
            score_min: 0.5,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = NearDuplicates)]
pub struct Suggestions {
    pub v: u32,
    /// Conversations that were looked at, and those that were not.
    pub conversations: usize,
    pub is_all: bool,
    /// Pairs, the best first.
    pub pairs: Vec<Pair>,
    /// Pairs that score as much as was asked for and are not given.
    pub pairs_left_out: usize,
    /// Candidates that were not compared.
    pub not_compared: usize,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Pair {
    /// From 0 to 1.
    pub score: f64,
    pub kind: Kind,
    /// Words of the one that are in the other in the same order, of the shorter one.
    pub shared_words: usize,
    /// How the longest passage that they share begins.
    pub excerpt: String,
    /// The older one.
    pub a: Suggested,
    pub b: Suggested,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Suggested {
    pub conversation_id: String,
    pub friendly_id: Option<String>,
    pub title: Option<String>,
    pub started_at: String,
    pub turns: u64,
}

impl<S: Store> View<'_, S> {
    /// Pairs of conversations that are nearly the same.
    pub async fn suggest(&self, settings: &Settings) -> Result<Suggestions> {
        let (roots, sketches, is_all) = self.sketch_conversations(settings).await?;
        let found = sketches.finish();
        let mut candidates = found.candidates();
        let not_compared = candidates.len().saturating_sub(settings.compared_max);
        candidates.truncate(settings.compared_max);
        // Side by side those of the same conversation, which is then read once.
        candidates.sort_unstable_by_key(|candidate| (candidate.a, candidate.b));
        let mut kept = Kept::default();
        let mut alike: Vec<(Likeness, ExchangeNumber, ExchangeNumber)> = Vec::new();
        for candidate in candidates {
            let (a, b) = (roots[candidate.a as usize], roots[candidate.b as usize]);
            kept.read(self, a, &found).await?;
            kept.read(self, b, &found).await?;
            let likeness = compare::likeness(&kept.spoken[&a], &kept.spoken[&b]);
            alike.extend(
                likeness
                    .filter(|likeness| likeness.score >= settings.score_min)
                    .map(|likeness| (likeness, a, b)),
            );
        }
        alike.sort_by(|(one, a, b), (other, c, d)| other.score.total_cmp(&one.score).then((a, b).cmp(&(c, d))));
        let pairs_left_out = alike.len().saturating_sub(settings.given_max);
        let mut pairs = Vec::new();
        for (likeness, a, b) in alike.into_iter().take(settings.given_max) {
            if let Some(pair) = self.pair(likeness, a, b).await? {
                pairs.push(pair);
            }
        }
        Ok(Suggestions {
            v: 1,
            conversations: roots.len(),
            is_all,
            pairs,
            pairs_left_out,
            not_compared,
        })
    }

    async fn sketch_conversations(&self, settings: &Settings) -> Result<(Vec<ExchangeNumber>, Sketches, bool)> {
        let mut roots = Vec::new();
        let mut sketches = Sketches::default();
        let mut before = None;
        while let Some((page, cursor)) = self.roots_before(before).await? {
            before = Some(cursor);
            for root in page {
                if roots.len() == settings.conversations_max {
                    return Ok((roots, sketches, false));
                }
                let passages = self.passages(root).await?;
                sketches.add(passages.iter().map(|passage| &*passage.text));
                roots.push(root);
            }
        }
        Ok((roots, sketches, true))
    }

    async fn pair(&self, likeness: Likeness, a: ExchangeNumber, b: ExchangeNumber) -> Result<Option<Pair>> {
        let (a, b) = (self.suggested(a).await?, self.suggested(b).await?);
        let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
        let (a, b) = if (&a.started_at, &a.conversation_id) <= (&b.started_at, &b.conversation_id) {
            (a, b)
        } else {
            (b, a)
        };
        Ok(Some(Pair {
            score: (likeness.score * 1e3).round() / 1e3,
            kind: likeness.kind,
            shared_words: likeness.shared_words,
            excerpt: likeness.excerpt,
            a,
            b,
        }))
    }

    async fn suggested(&self, root: ExchangeNumber) -> Result<Option<Suggested>> {
        let Some(row) = self.find_conversation_row(root).await? else {
            return Ok(None);
        };
        let conversation = self.conversation(&row).await?;
        Ok(Some(Suggested {
            conversation_id: conversation.conversation_id,
            friendly_id: conversation.friendly_id,
            title: conversation.title,
            started_at: utc(row.started_at),
            turns: conversation.turns,
        }))
    }
}

/// Conversations that were read lately.
#[derive(Default)]
struct Kept {
    spoken: HashMap<ExchangeNumber, Spoken>,
    order: VecDeque<ExchangeNumber>,
}

impl Kept {
    async fn read<S: Store>(&mut self, view: &View<'_, S>, root: ExchangeNumber, shared: &Shared) -> Result<()> {
        if self.spoken.contains_key(&root) {
            return Ok(());
        }
        // The two that are compared next are the last that were read.
        if self.order.len() >= KEPT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.spoken.remove(&oldest);
        }
        let passages: Vec<Passage> = view.passages(root).await?;
        self.spoken.insert(root, Spoken::new(&passages, shared));
        self.order.push_back(root);
        Ok(())
    }
}
