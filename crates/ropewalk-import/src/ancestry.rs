//! Trees of messages as a file gives them: each may name the one before it, in any order, wrongly, or in a circle.

/// The order in which every message comes behind the one that it names. A circle is cut at its first message, which then names
/// nobody; how many were cut.
pub(crate) fn parents_first(parents: &mut [Option<usize>]) -> (Vec<usize>, usize) {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (child, parent) in parents.iter().enumerate() {
        if let Some(siblings) = parent.and_then(|parent| children.get_mut(parent)) {
            siblings.push(child);
        }
    }
    let mut order: Vec<usize> = (0..parents.len()).filter(|at| parents[*at].is_none()).collect();
    let (mut is_placed, mut is_walked) = (vec![false; parents.len()], vec![false; parents.len()]);
    order.iter().for_each(|root| is_placed[*root] = true);
    let (mut next, mut cut, mut unplaced) = (0, 0, 0);
    while order.len() < parents.len() || next < order.len() {
        if let Some(at) = order.get(next).copied() {
            next += 1;
            for child in children[at].iter().copied() {
                if !std::mem::replace(&mut is_placed[child], true) {
                    order.push(child);
                }
            }
            continue;
        }
        // Whoever is left stands in a circle or behind one.
        while is_placed[unplaced] {
            unplaced += 1;
        }
        let first = first_of_circle(unplaced, parents, &mut is_walked);
        parents[first] = None;
        is_placed[first] = true;
        order.push(first);
        cut += 1;
    }
    (order, cut)
}

/// The way up from a message that has no root leads into a circle; the first of it in the file. What hangs below the circle is placed
/// with it, so no message is walked over for two circles.
fn first_of_circle(from: usize, parents: &[Option<usize>], is_walked: &mut [bool]) -> usize {
    let up = |at: usize| parents[at].unwrap_or(at);
    let mut inside = from;
    while !std::mem::replace(&mut is_walked[inside], true) {
        inside = up(inside);
    }
    let (mut first, mut at) = (inside, up(inside));
    while at != inside {
        first = first.min(at);
        at = up(at);
    }
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_circle_is_cut_where_it_begins_in_the_file() {
        let mut parents = [Some(3), None, Some(1), Some(4), Some(0), Some(4)];
        let (order, cut) = parents_first(&mut parents);
        assert_eq!((order, cut), (vec![1, 2, 0, 4, 3, 5], 1));
        assert_eq!(parents, [None, None, Some(1), Some(4), Some(0), Some(4)]);
    }

    proptest! {
        #[test]
        fn everyone_comes_once_and_behind_the_one_that_it_names(
            mut parents in prop::collection::vec(prop::option::of(0_usize..40), 40)
        ) {
            let (order, _) = parents_first(&mut parents);
            let mut place = vec![None; parents.len()];
            for (index, at) in order.iter().enumerate() {
                prop_assert!(place[*at].replace(index).is_none());
            }
            for (child, parent) in parents.iter().enumerate() {
                prop_assert!(place[child].is_some());
                if let Some(parent) = parent {
                    prop_assert!(place[*parent] < place[child]);
                }
            }
        }
    }
}
