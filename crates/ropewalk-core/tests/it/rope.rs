//! Ropes: what is stored comes back, damaged bytes are errors, and a longer history costs no more look-ups.

use std::collections::HashMap;

use proptest::prelude::*;
use ropewalk_core::hash::{PartHash, sha256};
use ropewalk_core::json::Style;
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::{
    self, Alike, ChunkName, ChunkNumber, Cuts, Layout, PartNumber, Rope, RopeNumbers, RopeSource,
};

/// Keeps chunks, gives numbers and counts how often it is asked.
#[derive(Default)]
struct Numbers {
    parts: Vec<PartHash>,
    number_of: HashMap<PartHash, PartNumber>,
    chunks: Vec<Vec<u8>>,
    chunk_of: HashMap<ChunkName, ChunkNumber>,
    asked: usize,
}

impl RopeNumbers for Numbers {
    type Error = std::convert::Infallible;

    fn part_number(&mut self, part: &PartHash) -> Result<PartNumber, Self::Error> {
        self.asked += 1;
        let next = self.parts.len() as PartNumber;
        let number = *self.number_of.entry(*part).or_insert(next);
        if number == next {
            self.parts.push(*part);
        }
        Ok(number)
    }

    fn find_chunk(&mut self, name: &ChunkName) -> Result<Option<ChunkNumber>, Self::Error> {
        self.asked += 1;
        Ok(self.chunk_of.get(name).copied())
    }

    fn insert_chunk(&mut self, name: &ChunkName, bytes: Vec<u8>) -> Result<ChunkNumber, Self::Error> {
        let next = self.chunks.len() as ChunkNumber;
        assert_eq!(self.chunk_of.insert(*name, next), None, "a known chunk is stored again");
        self.chunks.push(bytes);
        Ok(next)
    }
}

impl RopeSource for Numbers {
    type Error = std::convert::Infallible;

    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash, Self::Error> {
        Ok(self.parts[number as usize])
    }

    fn chunk(&mut self, number: ChunkNumber) -> Result<Vec<u8>, Self::Error> {
        Ok(self.chunks[number as usize].clone())
    }
}

fn piece(number: usize) -> Piece {
    Piece::Text(PartHash(sha256(&number.to_be_bytes())), Style::Plain)
}

/// A history of so many pieces, a newest message of two, and what never changes behind it.
fn body(history: usize) -> (Vec<Piece>, Layout) {
    let newest = (0..2).map(|number| piece(2_000_000 + history + number));
    let rest = (0..30).map(|number| piece(1_000_000 + number));
    let pieces = (0..history).map(piece).chain(newest).chain(rest);
    let layout = Layout {
        newest: history..history + 2,
    };
    (pieces.collect(), layout)
}

/// Look-ups for the turn that makes a history `length` pieces long, ten of them new.
fn asked_for_turn(length: usize) -> usize {
    let mut numbers = Numbers::default();
    let (before, layout) = body(length - 10);
    let Ok(_) = rope::store(&before, layout, &mut numbers);
    numbers.asked = 0;
    let (after, layout) = body(length);
    let Ok(_) = rope::store(&after, layout, &mut numbers);
    numbers.asked
}

#[test]
fn a_turn_stores_chunks_only_where_they_are_finished() {
    let mut numbers = Numbers::default();
    for turn in 0..300 {
        let (pieces, layout) = body(turn * 4);
        let Ok(_) = rope::store(&pieces, layout, &mut numbers);
    }
    // Chunks of six pieces at the least and a few of chunks above them: had each turn its own, there were hundreds.
    let chunks = numbers.chunks.len();
    assert!(chunks < 1_200 / 12, "{chunks} chunks for 1,200 pieces");
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

    fn chunk(&mut self, _number: ChunkNumber) -> Result<Vec<u8>, Self::Error> {
        Ok(self.0.clone())
    }
}

#[test]
fn a_chunk_that_lists_itself_is_damage() {
    let rope = Rope {
        levels: 24,
        root: [vec![24, 64], vec![1; 64]].concat(),
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
        let _ = rope::load(&Rope { levels, root: root.clone() }, &mut Damaged(chunk.clone()));
        let run = [vec![levels, root.len() as u8], root].concat();
        let _ = rope::load(&Rope { levels, root: run }, &mut Damaged(chunk));
    }

    #[test]
    fn what_is_stored_comes_back_whatever_grows_and_wherever(
        lengths in proptest::collection::vec((0_usize..400, 0_usize..40, 0_usize..400), 1..6),
        layouts_fit in any::<bool>(),
    ) {
        let mut numbers = Numbers::default();
        let mut before: Option<(Vec<Piece>, Cuts)> = None;
        for (history, newest, rest) in lengths {
            let pieces: Vec<Piece> = (0..history + newest).chain(1_000..1_000 + rest).map(piece).collect();
            let start = if layouts_fit { history } else { history * 3 };
            let layout = Layout { newest: start..start + newest };
            let Ok(rope) = rope::store(&pieces, layout.clone(), &mut numbers);
            let alike = before.as_ref().map(|(before, cuts)| Alike {
                cuts,
                pieces: before.iter().zip(&pieces).take_while(|(before, now)| before == now).count(),
            });
            let Ok((again, cuts)) = rope::store_like(&pieces, layout, alike, &mut numbers);
            prop_assert_eq!(&again, &rope, "cut as it was before");
            prop_assert_eq!(rope::load(&rope, &mut numbers), Ok(pieces.clone()));
            before = Some((pieces, cuts));
        }
    }
}
