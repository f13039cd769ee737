//! Bodies of which only model and tokens are kept.

use http::header;
use ropewalk_core::model::Provider;
use ropewalk_engine::decode::Encoded;
use ropewalk_wire::provider::route;
use ropewalk_wire::skeleton;

use super::scrub::{BodyOf, Half, ScrubBody};

/// A body that is larger is not read, and nothing of it is kept.
const BODY_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct MetadataBody {
    half: Half,
    provider: Option<Provider>,
    content_type: Option<String>,
    encoded: Encoded,
    /// `None` once there was too much of it.
    text: Option<Vec<u8>>,
}

impl MetadataBody {
    pub(super) fn new(of: &BodyOf<'_>, encoded: Encoded) -> Self {
        let content_type = of.headers.get(header::CONTENT_TYPE);
        MetadataBody {
            half: of.half,
            provider: route(of.target).endpoint.provider(),
            content_type: content_type.and_then(|kind| kind.to_str().ok()).map(str::to_owned),
            encoded,
            text: Some(Vec::new()),
        }
    }
}

impl ScrubBody for MetadataBody {
    fn piece(&mut self, piece: &[u8], _: &mut Vec<u8>) {
        let Some(text) = &mut self.text else {
            return;
        };
        self.encoded.push(piece, text);
        if text.len() > BODY_BYTES_MAX {
            self.text = None;
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) -> u32 {
        let (Some(text), Some(provider)) = (self.text.take(), self.provider) else {
            return 0;
        };
        let kept = match self.half {
            _ if text.is_empty() => return 0,
            Half::Request => skeleton::of_request(&text),
            // Whether it failed, the status beside it says.
            Half::Response => skeleton::of_response(provider, OK, self.content_type.as_deref(), &text),
        };
        out.extend_from_slice(kept.as_bytes());
        0
    }

    fn relieve(&mut self, _: &mut Vec<u8>) {
        self.text = None;
    }

    fn held(&self) -> usize {
        self.text.as_ref().map_or(0, Vec::capacity)
    }
}

const OK: u16 = 200;
