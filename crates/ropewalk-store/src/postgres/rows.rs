//! Rows of exchanges, and what stands beside them: keys and provenance.

use std::borrow::Cow;

use deadpool_postgres::Transaction;
use ropewalk_core::rope::Rope;

use super::bodies::Bodies;
use super::packed::{escape, write_texts};
use super::problem::raced;
use super::{query, signed, sql};
use crate::facts::{Body, Key, NewExchange, OwnerId, Status};
use crate::packed::{status_code, write_hashes, write_keys, write_usage};
use crate::store::Result;

/// One row to be written: an exchange, whole or begun, or the end of one whose beginning is there.
#[derive(Debug)]
pub(super) struct Row<'b> {
    pub(super) number: i64,
    pub(super) position: i64,
    pub(super) is_new: bool,
    /// What was told of the call before, if it is told anew.
    pub(super) replaces: Option<Replaced>,
    /// What was handed in first, and what had the answer; mostly the same.
    pub(super) begin: &'b NewExchange,
    pub(super) end: &'b NewExchange,
    pub(super) at: i64,
    /// Keys that were written with the beginning.
    known_keys: Vec<Key>,
    /// Places among the bodies of the batch.
    pub(super) request_body: Option<usize>,
    pub(super) sent_body: Option<usize>,
    pub(super) response_body: Option<usize>,
}

/// A row that another takes the place of.
#[derive(Debug)]
pub(super) struct Replaced {
    /// All that it is found by.
    pub(super) keys: Vec<Key>,
    pub(super) bytes_in: i64,
}

impl<'b> Row<'b> {
    pub(super) fn new(exchange: &'b NewExchange) -> Self {
        Row {
            number: 0,
            position: 0,
            is_new: true,
            replaces: None,
            begin: exchange,
            end: exchange,
            at: exchange.at.0,
            known_keys: Vec::new(),
            request_body: None,
            sent_body: None,
            response_body: None,
        }
    }

    pub(super) fn completing(exchange: &'b NewExchange, number: i64, at: i64, known_keys: Vec<Key>) -> Self {
        Row {
            number,
            is_new: false,
            at,
            known_keys,
            ..Row::new(exchange)
        }
    }

    pub(super) fn answered_at(&self) -> i64 {
        self.end.ended_at.map_or(self.at, |at| at.0)
    }

    pub(super) fn bytes_in(&self) -> i64 {
        let request = if self.is_new { self.begin.request.length } else { 0 };
        let response = self.end.response.as_ref().map_or(0, |body| body.length);
        let before = self.replaces.as_ref().map_or(0, |replaced| replaced.bytes_in);
        signed(request.saturating_add(response)) - before
    }

    /// What the provider got in the request's place.
    pub(super) fn sent(&self) -> Option<&'b Body> {
        self.end.sent.as_ref().or(self.begin.sent.as_ref())
    }

    /// Keys to be written, each with the moment from which it can be found.
    fn new_keys(&self) -> impl Iterator<Item = (Key, i64)> {
        let began = self.is_new.then_some(&self.begin.keys).into_iter().flatten();
        let is_whole = std::ptr::eq(self.begin, self.end);
        let has_answer = self.end.response.is_some();
        let with_answer = if has_answer { self.answered_at() } else { self.at };
        let of_begin = began.map(move |key| {
            let waits = is_whole && key.kind.is_of_answer();
            (*key, if waits { with_answer } else { self.at })
        });
        let of_end = (!self.is_new || !is_whole)
            .then_some(&self.end.keys)
            .into_iter()
            .flatten();
        let of_end = of_end
            .filter(|key| !self.known_keys.contains(key) && (!self.is_new || !self.begin.keys.contains(key)))
            .map(move |key| (*key, with_answer));
        let hashes = [&self.begin.hashes, &self.end.hashes].into_iter().flatten();
        let of_hashes = hashes.map(|(_, hash)| (Key::of_hash(hash), self.at));
        of_begin.chain(of_end).chain(of_hashes)
    }
}

