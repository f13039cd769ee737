//! Parts: the stored pieces of bodies, each kept once per owner and named by its bytes.

use std::sync::Arc;

use crate::hash::{PartHash, sha256};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub hash: PartHash,
    pub data: PartData,
}

/// A text shares its memory with the block that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartData {
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

impl Part {
    pub fn text(text: Arc<str>) -> Self {
        Part {
            hash: PartHash(sha256(text.as_bytes())),
            data: PartData::Text(text),
        }
    }

    pub fn bytes(bytes: &[u8]) -> Self {
        Part {
            hash: PartHash(sha256(bytes)),
            data: PartData::Bytes(bytes.into()),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match &self.data {
            PartData::Text(text) => text.as_bytes(),
            PartData::Bytes(bytes) => bytes,
        }
    }
}
