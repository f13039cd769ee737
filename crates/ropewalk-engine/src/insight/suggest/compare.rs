//! Two conversations word by word.

use std::collections::HashSet;

use ropewalk_core::model::Role;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::passages::Passage;
use super::super::words::{RUN, runs, words};
use super::sketch::Shared;

/// A passage with fewer words says too little to be told from another.
const PASSAGE_WORDS_MIN: usize = 12;

/// Share of a passage's words that must be in the other conversation for it to count as the same.
const SAME_FROM: f64 = 0.6;

/// Share of the shorter conversation that must be in the other for them to be nearly the same.
const NEAR_FROM: f64 = 0.5;

/// Words of copied passages that are beyond doubt.
const CERTAIN_WORDS: f64 = 100.0;

/// Share of a passage's runs that many conversations have, from which on it is nobody's own.
const COMMON_FROM: f64 = 0.3;

/// Characters of a passage that are shown.
const EXCERPT_CHARS: usize = 120;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SuggestionKind)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Most of the shorter one is in the other.
    NearDuplicate,
    /// They begin alike, and go on otherwise.
    Opening,
    /// A passage of the one is in the other.
    CopiedPassage,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::NearDuplicate => "near duplicate",
            Kind::Opening => "opening",
            Kind::CopiedPassage => "copied passage",
        }
    }
}

#[derive(Debug)]
pub(super) struct Likeness {
    pub(super) score: f64,
    pub(super) kind: Kind,
    pub(super) shared_words: usize,
    pub(super) excerpt: String,
}

/// A conversation's own passages.
#[derive(Debug)]
pub(super) struct Spoken {
    passages: Vec<OwnPassage>,
    runs: HashSet<u64>,
    words: usize,
}

#[derive(Debug)]
struct OwnPassage {
    words: Vec<u64>,
    is_opening: bool,
    excerpt: String,
}

impl Spoken {
    pub(super) fn new(passages: &[Passage], shared: &Shared) -> Self {
        let mut spoken = Spoken {
            passages: Vec::new(),
            runs: HashSet::new(),
            words: 0,
        };
        let opening = passages.iter().position(|passage| passage.role == Role::User);
        for (at, passage) in passages.iter().enumerate() {
            let words = words(&passage.text);
            if words.len() < PASSAGE_WORDS_MIN {
                continue;
            }
            let own: Vec<u64> = runs(&words).collect();
            if shared.common_share(&own) > COMMON_FROM {
                continue;
            }
            spoken.words += words.len();
            spoken.runs.extend(own);
            spoken.passages.push(OwnPassage {
                words,
                is_opening: opening == Some(at),
                excerpt: passage.text.chars().take(EXCERPT_CHARS).collect(),
            });
        }
        spoken
    }
}

/// A passage of one conversation and how much of it is in the other.
struct Found<'s> {
    passage: &'s OwnPassage,
    words: usize,
}

/// How alike two conversations are; `None` where they share no passage.
pub(super) fn likeness(a: &Spoken, b: &Spoken) -> Option<Likeness> {
    let (shorter, longer) = if a.words <= b.words { (a, b) } else { (b, a) };
    let found = shared_passages(shorter, longer);
    let back = shared_passages(longer, shorter);
    let longest = found.iter().max_by_key(|found| found.words)?;
    let shared_words: usize = found.iter().map(|found| found.words).sum();
    let share = shared_words as f64 / shorter.words as f64;
    let is_only_opening = |found: &[Found<'_>]| found.iter().all(|found| found.passage.is_opening);
    let of_passage = found.iter().map(|found| {
        let share = found.words as f64 / found.passage.words.len() as f64;
        share * (found.words as f64 / CERTAIN_WORDS).min(1.0).sqrt()
    });
    let of_passages = of_passage.fold(0.0, f64::max);
    let (score, kind) = match share >= NEAR_FROM {
        true => (share.max(of_passages), Kind::NearDuplicate),
        false if is_only_opening(&found) && is_only_opening(&back) => (of_passages, Kind::Opening),
        false => (of_passages, Kind::CopiedPassage),
    };
    Some(Likeness {
        score: score.min(1.0),
        kind,
        shared_words,
        excerpt: longest.passage.excerpt.clone(),
    })
}

/// Passages of one that are in the other, as a whole but for some words.
fn shared_passages<'s>(of: &'s Spoken, other: &Spoken) -> Vec<Found<'s>> {
    let found = of.passages.iter().filter_map(|passage| {
        let words = covered(&passage.words, &other.runs);
        let is_same = words as f64 >= passage.words.len() as f64 * SAME_FROM;
        is_same.then_some(Found { passage, words })
    });
    found.collect()
}

