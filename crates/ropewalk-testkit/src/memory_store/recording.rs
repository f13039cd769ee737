//! Recording: a batch is staged, and applied whole or not at all.

use std::collections::{BTreeMap, HashMap};

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, PartHash, sha256};
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::visit_parts;
use ropewalk_store::facts::{
    Body, ExchangeNumber, KeyKind, Link, NewExchange, Position, Projected, SearchText, Status,
};
use ropewalk_store::store::{ID_MAX, NO_EXCHANGE, Outcome, Recorded, Result, StoreError};

use super::asks::Owned;
use super::stored::{Stored, outcome, row};

/// What a batch would add, before it is certain that all of it can be added.
#[derive(Default)]
struct Staged {
    parts: HashMap<PartHash, Vec<u8>>,
    exchanges: BTreeMap<ExchangeNumber, Stored>,
    nodes: Vec<(NodeHash, Option<NodeHash>)>,
    texts: Vec<(ExchangeNumber, SearchText)>,
    /// Told anew: what was found of them before is not.
    retold: Vec<ExchangeNumber>,
    conflicts: u64,
    positions: i64,
}

impl Owned {
    pub(super) fn record(&mut self, batch: &[NewExchange]) -> Result<Vec<Recorded>> {
        let mut staged = Staged::default();
        let recorded = batch.iter().map(|exchange| self.stage(exchange, &mut staged));
        let recorded = recorded.collect::<Result<Vec<_>>>()?;
        for (node, parent) in staged.nodes {
            let known = *self.nodes.entry(node).or_insert(parent);
            assert_eq!(known, parent, "a node has one predecessor");
        }
        self.parts.extend(staged.parts);
        let is_retold = |of: &ExchangeNumber| staged.retold.contains(of);
        self.waiting.retain(|(of, _)| !is_retold(of));
        self.indexed.retain(|(of, _)| !is_retold(of));
        let numbers = staged.exchanges.keys().map(|number| number.0);
        self.last_number = numbers.max().unwrap_or_default().max(self.last_number);
        self.exchanges.extend(staged.exchanges);
        self.waiting.extend(staged.texts);
        self.conflicts += staged.conflicts;
        self.last_position += staged.positions;
        Ok(recorded)
    }

    /// Gives exchanges other hashes and keys.
    pub(super) fn project(&mut self, batch: Vec<Projected>) -> u64 {
        let mut written = 0;
        for new in batch {
            let Some(known) = self.exchanges.get_mut(&new.exchange) else {
                continue;
            };
            if known.row.response_sha256 == new.response_sha256 {
                (known.row.hashes, known.row.keys) = (new.hashes, new.keys);
                known.row.projections_version = new.version;
                written += 1;
            }
        }
        written
    }

    fn stage(&self, exchange: &NewExchange, staged: &mut Staged) -> Result<Recorded> {
        if exchange.id.len() > ID_MAX {
            let length = exchange.id.len();
            return Err(StoreError::IdTooLong { length });
        }
        let known = self.find_existing(exchange, staged);
        if known.is_none() && self.is_forgotten(exchange) {
            return Ok(Recorded {
                number: NO_EXCHANGE,
                outcome: Outcome::Forgotten,
            });
        }
        let outcome = known.map_or(Outcome::New, |known| outcome(&known.row, exchange));
        let number = match known {
            Some(known) => known.row.number,
            None => {
                let new = staged
                    .exchanges
                    .keys()
                    .filter(|number| !self.exchanges.contains_key(number));
                ExchangeNumber(self.last_number + new.count() as i64 + 1)
            }
        };
        match outcome {
            Outcome::Known | Outcome::Forgotten => {}
            Outcome::Conflict => staged.conflicts += 1,
            Outcome::New | Outcome::Completed | Outcome::Replaced => {
                let is_new = outcome != Outcome::Completed;
                if outcome == Outcome::Replaced {
                    staged.retold.push(number);
                    staged.texts.retain(|(of, _)| *of != number);
                }
                staged.positions += 1;
                let position = Position(self.last_position + staged.positions);
                let stored = self.stored(exchange, number, position, staged)?;
                staged.exchanges.insert(number, stored);
                let texts = exchange
                    .texts
                    .iter()
                    .filter(|text| is_new || text.source.is_of_answer());
                staged.texts.extend(texts.map(|text| (number, text.clone())));
            }
        }
        Ok(Recorded { number, outcome })
    }