/// A version as it is stored. There will never be so many.
pub(super) fn version(version: u32) -> i16 {
    i16::try_from(version).unwrap_or(i16::MAX)
}

pub(super) async fn store_keys(transaction: &Transaction<'_>, owner: OwnerId, rows: &[Row<'_>]) -> Result<()> {
    let keys = rows.iter();
    let keys = keys.flat_map(|row| row.new_keys().map(|(key, seen_at)| (key, seen_at, row.number)));
    insert_keys(transaction, owner, keys.collect()).await
}

/// Writes keys, each with the moment from which it can be found and its exchange.
pub(super) async fn insert_keys(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    mut keys: Vec<(Key, i64, i64)>,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    keys.sort_unstable();
    keys.dedup();
    let kinds: Vec<i16> = keys.iter().map(|(key, ..)| i16::from(key.kind.code())).collect();
    let hashes: Vec<&[u8]> = keys.iter().map(|(key, ..)| key.hash.as_slice()).collect();
    let seen_at: Vec<i64> = keys.iter().map(|(_, seen_at, _)| *seen_at).collect();
    let exchanges: Vec<i64> = keys.iter().map(|(.., exchange)| *exchange).collect();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [&owner.0, &kinds, &hashes, &seen_at, &exchanges];
    query(transaction, sql::INSERT_KEYS, &values).await?;
    Ok(())
}

/// Writes what providers got in the place of requests.
pub(super) async fn store_sent(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    rows: &[Row<'_>],
    bodies: &Bodies<'_>,
) -> Result<()> {
    let sent: Vec<_> = rows
        .iter()
        .filter_map(|row| Some((row.number, row.sent()?, row.sent_body?)))
        .collect();
    if sent.is_empty() {
        return Ok(());
    }
    let exchanges: Vec<i64> = sent.iter().map(|(number, ..)| *number).collect();
    let hashes: Vec<&[u8]> = sent.iter().map(|(_, body, _)| &body.sha256[..]).collect();
    let lengths: Vec<i64> = sent.iter().map(|(_, body, _)| signed(body.length)).collect();
    let ropes = sent.iter().map(|(.., place)| bodies.rope(*place));
    let ropes = ropes.collect::<Result<Vec<Rope>>>()?;
    let levels: Vec<i16> = ropes.iter().map(|rope| i16::from(rope.levels)).collect();
    let roots: Vec<&[u8]> = ropes.iter().map(|rope| &rope.root[..]).collect();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
        [&owner.0, &exchanges, &hashes, &lengths, &levels, &roots];
    query(transaction, sql::INSERT_SENT, &values).await?;
    Ok(())
}

pub(super) async fn store_provenance(transaction: &Transaction<'_>, owner: OwnerId, rows: &[Row<'_>]) -> Result<()> {
    let found: Vec<_> = rows
        .iter()
        .filter_map(|row| {
            let provenance = row.begin.provenance.as_ref().or(row.end.provenance.as_ref())?;
            Some((row.number, provenance))
        })
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let exchanges: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
    let files: Vec<_> = found.iter().map(|(_, provenance)| escape(&provenance.file)).collect();
    let lines: Vec<i64> = found.iter().map(|(_, provenance)| signed(provenance.line)).collect();
    let uuids: Vec<_> = found
        .iter()
        .map(|(_, provenance)| provenance.uuid.as_deref().map(escape))
        .collect();
    let aliases: Vec<String> = found
        .iter()
        .map(|(_, provenance)| write_texts(&provenance.aliases))
        .collect();
    let begun: Vec<Option<i64>> = found
        .iter()
        .map(|(_, provenance)| provenance.log_begun.map(|at| at.0))
        .collect();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&owner.0, &exchanges, &files, &lines, &uuids, &aliases, &begun];
    query(transaction, sql::INSERT_PROVENANCE, &values).await?;
    Ok(())
}

