//! A sample of the runs of words of every conversation, and the pairs that share some.

use std::collections::HashMap;

use super::super::words::{runs, words};

/// One in so many runs is in the sample, as long as there is room.
const SAMPLED_FIRST: u64 = 4;

/// Runs that are kept of all conversations together, 16 bytes each. With more, every second one is let go.
const ENTRIES_MAX: usize = 8 << 20;

/// A run that more conversations have is nobody's own: a client's preamble, a template.
const COMMON_FROM: usize = 12;

/// Sampled runs that a pair must share to be looked at.
const SHARED_MIN: u32 = 3;

/// Runs of one conversation that are kept.
const ENTRIES_OF_ONE_MAX: usize = 16 << 10;

#[derive(Debug)]
pub(super) struct Sketches {
    /// Run and conversation.
    entries: Vec<(u64, u32)>,
    conversations: u32,
    /// Runs below it are in the sample.
    below: u64,
    entries_max: usize,
}

impl Default for Sketches {
    fn default() -> Self {
        Sketches {
            entries: Vec::new(),
            conversations: 0,
            below: u64::MAX / SAMPLED_FIRST,
            entries_max: ENTRIES_MAX,
        }
    }
}

impl Sketches {
    /// Adds the next conversation.
    pub(super) fn add<'t>(&mut self, passages: impl Iterator<Item = &'t str>) {
        let conversation = self.conversations;
        self.conversations += 1;
        let mut sampled = Vec::new();
        for passage in passages {
            let words = words(passage);
            let below = self.below;
            sampled.extend(runs(&words).filter(|run| *run < below));
            if sampled.len() > ENTRIES_OF_ONE_MAX {
                break;
            }
        }
        sampled.sort_unstable();
        sampled.dedup();
        sampled.truncate(ENTRIES_OF_ONE_MAX);
        self.entries.extend(sampled.into_iter().map(|run| (run, conversation)));
        while self.entries.len() > self.entries_max {
            self.below /= 2;
            let below = self.below;
            self.entries.retain(|(run, _)| *run < below);
        }
    }

    pub(super) fn finish(mut self) -> Shared {
        self.entries.sort_unstable();
        let mut shared = Shared {
            groups: Vec::new(),
            common: Vec::new(),
            below: self.below,
        };
        for group in self.entries.chunk_by(|(one, _), (other, _)| one == other) {
            match group.len() {
                1 => {}
                2..=COMMON_FROM => shared
                    .groups
                    .push(group.iter().map(|(_, conversation)| *conversation).collect()),
                _ => shared.common.push(group[0].0),
            }
        }
        shared
    }
}

/// What conversations share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The conversations of each run that a few have.
    groups: Vec<Box<[u32]>>,
    /// Runs that many have, in order.
    common: Vec<u64>,
    /// Runs below it were in the sample.
    below: u64,
}

/// A pair to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) shared: u32,
}

impl Shared {
    /// Which share of some runs many conversations have, by those that were in the sample.
    pub(super) fn common_share(&self, runs: &[u64]) -> f64 {
        let sampled = runs.iter().filter(|run| **run < self.below);
        let (all, common) = sampled.fold((0_u32, 0_u32), |(all, common), run| {
            let is_common = self.common.binary_search(run).is_ok();
            (all + 1, common + u32::from(is_common))
        });
        f64::from(common) / f64::from(all.max(1))
    }

    /// Pairs that share enough, those that share most first.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        // Every run has at most a dozen conversations, so this is linear in the runs.
        let mut of_conversation: HashMap<u32, Vec<u32>> = HashMap::new();
        for (group, conversations) in (0..).zip(&self.groups) {
            for conversation in &conversations[..conversations.len() - 1] {
                of_conversation.entry(*conversation).or_default().push(group);
            }
        }
        let mut candidates = Vec::new();
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for (a, groups) in of_conversation {
            for group in groups {
                let behind = self.groups[group as usize].iter().filter(|b| **b > a);
                behind.for_each(|b| *counts.entry(*b).or_default() += 1);
            }
            let enough = counts.drain().filter(|(_, shared)| *shared >= SHARED_MIN);
            candidates.extend(enough.map(|(b, shared)| Candidate { a, b, shared }));
        }
        candidates.sort_unstable_by_key(|pair| (std::cmp::Reverse(pair.shared), pair.a, pair.b));
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seed: u64, words: u64) -> String {
        let words = (0..words).map(|at| format!("w{seed}x{at}"));
        words.collect::<Vec<_>>().join(" ")
    }

    fn candidates(texts: &[String], entries_max: usize) -> Vec<(u32, u32)> {
        let mut sketches = Sketches {
            entries_max,
            ..Sketches::default()
        };
        texts.iter().for_each(|text| sketches.add(std::iter::once(&**text)));
        sketches
            .finish()
            .candidates()
            .iter()
            .map(|pair| (pair.a, pair.b))
            .collect()
    }

    #[test]
    fn who_shares_a_passage_is_a_pair() {
        let mut texts: Vec<String> = (0..20).map(|seed| text(seed, 300)).collect();
        texts[7] = format!("{} {} {}", text(100, 200), text(3, 80), text(101, 200));
        assert_eq!(candidates(&texts, ENTRIES_MAX), [(3, 7)]);
    }

    #[test]
    fn what_everybody_says_makes_no_pairs() {
        let preamble = text(99, 200);
        let texts: Vec<String> = (0..20).map(|seed| format!("{preamble} {}", text(seed, 50))).collect();
        assert_eq!(candidates(&texts, ENTRIES_MAX), []);
    }

    #[test]
    fn less_is_sampled_where_there_is_no_room_and_long_copies_are_still_found() {
        let mut texts: Vec<String> = (0..50).map(|seed| text(seed, 1_000)).collect();
        texts[9] = text(4, 1_000);
        assert_eq!(candidates(&texts, 2_000), [(4, 9)]);
    }
}
