//! Nodes: the chains of an owner as one tree, of which only what is new is written.

use ropewalk_core::hash::NodeHash;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::chain_search::ChainSearch;
use crate::facts::{ExchangeNumber, Micros, NewExchange, OwnerId, Status};
use crate::sqlite::exchange_id::ExchangeId;
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::problem;
use crate::sqlite::record::Recorder;
use crate::store::{Result, StoreError};

#[derive(Debug, Clone, Copy)]
pub(super) struct NodeRow {
    pub(super) number: i64,
    pub(super) hash: NodeHash,
    depth: i64,
    /// When it was first said, as far as is known, and by whom.
    at: i64,
    exchange: i64,
    parent: Option<i64>,
}

impl NodeRow {
    fn read(number: i64, row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(NodeRow {
            number,
            hash: NodeHash(row.get(4)?),
            depth: row.get(0)?,
            at: row.get(1)?,
            parent: row.get(2)?,
            exchange: row.get(3)?,
        })
    }
}

/// Who says a node, and when. Of those who said it at the same time the one whose request is shorter was first, of equally long ones
/// the one with the smaller id, whoever was recorded first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Speaker<'e> {
    number: i64,
    at: Micros,
    depth: i64,
    id: &'e str,
}

impl<'e> Speaker<'e> {
    pub(super) fn asking(exchange: &'e NewExchange, number: i64) -> Self {
        Speaker {
            number,
            at: exchange.at,
            depth: exchange.request_chain.len() as i64,
            id: &exchange.id,
        }
    }

    fn answered(exchange: &'e NewExchange, number: i64) -> Self {
        Speaker {
            // An answer does not come before its question, whatever the clocks say.
            at: exchange.ended_at.unwrap_or(exchange.at).max(exchange.at),
            ..Speaker::asking(exchange, number)
        }
    }
}

/// What decides who was first of those who said something at the same time: how long the request is, and the id.
pub(super) fn place(connection: &Connection, owner: OwnerId, exchange: i64) -> Result<Option<(i64, String)>> {
    let select = "SELECT input_node, id FROM exchange WHERE key = ?1 AND owner_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let row = [key(owner, exchange), owner.0];
    let found = statement.query_row(row, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, ExchangeId>(1)?.0)));
    let Some((input, id)) = found.optional().map_err(problem)? else {
        return Ok(None);
    };
    let select = "SELECT depth FROM node WHERE key = ?1 AND owner_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let depth = statement.query_row([key(owner, input), owner.0], |row| row.get(0));
    Ok(Some((depth.map_err(problem)?, id)))
}

/// The last of `count` nodes of a chain that is known, with its place. Questions to a file cost the same one by one.
pub(super) fn last_known<T>(
    count: usize,
    mut find: impl FnMut(usize) -> Result<Option<T>>,
) -> Result<Option<(usize, T)>> {
    let mut search = ChainSearch::new(count, 1);
    while let [index] = search.next_probes()[..] {
        search.learn(index, find(index)?);
    }
    Ok(search.into_known())
}

/// The nodes of a request, first to last, without the one that all chains start from.
pub(super) fn chain(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    limit: usize,
) -> Result<Vec<NodeHash>> {
    // The depth of the first is the length; counting as well ends a cycle of damaged parents.
    walk(connection, owner, exchange, |depth, count| {
        match depth > limit as u64 || count >= limit {
            true => Err(StoreError::ChainTooLong { depth, limit }),
            false => Ok(true),
        }
    })
}

/// So many of the last of them.
pub(super) fn chain_end(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    limit: usize,
) -> Result<Vec<NodeHash>> {
    walk(connection, owner, exchange, |_, count| Ok(count < limit))
}

/// Walks back from a request's last node. `go_on` is asked about every node: its depth, and how many were found behind it.
fn walk(
    connection: &Connection,
    owner: OwnerId,
    exchange: ExchangeNumber,
    go_on: impl Fn(u64, usize) -> Result<bool>,
) -> Result<Vec<NodeHash>> {
    let select = "SELECT input_node FROM exchange WHERE key = ?1 AND owner_id = ?2";
    let input = connection.query_row(select, [key(owner, exchange.0), owner.0], |row| row.get::<_, i64>(0));
    let mut node = input.optional().map_err(problem)?.ok_or(StoreError::NoExchange)?;
    let select = "SELECT hash, parent, depth FROM node WHERE key = ?1 AND owner_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let mut chain = Vec::new();
    loop {
        let found = statement.query_row([key(owner, node), owner.0], |row| {
            Ok((
                row.get::<_, [u8; 32]>(0)?,
                row.get::<_, Option<i64>>(1)?,
                row.get::<_, i64>(2)?,
            ))
        });
        let missing = || StoreError::Damaged(format!("node {node} is not there"));
        let (hash, parent, depth) = found.optional().map_err(problem)?.ok_or_else(missing)?;
        let Some(parent) = parent else { break };
        if !go_on(depth.cast_unsigned(), chain.len())? {
            break;
        }
        chain.push(NodeHash(hash));
        node = parent;
    }
    chain.reverse();
    Ok(chain)
}

