//! Everything of one owner, and what can be asked of it. Every way to a row goes through `as_of`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ropewalk_core::hash::{NodeHash, PartHash, sha256};
use ropewalk_core::recipe::{Piece, join};
use ropewalk_store::HashPrefix;
use ropewalk_store::facts::{ExchangeNumber, Micros, SearchText, Spawn};
use ropewalk_store::store::{
    Answers, Beginning, Depth, ExchangeRow, Finding, Half, Hit, KnownNode, PAGE_MAX, Questions, Result, SearchQuery,
    Selection, Severity, Stats, StoreError,
};

use super::derived::Derived;
use super::forgetting::Grave;
use super::log::Log;
use super::names::Names;
use super::stored::Stored;
use crate::word_search;

/// Everything of one owner.
#[derive(Debug, Default)]
pub(super) struct Owned {
    pub(super) parts: HashMap<PartHash, Vec<u8>>,
    /// Each node with the one before it; `None` for a start.
    pub(super) nodes: HashMap<NodeHash, Option<NodeHash>>,
    pub(super) exchanges: BTreeMap<ExchangeNumber, Stored>,
    pub(super) last_number: i64,
    pub(super) last_position: i64,
    pub(super) conflicts: u64,
    pub(super) waiting: Vec<(ExchangeNumber, SearchText)>,
    pub(super) indexed: Vec<(ExchangeNumber, SearchText)>,
    pub(super) derived: Derived,
    pub(super) log: Log,
    pub(super) names: Names,
    /// What was forgotten, and when.
    pub(super) graves: BTreeMap<Grave, Micros>,
}

impl Owned {
    pub(super) fn deepest(&self, asked: &[NodeHash], limit: usize, as_of: Micros) -> Option<KnownNode> {
        let index_of: HashMap<NodeHash, usize> = asked.iter().enumerate().map(|(index, node)| (*node, index)).collect();
        // The deepest node wins; whoever had it first is told.
        let mut best: Option<(usize, (Micros, u32, &str), ExchangeNumber)> = None;
        for (number, stored) in &self.exchanges {
            for (node, since) in stored.nodes_as_of(as_of) {
                let Some(index) = index_of.get(&node) else { continue };
                let order = (since, stored.row.depth, stored.row.id.as_str());
                let is_better = best
                    .is_none_or(|(deepest, earliest, _)| *index > deepest || (*index == deepest && order < earliest));
                if is_better {
                    best = Some((*index, order, *number));
                }
            }
        }
        let (index, _, first) = best?;
        let node = asked[index];
        let as_input = |stored: &Stored| stored.is_begun(as_of) && stored.row.input_node == node;
        let as_output = |stored: &Stored| stored.is_answered(as_of) && stored.row.output_node == Some(node);
        Some(KnownNode {
            index,
            as_input: self.newest(as_input, limit),
            as_output: self.newest(as_output, limit),
            first,
        })
    }

    pub(super) fn beginning_with(&self, prefix: &HashPrefix, limit: usize) -> Beginning {
        let nodes: BTreeSet<NodeHash> = self
            .nodes
            .keys()
            .filter(|node| prefix.begins(&node.0))
            .copied()
            .collect();
        let has_it = |stored: &Stored| stored.row.hashes.iter().any(|(_, hash)| prefix.begins(hash));
        let exchanges = self.exchanges.iter().filter(|(_, stored)| has_it(stored));
        let mut conversations = self.derived.known_ids(prefix);
        conversations.truncate(limit);
        Beginning {
            conversations,
            nodes: nodes.into_iter().take(limit).collect(),
            exchanges: exchanges.map(|(number, _)| *number).take(limit).collect(),
        }
    }