/// Removes what is told anew. Where it is gone already, another writer has been faster.
pub(super) async fn remove_replaced(transaction: &Transaction<'_>, owner: OwnerId, rows: &[Row<'_>]) -> Result<()> {
    let replaced = rows.iter().filter_map(|row| Some((row.number, row.replaces.as_ref()?)));
    let (numbers, replaced): (Vec<i64>, Vec<&Replaced>) = replaced.unzip();
    if numbers.is_empty() {
        return Ok(());
    }
    let gone = query(transaction, sql::DELETE_EXCHANGES, &[&owner.0, &numbers]).await?;
    if gone.len() < numbers.len() {
        return Err(raced());
    }
    let keys = numbers.iter().zip(&replaced);
    let keys: Vec<(i64, &Key)> = keys
        .flat_map(|(number, replaced)| replaced.keys.iter().map(|key| (*number, key)))
        .collect();
    let kinds: Vec<i16> = keys.iter().map(|(_, key)| i16::from(key.kind.code())).collect();
    let hashes: Vec<&[u8]> = keys.iter().map(|(_, key)| key.hash.as_slice()).collect();
    let exchanges: Vec<i64> = keys.iter().map(|(number, _)| *number).collect();
    query(transaction, sql::DELETE_KEYS, &[&owner.0, &kinds, &hashes, &exchanges]).await?;
    for statement in [
        sql::DELETE_PROVENANCE,
        sql::DELETE_SPAWNS,
        sql::DELETE_SENT,
        sql::DELETE_QUEUED,
        sql::DELETE_TEXTS,
    ] {
        query(transaction, statement, &[&owner.0, &numbers]).await?;
    }
    Ok(())
}

/// Writes the rows themselves, under the owner's lock.
pub(super) async fn store(
    transaction: &Transaction<'_>,
    owner: OwnerId,
    rows: &[Row<'_>],
    bodies: &Bodies<'_>,
) -> Result<()> {
    let (mut new, mut completed) = (Columns::default(), Columns::default());
    for row in rows {
        let columns = if row.is_new { &mut new } else { &mut completed };
        columns.push(row, bodies)?;
    }
    tokio::try_join!(
        new.write(transaction, owner, sql::INSERT_EXCHANGES),
        completed.write(transaction, owner, sql::COMPLETE_EXCHANGES),
    )?;
    Ok(())
}

/// The rows of a batch, column by column.
#[derive(Debug, Default)]
struct Columns<'b> {
    numbers: Vec<i64>,
    positions: Vec<i64>,
    at: Vec<i64>,
    ended_at: Vec<Option<i64>>,
    answered_at: Vec<Option<i64>>,
    cost_nano_usd: Vec<Option<i64>>,
    request_lengths: Vec<i64>,
    response_lengths: Vec<Option<i64>>,
    rules_versions: Vec<i64>,
    statuses: Vec<i16>,
    http_statuses: Vec<Option<i16>>,
    request_levels: Vec<i16>,
    response_levels: Vec<Option<i16>>,
    cost_is_estimate: Vec<bool>,
    ids: Vec<Cow<'b, str>>,
    providers: Vec<Cow<'b, str>>,
    models: Vec<Option<Cow<'b, str>>>,
    kinds: Vec<Cow<'b, str>>,
    sessions: Vec<Option<Cow<'b, str>>>,
    agents: Vec<Option<Cow<'b, str>>>,
    projects: Vec<Option<Cow<'b, str>>>,
    input_nodes: Vec<&'b [u8]>,
    output_nodes: Vec<Option<&'b [u8]>>,
    request_sha256: Vec<&'b [u8]>,
    response_sha256: Vec<Option<&'b [u8]>>,
    request_roots: Vec<Vec<u8>>,
    response_roots: Vec<Option<Vec<u8>>>,
    hashes: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
    usages: Vec<Option<Vec<u8>>>,
    details: Vec<Cow<'b, str>>,
    projections: Vec<i16>,
}

