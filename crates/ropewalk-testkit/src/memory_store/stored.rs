//! One exchange as it is kept, and how it looks at a moment.

use ropewalk_core::hash::NodeHash;
use ropewalk_core::recipe::Piece;
use ropewalk_store::facts::{ExchangeNumber, HashKind, Key, Micros, NewExchange, Position, Spawn, Status};
use ropewalk_store::store::{ExchangeRow, Outcome};

#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) row: ExchangeRow,
    pub(super) start: NodeHash,
    pub(super) request_chain: Vec<NodeHash>,
    pub(super) answer_chain: Vec<NodeHash>,
    /// Of one that lost something what is left of it, with its hash.
    pub(super) request: Option<(Vec<Piece>, [u8; 32])>,
    pub(super) sent: Option<(Vec<Piece>, [u8; 32])>,
    pub(super) response: Option<Vec<Piece>>,
    pub(super) spawns: Vec<Spawn>,
}

impl Stored {
    /// When the answer became known.
    pub(super) fn answered_at(&self) -> Option<Micros> {
        let ended_at = self.row.ended_at.unwrap_or(self.row.at);
        self.row.response_sha256.map(|_| ended_at.max(self.row.at))
    }

    pub(super) fn is_begun(&self, as_of: Micros) -> bool {
        self.row.at <= as_of
    }

    pub(super) fn is_answered(&self, as_of: Micros) -> bool {
        self.is_begun(as_of) && self.answered_at().is_some_and(|at| at <= as_of)
    }

    /// The row as it would be if nothing had happened since.
    pub(super) fn row_as_of(&self, as_of: Micros) -> Option<ExchangeRow> {
        let mut row = self.row.clone();
        if !self.is_begun(as_of) {
            return None;
        }
        if !self.is_answered(as_of) {
            row.status = Status::Pending;
            (row.ended_at, row.http_status, row.output_node) = (None, None, None);
            (row.response_sha256, row.response_length) = (None, None);
            (row.usage, row.cost_nano_usd, row.cost_is_estimate) = (None, None, false);
            row.keys.retain(|key| !key.kind.is_of_answer());
            row.hashes.retain(|(kind, _)| *kind != HashKind::Response);
        }
        Some(row)
    }

    pub(super) fn has_key(&self, key: &Key, as_of: Micros) -> bool {
        let is_known = if key.kind.is_of_answer() {
            self.is_answered(as_of)
        } else {
            self.is_begun(as_of)
        };
        let has_hash = self.row.hashes.iter().any(|(_, hash)| Key::of_hash(hash) == *key);
        is_known && (self.row.keys.contains(key) || has_hash)
    }

    /// The nodes of the request and of the answer, as far as they are known, and since when.
    pub(super) fn nodes_as_of(&self, as_of: Micros) -> impl Iterator<Item = (NodeHash, Micros)> {
        let begun = std::iter::once(&self.start)
            .chain(&self.request_chain)
            .filter(move |_| self.is_begun(as_of));
        let answered = self.answer_chain.iter().filter(move |_| self.is_answered(as_of));
        let answered_at = self.answered_at().unwrap_or(self.row.at);
        begun
            .map(|node| (*node, self.row.at))
            .chain(answered.map(move |node| (*node, answered_at)))
    }
}

/// What handing in `exchange` means where `row` is known under its id, or of its call.
pub(super) fn outcome(row: &ExchangeRow, exchange: &NewExchange) -> Outcome {
    if exchange.telling().is_same_call(row.telling()) {
        return match exchange.telling().outranks(row.telling()) {
            true => Outcome::Replaced,
            false => Outcome::Known,
        };
    }
    let response_sha256 = exchange.response.as_ref().map(|body| body.sha256);
    match (row.response_sha256, response_sha256) {
        _ if row.request_sha256 != exchange.request.sha256 => Outcome::Conflict,
        (Some(known), Some(new)) if known != new => Outcome::Conflict,
        (None, Some(_)) => Outcome::Completed,
        _ => Outcome::Known,
    }
}

pub(super) fn row(
    exchange: &NewExchange,
    number: ExchangeNumber,
    position: Position,
    input_node: NodeHash,
    output_node: Option<NodeHash>,
) -> ExchangeRow {
    let exchange = exchange.clone();
    let response = exchange.response.as_ref();
    ExchangeRow {
        number,
        position,
        input_node,
        depth: exchange.request_chain.len() as u32,
        output_node,
        at: exchange.at,
        ended_at: exchange.ended_at,
        status: exchange.status,
        http_status: exchange.http_status,
        request_sha256: exchange.request.sha256,
        response_sha256: response.map(|body| body.sha256),
        request_length: exchange.request.length,
        response_length: response.map(|body| body.length),
        id: exchange.id,
        provider: exchange.provider,
        model: exchange.model,
        kind: exchange.kind,
        session: exchange.session,
        agent: exchange.agent,
        project: exchange.project,
        hashes: exchange.hashes,
        keys: exchange.keys,
        usage: exchange.usage,
        cost_nano_usd: exchange.cost_nano_usd,
        cost_is_estimate: exchange.cost_is_estimate,
        detail: exchange.detail,
        provenance: exchange.provenance,
        rules_version: exchange.rules_version,
        projections_version: exchange.projections_version,
        hole: None,
    }
}
