//! Bodies compressed by the real encoders, chunk by chunk.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Gzip,
    /// As the standard has it: with the zlib header.
    Deflate,
    /// As some servers have it: without.
    RawDeflate,
    Brotli,
    Zstd,
}

impl Encoding {
    pub const ALL: [Encoding; 5] = [
        Encoding::Gzip,
        Encoding::Deflate,
        Encoding::RawDeflate,
        Encoding::Brotli,
        Encoding::Zstd,
    ];

    /// Its name in `content-encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Deflate | Encoding::RawDeflate => "deflate",
            Encoding::Brotli => "br",
            Encoding::Zstd => "zstd",
        }
    }
}

const BUFFER_BYTES: usize = 4_096;
/// Fast, and enough to look like what servers send.
const BROTLI_QUALITY: u32 = 3;
const BROTLI_WINDOW_LOG: u32 = 20;

/// As many pieces as chunks were given, flushed after each, so that a reader of the first n pieces can have the first n
/// chunks. The last one also carries what the encoder writes at its end; without any chunk that is the only piece.
pub fn encode(encoding: Encoding, chunks: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let chunks = chunks.into_iter();
    match encoding {
        Encoding::Gzip => pieces(chunks, GzEncoder::new(Vec::new(), Compression::fast()), |encoder| {
            encoder.finish().expect("a vector takes everything")
        }),
        Encoding::Deflate => pieces(chunks, ZlibEncoder::new(Vec::new(), Compression::fast()), |encoder| {
            encoder.finish().expect("a vector takes everything")
        }),
        Encoding::RawDeflate => pieces(
            chunks,
            DeflateEncoder::new(Vec::new(), Compression::fast()),
            |encoder| encoder.finish().expect("a vector takes everything"),
        ),
        Encoding::Brotli => {
            let encoder = brotli::CompressorWriter::new(Vec::new(), BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW_LOG);
            pieces(chunks, encoder, brotli::CompressorWriter::into_inner)
        }
        Encoding::Zstd => {
            let encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("level 1 is a level");
            pieces(chunks, encoder, |encoder| {
                encoder.finish().expect("a vector takes everything")
            })
        }
    }
}

/// A compression bomb: 1 GiB of zeros as 809 bytes of brotli. Encoding it takes many seconds, so it is put together from the
/// pattern that the encoder writes (quality 5, the largest window): eight blocks of 16 MB each fill 101 bytes.
pub fn gibibyte_of_zeros() -> Bytes {
    const START: [u8; 11] = [0xcf, 0xff, 0xff, 0x7f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72];
    const BLOCKS: [u8; 101] = [
        0xef, 0xff, 0xf9, 0xff, 0xff, 0x0f, 0x80, 0x04, 0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x3f, 0xff, 0xff, 0xff,
        0x01, 0x90, 0x00, 0x88, 0xc3, 0x02, 0xd0, 0xbd, 0xff, 0xe7, 0xff, 0xff, 0x3f, 0x00, 0x12, 0x00, 0x71, 0x58,
        0x00, 0xba, 0xf7, 0xff, 0xfc, 0xff, 0xff, 0x07, 0x40, 0x02, 0x20, 0x0e, 0x0b, 0x40, 0xf7, 0xfe, 0x9f, 0xff,
        0xff, 0xff, 0x00, 0x48, 0x00, 0xc4, 0x61, 0x01, 0xe8, 0xde, 0xff, 0xf3, 0xff, 0xff, 0x1f, 0x00, 0x09, 0x80,
        0x38, 0x2c, 0x00, 0xdd, 0xfb, 0x7f, 0xfe, 0xff, 0xff, 0x03, 0x20, 0x01, 0x10, 0x87, 0x05, 0xa0, 0x7b, 0xff,
        0xcf, 0xff, 0xff, 0x7f, 0x00, 0x24, 0x00, 0xe2, 0xb0, 0x00, 0x74,
    ];
    let end = [&BLOCKS[..90], &[0x3f]].concat();
    Bytes::from([&START[..], &BLOCKS.repeat(7), &end].concat())
}

/// What an encoder has written so far.
trait Written: Write {
    fn written(&self) -> &Vec<u8>;
}

macro_rules! written {
    ($($encoder:ty),*) => {
        $(impl Written for $encoder {
            fn written(&self) -> &Vec<u8> {
                self.get_ref()
            }
        })*
    };
}

written!(
    GzEncoder<Vec<u8>>,
    ZlibEncoder<Vec<u8>>,
    DeflateEncoder<Vec<u8>>,
    brotli::CompressorWriter<Vec<u8>>,
    zstd::stream::Encoder<'static, Vec<u8>>
);

fn pieces<E: Written>(
    chunks: impl Iterator<Item = Bytes>,
    mut encoder: E,
    finish: impl FnOnce(E) -> Vec<u8>,
) -> Vec<Bytes> {
    let mut ends = Vec::new();
    for chunk in chunks {
        encoder.write_all(&chunk).expect("a vector takes everything");
        encoder.flush().expect("a vector takes everything");
        ends.push(encoder.written().len());
    }
    let all = Bytes::from(finish(encoder));
    ends.pop();
    ends.push(all.len());
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| all.slice(start..end)).collect()
}
