//! Exchanges that share an end or a key with thousands, by their times.
//!
//! An opening that everybody uses has a candidate for each time it was used. Whoever asks for the newest of them would be given all
//! by the hash index, each to be read to learn whether it is early enough. So what is popular is read once, and from then on the
//! writer says what it adds. What is kept hardly ever changes: where a request ends is known from its start, where an answer ends
//! from its end. Where a row is written anew, the writer lets all of it be forgotten.
//!
//! Invariant: of what is kept, everybody behind its cut is there or waits to be read.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ropewalk_core::hash::NodeHash;

use crate::facts::OwnerId;
use crate::sqlite::hash_index::Entry;
use crate::sqlite::keys::{Kind, prefix, row_of};
use crate::store::Result;

/// From so many candidates on something is popular.
pub(super) const POPULAR_MIN: usize = 32;

/// Exchanges that are kept, some 10 MB. Beyond them all are forgotten at once.
const KEPT_MAX: usize = 128 * 1024;

/// Of one thing. Beyond them the older half is forgotten: who asks asks for the newest.
const SHARERS_MAX: usize = KEPT_MAX / 2;

/// When an exchange was made, and since when it was known to have what many have.
pub(super) type Times = (i64, i64);

/// What many exchanges have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Shared {
    /// The node that the request ends at, or the answer.
    Input(NodeHash),
    Output(NodeHash),
    /// Its kind and its hash.
    Key(u8, [u8; 32]),
}

impl Shared {
    pub(super) fn kind(self) -> Kind {
        match self {
            Shared::Input(_) => Kind::Input,
            Shared::Output(_) => Kind::Output,
            Shared::Key(kind, _) => Kind::Key(kind),
        }
    }

    fn prefix(self) -> i64 {
        match self {
            Shared::Input(node) | Shared::Output(node) => prefix(&node.0),
            Shared::Key(_, hash) => prefix(&hash),
        }
    }
}

/// What is known of those who share something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Newest {
    /// Times and numbers, the newest first.
    Are(Vec<(i64, i64)>),
    /// They are kept, but not back to that time.
    TooOld,
    NotKept,
}

#[derive(Debug, Default)]
pub(super) struct Popular(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sharers: HashMap<(OwnerId, Shared), Sharers>,
    /// What is kept, by what its entries in the hash index begin with.
    watched: HashMap<(OwnerId, i64), Vec<Shared>>,
    /// Numbers of nodes that many end at.
    nodes: HashMap<(OwnerId, NodeHash), i64>,
    count: usize,
}

#[derive(Debug, Default)]
struct Sharers {
    /// When each was made, its number, and since when it was known to share.
    by_time: BTreeSet<(i64, i64, i64)>,
    /// What may share as well. Whoever does not see a row yet leaves it to the next.
    unread: Vec<i64>,
    /// Nobody before it is kept.
    cut: Option<(i64, i64, i64)>,
}

impl Sharers {
    fn read(&mut self, mut read: impl FnMut(i64) -> Result<Option<Times>>) -> Result<()> {
        let mut unseen = Vec::new();
        for number in std::mem::take(&mut self.unread) {
            match read(number)? {
                Some((at, known_at)) if Some((at, number, known_at)) > self.cut => {
                    self.by_time.insert((at, number, known_at));
                }
                Some(_) => {}
                None => unseen.push(number),
            }
        }
        self.unread = unseen;
        while self.by_time.len() > SHARERS_MAX {
            let middle = self.by_time.iter().nth(SHARERS_MAX / 2).copied();
            let Some(middle) = middle else { break };
            self.by_time = self.by_time.split_off(&middle);
            self.cut = Some(middle);
        }
        Ok(())
    }

    fn newest(&self, as_of: i64, limit: usize) -> Newest {
        let until = self.by_time.range(..=(as_of, i64::MAX, i64::MAX)).rev();
        let known = until.filter(|(_, _, known_at)| *known_at <= as_of);
        let newest: Vec<(i64, i64)> = known.take(limit).map(|(at, number, _)| (*at, *number)).collect();
        match newest.len() < limit && self.cut.is_some() {
            true => Newest::TooOld,
            false => Newest::Are(newest),
        }
    }

    fn len(&self) -> usize {
        self.by_time.len() + self.unread.len()
    }
}

impl Popular {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that were known to share something at a time, the newest of them. `read` is asked for what was added since.
    pub(super) fn newest(
        &self,
        owner: OwnerId,
        what: Shared,
        (as_of, limit): (i64, usize),
        read: impl FnMut(i64) -> Result<Option<Times>>,
    ) -> Result<Newest> {
        let mut kept = self.kept();
        let Some(sharers) = kept.sharers.get_mut(&(owner, what)) else {
            return Ok(Newest::NotKept);
        };
        sharers.read(read)?;
        Ok(sharers.newest(as_of, limit))
    }

