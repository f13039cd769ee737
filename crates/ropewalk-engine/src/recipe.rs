//! A split body as the store takes it.

use std::any::Any;
use std::sync::Arc;

use ropewalk_core::hash::sha256;
use ropewalk_core::part::Part;
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::{Layout, Pieces};
use ropewalk_store::facts::{Body, Recipe};
use ropewalk_wire::Split;

/// The wire knows how to split and the store how to keep; only here do both meet.
#[derive(Debug, Clone)]
pub struct SplitRecipe(pub Split);

impl Pieces for SplitRecipe {
    fn pieces<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.0.pieces())
    }

    fn piece_count(&self) -> usize {
        self.0.piece_count()
    }

    fn pieces_behind<'a>(&'a self, first: usize) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.0.pieces_behind(first))
    }
}

impl Recipe for SplitRecipe {
    fn layout(&self) -> Layout {
        self.0.layout()
    }

    fn parts<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Part> + 'a> {
        Box::new(self.0.parts())
    }

    fn parts_behind<'a>(&'a self, pieces: usize) -> Box<dyn Iterator<Item = &'a Part> + 'a> {
        Box::new(self.0.parts_behind(pieces))
    }

    fn without_parts(&self) -> Option<Arc<dyn Recipe>> {
        Some(Arc::new(SplitRecipe(self.0.without_parts())))
    }

    fn shared_pieces(&self, other: &dyn Recipe) -> usize {
        let any: &dyn Any = other;
        match any.downcast_ref::<SplitRecipe>() {
            Some(other) => self.0.shared_pieces(&other.0),
            None => {
                let both = self.pieces().zip(other.pieces());
                both.take_while(|(own, other)| own == other).count()
            }
        }
    }
}

/// `split` joins to `bytes`.
pub(crate) fn body(split: Split, bytes: &[u8]) -> Body {
    Body {
        recipe: Arc::new(SplitRecipe(split)),
        sha256: sha256(bytes),
        length: bytes.len() as u64,
    }
}