impl Recorder<'_> {
    pub(super) fn answer_node(
        &mut self,
        input: NodeRow,
        exchange: &NewExchange,
        number: i64,
    ) -> Result<Option<NodeRow>> {
        if exchange.response.is_none() {
            return Ok(None);
        }
        // The nodes of an answer that was cut off are there too: a client may replay what it got of it.
        let links = &exchange.answer_chain;
        let nodes = (links.len(), |at: usize| links[at].node);
        let output = self.chain(input, nodes, Speaker::answered(exchange, number))?;
        Ok((exchange.status == Status::Complete).then_some(output))
    }

    pub(super) fn start_node(&mut self, start: NodeHash, by: Speaker<'_>) -> Result<NodeRow> {
        match self.find_node(&start)? {
            Some(row) => Ok(row),
            None => self.insert_node(start, None, by),
        }
    }

    pub(super) fn asked_node(&mut self, start: NodeRow, exchange: &NewExchange, by: Speaker<'_>) -> Result<NodeRow> {
        let links = &exchange.request_chain;
        self.chain(start, (links.len(), |at: usize| links[at].node), by)
    }

    /// Stores the nodes of a chain behind `parent`, so many, that are not there yet.
    fn chain(
        &mut self,
        parent: NodeRow,
        (count, node_at): (usize, impl Fn(usize) -> NodeHash),
        by: Speaker<'_>,
    ) -> Result<NodeRow> {
        let known = last_known(count, |at| self.find_node(&node_at(at)))?;
        let (known, mut last) = known.map_or((0, parent), |(at, row)| (at + 1, row));
        if self.said_earlier(last, by)? {
            (last.at, last.exchange) = (by.at.0, by.number);
        }
        for at in known..count {
            last = self.insert_node(node_at(at), Some(last), by)?;
        }
        Ok(last)
    }

    /// A late exchange may be the first to have a node; says whether it is. A node is never later than its successors, so
    /// the walk ends at the first that is early enough.
    fn said_earlier(&self, node: NodeRow, by: Speaker<'_>) -> Result<bool> {
        let is_first = self.is_earlier(by, node)?;
        let mut walked = is_first.then_some(node);
        while let Some(node) = walked {
            let update = "UPDATE node SET at = ?3, exchange = ?4 WHERE key = ?1 AND owner_id = ?2";
            let mut statement = self.session.connection().prepare_cached(update).map_err(problem)?;
            let row = params![key(self.owner, node.number), self.owner.0, by.at.0, by.number];
            statement.execute(row).map_err(problem)?;
            let parent = node.parent.map(|parent| self.node_row(parent)).transpose()?;
            walked = match parent {
                Some(parent) if self.is_earlier(by, parent)? => Some(parent),
                _ => None,
            };
        }
        Ok(is_first)
    }

    /// Whether somebody said a node before the one who is known to have been the first.
    fn is_earlier(&self, by: Speaker<'_>, node: NodeRow) -> Result<bool> {
        if node.at != by.at.0 || node.exchange == by.number {
            return Ok(node.at > by.at.0);
        }
        let first = place(self.session.connection(), self.owner, node.exchange)?;
        // Whoever was the first may be forgotten since.
        Ok(first.is_none_or(|(depth, id)| (by.depth, by.id) < (depth, &*id)))
    }

    fn find_node(&mut self, hash: &NodeHash) -> Result<Option<NodeRow>> {
        if let Some(number) = self.session.recall(self.owner, Kind::Node, &hash.0) {
            return self.node_with(number, hash);
        }
        for number in self.session.find(self.owner, Kind::Node, &hash.0)? {
            let found = self.node_with(number, hash)?;
            if found.is_some() {
                // Many may come to it again, and each time the hash index would give all who were there.
                self.session.remember(self.owner, Kind::Node, &hash.0, number);
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn node_with(&self, number: i64, hash: &NodeHash) -> Result<Option<NodeRow>> {
        let select =
            "SELECT depth, at, parent, exchange, hash FROM node WHERE key = ?1 AND owner_id = ?2 AND hash = ?3";
        let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
        let row = params![key(self.owner, number), self.owner.0, hash.0];
        let found = statement.query_row(row, |row| NodeRow::read(number, row));
        found.optional().map_err(problem)
    }

    pub(super) fn node_row(&self, number: i64) -> Result<NodeRow> {
        let select = "SELECT depth, at, parent, exchange, hash FROM node WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
        let row = params![key(self.owner, number), self.owner.0];
        statement
            .query_row(row, |row| NodeRow::read(number, row))
            .map_err(problem)
    }

    fn insert_node(&mut self, hash: NodeHash, parent: Option<NodeRow>, by: Speaker<'_>) -> Result<NodeRow> {
        self.counters.last_node += 1;
        let row = NodeRow {
            number: self.counters.last_node,
            hash,
            depth: parent.map_or(0, |parent| parent.depth + 1),
            at: by.at.0,
            exchange: by.number,
            parent: parent.map(|parent| parent.number),
        };
        let insert = "INSERT INTO node (key, owner_id, hash, parent, depth, exchange, at) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let columns = params![
            key(self.owner, row.number),
            self.owner.0,
            hash.0,
            row.parent,
            row.depth,
            row.exchange,
            row.at,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        self.session.index(self.owner, Kind::Node, &hash.0, row.number);
        Ok(row)
    }
}
