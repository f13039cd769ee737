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
    id: &'b str,
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
            id: &row.begin.id,
            at: row.at,
            answered_at: row.answered_at(),
        }
    }

    fn speaker(&self, index: usize) -> Speaker<'b> {
        let in_answer = index > self.input;
        Speaker {
            seen_at: if in_answer { self.answered_at } else { self.at },
            depth: self.input as i64,
            id: self.id,
            exchange: self.exchange,
            in_answer,
        }
    }

    /// Exchanges may come in any order: known nodes that this one may have seen earlier are corrected, which keeps the invariant
    /// that a parent is never seen later than its child. Those are the deepest known one and the request's last, with all
    /// before them.
    fn earlier(&self, index: usize, seen: Seen) -> impl Iterator<Item = (NodeHash, Speaker<'b>)> {
        let places = [Some(index), (index > self.input).then_some(self.input)];
        let speakers = places
            .into_iter()
            .flatten()
            .map(|at| (self.hashes[at], self.speaker(at)));
        speakers.filter(move |(_, speaker)| speaker.may_be_before(seen))
    }
}

/// Who says a node, and when. Of those who said it at the same time the one whose request is shorter was first, of equally long ones
/// the one with the smaller id, whoever was recorded first.
#[derive(Debug, Clone, Copy)]
struct Speaker<'b> {
    seen_at: i64,
    depth: i64,
    id: &'b str,
    exchange: i64,
    in_answer: bool,
}

impl Speaker<'_> {
    fn order(&self) -> (i64, i64, &str) {
        (self.seen_at, self.depth, self.id)
    }

    /// Whether it may have been before whoever is known to have been the first. The database knows who that is.
    fn may_be_before(&self, first: Seen) -> bool {
        self.seen_at < first.seen_at || (self.seen_at == first.seen_at && self.exchange != first.exchange)
    }
}

#[derive(Debug)]
struct NewNode<'b> {
    parent: Option<NodeHash>,
    link: Option<&'b Link>,
    depth: i64,
    by: Speaker<'b>,
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
        // What is left, another writer was faster with; it may have seen it later, though.
        let mut earlier: Vec<(NodeHash, Speaker<'_>)> = new.into_iter().map(|(hash, node)| (hash, node.by)).collect();
        for (chain, known) in self.chains.iter().zip(&self.known) {
            let known = known.map(|(index, seen)| chain.earlier(index, seen));
            earlier.extend(known.into_iter().flatten());
        }
        if earlier.is_empty() {
            return Ok(added);
        }
        query(transaction, sql::LOCK_OWNER, &[&owner.0]).await?;
        // The rows of this batch are not there yet. In this order none of them is compared with one of them that it is before.
        earlier.sort_by(|(_, a), (_, b)| (a.depth, a.id).cmp(&(b.depth, b.id)));
        for (hash, by) in earlier {
            let hash = hash.0.as_slice();
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] = [
                &owner.0,
                &hash,
                &by.seen_at,
                &by.exchange,
                &by.in_answer,
                &by.depth,
                &by.id,
            ];
            query(transaction, sql::SEEN_EARLIER, &values).await?;
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
                    by: chain.speaker(index),
                };
                let hash = chain.hashes[index];
                if new.get(&hash).is_none_or(|other| node.by.order() < other.by.order()) {
                    new.insert(hash, node);
                }
            }
        }
        new
    }
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
    let exchanges: Vec<i64> = new.values().map(|node| node.by.exchange).collect();
    let seen_at: Vec<i64> = new.values().map(|node| node.by.seen_at).collect();
    let in_answer: Vec<bool> = new.values().map(|node| node.by.in_answer).collect();
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
