//! The requests that were recorded last, to read the next turns of their conversations with.
//!
//! A turn repeats the turn before it, byte for byte but for its end. What both begin with is compared, and neither parsed nor hashed
//! again: a turn costs what is new in it.
//!
//! Invariant: the parts of what is kept are stored, or are to be stored by the batch that it was kept for.

use std::collections::VecDeque;

use crate::prepare::TurnMemo;

/// Shorter requests are read as fast as they are looked for.
const BYTES_MIN: usize = 4 << 10;

/// Requests that are kept, and bytes of their bodies. In memory a request has two to three times as many.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Bytes that are compared at once.
const STRIDE: usize = 1 << 10;

#[derive(Debug, Default)]
pub(crate) struct Memos {
    /// The newest last.
    kept: VecDeque<TurnMemo>,
    bytes: usize,
}

impl Memos {
    /// The one that begins most like a request, the newest of several.
    pub(crate) fn like(&self, body: &[u8]) -> Option<&TurnMemo> {
        if body.len() < BYTES_MIN {
            return None;
        }
        let alike = self
            .kept
            .iter()
            .map(|memo| (shared_bytes(memo.body.body(), body), memo));
        let (_, memo) = alike
            .filter(|(shared, _)| *shared > 0)
            .max_by_key(|(shared, _)| *shared)?;
        Some(memo)
    }

    /// Keeps a request in place of the one that it goes on from.
    pub(crate) fn keep(&mut self, memo: TurnMemo) {
        let body = memo.body.body().clone();
        if !(BYTES_MIN..=KEPT_BYTES_MAX).contains(&body.len()) {
            return;
        }
        // The last message is marked otherwise in the next turn; what else differs is another branch.
        let goes_on = |old: &TurnMemo| shared_bytes(old.body.body(), &body) * 2 > old.body.body().len();
        if let Some(at) = self.kept.iter().rposition(goes_on) {
            self.drop_at(at);
        }
        self.bytes += body.len();
        self.kept.push_back(memo);
        while self.kept.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            self.drop_at(0);
        }
    }

    /// Something of what is kept may not be stored.
    pub(crate) fn clear(&mut self) {
        *self = Memos::default();
    }

    fn drop_at(&mut self, at: usize) {
        self.bytes -= self.kept.remove(at).map_or(0, |memo| memo.body.body().len());
    }
}

/// With about how many bytes both begin, in whole strides.
fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    let both = one.chunks(STRIDE).zip(other.chunks(STRIDE));
    both.take_while(|(one, other)| one == other).count() * STRIDE
}
