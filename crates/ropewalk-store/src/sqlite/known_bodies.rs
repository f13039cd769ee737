//! The requests that were stored last.
//!
//! A turn repeats the turn before it. What both begin with is stored and cut into chunks already, so it is compared, which takes some
//! nanoseconds a piece, and neither looked up nor hashed again.

use std::collections::VecDeque;
use std::sync::Arc;

use ropewalk_core::rope::Cuts;

use crate::facts::{Body, OwnerId, Recipe};

/// Requests that are kept, and pieces of theirs, each of which takes about 50 bytes. A long conversation has several for each message.
const BODIES_MAX: usize = 8;
const PIECES_MAX: usize = 1 << 20;

/// Shorter ones are quickly looked at, and would push out the long ones.
const PIECES_MIN: usize = 64;

#[derive(Debug)]
pub(super) struct KnownBody {
    owner: OwnerId,
    recipe: Arc<dyn Recipe>,
    pieces: usize,
    pub(super) cuts: Cuts,
}

#[derive(Debug, Default)]
pub(super) struct KnownBodies {
    /// The newest last.
    kept: VecDeque<KnownBody>,
    pieces: usize,
}

impl KnownBodies {
    /// Takes out the one that begins most like a body, with how many pieces they share.
    pub(super) fn take_like(&mut self, owner: OwnerId, body: &Body) -> Option<(KnownBody, usize)> {
        if !is_long(body) {
            return None;
        }
        let shared = |known: &KnownBody| body.recipe.shared_pieces(&*known.recipe);
        let own = self.kept.iter().enumerate().filter(|(_, known)| known.owner == owner);
        let (at, pieces) = own
            .map(|(at, known)| (at, shared(known)))
            .max_by_key(|(_, pieces)| *pieces)
            .filter(|(_, pieces)| *pieces >= PIECES_MIN)?;
        let known = self.kept.remove(at)?;
        self.pieces -= known.pieces;
        Some((known, pieces))
    }

    /// Keeps a body all of whose parts are stored.
    pub(super) fn keep(&mut self, owner: OwnerId, body: &Body, cuts: Cuts) {
        let pieces = body.recipe.piece_count();
        if !is_long(body) || pieces > PIECES_MAX {
            return;
        }
        self.pieces += pieces;
        let recipe = body.recipe.without_parts();
        self.kept.push_back(KnownBody {
            owner,
            recipe: recipe.unwrap_or_else(|| Arc::clone(&body.recipe)),
            pieces,
            cuts,
        });
        while self.kept.len() > BODIES_MAX || self.pieces > PIECES_MAX {
            self.pieces -= self.kept.pop_front().map_or(0, |oldest| oldest.pieces);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = KnownBodies::default();
    }
}

fn is_long(body: &Body) -> bool {
    body.recipe.piece_count() > PIECES_MIN
}
