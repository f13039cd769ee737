//! One encoding, decoded piece by piece through a buffer of fixed size.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use super::DecodeEnd;
use super::gzip::Gzip;

/// How much comes out of a stage at once.
const BUFFER_BYTES: usize = 32 << 10;

/// Largest window that a zstd frame may ask for: 8 MB, as RFC 9659 has it for content encodings.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Where a stage puts what it has decoded.
pub(super) type Sink<'s> = &'s mut dyn FnMut(&[u8]) -> Result<(), DecodeEnd>;

pub(super) enum Stage {
    Gzip(Box<Gzip>),
    Deflate(Deflate),
    Brotli(Box<Brotli>),
    Zstd(Zstd),
}

impl Stage {
    pub(super) fn named(name: &str) -> Option<Stage> {
        // `x-gzip` is what HTTP/1.0 called it.
        if ["gzip", "x-gzip"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Some(Stage::Gzip(Box::default()));
        }
        if name.eq_ignore_ascii_case("deflate") {
            return Some(Stage::Deflate(Deflate::default()));
        }
        if name.eq_ignore_ascii_case("br") {
            return Some(Stage::Brotli(Box::new(Brotli::new())));
        }
        if name.eq_ignore_ascii_case("zstd") {
            return Zstd::new().map(Stage::Zstd);
        }
        None
    }

    pub(super) fn push(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<(), DecodeEnd> {
        match self {
            Stage::Gzip(gzip) => gzip.push(bytes, sink),
            Stage::Deflate(deflate) => deflate.push(bytes, sink),
            Stage::Brotli(brotli) => brotli.push(bytes, sink),
            Stage::Zstd(zstd) => zstd.push(bytes, sink),
        }
    }

    /// Whether the input so far is a whole encoded text.
    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Stage::Gzip(gzip) => gzip.is_at_end(),
            Stage::Deflate(deflate) => deflate.is_at_end,
            Stage::Brotli(brotli) => brotli.is_at_end,
            Stage::Zstd(zstd) => zstd.is_at_end,
        }
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stage::Gzip(_) => "Gzip",
            Stage::Deflate(_) => "Deflate",
            Stage::Brotli(_) => "Brotli",
            Stage::Zstd(_) => "Zstd",
        })
    }
}

/// Inflates until the input is used up or the stream has ended; whether it has, and how much of the input was used.
pub(super) fn inflate(inflater: &mut Decompress, bytes: &[u8], sink: Sink<'_>) -> Result<(bool, usize), DecodeEnd> {
    let mut buffer = [0; BUFFER_BYTES];
    let mut used = 0;
    loop {
        let (taken_before, made_before) = (inflater.total_in(), inflater.total_out());
        let status = inflater
            .decompress(&bytes[used..], &mut buffer, FlushDecompress::None)
            .map_err(|_| DecodeEnd::Damaged)?;
        let taken = (inflater.total_in() - taken_before) as usize;
        let made = (inflater.total_out() - made_before) as usize;
        used += taken;
        if made > 0 {
            sink(&buffer[..made])?;
        }
        if status == Status::StreamEnd {
            return Ok((true, used));
        }
        // A full buffer may have more behind it; so may one that was filled from what an earlier call had taken in.
        let is_used_up = used == bytes.len() && made < buffer.len();
        if is_used_up || (taken == 0 && made == 0) {
            return Ok((false, used));
        }
    }
}

/// `deflate` means zlib's format, but some servers send the bare one; the first two bytes tell.
#[derive(Default)]
pub(super) struct Deflate {
    /// The first byte, while the second is missing.
    first: Option<u8>,
    inflater: Option<Decompress>,
    is_at_end: bool,
}

impl Deflate {
    fn push(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<(), DecodeEnd> {
        if self.is_at_end {
            return nothing_behind_the_end(bytes);
        }
        if self.inflater.is_some() {
            return self.inflate(bytes, sink);
        }
        let start: Vec<u8> = self.first.into_iter().chain(bytes.iter().copied()).take(2).collect();
        let [method, flags] = start[..] else {
            self.first = start.first().copied();
            return Ok(());
        };
        let has_header = method & 0x0f == 8 && (u16::from(method) << 8 | u16::from(flags)) % 31 == 0;
        self.inflater = Some(Decompress::new(has_header));
        if let Some(first) = self.first {
            self.inflate(&[first], sink)?;
        }
        self.inflate(bytes, sink)
    }

    fn inflate(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<(), DecodeEnd> {
        let Some(inflater) = &mut self.inflater else {
            return Ok(());
        };
        let (is_at_end, used) = inflate(inflater, bytes, sink)?;
        self.is_at_end = is_at_end;
        nothing_behind_the_end(&bytes[used..])
    }
}

fn nothing_behind_the_end(bytes: &[u8]) -> Result<(), DecodeEnd> {
    match bytes.is_empty() {
        true => Ok(()),
        false => Err(DecodeEnd::Damaged),
    }
}

pub(super) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    is_at_end: bool,
}

impl Brotli {
    fn new() -> Brotli {
        let allocator = StandardAlloc::default;
        Brotli {
            // Strict: no windows of a gigabyte, which are no part of the standard.
            state: BrotliState::new_strict(allocator(), allocator(), allocator()),
            is_at_end: false,
        }
    }

    fn push(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<(), DecodeEnd> {
        if self.is_at_end {
            return nothing_behind_the_end(bytes);
        }
        let mut buffer = [0; BUFFER_BYTES];
        let (mut left, mut used) = (bytes.len(), 0);
        loop {
            let (mut room, mut made, mut total) = (buffer.len(), 0, 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut used,
                bytes,
                &mut room,
                &mut made,
                &mut buffer,
                &mut total,
                &mut self.state,
            );
            if made > 0 {
                sink(&buffer[..made])?;
            }
            match result {
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput => return Ok(()),
                BrotliResult::ResultFailure => return Err(DecodeEnd::Damaged),
                BrotliResult::ResultSuccess => {
                    self.is_at_end = true;
                    return if left == 0 { Ok(()) } else { Err(DecodeEnd::Damaged) };
                }
            }
        }
    }
}

pub(super) struct Zstd {
    decoder: ZstdDecoder<'static>,
    /// Between two frames, of which a body may have several.
    is_at_end: bool,
}

impl Zstd {
    fn new() -> Option<Zstd> {
        let mut decoder = ZstdDecoder::new().ok()?;
        decoder
            .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
            .ok()?;
        Some(Zstd {
            decoder,
            is_at_end: false,
        })
    }

    fn push(&mut self, bytes: &[u8], sink: Sink<'_>) -> Result<(), DecodeEnd> {
        let mut buffer = [0; BUFFER_BYTES];
        let mut used = 0;
        loop {
            if used == bytes.len() && self.is_at_end {
                return Ok(());
            }
            let step = self.decoder.run_on_buffers(&bytes[used..], &mut buffer);
            let step = step.map_err(|_| DecodeEnd::Damaged)?;
            used += step.bytes_read;
            self.is_at_end = step.remaining == 0;
            if step.bytes_written > 0 {
                sink(&buffer[..step.bytes_written])?;
            }
            if used == bytes.len() && step.bytes_written < buffer.len() {
                return Ok(());
            }
            if step.bytes_read == 0 && step.bytes_written == 0 {
                return Err(DecodeEnd::Damaged);
            }
        }
    }
}
