//! Recipes as they are stored: a tree of small chunks that consecutive turns share.
//!
//! The recipe of turn N+1 repeats nearly all of turn N's. Written out whole, recipes would grow with the
//! square of a conversation and cost more than the texts. So the pieces are cut into chunks where the *content* says so
//! (an insertion moves no later boundary), chunks are named by what they contain, and equal chunks are stored once. Chunks of
//! chunks follow until few are left. A chunk that is known is not looked into, so the work that needs the store depends on
//! what changed, not on how long the recipe is.
//!
//! A body grows at its newest message ([`Layout`]). What stands before it is chunked only as far as the next turn will
//! find the same chunks: a chunk that no boundary has ended yet would be another one next turn, so its entries, like the newest
//! message itself, stand in the root, which the exchange keeps.
//!
//! A chunk is *named* by the hashes of its parts, and *written* with the numbers that the store gave them: at a few
//! thousand pieces a body, names inside the chunks would be the larger part of the cost.

mod format;
mod tree;

use std::ops::ControlFlow;

use crate::hash::PartHash;
use crate::leb128;
use crate::recipe::{Piece, Step};
use crate::rope::format::{Reader, read_chunks, read_piece};

pub use format::write_chunks;
pub use tree::{Alike, Cuts, Layout, Pieces, RopeTree, Run};

/// Number of a part within its owner, given by the store.
pub type PartNumber = u64;

/// Deepest tree that is read: 6 entries at least per chunk make this more than any body has.
const MAX_LEVELS: u8 = 24;

/// Longest written recipe that is read. A chunk that lists itself would otherwise grow with every level.
const RECIPE_BYTES_MAX: usize = 256 << 20;

/// The root of a stored recipe: runs of entries, each with the level it is of ([`Run`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rope {
    /// The highest level of a run: how often a reader has to replace chunks by what they hold.
    pub levels: u8,
    pub root: Vec<u8>,
}

/// What a chunk is called: the first 128 bits of a SHA-256 over what it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ChunkName(pub [u8; 16]);

/// Number of a chunk within its owner, given by the store.
pub type ChunkNumber = u64;

/// What storing a rope needs of a store that can be asked one thing after the other.
pub trait RopeNumbers {
    type Error;
    /// The number of a part that is known or being stored.
    fn part_number(&mut self, part: &PartHash) -> Result<PartNumber, Self::Error>;
    /// The number of a chunk, if it is known.
    fn find_chunk(&mut self, name: &ChunkName) -> Result<Option<ChunkNumber>, Self::Error>;
    fn insert_chunk(&mut self, name: &ChunkName, bytes: Vec<u8>) -> Result<ChunkNumber, Self::Error>;
}

/// Writes a recipe into chunks, looking only into those that are new.
pub fn store<N: RopeNumbers>(pieces: &dyn Pieces, layout: Layout, numbers: &mut N) -> Result<Rope, N::Error> {
    store_like(pieces, layout, None, numbers).map(|(rope, _)| rope)
}

/// The same, without cutting again what was cut before.
pub fn store_like<N: RopeNumbers>(
    pieces: &dyn Pieces,
    layout: Layout,
    alike: Option<Alike<'_>>,
    numbers: &mut N,
) -> Result<(Rope, Cuts), N::Error> {
    let tree = RopeTree::like(pieces, layout, alike);
    let mut written = Vec::with_capacity(tree.runs().len());
    for run in tree.runs() {
        written.push(write_entries(&tree, run, numbers)?);
    }
    Ok((tree.root(&written), tree.into_cuts()))
}

/// The entries of a run as bytes, their new chunks stored on the way.
fn write_entries<N: RopeNumbers>(tree: &RopeTree<'_>, run: &Run, numbers: &mut N) -> Result<Vec<u8>, N::Error> {
    let Some(level) = run.level.checked_sub(1) else {
        return tree.write_pieces(run.entries.clone(), &mut |part| numbers.part_number(part));
    };
    let chunks = run
        .entries
        .clone()
        .map(|chunk| store_chunk(tree, level, chunk, numbers));
    Ok(write_chunks(&chunks.collect::<Result<Vec<_>, _>>()?))
}

fn store_chunk<N: RopeNumbers>(
    tree: &RopeTree<'_>,
    level: usize,
    chunk: usize,
    numbers: &mut N,
) -> Result<ChunkNumber, N::Error> {
    let name = tree.chunk_name(level, chunk);
    if let Some(known) = numbers.find_chunk(&name)? {
        return Ok(known);
    }
    let bytes = write_entries(tree, &tree.inside(level, chunk), numbers)?;
    numbers.insert_chunk(&name, bytes)
}

