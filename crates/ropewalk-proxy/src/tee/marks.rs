//! By when how much of an answer had come.

use ropewalk_store::Micros;

use crate::journal::payload::Mark;

/// Most marks of an answer: about 16 KB of memory for a long stream.
const MARKS_MAX: usize = 1024;

/// Pieces that come closer together than this are one mark, to begin with.
const INTERVAL_US: i64 = 1_000;

/// Bounded in number: when there are too many, every second one goes and the interval doubles. So the marks of a stream are
/// no further apart than a five-hundredth of its length.
#[derive(Debug)]
pub(super) struct Marks {
    marks: Vec<Mark>,
    interval_us: i64,
    /// The time of the first piece of the last mark.
    since: i64,
}

impl Default for Marks {
    fn default() -> Self {
        Marks {
            marks: Vec::new(),
            interval_us: INTERVAL_US,
            since: i64::MIN,
        }
    }
}

impl Marks {
    /// So much had come by then. Neither ever shrinks; a clock that goes back is taken to stand still.
    pub(super) fn add(&mut self, offset: u64, at: Micros) {
        if let Some(last) = self.marks.last_mut() {
            let at = at.max(last.at);
            if at.0.saturating_sub(self.since) < self.interval_us {
                *last = Mark { offset, at };
                return;
            }
            if self.marks.len() == MARKS_MAX {
                self.thin_out();
            }
            self.marks.push(Mark { offset, at });
            self.since = at.0;
        } else {
            self.marks.push(Mark { offset, at });
            self.since = at.0;
        }
    }

    pub(super) fn as_slice(&self) -> &[Mark] {
        &self.marks
    }

    fn thin_out(&mut self) {
        self.interval_us = self.interval_us.saturating_mul(2);
        let mut index = 0;
        // Of two the later one stays: what it says of the earlier bytes is true too.
        self.marks.retain(|_| {
            index += 1;
            index % 2 == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_bounded_and_keep_to_the_times() {
        let mut marks = Marks::default();
        let piece_at = |index: i64| Micros(1_000_000 + index * 700);
        for index in 0..100_000 {
            marks.add(index as u64 * 10 + 10, piece_at(index));
        }
        let all = marks.as_slice();
        assert!(all.len() <= MARKS_MAX && all.len() >= MARKS_MAX / 4, "{}", all.len());
        assert!(
            all.windows(2)
                .all(|pair| pair[0].offset < pair[1].offset && pair[0].at <= pair[1].at)
        );
        for mark in all {
            // Exactly when the last of these bytes came.
            assert_eq!(mark.at, piece_at(mark.offset as i64 / 10 - 1));
        }
        assert_eq!(all.last().unwrap().offset, 1_000_000);
    }
}
