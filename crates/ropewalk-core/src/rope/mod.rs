//! Recipes as they are stored: a tree of small chunks that consecutive turns share.
//!
//! The recipe of turn N+1 repeats nearly all of turn N's. Written out whole, recipes would grow with the
//! square of a conversation and cost more than the texts. So the pieces are cut into chunks where the *content* says so
//! (an insertion moves no later boundary), chunks are named by what they contain, and equal chunks are stored once. Chunks of
//! chunks follow until few are left: the root, which the exchange keeps. A chunk that is known is not looked into, so the
//! work that needs the store depends on what changed, not on how long the recipe is.
//!
//! A chunk is *named* by the hashes of its parts, and *written* with the numbers that the store gave them: at a few
//! thousand pieces a body, 32-byte names inside the chunks would be the larger part of the cost.

mod format;

use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::hash::PartHash;
use crate::leb128;
use crate::recipe::{Piece, Step};
use crate::rope::format::{Reader, read_piece, write_piece};

/// Number of a part within its owner, given by the store.
pub type PartNumber = u64;

/// Chunks end at one entry in `1 << CUT_BITS` on average, and never before or after these.
const CUT_BITS: u32 = 4;
const CHUNK_MIN: usize = 6;
const CHUNK_MAX: usize = 64;

/// A root has at most so many entries.
const ROOT_MAX: usize = 24;

/// Deepest tree that is read: 6 entries at least per chunk make this more than any body has.
const MAX_LEVELS: u8 = 24;

/// Longest written recipe that is read. A chunk that lists itself would otherwise grow with every level.
const RECIPE_BYTES_MAX: usize = 256 << 20;

/// The root of a stored recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rope {
    /// How many levels of chunks are below the root; 0 means that it holds the pieces themselves.
    pub levels: u8,
    pub root: Vec<u8>,
}

/// A recipe cut into chunks, before it is stored.
#[derive(Debug)]
pub struct RopeTree<'p> {
    pieces: Vec<&'p Piece>,
    /// Level by level, the pieces' chunks first.
    levels: Vec<Vec<Chunk>>,
}

/// A run of entries of the level below.
#[derive(Debug)]
struct Chunk {
    name: PartHash,
    entries: Range<usize>,
}

impl<'p> RopeTree<'p> {
    pub fn new(pieces: impl IntoIterator<Item = &'p Piece>) -> Self {
        let pieces: Vec<&Piece> = pieces.into_iter().collect();
        let mut levels: Vec<Vec<Chunk>> = Vec::new();
        let mut names: Vec<Vec<u8>> = Vec::new();
        if pieces.len() > ROOT_MAX {
            names.extend(pieces.iter().map(|piece| piece_name(piece)));
        }
        while names.len() > ROOT_MAX {
            let level = chunks(&names);
            names = level.iter().map(|chunk| chunk.name.0.to_vec()).collect();
            levels.push(level);
        }
        RopeTree { pieces, levels }
    }

    /// How many levels of chunks there are.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// How many chunks a level has; the root names those of the last.
    pub fn chunk_count(&self, level: usize) -> usize {
        self.levels[level].len()
    }

    pub fn chunk_name(&self, level: usize, chunk: usize) -> PartHash {
        self.levels[level][chunk].name
    }

    /// The entries of a chunk: chunks of the level below, or pieces where there is none.
    pub fn entries(&self, level: usize, chunk: usize) -> Range<usize> {
        self.levels[level][chunk].entries.clone()
    }

    /// The parts that a piece names.
    pub fn parts(&self, piece: usize) -> Vec<PartHash> {
        let mut parts = Vec::new();
        visit_parts(self.pieces[piece], &mut |part| parts.push(*part));
        parts
    }

    /// A chunk's bytes. `number` knows its parts, or the chunks it is made of by name.
    pub fn write_chunk<E>(
        &self,
        level: usize,
        chunk: usize,
        number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    ) -> Result<Vec<u8>, E> {
        self.write_entries(level, self.entries(level, chunk), number)
    }

    pub fn write_root<E>(&self, number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>) -> Result<Rope, E> {
        let level = self.levels.len();
        let count = self.levels.last().map_or(self.pieces.len(), Vec::len);
        Ok(Rope {
            levels: level as u8,
            root: self.write_entries(level, 0..count, number)?,
        })
    }

    fn write_entries<E>(
        &self,
        level: usize,
        entries: Range<usize>,
        number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    ) -> Result<Vec<u8>, E> {
        let mut out = Vec::with_capacity(entries.len() * 4);
        for entry in entries {
            match level.checked_sub(1) {
                Some(below) => leb128::write(number(&self.chunk_name(below, entry))?, &mut out),
                None => write_piece(self.pieces[entry], number, &mut out)?,
            }
        }
        Ok(out)
    }
}

