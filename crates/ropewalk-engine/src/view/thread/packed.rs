//! A thread as bytes: one for a turn and some forty for a window, most of them its node.
//!
//! Numbers stand as the step from the one before, since turns are recorded one after the other. How the last answer stands is left
//! out: its window is counted again. Bytes of another version, or that do not fit together, are no thread, which is counted anew then.

use ropewalk_core::hash::NodeHash;
use ropewalk_core::leb128::{read, read_step, write, write_step};
use ropewalk_store::Micros;
use ropewalk_store::derived::ConversationRow;
use ropewalk_store::facts::ExchangeNumber;

use super::{Counts, Mark, Thread, Turn};

/// Of these bytes, and of what is counted: who counts otherwise raises it.
const VERSION: u64 = 1;

/// Beside a turn's number: that it starts over, and that it is not on the branch of the one before.
const STARTS_OVER: u64 = 1;
const ELSEWHERE: u64 = 2;
const TURN_BITS: u32 = 2;

impl Thread {
    pub(super) fn packed(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.turns.len() + self.marks.len() * 44);
        let (at, last) = self.last.unwrap_or((Micros(0), ExchangeNumber(0)));
        for number in [VERSION, self.exchanges, number_of(last), at.0.cast_unsigned()] {
            write(number, &mut out);
        }
        write(self.turns.len() as u64, &mut out);
        let (mut before, mut branch) = (0, number_of(self.row.root));
        for turn in &self.turns {
            let (exchange, own) = (number_of(turn.exchange), number_of(turn.branch));
            let bits = u64::from(turn.starts_over) * STARTS_OVER + u64::from(own != branch) * ELSEWHERE;
            write_step(before << TURN_BITS, exchange << TURN_BITS | bits, &mut out);
            if own != branch {
                write(own, &mut out);
            }
            (before, branch) = (exchange, own);
        }
        let mut before = [0; 5];
        for mark in &self.marks {
            let numbers = numbers(mark);
            before
                .iter()
                .zip(numbers)
                .for_each(|(from, to)| write_step(*from, to, &mut out));
            out.extend(mark.node.0);
            before = numbers;
        }
        out
    }

    /// The thread of a conversation that was packed once.
    pub(super) fn unpacked(row: &ConversationRow, mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        if read(bytes)? != VERSION {
            return None;
        }
        let exchanges = read(bytes)?;
        let last = exchange(read(bytes)?);
        let at = Micros(read(bytes)?.cast_signed());
        let count = read(bytes)?;
        let mut turns = Vec::new();
        let (mut before, mut branch) = (0, number_of(row.root));
        for _ in 0..count {
            let turn = read_step(before << TURN_BITS, bytes)?;
            before = turn >> TURN_BITS;
            if turn & ELSEWHERE != 0 {
                branch = read(bytes)?;
            }
            turns.push(Turn {
                exchange: exchange(before),
                branch: exchange(branch),
                starts_over: turn & STARTS_OVER != 0,
            });
        }
        let mut marks: Vec<Mark> = Vec::new();
        let mut before = [0; 5];
        while !bytes.is_empty() {
            let mut numbers = [0; 5];
            for (to, from) in numbers.iter_mut().zip(before) {
                *to = read_step(from, bytes)?;
            }
            let (node, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            marks.push(mark(numbers, NodeHash(*node))?);
            before = numbers;
        }
        let thread = Thread {
            row: row.clone(),
            exchanges,
            last: Some((at, last)),
            tip: None,
            turns,
            marks,
        };
        thread.fits_together().then_some(thread)
    }

    /// Each window is behind the one before it, and none has turns that are not there.
    fn fits_together(&self) -> bool {
        let goes_on = |pair: &[Mark]| {
            let [before, after] = [pair[0].counts, pair[1].counts];
            pair[0].turns < pair[1].turns
                && before.messages <= after.messages
                && before.numbered <= after.numbered
                && before.in_tree <= after.in_tree
        };
        let is_within = |mark: &Mark| mark.turns <= self.turns.len();
        self.marks.windows(2).all(goes_on) && self.marks.last().is_none_or(is_within)
    }
}

fn number_of(exchange: ExchangeNumber) -> u64 {
    exchange.0.cast_unsigned()
}

fn exchange(number: u64) -> ExchangeNumber {
    ExchangeNumber(number.cast_signed())
}

fn numbers(mark: &Mark) -> [u64; 5] {
    let counts = mark.counts;
    [mark.turns, mark.depth, counts.messages, counts.numbered, counts.in_tree].map(|number| number as u64)
}

fn mark(numbers: [u64; 5], node: NodeHash) -> Option<Mark> {
    let number = |at: usize| usize::try_from(numbers[at]).ok();
    Some(Mark {
        turns: number(0).filter(|turns| *turns > 0)?,
        depth: number(1)?,
        node,
        counts: Counts {
            messages: number(2)?,
            numbered: number(3)?,
            in_tree: number(4)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ConversationRow {
        ConversationRow {
            root: ExchangeNumber(7),
            id: [1; 16],
            started_at: Micros(1),
            last_at: Micros(2),
            record: Vec::new(),
        }
    }

    /// Of three windows, in the second of which it starts over on another branch.
    fn thread() -> Thread {
        let turn = |number: i64| Turn {
            exchange: ExchangeNumber(7 + number * 3),
            branch: ExchangeNumber(if number < 90 { 7 } else { 277 }),
            starts_over: number == 90,
        };
        let mark = |turns: usize, depth: usize| Mark {
            turns,
            depth,
            node: NodeHash([turns as u8; 32]),
            counts: Counts {
                messages: turns * 2,
                numbered: turns * 2 - 1,
                in_tree: turns * 5,
            },
        };
        Thread {
            exchanges: 150,
            last: Some((Micros(-5), ExchangeNumber(391))),
            turns: (0..128).map(turn).collect(),
            marks: vec![mark(64, 300), mark(90, 420), mark(128, 80)],
            ..Thread::new(&row())
        }
    }

    #[test]
    fn a_thread_comes_back_as_it_was_packed_and_is_small() {
        let thread = thread();
        let packed = thread.packed();
        assert!(packed.len() < 128 + 3 * 48 + 32, "{} bytes", packed.len());
        let back = Thread::unpacked(&row(), &packed).unwrap();
        assert_eq!((&back.turns, &back.marks), (&thread.turns, &thread.marks));
        assert_eq!((back.exchanges, back.last, back.tip), (150, thread.last, None));
    }

    #[test]
    fn bytes_that_are_no_thread_are_none() {
        let packed = thread().packed();
        for length in 0..packed.len() {
            // Cut between two windows it is one that was packed earlier.
            if let Some(shorter) = Thread::unpacked(&row(), &packed[..length]) {
                assert!(shorter.marks.len() < 3 && shorter.fits_together());
            }
        }
        for at in 0..packed.len() {
            let mut other = packed.clone();
            other[at] ^= 0xa5;
            let fits = Thread::unpacked(&row(), &other).is_none_or(|read| read.fits_together());
            assert!(fits, "byte {at}");
        }
        let mut newer = packed;
        newer[0] += 1;
        assert!(Thread::unpacked(&row(), &newer).is_none());
    }
}