impl<'b> Columns<'b> {
    fn push(&mut self, row: &Row<'b>, bodies: &Bodies<'_>) -> Result<()> {
        let (begin, end) = (row.begin, row.end);
        let rope = |place: Option<usize>| place.map(|place| bodies.rope(place)).transpose();
        let request = rope(row.request_body)?.unwrap_or(Rope {
            levels: 0,
            root: Vec::new(),
        });
        let response = rope(row.response_body)?;
        let answer = end.response.as_ref();
        let input_node = end.request_chain.last().map_or(&end.start, |link| &link.node);
        let is_complete = end.status == Status::Complete;
        let output_node = answer
            .filter(|_| is_complete)
            .map(|_| end.answer_chain.last().map_or(input_node, |link| &link.node));
        let model = end.model.as_deref().or(begin.model.as_deref());
        self.numbers.push(row.number);
        self.positions.push(row.position);
        self.at.push(row.at);
        self.ended_at.push(end.ended_at.map(|at| at.0));
        self.answered_at.push(answer.map(|_| row.answered_at()));
        self.cost_nano_usd.push(end.cost_nano_usd.map(signed));
        self.request_lengths.push(signed(begin.request.length));
        self.response_lengths.push(answer.map(|body| signed(body.length)));
        self.rules_versions.push(i64::from(end.rules_version));
        self.statuses.push(status_code(end.status));
        self.http_statuses.push(end.http_status.map(u16::cast_signed));
        self.request_levels.push(i16::from(request.levels));
        self.response_levels
            .push(response.as_ref().map(|rope| i16::from(rope.levels)));
        self.cost_is_estimate.push(end.cost_is_estimate);
        self.ids.push(escape(&begin.id));
        self.providers.push(escape(&begin.provider));
        self.models.push(model.map(escape));
        self.kinds.push(escape(&begin.kind));
        self.sessions.push(begin.session.as_deref().map(escape));
        self.agents.push(begin.agent.as_deref().map(escape));
        self.projects.push(begin.project.as_deref().map(escape));
        self.input_nodes.push(&input_node.0);
        self.output_nodes.push(output_node.map(|node| node.0.as_slice()));
        self.request_sha256.push(&begin.request.sha256);
        self.response_sha256.push(answer.map(|body| body.sha256.as_slice()));
        self.request_roots.push(request.root);
        self.response_roots.push(response.map(|rope| rope.root));
        self.hashes.push(write_hashes(&end.hashes, |_| true));
        self.keys.push(write_keys(&end.keys));
        self.usages.push(end.usage.as_ref().map(write_usage));
        self.details.push(escape(if end.detail.is_empty() {
            &begin.detail
        } else {
            &end.detail
        }));
        self.projections.push(version(end.projections_version));
        Ok(())
    }

    /// Runs a statement that writes these rows. Where it wrote fewer, another writer has been faster with one of them,
    /// and the batch is looked at again.
    async fn write(&self, transaction: &Transaction<'_>, owner: OwnerId, statement: &'static str) -> Result<()> {
        if self.numbers.is_empty() {
            return Ok(());
        }
        let written = query(
            transaction,
            statement,
            // In the order of `new_exchanges!` in `sql`.
            &[
                &owner.0,
                &self.numbers,
                &self.positions,
                &self.at,
                &self.ended_at,
                &self.answered_at,
                &self.cost_nano_usd,
                &self.request_lengths,
                &self.response_lengths,
                &self.rules_versions,
                &self.statuses,
                &self.http_statuses,
                &self.request_levels,
                &self.response_levels,
                &self.cost_is_estimate,
                &self.ids,
                &self.providers,
                &self.models,
                &self.kinds,
                &self.sessions,
                &self.agents,
                &self.projects,
                &self.input_nodes,
                &self.output_nodes,
                &self.request_sha256,
                &self.response_sha256,
                &self.request_roots,
                &self.response_roots,
                &self.hashes,
                &self.keys,
                &self.usages,
                &self.details,
                &self.projections,
            ],
        )
        .await?;
        if written.len() < self.numbers.len() {
            return Err(raced());
        }
        Ok(())
    }
}
