//! Parts as stored: compressed where it pays, with a dictionary trained on the owner's own parts where there is one.

use std::collections::HashMap;
use std::io;

/// Shorter parts gain less than a frame costs.
const COMPRESS_MIN: usize = 48;
const LEVEL: i32 = 3;
/// For what is written once and stays: 6 % shorter for two thirds more time.
const LEVEL_TIGHT: i32 = 8;

/// Written beside the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Plain,
    Zstd,
    /// zstd with the dictionary of that number, counted from 1.
    Dictionary(u32),
}

impl Codec {
    pub fn code(self) -> i64 {
        match self {
            Codec::Plain => 0,
            Codec::Zstd => 1,
            Codec::Dictionary(number) => 1 + i64::from(number),
        }
    }

    pub fn of_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Codec::Plain),
            1 => Some(Codec::Zstd),
            _ => Some(Codec::Dictionary(u32::try_from(code.checked_sub(1)?).ok()?)),
        }
    }
}

/// Compresses parts, one after the other.
pub struct Packer {
    plain: zstd::bulk::Compressor<'static>,
    tight: Option<zstd::bulk::Compressor<'static>>,
    trained: Option<(u32, zstd::bulk::Compressor<'static>)>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.trained.as_ref().map(|(number, _)| number);
        f.debug_struct("Packer")
            .field("dictionary", &number)
            .finish_non_exhaustive()
    }
}

impl Packer {
    pub fn new() -> io::Result<Self> {
        Ok(Packer {
            plain: compressor(LEVEL, &[])?,
            tight: None,
            trained: None,
        })
    }

    pub fn use_dictionary(&mut self, number: u32, dictionary: &[u8]) -> io::Result<()> {
        self.trained = Some((number, compressor(LEVEL, dictionary)?));
        Ok(())
    }

    /// The stored form, the shortest there is.
    pub fn pack(&mut self, bytes: &[u8]) -> io::Result<(Codec, Vec<u8>)> {
        if bytes.len() < COMPRESS_MIN {
            return Ok((Codec::Plain, bytes.to_vec()));
        }
        let (codec, packed) = match &mut self.trained {
            Some((number, compressor)) => (Codec::Dictionary(*number), compressor.compress(bytes)?),
            None => (Codec::Zstd, self.plain.compress(bytes)?),
        };
        Ok(shortest(codec, packed, bytes))
    }

    /// The same without a dictionary, for bytes that are not packed again.
    pub fn pack_tightly(&mut self, bytes: &[u8]) -> io::Result<(Codec, Vec<u8>)> {
        let tight = match &mut self.tight {
            Some(tight) => tight,
            none => none.insert(compressor(LEVEL_TIGHT, &[])?),
        };
        Ok(shortest(Codec::Zstd, tight.compress(bytes)?, bytes))
    }
}

fn shortest(codec: Codec, packed: Vec<u8>, bytes: &[u8]) -> (Codec, Vec<u8>) {
    if packed.len() >= bytes.len() {
        return (Codec::Plain, bytes.to_vec());
    }
    (codec, packed)
}

/// Without content size, checksum and dictionary id in each frame: the row has the length, the name is the checksum.
fn compressor(level: i32, dictionary: &[u8]) -> io::Result<zstd::bulk::Compressor<'static>> {
    let mut compressor = zstd::bulk::Compressor::with_dictionary(level, dictionary)?;
    compressor.include_contentsize(false)?;
    compressor.include_checksum(false)?;
    compressor.include_dictid(false)?;
    Ok(compressor)
}

/// Decompresses parts; keeps the dictionaries it has met.
#[derive(Default)]
pub struct Unpacker {
    plain: Option<zstd::bulk::Decompressor<'static>>,
    trained: HashMap<u32, zstd::bulk::Decompressor<'static>>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

impl Unpacker {
    pub fn knows(&self, number: u32) -> bool {
        self.trained.contains_key(&number)
    }

    pub fn learn(&mut self, number: u32, dictionary: &[u8]) -> io::Result<()> {
        self.trained.insert(number, decompressor(dictionary)?);
        Ok(())
    }

    /// `length` is that of the part itself, so that no more is ever decompressed.
    pub fn unpack(&mut self, codec: Codec, bytes: &[u8], length: usize) -> io::Result<Vec<u8>> {
        let unpacked = match codec {
            Codec::Plain => bytes.to_vec(),
            Codec::Zstd => {
                let plain = match &mut self.plain {
                    Some(plain) => plain,
                    none => none.insert(decompressor(&[])?),
                };
                plain.decompress(bytes, length)?
            }
            Codec::Dictionary(number) => {
                let unknown = || io::Error::other(format!("dictionary {number} is not there"));
                self.trained
                    .get_mut(&number)
                    .ok_or_else(unknown)?
                    .decompress(bytes, length)?
            }
        };
        if unpacked.len() != length {
            return Err(io::Error::other("a part has another length than its row says"));
        }
        Ok(unpacked)
    }
}

fn decompressor(dictionary: &[u8]) -> io::Result<zstd::bulk::Decompressor<'static>> {
    zstd::bulk::Decompressor::with_dictionary(dictionary)
}

/// Trains a dictionary; `None` where the samples are too few or too uniform to make one.
pub fn train(samples: &[Vec<u8>], size: usize) -> Option<Vec<u8>> {
    zstd::dict::from_samples(samples, size)
        .ok()
        .filter(|dictionary| !dictionary.is_empty())
}
