//! When those exchanges were made that thousands share an end with.
//!
//! An opening that everybody uses has a candidate for each time it was used, and each would be read to learn whether it is early
//! enough. What is read here never changes: where a request ends is known from its start, where an answer ends from its
//! end, and neither moves.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::facts::OwnerId;
use crate::store::Result;

/// From so many candidates on an end is popular.
pub(super) const POPULAR_MIN: usize = 32;

/// Exchanges that are kept, some 10 MB. Beyond them all are forgotten at once.
const KEPT_MAX: usize = 128 * 1024;

/// When an exchange was made, and when the end was known.
pub(super) type Times = (i64, i64);

/// Owner, node, whether it is an answer's, exchange.
type Place = (i64, i64, bool, i64);

#[derive(Debug, Default)]
pub(super) struct PopularEnds {
    kept: Mutex<HashMap<Place, Times>>,
}

impl PopularEnds {
    /// The times of those candidates that end at the node. `read` is asked for what is not kept.
    pub(super) fn times(
        &self,
        (owner, node, is_answer): (OwnerId, i64, bool),
        candidates: &[i64],
        mut read: impl FnMut(i64) -> Result<Option<Times>>,
    ) -> Result<Vec<(i64, Times)>> {
        let mut found = Vec::with_capacity(candidates.len());
        let mut unknown = Vec::new();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for candidate in candidates {
            match kept.get(&(owner.0, node, is_answer, *candidate)) {
                Some(times) => found.push((*candidate, *times)),
                None => unknown.push(*candidate),
            }
        }
        drop(kept);
        let mut new = Vec::new();
        for candidate in unknown {
            new.extend(read(candidate)?.map(|times| (candidate, times)));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + new.len() > KEPT_MAX {
            kept.clear();
        }
        let places = new
            .iter()
            .map(|(candidate, times)| ((owner.0, node, is_answer, *candidate), *times));
        kept.extend(places);
        found.append(&mut new);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_candidate_is_read_once_and_those_elsewhere_are_left_out() {
        let ends = PopularEnds::default();
        let mut asked = Vec::new();
        let mut times = |candidates: &[i64]| {
            let mut found = ends
                .times((OwnerId(1), 7, false), candidates, |candidate| {
                    asked.push(candidate);
                    Ok((candidate != 3).then_some((candidate * 10, candidate * 10)))
                })
                .unwrap();
            found.sort_unstable();
            found
        };
        assert_eq!(times(&[1, 2, 3]), [(1, (10, 10)), (2, (20, 20))]);
        assert_eq!(times(&[1, 2, 3, 4]), [(1, (10, 10)), (2, (20, 20)), (4, (40, 40))]);
        assert_eq!(asked, [1, 2, 3, 3, 4]);
        let other = ends.times((OwnerId(2), 7, false), &[1], |_| Ok(None)).unwrap();
        assert_eq!(other, []);
    }
}
