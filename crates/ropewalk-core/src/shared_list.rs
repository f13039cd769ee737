//! Lists that grow at their end and share what they begin with.
//!
//! A turn's request is the one before it with a few messages behind. Copied for each turn, a conversation would cost the square of its
//! length. A clone of a [`SharedList`] costs two words and shares all elements; what is pushed to a clone is not seen by the others.
//!
//! Elements stand in leaves that lists hold together. A leaf has room behind its last element: whoever pushes first takes it, in
//! place. Whoever comes second has gone another way and gets a leaf of its own, so going on from the middle costs one leaf, and the list of
//! leaves, not the elements.

use std::fmt;
use std::ops::{Bound, Index, Range, RangeBounds};
use std::sync::{Arc, OnceLock};

/// Room of the first leaf; each following one has twice the room of the one before it, up to the largest. Most lists are short.
const FIRST_LEAF: usize = 8;
const LARGEST_LEAF: usize = 256;

/// Leaves before the first of the largest, and how many elements these take.
const GROWING_LEAVES: usize = (LARGEST_LEAF / FIRST_LEAF).ilog2() as usize;
const IN_GROWING_LEAVES: usize = LARGEST_LEAF - FIRST_LEAF;

/// A list that shares its beginning with those that it grew from, and with those that grow from it.
pub struct SharedList<T> {
    leaves: Arc<Vec<Leaf<T>>>,
    length: usize,
}

type Leaf<T> = Arc<[OnceLock<T>]>;

/// Which leaf an element is in, and where in it.
fn place(at: usize) -> (usize, usize) {
    match at.checked_sub(IN_GROWING_LEAVES) {
        Some(behind) => (GROWING_LEAVES + behind / LARGEST_LEAF, behind % LARGEST_LEAF),
        None => {
            let leaf = (at / FIRST_LEAF + 1).ilog2() as usize;
            (leaf, at - start(leaf))
        }
    }
}

/// The first element of a leaf.
fn start(leaf: usize) -> usize {
    match leaf.checked_sub(GROWING_LEAVES) {
        Some(behind) => IN_GROWING_LEAVES + behind * LARGEST_LEAF,
        None => FIRST_LEAF * ((1 << leaf) - 1),
    }
}

fn empty_leaf<T>(leaf: usize) -> impl Iterator<Item = OnceLock<T>> {
    let room = FIRST_LEAF << leaf.min(GROWING_LEAVES);
    (0..room).map(|_| OnceLock::new())
}

impl<T> SharedList<T> {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        if at >= self.length {
            return None;
        }
        let (leaf, within) = place(at);
        self.leaves.get(leaf)?.get(within)?.get()
    }

    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    pub fn last(&self) -> Option<&T> {
        self.get(self.length.checked_sub(1)?)
    }

    pub fn iter(&self) -> Iter<'_, T> {
        self.range(..)
    }

    /// The elements of a range, as far as it lies within the list.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Iter<'_, T> {
        let start = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.length,
        };
        let end = end.min(self.length);
        Iter {
            list: self,
            left: start.min(end)..end,
        }
    }

    /// The first element of which `is_before` is not true, where it is true of all before that one.
    pub fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.length);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).is_some_and(&mut is_before) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// How many elements at their beginnings both lists hold together, because one grew from the other or both from a third. More may
    /// be equal.
    pub fn shared_with(&self, other: &Self) -> usize {
        // A leaf that is shared has only shared ones before it.
        let (mut low, mut high) = (0, self.leaves.len().min(other.leaves.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            match Arc::ptr_eq(&self.leaves[middle], &other.leaves[middle]) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        start(low).min(self.length).min(other.length)
    }

    /// Leaves the first elements.
    pub fn truncate(&mut self, length: usize) {
        if length >= self.length {
            return;
        }
        self.length = length;
        let leaves = length.checked_sub(1).map_or(0, |last| place(last).0 + 1);
        Arc::make_mut(&mut self.leaves).truncate(leaves);
    }
}

impl<T: Clone> SharedList<T> {
    pub fn push(&mut self, value: T) {
        let (leaf, within) = place(self.length);
        let Some(last) = self.leaves.get(leaf) else {
            let slots = empty_leaf(leaf).collect();
            Arc::make_mut(&mut self.leaves).push(filled(slots, within, value));
            self.length += 1;
            return;
        };
        if let Err(value) = last[within].set(value) {
            // Another list went on from here.
            let own = last[..within].iter().cloned();
            let slots = own.chain(empty_leaf(leaf).skip(within)).collect();
            Arc::make_mut(&mut self.leaves)[leaf] = filled(slots, within, value);
        }
        self.length += 1;
    }
}

fn filled<T>(slots: Leaf<T>, at: usize, value: T) -> Leaf<T> {
    // The slot is new, so there is nothing in it.
    drop(slots[at].set(value));
    slots
}

impl<T> Clone for SharedList<T> {
    fn clone(&self) -> Self {
        SharedList {
            leaves: Arc::clone(&self.leaves),
            length: self.length,
        }
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        SharedList {
            leaves: Arc::default(),
            length: 0,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<T: PartialEq> PartialEq for SharedList<T> {
    fn eq(&self, other: &Self) -> bool {
        let shared = self.shared_with(other);
        self.length == other.length && self.range(shared..).eq(other.range(shared..))
    }
}

impl<T: Eq> Eq for SharedList<T> {}

impl<T> Index<usize> for SharedList<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        self.get(at).expect("only elements that are there are asked for")
    }
}

impl<T: Clone> Extend<T> for SharedList<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T: Clone> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut list = SharedList::default();
        list.extend(elements);
        list
    }
}

