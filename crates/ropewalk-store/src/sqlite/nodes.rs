//! Nodes: the chains of an owner as one tree, of which only what is new is written.

use ropewalk_core::hash::NodeHash;
use rusqlite::{OptionalExtension as _, params};

use crate::facts::{Link, Micros, NewExchange, Status};
use crate::sqlite::keys::{Kind, key};
use crate::sqlite::problem;
use crate::sqlite::record::Recorder;
use crate::store::Result;

#[derive(Debug, Clone, Copy)]
pub(super) struct NodeRow {
    pub(super) number: i64,
    depth: i64,
    /// When it was first said, as far as is known.
    at: i64,
    parent: Option<i64>,
}

impl NodeRow {
    fn read(number: i64, row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(NodeRow {
            number,
            depth: row.get(0)?,
            at: row.get(1)?,
            parent: row.get(2)?,
        })
    }
}

/// The last of `count` nodes of a chain that is known, with its place. What is known is closed under taking the
/// predecessor, so it is found from the end: first in growing steps, then by halving.
pub(super) fn last_known<T>(
    count: usize,
    mut find: impl FnMut(usize) -> Result<Option<T>>,
) -> Result<Option<(usize, T)>> {
    let mut unknown_from = count;
    let mut known = None;
    let mut step = 1;
    while unknown_from > 0 && known.is_none() {
        let at = unknown_from.saturating_sub(step);
        match find(at)? {
            Some(found) => known = Some((at, found)),
            None => unknown_from = at,
        }
        step *= 2;
    }
    let Some(mut known) = known else { return Ok(None) };
    while known.0 + 1 < unknown_from {
        let middle = known.0 + (unknown_from - known.0) / 2;
        match find(middle)? {
            Some(found) => known = (middle, found),
            None => unknown_from = middle,
        }
    }
    Ok(Some(known))
}

impl Recorder<'_> {
    pub(super) fn answer_node(&mut self, input: NodeRow, exchange: &NewExchange, number: i64) -> Result<Option<i64>> {
        if exchange.response.is_none() {
            return Ok(None);
        }
        // An answer does not come before its question, whatever the clocks say.
        let at = exchange.ended_at.unwrap_or(exchange.at).max(exchange.at);
        // The nodes of an answer that was cut off are there too: a client may replay what it got of it.
        let output = self.chain(input, &exchange.answer_chain, number, at)?;
        Ok((exchange.status == Status::Complete).then_some(output.number))
    }

    pub(super) fn start_node(&mut self, start: NodeHash, exchange: i64, at: Micros) -> Result<NodeRow> {
        match self.find_node(&start)? {
            Some(row) => Ok(row),
            None => self.insert_node(start, None, exchange, at),
        }
    }

    /// Stores the nodes of a chain behind `parent` that are not there yet.
    pub(super) fn chain(&mut self, parent: NodeRow, links: &[Link], exchange: i64, at: Micros) -> Result<NodeRow> {
        let known = last_known(links.len(), |at| self.find_node(&links[at].node))?;
        let (known, mut last) = known.map_or((0, parent), |(at, row)| (at + 1, row));
        self.lower_times(last, exchange, at)?;
        last.at = last.at.min(at.0);
        for link in &links[known..] {
            last = self.insert_node(link.node, Some((last, link)), exchange, at)?;
        }
        Ok(last)
    }

    /// A late exchange may be the earliest to have a node. A node is never later than its successors, so the walk
    /// ends at the first that is early enough.
    fn lower_times(&self, node: NodeRow, exchange: i64, at: Micros) -> Result<()> {
        let mut node = node;
        while node.at > at.0 {
            let update = "UPDATE node SET at = ?3, exchange = ?4 WHERE key = ?1 AND owner_id = ?2";
            let mut statement = self.session.connection().prepare_cached(update).map_err(problem)?;
            let row = params![key(self.owner, node.number), self.owner.0, at.0, exchange];
            statement.execute(row).map_err(problem)?;
            let Some(parent) = node.parent else { break };
            node = self.node_row(parent)?;
        }
        Ok(())
    }

    fn find_node(&self, hash: &NodeHash) -> Result<Option<NodeRow>> {
        for number in self.session.find(self.owner, Kind::Node, &hash.0)? {
            let select = "SELECT depth, at, parent FROM node WHERE key = ?1 AND owner_id = ?2 AND hash = ?3";
            let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
            let row = params![key(self.owner, number), self.owner.0, hash.0];
            let found = statement
                .query_row(row, |row| NodeRow::read(number, row))
                .optional()
                .map_err(problem)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(super) fn node_row(&self, number: i64) -> Result<NodeRow> {
        let select = "SELECT depth, at, parent FROM node WHERE key = ?1 AND owner_id = ?2";
        let mut statement = self.session.connection().prepare_cached(select).map_err(problem)?;
        let row = params![key(self.owner, number), self.owner.0];
        statement
            .query_row(row, |row| NodeRow::read(number, row))
            .map_err(problem)
    }

    fn insert_node(
        &mut self,
        hash: NodeHash,
        behind: Option<(NodeRow, &Link)>,
        exchange: i64,
        at: Micros,
    ) -> Result<NodeRow> {
        self.counters.last_node += 1;
        let row = NodeRow {
            number: self.counters.last_node,
            depth: behind.map_or(0, |(parent, _)| parent.depth + 1),
            at: at.0,
            parent: behind.map(|(parent, _)| parent.number),
        };
        let insert = "INSERT INTO node (key, owner_id, hash, value, parent, depth, exchange, at) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let mut statement = self.session.connection().prepare_cached(insert).map_err(problem)?;
        let columns = params![
            key(self.owner, row.number),
            self.owner.0,
            hash.0,
            behind.map(|(_, link)| link.value.0),
            row.parent,
            row.depth,
            exchange,
            row.at,
        ];
        statement.execute(columns).map_err(problem)?;
        drop(statement);
        self.session.index(self.owner, Kind::Node, &hash.0, row.number);
        Ok(row)
    }
}
