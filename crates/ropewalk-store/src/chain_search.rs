//! How far a chain is known: which of its nodes to ask for next. Both engines ask this way.
//!
//! What is stored is closed under taking the parent, and so is what was seen up to any moment. So the known nodes of a chain
//! are a beginning of it, and the last of them is found from the chain's end, where most requests match, in few questions.

/// The search in one chain. Everything up to `known` is known, everything from `unknown_from` on is not.
#[derive(Debug)]
pub(crate) struct ChainSearch<T> {
    known: Option<(usize, T)>,
    unknown_from: usize,
    /// How far before the end the next probe goes, while nothing known was met.
    reach: usize,
    length: usize,
    probes_max: usize,
}

impl<T> ChainSearch<T> {
    /// `probes_max` nodes are asked for at a time: as many as one question to the store takes without costing more.
    pub(crate) fn new(length: usize, probes_max: usize) -> Self {
        ChainSearch {
            known: None,
            unknown_from: length,
            reach: 1,
            length,
            probes_max,
        }
    }

    /// First the last few nodes, then in doubling steps towards the start, then evenly between known and unknown.
    /// None once the last known node is found.
    pub(crate) fn next_probes(&mut self) -> Vec<usize> {
        let from = self.known.as_ref().map_or(0, |(index, _)| index + 1);
        let to = self.unknown_from;
        if from >= to {
            return Vec::new();
        }
        if to - from <= self.probes_max {
            return (from..to).collect();
        }
        if self.known.is_some() {
            let parts = self.probes_max + 1;
            return (1..parts).map(|part| from + part * (to - from) / parts).collect();
        }
        let mut probes = Vec::with_capacity(self.probes_max);
        while probes.len() < self.probes_max && probes.last() != Some(&0) {
            probes.push(self.length.saturating_sub(self.reach));
            self.reach = if self.reach < self.probes_max {
                self.reach + 1
            } else {
                self.reach * 2
            };
        }
        probes
    }

    /// What the store says about a node that was asked for.
    pub(crate) fn learn(&mut self, index: usize, found: Option<T>) {
        match found {
            Some(found) if self.known.as_ref().is_none_or(|(known, _)| index > *known) => {
                self.known = Some((index, found));
            }
            Some(_) => {}
            None => self.unknown_from = self.unknown_from.min(index),
        }
    }

    pub(crate) fn into_known(self) -> Option<(usize, T)> {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds how many of `length` nodes are known, and in how many questions.
    fn find(length: usize, known: usize, probes_max: usize) -> (usize, usize) {
        let mut search = ChainSearch::new(length, probes_max);
        for questions in 0.. {
            let probes = search.next_probes();
            if probes.is_empty() {
                return (search.into_known().map_or(0, |(index, ())| index + 1), questions);
            }
            assert!(probes.len() <= probes_max);
            for index in probes {
                search.learn(index, (index < known).then_some(()));
            }
        }
        unreachable!("the loop has no end")
    }

    #[test]
    fn finds_the_last_known_node_wherever_it_is() {
        for length in 0..70 {
            for known in 0..=length {
                for probes_max in [1, 2, 4] {
                    assert_eq!(find(length, known, probes_max).0, known, "{known} of {length}");
                }
            }
        }
    }

    #[test]
    fn asks_little_at_the_end_and_logarithmically_before_it() {
        assert_eq!(find(100_000, 99_998, 4).1, 1);
        assert!(find(100_000, 0, 4).1 <= 6);
        assert!(find(100_000, 50_000, 4).1 <= 13);
        assert!(find(100_000, 99_998, 1).1 <= 4);
        assert!(find(100_000, 50_000, 1).1 <= 34);
    }
}
