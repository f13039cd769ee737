//! A readable copy of a body that was sent compressed.
//!
//! [`decode`] takes a whole body, [`Decoder`] one that comes in pieces; both read stacked encodings (`gzip, br`) from the outside in.
//! `stage` has one decoder for each encoding.
//!
//! Invariants: never more than the limits of [`DecodeLimits`] is produced, at any layer, whatever the input says; damaged input
//! gives what could be read before the damage, and [`DecodeEnd`] says so; nothing panics. A body that is not compressed is
//! returned as it is, without a copy.

mod gzip;
mod stage;

use std::time::{Duration, Instant};

use bytes::Bytes;

use stage::Stage;

/// How much work a body may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Most bytes that any layer may produce. The largest request body that is accepted by default.
    pub decoded_bytes_max: usize,
    /// Most bytes out for one byte in. A conversation with much repetition reaches 100; bombs begin at 1,000.
    pub ratio_max: u64,
    /// Below this the ratio does not matter: a short text may well be one letter repeated.
    pub ratio_free_bytes: u64,
    /// Longest time that one body may take, all its pieces together. 64 MB need about 0.3 s.
    pub time_max: Duration,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        DecodeLimits {
            decoded_bytes_max: 32 << 20,
            ratio_max: 512,
            ratio_free_bytes: 8 << 20,
            time_max: Duration::from_secs(3),
        }
    }
}

/// Layers of encodings that are read. Two are already unheard of.
const LAYERS_MAX: usize = 4;

/// What became of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeEnd {
    Whole,
    /// The input ended before the encoding did.
    Truncated,
    /// The input breaks the rules of its encoding, or goes on behind its end.
    Damaged,
    /// One of the size limits was reached.
    TooLarge,
    TooSlow,
    /// An encoding that is not read here; the bytes are as they came.
    Unknown,
}

impl DecodeEnd {
    pub fn is_whole(self) -> bool {
        self == DecodeEnd::Whole
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// What could be read; the very same bytes where nothing had to be.
    pub bytes: Bytes,
    pub end: DecodeEnd,
}

/// Decodes a body by its `content-encoding` (all values of the header, joined by commas).
pub fn decode(body: &Bytes, content_encoding: &str, limits: &DecodeLimits) -> Decoded {
    match Decoder::new(content_encoding, limits) {
        Encoded::Plainly => Decoded {
            bytes: body.clone(),
            end: DecodeEnd::Whole,
        },
        Encoded::Unknown => Decoded {
            bytes: body.clone(),
            end: DecodeEnd::Unknown,
        },
        Encoded::As(mut decoder) => {
            let mut out = Vec::new();
            decoder.push(body, &mut out);
            Decoded {
                bytes: Bytes::from(out),
                end: decoder.finish(),
            }
        }
    }
}

/// What a `content-encoding` asks for.
#[derive(Debug)]
pub enum Encoded {
    /// Nothing: the bytes are the text.
    Plainly,
    As(Box<Decoder>),
    /// An encoding that is not known, or more layers than are read.
    Unknown,
}

impl Encoded {
    /// Appends what a piece of the body says, as far as it can be read: of an unknown encoding, the piece as it came.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Encoded::Plainly | Encoded::Unknown => out.extend_from_slice(bytes),
            Encoded::As(decoder) => decoder.push(bytes, out),
        }
    }

    /// Whether a limit was reached, so that there is more than was given.
    pub fn is_cut(&self) -> bool {
        match self {
            Encoded::Plainly | Encoded::Unknown => false,
            Encoded::As(decoder) => matches!(decoder.stopped, Some(DecodeEnd::TooLarge | DecodeEnd::TooSlow)),
        }
    }
}

/// Decodes a body that comes in pieces.
#[derive(Debug)]
pub struct Decoder {
    /// The outermost encoding first.
    stages: Vec<Stage>,
    meter: Meter,
    stopped: Option<DecodeEnd>,
}

impl Decoder {
    #[allow(clippy::new_ret_no_self, reason = "most bodies need no decoder")]
    pub fn new(content_encoding: &str, limits: &DecodeLimits) -> Encoded {
        let names = content_encoding.split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"));
        let mut stages = Vec::new();
        for name in names {
            match Stage::named(name) {
                Some(stage) if stages.len() < LAYERS_MAX => stages.push(stage),
                _ => return Encoded::Unknown,
            }
        }
        if stages.is_empty() {
            return Encoded::Plainly;
        }
        // Encodings are listed in the order in which they were applied.
        stages.reverse();
        Encoded::As(Box::new(Decoder {
            stages,
            meter: Meter::new(limits),
            stopped: None,
        }))
    }

    /// Appends what these bytes decode to. After the first problem nothing more comes.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.stopped.is_some() {
            return;
        }
        let begun = Instant::now();
        self.meter.taken = self.meter.taken.saturating_add(bytes.len() as u64);
        self.meter.until = begun + self.meter.time_left;
        self.stopped = through(&mut self.stages, bytes, &mut self.meter, out).err();
        self.meter.time_left = self.meter.time_left.saturating_sub(begun.elapsed());
    }

    /// Whether nothing more will come, so that further pieces need not be handed in.
    pub fn has_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    pub fn finish(self) -> DecodeEnd {
        match self.stopped {
            Some(end) => end,
            // A body without any bytes has nothing that could be missing: an answer to HEAD, a 304.
            None if self.meter.taken == 0 => DecodeEnd::Whole,
            None if self.stages.iter().all(Stage::is_at_end) => DecodeEnd::Whole,
            None => DecodeEnd::Truncated,
        }
    }
}

/// Sends bytes through the stages and what comes out of the last one to `out`.
fn through(stages: &mut [Stage], bytes: &[u8], meter: &mut Meter, out: &mut Vec<u8>) -> Result<(), DecodeEnd> {
    let Some((first, rest)) = stages.split_first_mut() else {
        out.extend_from_slice(bytes);
        return Ok(());
    };
    let level = rest.len();
    first.push(bytes, &mut |piece| {
        let allowed = meter.allow(level, piece.len())?;
        through(rest, &piece[..allowed], meter, out)?;
        if allowed < piece.len() {
            Err(DecodeEnd::TooLarge)
        } else {
            Ok(())
        }
    })
}

/// Counts what was taken and what was made of it.
#[derive(Debug)]
struct Meter {
    limits: DecodeLimits,
    taken: u64,
    /// By layer, the innermost first.
    made: [u64; LAYERS_MAX],
    time_left: Duration,
    until: Instant,
}

impl Meter {
    fn new(limits: &DecodeLimits) -> Meter {
        Meter {
            limits: *limits,
            taken: 0,
            made: [0; LAYERS_MAX],
            time_left: limits.time_max,
            until: Instant::now(),
        }
    }

    /// How many of these bytes a layer may still produce.
    fn allow(&mut self, level: usize, bytes: usize) -> Result<usize, DecodeEnd> {
        if Instant::now() > self.until {
            return Err(DecodeEnd::TooSlow);
        }
        let by_ratio = self.taken.saturating_mul(self.limits.ratio_max);
        let by_ratio = by_ratio.max(self.limits.ratio_free_bytes);
        let most = by_ratio.min(self.limits.decoded_bytes_max as u64);
        let made = &mut self.made[level];
        let allowed = most.saturating_sub(*made).min(bytes as u64);
        *made += allowed;
        Ok(usize::try_from(allowed).unwrap_or(bytes))
    }
}

#[cfg(test)]
mod tests;
