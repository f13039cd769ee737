//! Recording: a batch is staged, and applied whole or not at all.

use std::collections::{BTreeMap, HashMap};

use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, PartHash, sha256};
use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::visit_parts;
use ropewalk_store::facts::{Body, ExchangeNumber, Link, NewExchange, Position, Projected, SearchText, Status};
use ropewalk_store::store::{ID_MAX, Outcome, Recorded, Result, StoreError};

use super::asks::Owned;
use super::stored::{Stored, outcome, row};

/// What a batch would add, before it is certain that all of it can be added.
#[derive(Default)]
struct Staged {
    parts: HashMap<PartHash, Vec<u8>>,
    exchanges: BTreeMap<ExchangeNumber, Stored>,
    numbers: BTreeMap<String, ExchangeNumber>,
    nodes: Vec<(NodeHash, Option<NodeHash>)>,
    texts: Vec<(ExchangeNumber, SearchText)>,
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
        self.exchanges.extend(staged.exchanges);
        self.numbers.extend(staged.numbers);
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
        let number = staged
            .numbers
            .get(&exchange.id)
            .or_else(|| self.numbers.get(&exchange.id));
        let known = number.and_then(|number| staged.exchanges.get(number).or_else(|| self.exchanges.get(number)));
        let outcome = known.map_or(Outcome::New, |known| outcome(&known.row, exchange));
        let number = match known {
            Some(known) => known.row.number,
            None => ExchangeNumber((self.exchanges.len() + staged.numbers.len()) as i64 + 1),
        };
        match outcome {
            Outcome::Known => {}
            Outcome::Conflict => staged.conflicts += 1,
            Outcome::New | Outcome::Completed => {
                let is_new = outcome == Outcome::New;
                staged.positions += 1;
                let position = Position(self.last_position + staged.positions);
                let stored = self.stored(exchange, number, position, staged)?;
                if is_new {
                    staged.numbers.insert(exchange.id.clone(), number);
                }
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
        assert!(
            response.is_some() || exchange.answer_chain.is_empty(),
            "an answer's chain needs an answer"
        );
        staged.nodes.push((exchange.start, None));
        let input_node = stage_chain(exchange.start, &exchange.request_chain, staged);
        let last = stage_chain(input_node, &exchange.answer_chain, staged);
        let is_complete = exchange.status == Status::Complete && response.is_some();
        let row = row(exchange, number, position, input_node, is_complete.then_some(last));
        let nodes = |links: &[Link]| links.iter().map(|link| link.node).collect();
        assert!(
            response.is_some() || exchange.spawns.is_empty(),
            "agents are started by an answer"
        );
        Ok(Stored {
            row,
            start: exchange.start,
            request_chain: nodes(&exchange.request_chain),
            answer_chain: nodes(&exchange.answer_chain),
            request,
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

fn stage_chain(start: NodeHash, links: &[Link], staged: &mut Staged) -> NodeHash {
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