    /// Keeps those that share something: all that the hash index has for it now, and from now on what is added.
    pub(super) fn keep(&self, owner: OwnerId, what: Shared, candidates: Vec<i64>) {
        let mut kept = self.kept();
        if kept.count + candidates.len() > KEPT_MAX {
            *kept = Kept::default();
        }
        kept.count += candidates.len();
        let sharers = Sharers {
            unread: candidates,
            ..Sharers::default()
        };
        if let Some(before) = kept.sharers.insert((owner, what), sharers) {
            kept.count -= before.len().min(kept.count);
        } else {
            kept.watched.entry((owner, what.prefix())).or_default().push(what);
        }
    }

    /// The number of a node that many end at.
    pub(super) fn node(&self, owner: OwnerId, hash: &NodeHash) -> Option<i64> {
        self.kept().nodes.get(&(owner, *hash)).copied()
    }

    pub(super) fn keep_node(&self, owner: OwnerId, hash: NodeHash, number: i64) {
        self.kept().nodes.insert((owner, hash), number);
    }

    /// An entry was added to the hash index.
    pub(super) fn learn(&mut self, (owner, prefix, target): Entry) {
        let owner = OwnerId(owner);
        let kept = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = kept.watched.get(&(owner, prefix)) else {
            return;
        };
        for what in watched {
            if let Some(number) = row_of(target, what.kind())
                && let Some(sharers) = kept.sharers.get_mut(&(owner, *what))
            {
                sharers.unread.push(number);
                kept.count += 1;
            }
        }
        if kept.count > KEPT_MAX {
            kept.count = kept.sharers.values().map(Sharers::len).sum();
        }
        if kept.count > KEPT_MAX {
            *kept = Kept::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::keys::target;

    const OWNER: OwnerId = OwnerId(1);
    const NODE: NodeHash = NodeHash([7; 32]);

    /// Asks for the newest; an exchange is made ten times later than its number says.
    fn newest(popular: &Popular, what: Shared, as_of: i64, limit: usize, asked: &mut Vec<i64>) -> Newest {
        let read = |number| {
            asked.push(number);
            Ok((number != 3).then_some((number * 10, number * 10 + 1)))
        };
        popular.newest(OWNER, what, (as_of, limit), read).unwrap()
    }

    #[test]
    fn each_is_read_once_unless_it_was_not_to_be_seen() {
        let (mut popular, mut asked) = (Popular::default(), Vec::new());
        let what = Shared::Input(NODE);
        assert_eq!(newest(&popular, what, 99, 9, &mut asked), Newest::NotKept);
        popular.keep(OWNER, what, vec![2, 1, 3]);
        assert_eq!(
            newest(&popular, what, 99, 9, &mut asked),
            Newest::Are(vec![(20, 2), (10, 1)])
        );
        popular.learn((OWNER.0, prefix(&NODE.0), target(Kind::Input, 4)));
        popular.learn((OWNER.0, prefix(&NODE.0), target(Kind::Output, 5)));
        popular.learn((2, prefix(&NODE.0), target(Kind::Input, 6)));
        assert_eq!(
            newest(&popular, what, 99, 2, &mut asked),
            Newest::Are(vec![(40, 4), (20, 2)])
        );
        assert_eq!(asked, [2, 1, 3, 3, 4]);
        for other in [Shared::Output(NODE), Shared::Key(7, NODE.0)] {
            assert_eq!(newest(&popular, other, 99, 9, &mut asked), Newest::NotKept);
        }
    }

    #[test]
    fn what_was_known_later_is_left_out() {
        let popular = Popular::default();
        let what = Shared::Key(7, NODE.0);
        popular.keep(OWNER, what, vec![1, 2]);
        assert_eq!(
            newest(&popular, what, 20, 9, &mut Vec::new()),
            Newest::Are(vec![(10, 1)])
        );
        assert_eq!(newest(&popular, what, 10, 9, &mut Vec::new()), Newest::Are(vec![]));
    }

    #[test]
    fn the_newest_of_a_great_many_are_kept_and_it_is_said_when_older_ones_are_asked_for() {
        let (mut popular, what) = (Popular::default(), Shared::Output(NODE));
        let many = SHARERS_MAX as i64 + 20;
        popular.keep(OWNER, what, (10..many).collect());
        let is = |popular: &Popular, as_of| newest(popular, what, as_of, 1, &mut Vec::new());
        assert_eq!(is(&popular, i64::MAX), Newest::Are(vec![((many - 1) * 10, many - 1)]));
        assert_eq!(is(&popular, 500), Newest::TooOld);
        // One that comes late stands where nobody is kept.
        popular.learn((OWNER.0, prefix(&NODE.0), target(Kind::Output, 1)));
        assert_eq!(is(&popular, 500), Newest::TooOld);
    }
}