/// Words that lie in a run that the other has.
fn covered(words: &[u64], others: &HashSet<u64>) -> usize {
    let (mut covered, mut until) = (0, 0);
    for (at, run) in runs(words).enumerate() {
        if others.contains(&run) {
            covered += at + RUN - until.max(at);
            until = at + RUN;
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::super::sketch::Sketches;
    use super::*;

    fn spoken(passages: &[&str]) -> Spoken {
        let roles = [Role::User, Role::Assistant].into_iter().cycle();
        let passages: Vec<Passage> = passages
            .iter()
            .zip(roles)
            .map(|(text, role)| Passage {
                role,
                text: (*text).to_owned(),
            })
            .collect();
        Spoken::new(&passages, &Sketches::default().finish())
    }

    const OPENING: &str = "please look at the parser and tell me why it is slow when a line has many quotes in it";
    const EDITED: &str =
        "please look at the parser and say to me why it is slow when a line has many quotes in it, now";
    const ANSWER: &str =
        "the scanner goes back to the start of the line for each quote, so the work grows with their square";
    const OTHER: &str =
        "every rope is made of yarns which are spun from fibres and then laid into strands before they are closed";

    #[test]
    fn an_edited_opening_is_nearly_the_same() {
        let likeness = likeness(&spoken(&[OPENING, ANSWER]), &spoken(&[EDITED, ANSWER])).unwrap();
        assert_eq!(likeness.kind, Kind::NearDuplicate);
        assert!(likeness.score > 0.85, "{likeness:?}");
    }

    #[test]
    fn a_copied_passage_is_told_from_a_copy() {
        let a = spoken(&[OTHER, OTHER, OPENING, ANSWER]);
        let long = [OTHER.replace("rope", "cable"), OTHER.to_uppercase()].join(" and ");
        let b = spoken(&[
            "a question of some length about things that nobody here has ever spoken about before",
            ANSWER,
        ]);
        let copied = likeness(&a, &b).unwrap();
        assert_eq!(copied.kind, Kind::NearDuplicate, "half of the shorter one");
        let longer = spoken(&[
            "a question of some length about things that nobody here has ever spoken about before",
            "an answer of some length about things that nobody will ever speak about again, as far as I can tell",
            "one more question of some length about what was said and what could have been said instead of it",
            ANSWER,
        ]);
        let copied = likeness(&spoken(&[&long, ANSWER, &long.replace("yarns", "wires")]), &longer).unwrap();
        assert_eq!(copied.kind, Kind::CopiedPassage);
    }

    #[test]
    fn strangers_share_nothing() {
        assert!(likeness(&spoken(&[OPENING, ANSWER]), &spoken(&[OTHER, OTHER])).is_none());
        assert!(likeness(&spoken(&[]), &spoken(&[])).is_none());
    }

    #[test]
    fn words_in_runs_that_overlap_count_once() {
        let words = words("one two three four five six seven");
        let runs: HashSet<u64> = runs(&words).collect();
        assert_eq!(covered(&words, &runs), 7);
        assert_eq!(covered(&words[..5], &runs), 5);
        assert_eq!(covered(&words[..3], &runs), 0);
    }
}