/// What storing a rope needs of a store that can be asked one thing after the other.
pub trait PartNumbers {
    type Error;
    /// The number of a part that is known or being stored.
    fn number(&mut self, part: &PartHash) -> Result<PartNumber, Self::Error>;
    /// The number of a chunk, if it is known.
    fn find_chunk(&mut self, name: &PartHash) -> Result<Option<PartNumber>, Self::Error>;
    fn insert_chunk(&mut self, name: &PartHash, bytes: Vec<u8>) -> Result<PartNumber, Self::Error>;
}

/// Writes a recipe into chunks, looking only into those that are new.
pub fn store<'p, N: PartNumbers>(
    pieces: impl IntoIterator<Item = &'p Piece>,
    numbers: &mut N,
) -> Result<Rope, N::Error> {
    let tree = RopeTree::new(pieces);
    if let Some(top) = tree.levels().checked_sub(1) {
        for chunk in 0..tree.chunk_count(top) {
            store_chunk(&tree, top, chunk, numbers)?;
        }
        return tree.write_root(&mut |name| known_chunk(name, numbers));
    }
    tree.write_root(&mut |part| numbers.number(part))
}

fn store_chunk<N: PartNumbers>(
    tree: &RopeTree<'_>,
    level: usize,
    chunk: usize,
    numbers: &mut N,
) -> Result<(), N::Error> {
    let name = tree.chunk_name(level, chunk);
    if numbers.find_chunk(&name)?.is_some() {
        return Ok(());
    }
    let bytes = match level.checked_sub(1) {
        Some(below) => {
            for child in tree.entries(level, chunk) {
                store_chunk(tree, below, child, numbers)?;
            }
            tree.write_chunk(level, chunk, &mut |name| known_chunk(name, numbers))?
        }
        None => tree.write_chunk(level, chunk, &mut |part| numbers.number(part))?,
    };
    numbers.insert_chunk(&name, bytes)?;
    Ok(())
}

/// The number of a chunk that was just stored or found.
fn known_chunk<N: PartNumbers>(name: &PartHash, numbers: &mut N) -> Result<PartNumber, N::Error> {
    match numbers.find_chunk(name)? {
        Some(number) => Ok(number),
        None => numbers.number(name),
    }
}

fn chunks(names: &[Vec<u8>]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut start = 0;
    for (at, name) in names.iter().enumerate() {
        let length = at + 1 - start;
        let is_end = length >= CHUNK_MAX || (length >= CHUNK_MIN && ends_chunk(name)) || at + 1 == names.len();
        if is_end {
            chunks.push(named_chunk(names, start..at + 1));
            start = at + 1;
        }
    }
    chunks
}

fn named_chunk(names: &[Vec<u8>], entries: Range<usize>) -> Chunk {
    let mut hasher = Sha256::new();
    hasher.update(b"v1:chunk\0");
    for name in &names[entries.clone()] {
        hasher.update((name.len() as u32).to_be_bytes());
        hasher.update(name);
    }
    Chunk {
        name: PartHash(hasher.finalize().into()),
        entries,
    }
}

/// What a piece is called inside a chunk's name: itself, with hashes where it is written with numbers.
fn piece_name(piece: &Piece) -> Vec<u8> {
    let mut names = Vec::new();
    let mut bytes = Vec::with_capacity(40);
    let outcome = write_piece::<std::convert::Infallible>(
        piece,
        &mut |part| {
            names.extend_from_slice(&part.0);
            Ok(0)
        },
        &mut bytes,
    );
    match outcome {
        Ok(()) => bytes.extend_from_slice(&names),
        Err(never) => match never {},
    }
    bytes
}

/// Whether a boundary follows this entry: a property of its bytes alone (FNV-1a, folded).
fn ends_chunk(entry: &[u8]) -> bool {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in entry {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) & ((1 << CUT_BITS) - 1) == 0
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
    fn chunk(&mut self, number: PartNumber) -> Result<Vec<u8>, Self::Error>;
}

/// Reads a recipe back. Walks level by level, so that a store can answer each in one batch.
pub fn load<S: RopeSource>(rope: &Rope, source: &mut S) -> Result<Vec<Piece>, RopeError<S::Error>> {
    if rope.levels > MAX_LEVELS {
        return Err(RopeError::Damaged);
    }
    let mut bytes = rope.root.clone();
    for _ in 0..rope.levels {
        let mut below = Vec::new();
        let mut reader = Reader { rest: &bytes };
        while !reader.rest.is_empty() {
            let number = reader.number().ok_or(RopeError::Damaged)?;
            below.extend_from_slice(&source.chunk(number).map_err(RopeError::Store)?);
            if below.len() > RECIPE_BYTES_MAX {
                return Err(RopeError::Damaged);
            }
        }
        bytes = below;
    }
    let mut pieces = Vec::new();
    let mut reader = Reader { rest: &bytes };
    while !reader.rest.is_empty() {
        pieces.push(read_piece(&mut reader, source)?);
    }
    Ok(pieces)
}