    /// What is there under its id, or of the same call.
    fn find_existing<'s>(&'s self, exchange: &NewExchange, staged: &'s Staged) -> Option<&'s Stored> {
        let older = self.exchanges.values();
        let older = older.filter(|stored| !staged.exchanges.contains_key(&stored.row.number));
        let all = older.chain(staged.exchanges.values());
        let is_of_call = |stored: &Stored, hash| {
            let mut keys = stored.row.keys.iter();
            keys.any(|key| key.kind == KeyKind::Call && key.hash == hash)
        };
        let same_id = all.clone().find(|stored| stored.row.id == exchange.id);
        same_id.or_else(|| {
            exchange.calls().find_map(|hash| {
                let mut all = all.clone();
                all.find(|stored| is_of_call(stored, hash) && exchange.telling().is_same_call(stored.row.telling()))
            })
        })
    }

    fn stored(
        &self,
        exchange: &NewExchange,
        number: ExchangeNumber,
        position: Position,
        staged: &mut Staged,
    ) -> Result<Stored> {
        let request = self.stage_body(&exchange.id, &exchange.request, staged)?;
        let response = exchange.response.as_ref();
        let response = response
            .map(|body| self.stage_body(&exchange.id, body, staged))
            .transpose()?;
        let known = self.exchanges.get(&number).and_then(|known| known.sent.clone());
        let sent = match &exchange.sent {
            Some(sent) => Some((self.stage_body(&exchange.id, sent, staged)?, sent.sha256)),
            None => known,
        };
        assert!(
            response.is_some() || exchange.answer_chain.is_empty(),
            "an answer's chain needs an answer"
        );
        staged.nodes.push((exchange.start, None));
        let input_node = stage_chain(exchange.start, &exchange.request_chain, staged);
        let last = stage_chain(input_node, &exchange.answer_chain, staged);
        let is_complete = exchange.status == Status::Complete && response.is_some();
        let row = row(exchange, number, position, input_node, is_complete.then_some(last));
        assert!(
            response.is_some() || exchange.spawns.is_empty(),
            "agents are started by an answer"
        );
        Ok(Stored {
            row,
            start: exchange.start,
            request_chain: exchange.request_chain.iter().map(|link| link.node).collect(),
            answer_chain: exchange.answer_chain.iter().map(|link| link.node).collect(),
            request: Some((request, exchange.request.sha256)),
            sent,
            response,
            spawns: exchange.spawns.clone(),
        })
    }

    fn stage_body(&self, id: &str, body: &Body, staged: &mut Staged) -> Result<Vec<Piece>> {
        for part in body.recipe.parts() {
            assert_eq!(sha256(part.as_bytes()), part.hash.0, "a part is named by its bytes");
            if !self.parts.contains_key(&part.hash) {
                staged.parts.insert(part.hash, part.as_bytes().to_vec());
            }
        }
        let mut is_missing = false;
        for piece in body.recipe.pieces() {
            visit_parts(piece, &mut |part| {
                is_missing |= !self.parts.contains_key(part) && !staged.parts.contains_key(part);
            });
        }
        if is_missing {
            return Err(StoreError::MissingPart { id: id.to_owned() });
        }
        Ok(body.recipe.pieces().cloned().collect())
    }
}

fn stage_chain<'l>(start: NodeHash, links: impl IntoIterator<Item = &'l Link>, staged: &mut Staged) -> NodeHash {
    let mut last = start;
    for link in links {
        assert_eq!(
            link.node,
            chain::node(last, link.value),
            "a node follows from its value"
        );
        staged.nodes.push((link.node, Some(last)));
        last = link.node;
    }
    last
}
