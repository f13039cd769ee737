//! When those exchanges were made that thousands share an end or a key with.
//!
//! An opening that everybody uses has a candidate for each time it was used, and each would be read to learn whether it is early
//! enough. What is read here hardly ever changes: where a request ends is known from its start, where an answer ends from its
//! end. Where a row is written anew, the writer lets all of it be forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::facts::OwnerId;
use crate::store::Result;

/// From so many candidates on something is popular.
pub(super) const POPULAR_MIN: usize = 32;

/// Exchanges that are kept, some 10 MB. Beyond them all are forgotten at once.
const KEPT_MAX: usize = 128 * 1024;

/// When an exchange was made, and since when it was known to have what many have.
pub(super) type Times = (i64, i64);

/// What many exchanges have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shared {
    Input(i64),
    Output(i64),
    /// Its kind and its hash.
    Key(u8, [u8; 32]),
}

#[derive(Debug, Default)]
pub(super) struct Popular(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    times: HashMap<(OwnerId, Shared), HashMap<i64, Times>>,
    count: usize,
}

impl Popular {
    /// The times of those candidates that have it. `read` is asked for what is not kept.
    pub(super) fn times(
        &self,
        owner: OwnerId,
        what: Shared,
        candidates: &[i64],
        mut read: impl FnMut(i64) -> Result<Option<Times>>,
    ) -> Result<Vec<(i64, Times)>> {
        let mut found = Vec::with_capacity(candidates.len());
        let mut unknown = Vec::new();
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.times.get(&(owner, what));
        for candidate in candidates {
            match known.and_then(|known| known.get(candidate)) {
                Some(times) => found.push((*candidate, *times)),
                None => unknown.push(*candidate),
            }
        }
        drop(kept);
        let mut new = Vec::new();
        for candidate in unknown {
            new.extend(read(candidate)?.map(|times| (candidate, times)));
        }
        if !new.is_empty() {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.count + new.len() > KEPT_MAX {
                *kept = Kept::default();
            }
            kept.count += new.len();
            kept.times.entry((owner, what)).or_default().extend(new.iter().copied());
            found.append(&mut new);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_candidate_is_read_once_and_those_elsewhere_are_left_out() {
        let popular = Popular::default();
        let mut asked = Vec::new();
        let mut times = |candidates: &[i64]| {
            let mut found = popular
                .times(OwnerId(1), Shared::Input(7), candidates, |candidate| {
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
        for (owner, what) in [
            (2, Shared::Input(7)),
            (1, Shared::Output(7)),
            (1, Shared::Key(7, [0; 32])),
        ] {
            assert_eq!(popular.times(OwnerId(owner), what, &[1], |_| Ok(None)).unwrap(), []);
        }
    }
}
