//! Chains: how much of one is known, and storing the rest.
//!
//! Invariant: a parent is never seen later than its child, so what was seen up to any moment is closed under taking the
//! parent, as `chain_search` needs it.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::{GenericClient, Transaction};
use ropewalk_core::hash::NodeHash;

use super::problem::damaged;
use super::rows::Row;
use super::{hash_of, query, sql, unsigned};
use crate::chain_search::ChainSearch;
use crate::facts::{ExchangeNumber, Link, Micros, OwnerId};
use crate::store::{Result, StoreError};

/// Hashes asked per chain and question: a question costs a round trip, a few more hashes in it next to nothing.
const PROBES_MAX: usize = 4;

/// What is known of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) seen_at: i64,
    pub(super) exchange: i64,
}

/// For each chain its deepest node that was seen by `as_of`, by index.
pub(super) async fn deepest_known(
    client: &impl GenericClient,
    owner: OwnerId,
    chains: &[&[NodeHash]],
    as_of: Micros,
) -> Result<Vec<Option<(usize, Seen)>>> {
    let search = |chain: &&[NodeHash]| ChainSearch::new(chain.len(), PROBES_MAX);
    let mut searches: Vec<ChainSearch<Seen>> = chains.iter().map(search).collect();
    loop {
        let probes: Vec<Vec<usize>> = searches.iter_mut().map(ChainSearch::next_probes).collect();
        let places = chains.iter().zip(&probes);
        let mut hashes: Vec<&[u8]> = places
            .flat_map(|(chain, probes)| probes.iter().map(|index| chain[*index].0.as_slice()))
            .collect();
        if hashes.is_empty() {
            return Ok(searches.into_iter().map(ChainSearch::into_known).collect());
        }
        hashes.sort_unstable();
        hashes.dedup();
        let mut seen = HashMap::new();
        for row in query(client, sql::FIND_NODES, &[&owner.0, &hashes]).await? {
            let (seen_at, exchange) = (row.get(1), row.get(2));
            if seen_at <= as_of.0 {
                seen.insert(NodeHash(hash_of(&row, 0)?), Seen { seen_at, exchange });
            }
        }
        for ((search, chain), probes) in searches.iter_mut().zip(chains).zip(probes) {
            for index in probes {
                search.learn(index, seen.get(&chain[index]).copied());
            }
        }
    }
}

/// The nodes of a request, first to last, without the one that all chains start from.
pub(super) async fn chain(
    client: &impl GenericClient,
    owner: OwnerId,
    exchange: ExchangeNumber,
    limit: usize,
) -> Result<Vec<NodeHash>> {
    let rows = query(client, sql::INPUT_NODE, &[&owner.0, &exchange.0]).await?;
    let input = rows.first().ok_or(StoreError::NoExchange)?;
    let length: i64 = input.get(1);
    if unsigned(length) > limit as u64 {
        let depth = unsigned(length);
        return Err(StoreError::ChainTooLong { depth, limit });
    }
    let input: &[u8] = input.get(0);
    up_from(client, owner, input, length).await
}

/// So many of the last of them.
pub(super) async fn chain_end(
    client: &impl GenericClient,
    owner: OwnerId,
    exchange: ExchangeNumber,
    count: usize,
) -> Result<Vec<NodeHash>> {
    let rows = query(client, sql::INPUT_NODE, &[&owner.0, &exchange.0]).await?;
    let input = rows.first().ok_or(StoreError::NoExchange)?;
    let count = i64::try_from(count).unwrap_or(i64::MAX).min(input.get(1));
    up_from(client, owner, input.get(0), count).await
}

async fn up_from(client: &impl GenericClient, owner: OwnerId, node: &[u8], count: i64) -> Result<Vec<NodeHash>> {
    let rows = query(client, sql::CHAIN, &[&owner.0, &node, &count]).await?;
    if rows.len() as u64 != unsigned(count) {
        return Err(damaged("a chain has other nodes than its depth says"));
    }
    rows.iter().rev().map(|row| hash_of(row, 0).map(NodeHash)).collect()
}

/// The chain of one exchange, from the node before its first block to its answer's last.
#[derive(Debug)]
pub(super) struct Chain<'b> {
    hashes: Vec<NodeHash>,
    links: Vec<&'b Link>,
    /// The last node of the request, by index.
    input: usize,
    exchange: i64,
    at: i64,
    answered_at: i64,
}

impl<'b> Chain<'b> {
    pub(super) fn new(row: &Row<'b>) -> Self {
        let has_answer = row.end.response.is_some();
        let answer: &[Link] = if has_answer { &row.end.answer_chain } else { &[] };
        let links: Vec<&Link> = row.end.request_chain.iter().chain(answer).collect();
        let hashes = std::iter::once(row.end.start)
            .chain(links.iter().map(|link| link.node))
            .collect();
        Chain {
            hashes,
            links,
            input: row.end.request_chain.len(),
            exchange: row.number,
            at: row.at,
            answered_at: row.answered_at(),
        }
    }

    fn seen_at(&self, index: usize) -> i64 {
        if index > self.input { self.answered_at } else { self.at }
    }
}

#[derive(Debug)]
struct NewNode<'b> {
    parent: Option<NodeHash>,
    link: Option<&'b Link>,
    depth: i64,
    exchange: i64,
    seen_at: i64,
    in_answer: bool,
}

/// The nodes of a batch.
#[derive(Debug)]
pub(super) struct Nodes<'b> {
    chains: Vec<Chain<'b>>,
    known: Vec<Option<(usize, Seen)>>,
}

