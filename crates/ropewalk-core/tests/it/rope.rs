//! Ropes: damaged bytes are errors, and a longer history costs no more look-ups.

use std::collections::HashMap;

use proptest::prelude::*;
use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::json::Style;
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::{self, PartNumber, PartNumbers, Rope, RopeSource};

/// Gives numbers and counts how often it is asked.
#[derive(Default)]
struct Numbers {
    number_of: HashMap<PartHash, PartNumber>,
    asked: usize,
}

impl PartNumbers for Numbers {
    type Error = std::convert::Infallible;

    fn number(&mut self, part: &PartHash) -> Result<PartNumber, Self::Error> {
        self.asked += 1;
        let next = self.number_of.len() as PartNumber;
        Ok(*self.number_of.entry(*part).or_insert(next))
    }

    fn find_chunk(&mut self, name: &PartHash) -> Result<Option<PartNumber>, Self::Error> {
        self.asked += 1;
        Ok(self.number_of.get(name).copied())
    }

    fn insert_chunk(&mut self, name: &PartHash, _bytes: Vec<u8>) -> Result<PartNumber, Self::Error> {
        let next = self.number_of.len() as PartNumber;
        self.number_of.insert(*name, next);
        Ok(next)
    }
}

fn piece(number: usize) -> Piece {
    Piece::Text(PartHash(sha256(&number.to_be_bytes())), Style::Plain)
}

/// Look-ups for the turn that makes a history `length` pieces long, ten of them new.
fn asked_for_turn(length: usize) -> usize {
    let mut numbers = Numbers::default();
    let tail: Vec<Piece> = (0..30).map(|number| piece(1_000_000 + number)).collect();
    let body = |length: usize| (0..length).map(piece).chain(tail.iter().cloned()).collect::<Vec<_>>();
    let Ok(_) = rope::store(&body(length - 10), &mut numbers);
    numbers.asked = 0;
    let Ok(_) = rope::store(&body(length), &mut numbers);
    numbers.asked
}

#[test]
fn look_ups_for_a_turn_do_not_grow_with_the_history() {
    let asked: Vec<usize> = [300, 3_000, 30_000, 100_000].map(asked_for_turn).into();
    println!("look-ups for a turn at 300, 3,000, 30,000 and 100,000 pieces: {asked:?}");
    // Each level of chunks adds the few chunks that changed in it; a level holds ten times the one below.
    assert!(asked.iter().all(|asked| *asked <= 250), "{asked:?}");
}

/// A store in which every number is some part, and every chunk is these bytes.
struct Damaged(Vec<u8>);

impl RopeSource for Damaged {
    type Error = std::convert::Infallible;

    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash, Self::Error> {
        Ok(PartHash(sha256(&number.to_be_bytes())))
    }

    fn chunk(&mut self, _number: PartNumber) -> Result<Vec<u8>, Self::Error> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_chunk_that_lists_itself_is_damage() {
    let rope = Rope {
        levels: 24,
        root: vec![1; 64],
    };
    assert!(rope::load(&rope, &mut Damaged(vec![1; 64])).is_err());
}

proptest! {
    #[test]
    fn damaged_ropes_are_errors_or_pieces_but_never_a_panic(
        root in proptest::collection::vec(any::<u8>(), 0..60),
        chunk in proptest::collection::vec(any::<u8>(), 0..8),
        levels in 0_u8..4,
    ) {
        let _ = rope::load(&Rope { levels, root }, &mut Damaged(chunk));
    }
}