    pub(super) fn look_up(&self, questions: &Questions, as_of: Micros) -> Answers {
        let limit = questions.limit;
        let chains = questions.chains.iter();
        let nodes = questions.nodes.iter().enumerate().map(|(index, asked)| {
            let known = self.deepest(&[asked.what], limit, as_of.min(asked.as_of));
            known.map(|known| KnownNode { index, ..known })
        });
        let keys = questions.keys.iter().map(|asked| {
            let as_of = as_of.min(asked.as_of);
            self.newest(|stored| stored.has_key(&asked.what, as_of), limit)
        });
        let spawns_of = questions.spawns_of.iter();
        let spawns_between = questions.spawns_between.iter();
        Answers {
            deepest: chains.map(|asked| self.deepest(asked, limit, as_of)).collect(),
            nodes: nodes.collect(),
            exchanges: keys.collect(),
            spawns_of: spawns_of.map(|exchange| self.spawns_of(*exchange, as_of)).collect(),
            spawns_between: spawns_between
                .map(|between| self.spawns_between(*between, as_of))
                .collect(),
            wanting: self.derived.wanting(&questions.wanting),
        }
    }

    fn spawns_of(&self, exchange: ExchangeNumber, as_of: Micros) -> Vec<Spawn> {
        let stored = self.exchanges.get(&exchange);
        let spawns = stored.into_iter().flat_map(|stored| &stored.spawns);
        let mut known: Vec<Spawn> = spawns.filter(|spawn| spawn.at <= as_of).cloned().collect();
        known.sort_by_key(|spawn| spawn.index);
        known.truncate(PAGE_MAX);
        known
    }

    fn spawns_between(&self, (first, last): (Micros, Micros), as_of: Micros) -> Vec<(ExchangeNumber, Spawn)> {
        let all = self.exchanges.iter();
        let all = all.flat_map(|(number, stored)| stored.spawns.iter().map(|spawn| (*number, spawn.clone())));
        let is_known = |spawn: &Spawn| first <= spawn.at && spawn.at <= last && spawn.at <= as_of;
        let mut known: Vec<_> = all.filter(|(_, spawn)| is_known(spawn)).collect();
        known.sort_by_key(|(exchange, spawn)| (spawn.at, *exchange, spawn.index));
        known.truncate(PAGE_MAX);
        known
    }

    pub(super) fn chain(&self, exchange: ExchangeNumber, limit: usize) -> Result<Vec<NodeHash>> {
        let stored = self.exchanges.get(&exchange).ok_or(StoreError::NoExchange)?;
        let chain = stored.request_chain.clone();
        let depth = chain.len() as u64;
        if chain.len() > limit {
            return Err(StoreError::ChainTooLong { depth, limit });
        }
        Ok(chain)
    }

    pub(super) fn newest(&self, is_wanted: impl Fn(&Stored) -> bool, limit: usize) -> Vec<ExchangeNumber> {
        let wanted = self.exchanges.values().filter(|stored| is_wanted(stored));
        let mut found: Vec<_> = wanted.map(|stored| (stored.row.at, stored.row.number)).collect();
        found.sort_unstable();
        let newest = found.into_iter().rev().take(limit.min(PAGE_MAX));
        newest.map(|(_, number)| number).collect()
    }

    pub(super) fn select(&self, selection: Selection, as_of: Micros) -> Vec<ExchangeRow> {
        let mut rows: Vec<_> = self
            .exchanges
            .values()
            .filter_map(|stored| stored.row_as_of(as_of))
            .collect();
        let limit = match selection {
            Selection::Numbers(numbers) => {
                rows.retain(|row| numbers.contains(&row.number));
                PAGE_MAX
            }
            Selection::Ids(ids) => {
                rows.retain(|row| ids.contains(&row.id));
                PAGE_MAX
            }
            Selection::Since { after, limit } => {
                rows.retain(|row| after.is_none_or(|after| (row.at, row.number) > after));
                rows.sort_by_key(|row| (row.at, row.number));
                limit
            }
            Selection::Newest { before, limit } => {
                rows.retain(|row| before.is_none_or(|before| (row.at, row.number) < before));
                rows.sort_by_key(|row| std::cmp::Reverse((row.at, row.number)));
                limit
            }
            Selection::Log { after, limit } => {
                rows.retain(|row| row.position > after);
                rows.sort_by_key(|row| row.position);
                limit
            }
        };
        rows.truncate(limit.min(PAGE_MAX));
        rows
    }