/// Calls `visit` with every part that a piece names.
pub fn visit_parts(piece: &Piece, visit: &mut dyn FnMut(&PartHash)) {
    match piece {
        Piece::Raw(part) | Piece::Text(part, _) => visit(part),
        Piece::Lifted { part, inserts } => {
            visit(part);
            inserts.iter().for_each(|(_, insert)| visit(insert));
        }
        Piece::Inline(_) => {}
        Piece::Stream(stream) => {
            for channel in &stream.channels {
                visit(&channel.template);
                channel.text.iter().for_each(|piece| visit_parts(piece, visit));
            }
            for step in &stream.steps {
                if let Step::Bytes(pieces) = step {
                    pieces.iter().for_each(|piece| visit_parts(piece, visit));
                }
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RopeError<E> {
    #[error("the recipe is damaged")]
    Damaged,
    #[error(transparent)]
    Store(E),
}

/// What reading a rope needs of a store.
pub trait RopeSource {
    type Error;
    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash, Self::Error>;
    fn chunk(&mut self, number: ChunkNumber) -> Result<Vec<u8>, Self::Error>;
}

/// A run of a root as it is read: its level, and its entries. These are the bytes of the root or of one chunk each, which
/// can only be read one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRun {
    pub level: u8,
    pub entries: Vec<Vec<u8>>,
}

impl StoredRun {
    /// The chunks that a run of a level above the pieces lists; `None` where its bytes are damaged.
    pub fn chunks(&self) -> Option<Vec<ChunkNumber>> {
        let lists = self.entries.iter().map(|list| read_chunks(list));
        let lists: Vec<Vec<ChunkNumber>> = lists.collect::<Option<_>>()?;
        Some(lists.concat())
    }
}

impl Rope {
    /// The runs of the root in the order of the body; `None` where its bytes are damaged.
    pub fn runs(&self) -> Option<Vec<StoredRun>> {
        let mut runs = Vec::new();
        let mut rest = &self.root[..];
        while let Some((level, behind)) = rest.split_first() {
            rest = behind;
            let length = usize::try_from(leb128::read(&mut rest)?).ok()?;
            let (entries, behind) = rest.split_at_checked(length)?;
            rest = behind;
            if *level > self.levels.min(MAX_LEVELS) {
                return None;
            }
            runs.push(StoredRun {
                level: *level,
                entries: vec![entries.to_vec()],
            });
        }
        Some(runs)
    }
}

/// Reads a recipe back.
pub fn load<S: RopeSource>(rope: &Rope, source: &mut S) -> Result<Vec<Piece>, RopeError<S::Error>> {
    let mut pieces = Vec::new();
    let mut length = 0;
    for mut run in rope.runs().ok_or(RopeError::Damaged)? {
        while run.level > 0 {
            let mut below = Vec::new();
            for number in run.chunks().ok_or(RopeError::Damaged)? {
                let chunk = source.chunk(number).map_err(RopeError::Store)?;
                length += chunk.len();
                if length > RECIPE_BYTES_MAX {
                    return Err(RopeError::Damaged);
                }
                below.push(chunk);
            }
            run = StoredRun {
                level: run.level - 1,
                entries: below,
            };
        }
        pieces.extend(load_pieces(&run.entries, source)?);
    }
    Ok(pieces)
}

/// An entry of a rope that is still to be read.
enum Unread {
    Listed(u8, Vec<u8>),
    Chunk(u8, ChunkNumber),
}

/// Reads a recipe from its end: gives `take` its last pieces, then those before them, until it has enough. The pieces of one call are
/// in order. Only the chunks on the way are read.
pub fn load_from_end<S: RopeSource>(
    rope: &Rope,
    source: &mut S,
    mut take: impl FnMut(&mut S, &[Piece]) -> Result<ControlFlow<()>, S::Error>,
) -> Result<(), RopeError<S::Error>> {
    let runs = rope.runs().ok_or(RopeError::Damaged)?.into_iter();
    let listed = runs.map(|run| Unread::Listed(run.level, run.entries.concat()));
    let mut unread: Vec<Unread> = listed.collect();
    let mut length = 0;
    while let Some(last) = unread.pop() {
        let (level, bytes) = match last {
            Unread::Listed(level, bytes) => (level, bytes),
            Unread::Chunk(level, number) => (level, source.chunk(number).map_err(RopeError::Store)?),
        };
        length += bytes.len();
        if length > RECIPE_BYTES_MAX {
            return Err(RopeError::Damaged);
        }
        match level.checked_sub(1) {
            Some(below) => {
                let chunks = read_chunks(&bytes).ok_or(RopeError::Damaged)?;
                unread.extend(chunks.into_iter().map(|number| Unread::Chunk(below, number)));
            }
            None => {
                let pieces = load_pieces(&[bytes], source)?;
                if take(source, &pieces).map_err(RopeError::Store)?.is_break() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Reads the pieces that the lowest level lists.
pub fn load_pieces<S: RopeSource>(leaves: &[Vec<u8>], source: &mut S) -> Result<Vec<Piece>, RopeError<S::Error>> {
    let mut pieces = Vec::new();
    for leaf in leaves {
        let mut reader = Reader::new(leaf);
        while !reader.is_at_end() {
            pieces.push(read_piece(&mut reader, source)?);
        }
    }
    Ok(pieces)
}
