//! Cycles among links: a chain of parents that comes back to where it was.

use std::collections::HashMap;

use crate::facts::ExchangeNumber;

/// One exchange of every cycle, the smallest of each. Without recursion: a conversation may be a hundred thousand links deep.
pub(crate) fn parent_cycles(parents: &HashMap<ExchangeNumber, ExchangeNumber>) -> Vec<ExchangeNumber> {
    // The walk that met an exchange first. One that meets itself again went round.
    let mut walks: HashMap<ExchangeNumber, ExchangeNumber> = HashMap::with_capacity(parents.len());
    let mut cycles = Vec::new();
    for start in parents.keys() {
        let mut at = *start;
        while let Some(parent) = parents.get(&at) {
            match walks.get(&at) {
                Some(walk) if walk == start => {
                    cycles.push(smallest_of_cycle(parents, at));
                    break;
                }
                Some(_) => break,
                None => walks.insert(at, *start),
            };
            at = *parent;
        }
    }
    cycles.sort_unstable();
    cycles
}

fn smallest_of_cycle(parents: &HashMap<ExchangeNumber, ExchangeNumber>, in_cycle: ExchangeNumber) -> ExchangeNumber {
    let mut smallest = in_cycle;
    let mut at = parents[&in_cycle];
    while at != in_cycle {
        smallest = smallest.min(at);
        at = parents[&at];
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(parents: &[(i64, i64)]) -> Vec<i64> {
        let parents = parents.iter().map(|(a, b)| (ExchangeNumber(*a), ExchangeNumber(*b)));
        parent_cycles(&parents.collect())
            .into_iter()
            .map(|found| found.0)
            .collect()
    }

    #[test]
    fn every_cycle_is_found_once_and_nothing_else() {
        assert_eq!(cycles(&[]), [0; 0]);
        assert_eq!(cycles(&[(2, 1), (3, 2), (4, 2), (5, 9)]), [0; 0]);
        assert_eq!(cycles(&[(1, 1)]), [1]);
        assert_eq!(
            cycles(&[(3, 2), (2, 4), (4, 3), (7, 4), (8, 7), (6, 5), (5, 6)]),
            [2, 5]
        );
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let chain: Vec<(i64, i64)> = (1..200_000).map(|at| (at + 1, at)).collect();
        assert_eq!(cycles(&chain), [0; 0]);
    }
}