    fn body(&self, pieces: &[Piece], expected: [u8; 32]) -> Result<Vec<u8>> {
        let bytes = join(pieces, &self.parts).map_err(|error| StoreError::Damaged(error.to_string()))?;
        if sha256(&bytes) != expected {
            return Err(StoreError::Damaged(
                "a body has another hash than its row says".to_owned(),
            ));
        }
        Ok(bytes)
    }

    pub(super) fn find_body(&self, number: ExchangeNumber, half: Half) -> Result<Option<Vec<u8>>> {
        let Some(stored) = self.exchanges.get(&number) else {
            return Ok(None);
        };
        let (pieces, expected) = match half {
            Half::Request => match &stored.request {
                Some((pieces, sha256)) => (Some(pieces), Some(*sha256)),
                None => (None, None),
            },
            Half::Sent => match &stored.sent {
                Some((pieces, sha256)) => (Some(pieces), Some(*sha256)),
                None => (None, None),
            },
            Half::Response => (stored.response.as_ref(), stored.row.response_sha256),
        };
        let found = pieces.zip(expected);
        found.map(|(pieces, expected)| self.body(pieces, expected)).transpose()
    }

    pub(super) fn search(&self, query: &SearchQuery) -> Vec<Hit> {
        let fits = |row: &ExchangeRow, text: &SearchText| {
            query.source.is_none_or(|source| source == text.source)
                && query
                    .model
                    .as_ref()
                    .is_none_or(|model| row.model.as_ref() == Some(model))
                && query.since.is_none_or(|since| row.at >= since)
        };
        let candidates = self.indexed.iter().rev().filter(|(number, text)| {
            let stored = self.exchanges.get(number);
            stored.is_some_and(|stored| fits(&stored.row, text))
        });
        let hits = candidates.filter_map(|(number, text)| {
            Some(Hit {
                exchange: *number,
                source: text.source,
                snippet: word_search::snippet(&query.text, &text.text())?,
            })
        });
        hits.take(query.limit.min(PAGE_MAX)).collect()
    }

    pub(super) fn stats(&self) -> Stats {
        let part_bytes = self.parts.values().map(|bytes| bytes.len() as u64).sum();
        let rows = self.exchanges.values().map(|stored| &stored.row);
        Stats {
            exchanges: self.exchanges.len() as u64,
            parts: self.parts.len() as u64,
            nodes: self.nodes.len() as u64,
            bytes_in: rows
                .map(|row| row.request_length + row.response_length.unwrap_or(0))
                .sum(),
            part_bytes,
            stored_bytes: part_bytes,
            conflicts: self.conflicts,
        }
    }

    pub(super) fn check(&self, depth: Depth) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut error = |rule, what| {
            findings.push(Finding {
                severity: Severity::Error,
                rule,
                what,
            });
        };
        for (node, parent) in &self.nodes {
            if parent.is_some_and(|parent| !self.nodes.contains_key(&parent)) {
                error("node-parent", format!("{node} has no predecessor"));
            }
        }
        let positions: BTreeSet<_> = self.exchanges.values().map(|stored| stored.row.position).collect();
        if positions.len() != self.exchanges.len() {
            error("log-position", "two exchanges have one position".to_owned());
        }
        for (rule, what) in self.derived.damage(self.exchanges.values().map(|stored| &stored.row)) {
            error(rule, what);
        }
        if depth == Depth::Structure {
            return findings;
        }
        for (hash, _) in self.parts.iter().filter(|(hash, bytes)| sha256(bytes) != hash.0) {
            error("part-hash", format!("part {hash} has other bytes"));
        }
        for number in self.exchanges.keys() {
            for half in [Half::Request, Half::Sent, Half::Response] {
                if let Err(problem) = self.find_body(*number, half) {
                    error("body", problem.to_string());
                }
            }
        }
        findings
    }
}
