//! How well a linker did: what it found, compared with the truth.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;

use super::Mode;
use super::truth::{ByContent, Cause, Truth};

/// Examples kept of each kind of mistake.
const EXAMPLES_MAX: usize = 5;

/// Where a linker put an exchange. Names are compared with each other only, never with the truth's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found {
    pub conversation: String,
    /// Unique within the conversation.
    pub agent: String,
}

/// Counts of exchanges, unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Score {
    pub exchanges: usize,
    /// True ones.
    pub conversations: usize,
    /// The linker has no conversation for them.
    pub missing: usize,
    /// In a found conversation that is, for the most part, another one.
    pub false_merges: usize,
    /// True conversations in more than one piece.
    pub over_splits: usize,
    /// Apart from the largest piece of their conversation.
    pub split_off: usize,
    /// In the right conversation, but not with the rest of their agent.
    pub wrong_agents: usize,
    /// Not held against the linker, because content fits several conversations, or cannot join the exchange with its own.
    pub ambiguous: usize,
    pub cannot_join: usize,
    pub by_cause: BTreeMap<Cause, CauseScore>,
    /// Ids of exchanges that were split off, all of them, in the order of the truths.
    pub split_off_ids: Vec<String>,
    /// Ids of exchanges, the first few of each.
    pub false_merge_examples: Vec<String>,
    pub wrong_agent_examples: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CauseScore {
    pub exchanges: usize,
    pub missing: usize,
    pub false_merges: usize,
    pub split_off: usize,
    pub wrong_agents: usize,
}

/// Compares a linker's result with the truth. `find` says where the exchange of an id is.
///
/// Without hints, exchanges that content cannot decide count as little as [`ByContent`] says.
pub fn score<'t>(
    truths: impl IntoIterator<Item = &'t Truth>,
    mode: Mode,
    mut find: impl FnMut(&str) -> Option<Found>,
) -> Score {
    let mut score = Score::default();
    let mut placed = Vec::new();
    for truth in truths {
        score.exchanges += 1;
        score.by_cause.entry(truth.cause).or_default().exchanges += 1;
        match find(&truth.id) {
            Some(found) => placed.push(Placed::new(truth, found, mode)),
            None => {
                score.missing += 1;
                score.by_cause.entry(truth.cause).or_default().missing += 1;
            }
        }
    }
    score.ambiguous = placed.iter().filter(|one| !one.counts_for_merges()).count();
    score.cannot_join = placed.iter().filter(|one| !one.counts_for_splits()).count() - score.ambiguous;
    score.compare(&placed);
    score
}

#[derive(Debug)]
struct Placed<'t> {
    truth: &'t Truth,
    found: Found,
    by_content: ByContent,
}

impl<'t> Placed<'t> {
    fn new(truth: &'t Truth, found: Found, mode: Mode) -> Self {
        let by_content = match mode {
            Mode::Hinted => ByContent::Decides,
            Mode::ContentOnly => truth.by_content,
        };
        Placed {
            truth,
            found,
            by_content,
        }
    }

    fn counts_for_merges(&self) -> bool {
        self.by_content != ByContent::FitsSeveral
    }

    fn counts_for_splits(&self) -> bool {
        self.by_content == ByContent::Decides
    }

    fn true_agent(&self) -> (&str, &str) {
        (&self.truth.conversation, &self.truth.agent)
    }
}

impl Score {
    fn compare(&mut self, placed: &[Placed<'_>]) {
        let merging = || placed.iter().filter(|one| one.counts_for_merges());
        let splitting = || placed.iter().filter(|one| one.counts_for_splits());
        let meant = mostly(merging().map(|one| (&one.found.conversation, &one.truth.conversation)));
        let homes = mostly(splitting().map(|one| (&one.truth.conversation, &one.found.conversation)));
        let meant_agents = mostly(splitting().map(|one| (&one.found, one.true_agent())));
        let agents_homes = mostly(splitting().map(|one| (one.true_agent(), &one.found)));
        let all = placed.iter().map(|one| (&one.truth.conversation, ()));
        self.conversations = mostly(all).len();
        self.over_splits = homes.values().filter(|home| home.kinds > 1).count();
        for one in merging() {
            let cause = self.by_cause.entry(one.truth.cause).or_default();
            let is_home = || homes[&one.truth.conversation].most == &one.found.conversation;
            if meant[&one.found.conversation].most != &one.truth.conversation {
                self.false_merges += 1;
                cause.false_merges += 1;
                example(&mut self.false_merge_examples, one);
            } else if !one.counts_for_splits() {
                // It may be anywhere as long as it is not with strangers.
            } else if !is_home() {
                self.split_off += 1;
                cause.split_off += 1;
                self.split_off_ids.push(one.truth.id.clone());
            } else if meant_agents[&one.found].most != one.true_agent()
                || agents_homes[&one.true_agent()].most != &one.found
            {
                self.wrong_agents += 1;
                cause.wrong_agents += 1;
                example(&mut self.wrong_agent_examples, one);
            }
        }
    }
}

/// What a group consists of for the most part, and of how many things at all.
#[derive(Debug)]
struct Mostly<V> {
    most: V,
    kinds: usize,
}

/// One pass over the pairs, one over the groups. Among equals the one that came first counts.
fn mostly<K: Eq + Hash + Copy, V: Eq + Hash + Copy>(pairs: impl Iterator<Item = (K, V)>) -> HashMap<K, Mostly<V>> {
    let mut counts: HashMap<(K, V), (usize, usize)> = HashMap::new();
    for (order, pair) in pairs.enumerate() {
        counts.entry(pair).or_insert((0, order)).0 += 1;
    }
    let mut groups: HashMap<K, (Mostly<V>, usize, usize)> = HashMap::new();
    for ((key, value), (count, order)) in counts {
        let first = Mostly { most: value, kinds: 0 };
        let (group, best, best_order) = groups.entry(key).or_insert((first, count, order));
        group.kinds += 1;
        if count > *best || count == *best && order < *best_order {
            (group.most, *best, *best_order) = (value, count, order);
        }
    }
    groups.into_iter().map(|(key, (group, _, _))| (key, group)).collect()
}

fn example(examples: &mut Vec<String>, one: &Placed<'_>) {
    if examples.len() < EXAMPLES_MAX {
        examples.push(one.truth.id.clone());
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} exchanges of {} conversations: {} missing, {} falsely merged, {} conversations over-split ({} split off), {} with a wrong agent",
            self.exchanges,
            self.conversations,
            self.missing,
            self.false_merges,
            self.over_splits,
            self.split_off,
            self.wrong_agents
        )?;
        writeln!(
            f,
            "not decidable by content: {} fit several, {} cannot be joined",
            self.ambiguous, self.cannot_join
        )?;
        writeln!(
            f,
            "{:<24} {:>9} {:>8} {:>8} {:>8} {:>8}",
            "cause", "exchanges", "missing", "merged", "split", "agent"
        )?;
        for (cause, score) in &self.by_cause {
            let name = format!("{cause:?}");
            writeln!(
                f,
                "{name:<24} {:>9} {:>8} {:>8} {:>8} {:>8}",
                score.exchanges, score.missing, score.false_merges, score.split_off, score.wrong_agents
            )?;
        }
        for (title, examples) in [
            ("merged", &self.false_merge_examples),
            ("split", &self.split_off_ids),
            ("agent", &self.wrong_agent_examples),
        ] {
            if !examples.is_empty() {
                let few = &examples[..examples.len().min(EXAMPLES_MAX)];
                writeln!(f, "{title}: {}", few.join(" "))?;
            }
        }
        Ok(())
    }
}