impl<'l, T> IntoIterator for &'l SharedList<T> {
    type Item = &'l T;
    type IntoIter = Iter<'l, T>;

    fn into_iter(self) -> Iter<'l, T> {
        self.iter()
    }
}

/// Elements of a list, in order.
#[derive(Debug)]
pub struct Iter<'l, T> {
    list: &'l SharedList<T>,
    left: Range<usize>,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter {
            list: self.list,
            left: self.left.clone(),
        }
    }
}

impl<'l, T> Iterator for Iter<'l, T> {
    type Item = &'l T;

    fn next(&mut self) -> Option<&'l T> {
        self.list.get(self.left.next()?)
    }

    fn nth(&mut self, n: usize) -> Option<&'l T> {
        self.list.get(self.left.nth(n)?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.list.get(self.left.next_back()?)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn leaves_stand_one_behind_the_other() {
        let mut before = (0, usize::MAX);
        for at in 0..5 * LARGEST_LEAF {
            let (leaf, within) = place(at);
            assert_eq!(start(leaf) + within, at);
            assert!(within < FIRST_LEAF << leaf.min(GROWING_LEAVES));
            assert!(leaf == before.0 && within == before.1.wrapping_add(1) || leaf == before.0 + 1 && within == 0);
            before = (leaf, within);
        }
    }

    #[test]
    fn a_list_does_not_see_what_is_pushed_to_its_clones() {
        let whole: SharedList<usize> = (0..1_000).collect();
        let mut longer = whole.clone();
        longer.extend(1_000..1_100);
        let mut other = whole.clone();
        other.extend([7, 8, 9]);
        assert!(whole.iter().copied().eq(0..1_000));
        assert!(longer.iter().copied().eq(0..1_100));
        assert!(other.iter().copied().eq((0..1_000).chain([7, 8, 9])));
        assert_eq!((longer.shared_with(&whole), whole.last()), (1_000, Some(&999)));
        assert_eq!(other.shared_with(&longer), start(place(999).0));
    }

    #[test]
    fn what_is_dropped_is_gone() {
        let said = Arc::new(());
        let list: SharedList<Arc<()>> = (0..600).map(|_| Arc::clone(&said)).collect();
        let longer = {
            let mut longer = list.clone();
            longer.extend((0..600).map(|_| Arc::clone(&said)));
            longer
        };
        drop((list, longer));
        assert_eq!(Arc::strong_count(&said), 1);
    }

    /// What is done to one of several lists, each told by a number.
    #[derive(Debug, Clone)]
    enum Doing {
        Push(usize, u8),
        PushMany(usize, usize),
        Clone(usize),
        Truncate(usize, usize),
    }

    fn doing() -> impl Strategy<Value = Doing> {
        prop_oneof![
            4 => (any::<usize>(), any::<u8>()).prop_map(|(list, value)| Doing::Push(list, value)),
            2 => (any::<usize>(), 0..400_usize).prop_map(|(list, count)| Doing::PushMany(list, count)),
            2 => any::<usize>().prop_map(Doing::Clone),
            1 => (any::<usize>(), 0..900_usize).prop_map(|(list, length)| Doing::Truncate(list, length)),
        ]
    }

    proptest! {
        #[test]
        fn lists_are_what_copies_would_be(done in prop::collection::vec(doing(), 0..40)) {
            let mut lists = vec![(SharedList::default(), Vec::new())];
            for doing in done {
                let count = lists.len();
                match doing {
                    Doing::Push(list, value) => {
                        let (shared, copied) = &mut lists[list % count];
                        shared.push(value);
                        copied.push(value);
                    }
                    Doing::PushMany(list, many) => {
                        let (shared, copied) = &mut lists[list % count];
                        let values = (0..many).map(|value| value as u8);
                        shared.extend(values.clone());
                        copied.extend(values);
                    }
                    Doing::Clone(list) => lists.push(lists[list % count].clone()),
                    Doing::Truncate(list, length) => {
                        let (shared, copied) = &mut lists[list % count];
                        shared.truncate(length);
                        copied.truncate(length);
                    }
                }
            }
            for (shared, copied) in &lists {
                prop_assert!(shared.iter().eq(copied));
                prop_assert!(shared.iter().rev().eq(copied.iter().rev()));
                prop_assert_eq!(shared.last(), copied.last());
                let (from, to) = (copied.len() / 3, copied.len() / 2);
                prop_assert!(shared.range(from..to).eq(&copied[from..to]));
                for (other, other_copied) in &lists {
                    let same = copied.iter().zip(other_copied).take_while(|(one, other)| one == other).count();
                    prop_assert!(shared.shared_with(other) <= same);
                    prop_assert_eq!(shared == other, copied == other_copied);
                }
            }
        }
    }
}
