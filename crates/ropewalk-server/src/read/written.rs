//! Messages as they are sent, in little room: what was written is alike, and a page is unpacked in no time.

use ropewalk_engine::view::MessageView;
use serde::Deserialize as _;
use serde_json::Deserializer;
use serde_json::value::RawValue;

/// Messages that are packed together.
const BLOCK: usize = 64;

/// Fast rather than small: a tenth is small enough.
const LEVEL: i32 = 1;

/// The messages of a path.
#[derive(Debug)]
pub(super) struct Written {
    blocks: Vec<Vec<u8>>,
    total: usize,
}

impl Written {
    pub(super) fn of(messages: &[MessageView]) -> Self {
        let blocks = messages.chunks(BLOCK).map(|block| {
            let mut json = Vec::new();
            for message in block {
                // What we answer with always serialises; see `to_json`.
                let _ = serde_json::to_writer(&mut json, message);
                json.push(b'\n');
            }
            zstd::encode_all(&json[..], LEVEL).unwrap_or_default()
        });
        Written {
            blocks: blocks.collect(),
            total: messages.len(),
        }
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.len() + 48).sum()
    }

    /// So many of them from a place on.
    pub(super) fn messages(&self, first: usize, limit: usize) -> Vec<Box<RawValue>> {
        let blocks = self.blocks.iter().skip(first / BLOCK);
        let each = blocks.flat_map(|block| unpack(block));
        each.skip(first % BLOCK).take(limit).collect()
    }
}

fn unpack(block: &[u8]) -> Vec<Box<RawValue>> {
    let json = zstd::decode_all(block).unwrap_or_default();
    let mut reader = Deserializer::from_slice(&json);
    std::iter::from_fn(|| Box::<RawValue>::deserialize(&mut reader).ok()).collect()
}
