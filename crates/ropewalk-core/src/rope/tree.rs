//! Which pieces form chunks, and which stand in the root.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use crate::hash::PartHash;
use crate::leb128;
use crate::recipe::Piece;
use crate::rope::format::Writer;
use crate::rope::{ChunkName, PartNumber, Rope};
use crate::shared_list::SharedList;

/// Chunks end at one entry in `1 << CUT_BITS` on average, and never before or after these.
const CUT_BITS: u32 = 5;
const CHUNK_MIN: usize = 8;
const CHUNK_MAX: usize = 128;

/// So many entries of the history at most stand in the root beside those of unfinished chunks.
const HISTORY_MAX: usize = 24;

/// So many entries behind the newest message at most stand in the root. They hardly ever change: few is best.
const REST_MAX: usize = 3;

/// Where a body grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The pieces of the newest message. Those before it come again next turn, with more behind them; those after it come
    /// again as they are.
    pub newest: Range<usize>,
}

impl Layout {
    /// A body of so many pieces of which nothing comes again.
    pub fn once(pieces: usize) -> Self {
        Layout { newest: 0..pieces }
    }
}

/// The pieces of a recipe. One that is long is asked for its end only, so it had better find that without a walk.
pub trait Pieces: Sync {
    fn pieces<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Piece> + 'a>;

    fn piece_count(&self) -> usize {
        self.pieces().count()
    }

    /// All but the first ones.
    fn pieces_behind<'a>(&'a self, first: usize) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.pieces().skip(first))
    }
}

impl<P: Borrow<Piece> + Sync> Pieces for Vec<P> {
    fn pieces<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Piece> + 'a> {
        Box::new(self.iter().map(Borrow::borrow))
    }

    fn piece_count(&self) -> usize {
        self.len()
    }
}

/// A recipe cut into chunks, before it is stored.
pub struct RopeTree<'p> {
    pieces: &'p dyn Pieces,
    /// Level by level, the pieces' chunks first.
    levels: Vec<Level>,
    runs: Vec<Run>,
}

impl fmt::Debug for RopeTree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RopeTree")
            .field("levels", &self.levels)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

/// The chunks of a level, those of the history before those of the rest.
#[derive(Debug, Default)]
struct Level {
    history: SharedList<Chunk>,
    rest: Vec<Chunk>,
}

impl Level {
    fn len(&self) -> usize {
        self.history.len() + self.rest.len()
    }

    fn chunk(&self, at: usize) -> &Chunk {
        match at.checked_sub(self.history.len()) {
            None => &self.history[at],
            Some(at) => &self.rest[at],
        }
    }
}

/// How a recipe's history was cut. One that begins alike is cut alike, and shares these.
#[derive(Debug, Default)]
pub struct Cuts {
    levels: Vec<SharedList<Chunk>>,
}

/// What a recipe shares with one that was cut before.
#[derive(Debug, Clone, Copy)]
pub struct Alike<'c> {
    pub cuts: &'c Cuts,
    /// So many pieces at their beginnings are equal.
    pub pieces: usize,
}

/// Entries in a row that are of one level: pieces at level 0, above them chunks of the level below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub level: usize,
    pub entries: Range<usize>,
}

/// A run of entries of the level below.
#[derive(Debug, Clone)]
struct Chunk {
    name: ChunkName,
    entries: Range<usize>,
}

impl<'p> RopeTree<'p> {
    pub fn new(pieces: &'p dyn Pieces, layout: Layout) -> Self {
        Self::like(pieces, layout, None)
    }

    /// The same tree as [`Self::new`] gives, without cutting again what was cut before.
    pub fn like(pieces: &'p dyn Pieces, layout: Layout, alike: Option<Alike<'_>>) -> Self {
        let count = pieces.piece_count();
        let Layout { newest } = layout;
        let end = newest.end.min(count);
        let newest = newest.start.min(end)..end;
        let mut levels: Vec<Level> = Vec::new();
        // What is left to be chunked, of the history and of the rest: entries of the level at hand.
        let (mut history, mut rest) = (Some(0..newest.start), Some(newest.end..count));
        let run = |level, entries| Run { level, entries };
        // The history's runs, from its end.
        let mut runs = vec![run(0, newest)];
        let mut rest_run = None;
        // Entries of the level at hand that are as they were.
        let mut same = alike.map_or(0, |alike| alike.pieces);
        loop {
            let level = levels.len();
            runs.extend(
                history
                    .take_if(|left| left.len() <= HISTORY_MAX)
                    .map(|left| run(level, left)),
            );
            rest_run = rest_run.or(rest.take_if(|left| left.len() <= REST_MAX).map(|left| run(level, left)));
            if history.is_none() && rest.is_none() {
                break;
            }
            let below = levels.last();
            let mut chunks = Level::default();
            if let Some(left) = &mut history {
                let cut_before = alike.and_then(|alike| alike.cuts.levels.get(level));
                chunks.history = cut_before.cloned().unwrap_or_default();
                let end = same.min(left.end);
                same = chunks.history.partition_point(|chunk| chunk.entries.end <= end);
                chunks.history.truncate(same);
                let start = chunks.history.last().map_or(left.start, |chunk| chunk.entries.end);
                let unfinished = cut(names(pieces, below, start..left.end), start, &mut chunks.history);
                runs.push(run(level, unfinished.entries));
                *left = 0..chunks.history.len();
            }
            if let Some(left) = &mut rest {
                let last = cut(names(pieces, below, left.clone()), left.start, &mut chunks.rest);
                chunks.rest.extend((!last.entries.is_empty()).then(|| last.finish()));
                *left = chunks.history.len()..chunks.len();
            }
            levels.push(chunks);
        }
        runs.reverse();
        runs.extend(rest_run);
        runs.retain(|run| !run.entries.is_empty());
        RopeTree { pieces, levels, runs }
    }