impl<'b> Nodes<'b> {
    pub(super) fn new(chains: Vec<Chain<'b>>) -> Self {
        Nodes {
            chains,
            known: Vec::new(),
        }
    }

    /// Finds out what is known. Takes no locks.
    pub(super) async fn find(&mut self, transaction: &Transaction<'_>, owner: OwnerId) -> Result<()> {
        let hashes: Vec<&[NodeHash]> = self.chains.iter().map(|chain| chain.hashes.as_slice()).collect();
        self.known = deepest_known(transaction, owner, &hashes, Micros::MAX).await?;
        Ok(())
    }

    /// Stores what is new and says how many nodes that was.
    pub(super) async fn store(&self, transaction: &Transaction<'_>, owner: OwnerId) -> Result<i64> {
        let mut new = self.new_nodes();
        let mut added = 0;
        if !new.is_empty() {
            for row in insert(transaction, owner, &new).await? {
                new.remove(&row);
                added += 1;
            }
        }
        let known = self.chains.iter().zip(&self.known);
        let mut known = known.filter_map(|(chain, known)| Some((chain, (*known)?)));
        let is_corrected = !new.is_empty() || known.any(|(chain, (index, seen))| chain.was_earlier(index, seen));
        if is_corrected {
            query(transaction, sql::LOCK_OWNER, &[&owner.0]).await?;
        }
        // What is left, another writer was faster with; it may have seen it later, though.
        for (hash, node) in &new {
            seen_earlier(transaction, owner, *hash, node.seen_at, node.exchange, node.in_answer).await?;
        }
        for (chain, known) in self.chains.iter().zip(&self.known) {
            if let Some((index, seen)) = *known {
                chain.correct(transaction, owner, index, seen).await?;
            }
        }
        Ok(added)
    }

    /// Sorted by hash. A node that several exchanges bring belongs to the one that saw it first.
    fn new_nodes(&self) -> BTreeMap<NodeHash, NewNode<'b>> {
        let mut new: BTreeMap<NodeHash, NewNode<'b>> = BTreeMap::new();
        for (chain, known) in self.chains.iter().zip(&self.known) {
            for index in known.map_or(0, |(index, _)| index + 1)..chain.hashes.len() {
                let node = NewNode {
                    parent: index.checked_sub(1).map(|parent| chain.hashes[parent]),
                    link: index.checked_sub(1).map(|link| chain.links[link]),
                    depth: index as i64,
                    exchange: chain.exchange,
                    seen_at: chain.seen_at(index),
                    in_answer: index > chain.input,
                };
                let hash = chain.hashes[index];
                if new.get(&hash).is_none_or(|other| node.seen_at < other.seen_at) {
                    new.insert(hash, node);
                }
            }
        }
        new
    }
}

impl Chain<'_> {
    /// Whether a known node, or what the request ends with before it, was seen earlier here.
    fn was_earlier(&self, index: usize, seen: Seen) -> bool {
        seen.seen_at > self.seen_at(index) || (index > self.input && seen.seen_at > self.at)
    }

    /// Exchanges may come in any order: known nodes that this one saw earlier are corrected, which keeps the
    /// invariant that a parent is never seen later than its child.
    async fn correct(&self, transaction: &Transaction<'_>, owner: OwnerId, index: usize, seen: Seen) -> Result<()> {
        let in_answer = index > self.input;
        if seen.seen_at > self.seen_at(index) {
            let (hash, seen_at) = (self.hashes[index], self.seen_at(index));
            seen_earlier(transaction, owner, hash, seen_at, self.exchange, in_answer).await?;
        }
        if in_answer && seen.seen_at > self.at {
            let hash = self.hashes[self.input];
            seen_earlier(transaction, owner, hash, self.at, self.exchange, false).await?;
        }
        Ok(())
    }
}

async fn seen_earlier(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    hash: NodeHash,
    seen_at: i64,
    exchange: i64,
    in_answer: bool,
) -> Result<()> {
    let hash = hash.0.as_slice();
    query(
        transaction,
        sql::SEEN_EARLIER,
        &[&owner.0, &hash, &seen_at, &exchange, &in_answer],
    )
    .await?;
    Ok(())
}

async fn insert(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    new: &BTreeMap<NodeHash, NewNode<'_>>,
) -> Result<Vec<NodeHash>> {
    let hashes: Vec<&[u8]> = new.keys().map(|hash| hash.0.as_slice()).collect();
    let parents: Vec<Option<&[u8]>> = new
        .values()
        .map(|node| node.parent.as_ref().map(|parent| parent.0.as_slice()))
        .collect();
    let values: Vec<Option<&[u8]>> = new
        .values()
        .map(|node| node.link.map(|link| link.value.0.as_slice()))
        .collect();
    let depths: Vec<i64> = new.values().map(|node| node.depth).collect();
    let exchanges: Vec<i64> = new.values().map(|node| node.exchange).collect();
    let seen_at: Vec<i64> = new.values().map(|node| node.seen_at).collect();
    let in_answer: Vec<bool> = new.values().map(|node| node.in_answer).collect();
    let rows = query(
        transaction,
        sql::INSERT_NODES,
        &[
            &owner.0, &hashes, &parents, &values, &depths, &exchanges, &seen_at, &in_answer,
        ],
    )
    .await?;
    rows.iter().map(|row| hash_of(row, 0).map(NodeHash)).collect()
}
