//! A store of parts in memory: the least that can keep a body and give it back, and it counts what it keeps.

use std::collections::HashMap;

use ropewalk_core::hash::PartHash;
use ropewalk_core::part::Part;
use ropewalk_core::recipe::{JoinError, PartSource, Piece, join};
use ropewalk_core::rope::{self, ChunkName, ChunkNumber, Layout, PartNumber, Rope, RopeError, RopeNumbers, RopeSource};

#[derive(Debug, Clone, Default)]
pub struct PartStore {
    number_of: HashMap<PartHash, PartNumber>,
    parts: Vec<(PartHash, Vec<u8>)>,
    chunk_of: HashMap<ChunkName, ChunkNumber>,
    chunks: Vec<Vec<u8>>,
    part_bytes: usize,
    chunk_bytes: usize,
    root_bytes: usize,
}

impl PartStore {
    /// Stores a body: its new parts, and its recipe as a rope.
    pub fn store<'p>(
        &mut self,
        parts: impl IntoIterator<Item = &'p Part>,
        pieces: impl IntoIterator<Item = &'p Piece>,
        layout: Layout,
    ) -> Result<Rope, MissingPart> {
        for part in parts {
            if self.insert(part.hash, part.as_bytes()) {
                self.part_bytes += part.as_bytes().len();
            }
        }
        let pieces: Vec<&Piece> = pieces.into_iter().collect();
        let rope = rope::store(&pieces, layout, self)?;
        self.root_bytes += rope.root.len();
        Ok(rope)
    }

    /// The body that a rope stands for.
    pub fn load(&mut self, rope: &Rope) -> Result<Vec<u8>, LoadError> {
        let pieces = rope::load(rope, self).map_err(LoadError::Rope)?;
        join(&pieces, self).map_err(LoadError::Join)
    }

    /// Bytes of parts, of recipe chunks, and of recipe roots.
    pub fn bytes(&self) -> (usize, usize, usize) {
        (self.part_bytes, self.chunk_bytes, self.root_bytes)
    }

    /// Stores bytes under their name; false if they were there.
    fn insert(&mut self, hash: PartHash, bytes: &[u8]) -> bool {
        if self.number_of.contains_key(&hash) {
            return false;
        }
        self.number_of.insert(hash, self.parts.len() as PartNumber);
        self.parts.push((hash, bytes.to_vec()));
        true
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the recipe names part {0}, which was not stored")]
pub struct MissingPart(String);

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the recipe cannot be read")]
    Rope(#[source] RopeError<MissingPart>),
    #[error("the parts do not join")]
    Join(#[source] JoinError),
}

impl RopeNumbers for PartStore {
    type Error = MissingPart;

    fn part_number(&mut self, part: &PartHash) -> Result<PartNumber, MissingPart> {
        self.number_of
            .get(part)
            .copied()
            .ok_or_else(|| MissingPart(part.to_string()))
    }

    fn find_chunk(&mut self, name: &ChunkName) -> Result<Option<ChunkNumber>, MissingPart> {
        Ok(self.chunk_of.get(name).copied())
    }

    fn insert_chunk(&mut self, name: &ChunkName, bytes: Vec<u8>) -> Result<ChunkNumber, MissingPart> {
        let number = self.chunks.len() as ChunkNumber;
        self.chunk_bytes += bytes.len();
        self.chunks.push(bytes);
        self.chunk_of.insert(*name, number);
        Ok(number)
    }
}

impl RopeSource for PartStore {
    type Error = MissingPart;

    fn hash_of(&mut self, number: PartNumber) -> Result<PartHash, MissingPart> {
        let found = self.parts.get(number as usize);
        found
            .map(|(hash, _)| *hash)
            .ok_or_else(|| MissingPart(format!("number {number}")))
    }

    fn chunk(&mut self, number: ChunkNumber) -> Result<Vec<u8>, MissingPart> {
        let found = self.chunks.get(number as usize).cloned();
        found.ok_or_else(|| MissingPart(format!("chunk {number}")))
    }
}

impl PartSource for PartStore {
    fn part(&self, hash: &PartHash) -> Option<&[u8]> {
        let number = self.number_of.get(hash)?;
        self.parts.get(*number as usize).map(|(_, bytes)| bytes.as_slice())
    }
}