    /// For the next recipe that begins like this one.
    pub fn into_cuts(self) -> Cuts {
        Cuts {
            levels: self.levels.into_iter().map(|level| level.history).collect(),
        }
    }

    /// The root's runs, in the order of the body.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many levels of chunks there are.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// How many chunks a level has.
    pub fn chunk_count(&self, level: usize) -> usize {
        self.levels[level].len()
    }

    pub fn chunk_name(&self, level: usize, chunk: usize) -> ChunkName {
        self.levels[level].chunk(chunk).name
    }

    /// What a chunk lists.
    pub fn inside(&self, level: usize, chunk: usize) -> Run {
        Run {
            level,
            entries: self.levels[level].chunk(chunk).entries.clone(),
        }
    }

    /// Pieces in a row.
    pub fn pieces(&self, pieces: Range<usize>) -> impl Iterator<Item = &'p Piece> + use<'p> {
        self.pieces.pieces_behind(pieces.start).take(pieces.len())
    }

    /// Pieces as bytes, with the numbers of their parts.
    pub fn write_pieces<E>(
        &self,
        pieces: Range<usize>,
        number: &mut dyn FnMut(&PartHash) -> Result<PartNumber, E>,
    ) -> Result<Vec<u8>, E> {
        let mut writer = Writer::new(number);
        for piece in self.pieces(pieces) {
            writer.piece(piece)?;
        }
        Ok(writer.out)
    }

    /// The root, from the bytes of its runs.
    pub fn root(&self, written: &[Vec<u8>]) -> Rope {
        let mut root = Vec::new();
        for (run, entries) in self.runs.iter().zip(written) {
            root.push(run.level as u8);
            leb128::write(entries.len() as u64, &mut root);
            root.extend_from_slice(entries);
        }
        let levels = self.runs.iter().map(|run| run.level as u8).max();
        Rope {
            levels: levels.unwrap_or_default(),
            root,
        }
    }
}

/// A chunk that grows.
struct Growing {
    hasher: Sha256,
    entries: Range<usize>,
}

impl Growing {
    fn at(entry: usize) -> Self {
        Growing {
            hasher: Sha256::new_with_prefix(b"v1:chunk\0"),
            entries: entry..entry,
        }
    }

    fn push(&mut self, name: &[u8]) {
        self.hasher.update((name.len() as u32).to_be_bytes());
        self.hasher.update(name);
        self.entries.end += 1;
    }

    fn finish(self) -> Chunk {
        let digest: [u8; 32] = self.hasher.finalize().into();
        let mut name = ChunkName::default();
        let length = name.0.len();
        name.0.copy_from_slice(&digest[..length]);
        Chunk {
            name,
            entries: self.entries,
        }
    }
}

/// The names of some entries: pieces, or chunks of the level below.
fn names<'t>(
    pieces: &'t dyn Pieces,
    below: Option<&'t Level>,
    entries: Range<usize>,
) -> Box<dyn Iterator<Item = Vec<u8>> + 't> {
    match below {
        None => {
            let listed = pieces.pieces_behind(entries.start).take(entries.len());
            Box::new(listed.map(piece_name))
        }
        Some(below) => Box::new(entries.map(|entry| below.chunk(entry).name.0.to_vec())),
    }
}

/// Cuts entries into chunks where the content says so; gives those behind the last boundary.
fn cut(names: impl Iterator<Item = Vec<u8>>, first: usize, chunks: &mut impl Extend<Chunk>) -> Growing {
    let mut growing = Growing::at(first);
    for name in names {
        growing.push(&name);
        let length = growing.entries.len();
        if length >= CHUNK_MAX || (length >= CHUNK_MIN && ends_chunk(&name)) {
            let behind = Growing::at(growing.entries.end);
            chunks.extend([std::mem::replace(&mut growing, behind).finish()]);
        }
    }
    growing
}

/// What a piece is called inside a chunk's name: itself, with hashes where it is written with numbers.
fn piece_name(piece: &Piece) -> Vec<u8> {
    let mut names = Vec::new();
    let mut number = |part: &PartHash| {
        names.extend_from_slice(&part.0);
        Ok::<_, Infallible>(0)
    };
    let mut writer = Writer::new(&mut number);
    let Ok(()) = writer.piece(piece);
    let mut bytes = writer.out;
    bytes.extend_from_slice(&names);
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
