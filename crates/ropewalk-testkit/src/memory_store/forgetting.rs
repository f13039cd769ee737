//! Forgetting: everything is kept by its own name here, so what goes is taken out, and what nobody names is not there.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ropewalk_core::recipe::Piece;
use ropewalk_core::rope::visit_parts;
use ropewalk_store::Micros;
use ropewalk_store::facts::{ExchangeNumber, KeyKind, NewExchange, TextSource};
use ropewalk_store::forget::{Forgetting, Forgotten, Hole, Holed, HoledRequest, Tombstones};
use ropewalk_store::store::Result;

use super::asks::Owned;
use super::stored::Stored;

/// What a tombstone is of. A store in memory has no files, so nobody can try a guess against it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grave {
    Exchange(String),
    Call([u8; 32]),
    Session(String),
    Name(String),
}

impl Owned {
    pub(super) fn forget(&mut self, what: Forgetting) -> Result<Forgotten> {
        let mut went = Forgotten::default();
        let removed: BTreeSet<ExchangeNumber> = what.removed.iter().copied().collect();
        for number in &removed {
            let Some(stored) = self.exchanges.remove(number) else {
                continue;
            };
            went.exchanges += 1;
            if let Some(Tombstones { at, .. }) = &what.tombstones {
                let calls = stored.row.keys.iter().filter(|key| key.kind == KeyKind::Call);
                let calls = calls.map(|key| Grave::Call(key.hash));
                let graves: Vec<Grave> = calls.chain([Grave::Exchange(stored.row.id.clone())]).collect();
                self.bury(*at, graves);
            }
        }
        for holed in &what.holed {
            went.holes += u64::from(self.hole(holed)?);
        }
        let goes = |number: &ExchangeNumber, source: TextSource| {
            let is_lost = |holed: &Holed| holed.exchange == *number && holed.drops_text(source);
            removed.contains(number) || what.holed.iter().any(is_lost)
        };
        let texts = self.waiting.len() + self.indexed.len();
        self.waiting.retain(|(of, text)| !goes(of, text.source));
        self.indexed.retain(|(of, text)| !goes(of, text.source));
        went.texts = (texts - self.waiting.len() - self.indexed.len()) as u64;
        self.derived.forget(&removed, &what.conversations);
        (went.names, went.pins) = self.names.forget(&removed, &what.message_names, &what.quoted);
        went.records = self.log.forget(&what.sessions);
        if let Some(Tombstones { at, names }) = what.tombstones {
            let sessions = what.sessions.into_iter().map(Grave::Session);
            self.bury(at, names.into_iter().map(Grave::Name).chain(sessions).collect());
        }
        let swept = self.sweep(false);
        Ok(Forgotten {
            exchanges: went.exchanges,
            holes: went.holes,
            texts: went.texts,
            names: went.names,
            records: went.records,
            pins: went.pins,
            ..swept
        })
    }

    fn bury(&mut self, at: Micros, graves: Vec<Grave>) {
        for grave in graves {
            self.graves.entry(grave).or_insert(at);
        }
    }

    /// `false` if there is no such exchange.
    fn hole(&mut self, holed: &Holed) -> Result<bool> {
        let link = self.derived.kept_link(holed.exchange);
        let mut new = BTreeMap::new();
        if let HoledRequest::Replaced { body, .. } = &holed.request {
            new.extend(body.recipe.parts().map(|part| (part.hash, part.as_bytes().to_vec())));
        }
        let Some(stored) = self.exchanges.get_mut(&holed.exchange) else {
            return Ok(false);
        };
        match &holed.request {
            HoledRequest::Kept => {}
            HoledRequest::Dropped => (stored.request, stored.sent) = (None, None),
            HoledRequest::Replaced { body, .. } => {
                stored.request = Some((body.recipe.pieces().cloned().collect(), body.sha256));
                stored.sent = None;
            }
        }
        if holed.drops_response {
            stored.response = None;
        }
        let hole = stored.row.hole.take();
        stored.row.hole = Some(Hole {
            link: hole.map_or(link, |hole| hole.link),
            has_request: stored.request.is_some(),
            has_response: stored.response.is_some(),
        });
        if holed.drops_hashes {
            stored.row.hashes.retain(|(kind, _)| kind.is_of_context());
        }
        self.parts.extend(new);
        Ok(true)
    }

    pub(super) fn sweep(&mut self, is_dry: bool) -> Forgotten {
        let mut used = HashSet::new();
        let mut nodes = HashSet::new();
        for stored in self.exchanges.values() {
            bodies(stored).for_each(|piece| {
                visit_parts(piece, &mut |part| {
                    used.insert(*part);
                });
            });
            nodes.extend(
                [stored.start]
                    .iter()
                    .chain(&stored.request_chain)
                    .chain(&stored.answer_chain)
                    .copied(),
            );
        }
        let unused = self.parts.iter().filter(|(part, _)| !used.contains(*part));
        let went = Forgotten {
            parts: unused.clone().count() as u64,
            part_bytes: unused.map(|(_, bytes)| bytes.len() as u64).sum(),
            nodes: self.nodes.keys().filter(|node| !nodes.contains(*node)).count() as u64,
            ..Forgotten::default()
        };
        if !is_dry {
            self.parts.retain(|part, _| used.contains(part));
            self.nodes.retain(|node, _| nodes.contains(node));
        }
        went
    }

    /// Whether it is not to come back.
    pub(super) fn is_forgotten(&self, exchange: &NewExchange) -> bool {
        let is_of_log = exchange.telling().is_of_log();
        let mut calls = exchange.calls().filter(|_| is_of_log);
        self.graves.contains_key(&Grave::Exchange(exchange.id.clone()))
            || calls.any(|call| self.graves.contains_key(&Grave::Call(call)))
    }

    pub(super) fn forgotten(&self, names: &[String]) -> Vec<Option<Micros>> {
        let at = |name: &String| {
            let exchange = self.graves.get(&Grave::Exchange(name.clone()));
            exchange
                .or_else(|| self.graves.get(&Grave::Name(name.clone())))
                .copied()
        };
        names.iter().map(at).collect()
    }
}

fn bodies(stored: &Stored) -> impl Iterator<Item = &Piece> {
    let request = stored.request.iter().map(|(pieces, _)| pieces);
    let sent = stored.sent.iter().map(|(pieces, _)| pieces);
    request.chain(sent).chain(&stored.response).flatten()
}
