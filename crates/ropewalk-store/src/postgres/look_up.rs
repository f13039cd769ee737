//! What linking asks. Every answer comes from an index, and none depends on how much is stored.

use std::collections::HashMap;

use deadpool_postgres::Client;
use ropewalk_core::hash::NodeHash;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::nodes::deepest_known;
use super::read::page;
use super::{hash_of, query, spawns, sql};
use crate::facts::{ExchangeNumber, Micros, OwnerId};
use crate::store::{Answers, Asked, KnownNode, PAGE_MAX, Questions, Result};

pub(super) async fn look_up(client: &Client, owner: OwnerId, questions: &Questions, as_of: Micros) -> Result<Answers> {
    let limit = page(questions.limit);
    let (deepest, nodes, exchanges, spawns_of, spawns_between, wanting) = tokio::try_join!(
        deepest_nodes(client, owner, &questions.chains, as_of, limit),
        known_nodes(client, owner, &questions.nodes, as_of, limit),
        with_keys(client, owner, questions, as_of, limit),
        spawns::of(client, owner, questions, as_of),
        spawns::between(client, owner, questions, as_of),
        wanting(client, owner, &questions.wanting),
    )?;
    Ok(Answers {
        deepest,
        nodes,
        exchanges,
        spawns_of,
        spawns_between,
        wanting,
    })
}

/// A node that was found, and the time it was asked about.
struct Found {
    /// Its index in the question.
    index: usize,
    hash: NodeHash,
    as_of: i64,
    /// The exchange that first brought it.
    first: i64,
}

async fn deepest_nodes(
    client: &Client,
    owner: OwnerId,
    chains: &[Vec<NodeHash>],
    as_of: Micros,
    limit: i64,
) -> Result<Vec<Option<KnownNode>>> {
    let slices: Vec<&[NodeHash]> = chains.iter().map(Vec::as_slice).collect();
    let known = deepest_known(client, owner, &slices, as_of).await?;
    let found = chains.iter().zip(known).map(|(chain, known)| {
        known.map(|(index, seen)| Found {
            index,
            hash: chain[index],
            as_of: as_of.0,
            first: seen.exchange,
        })
    });
    ending_there(client, owner, found.collect(), limit).await
}

async fn known_nodes(
    client: &Client,
    owner: OwnerId,
    asked: &[Asked<NodeHash>],
    as_of: Micros,
    limit: i64,
) -> Result<Vec<Option<KnownNode>>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut hashes: Vec<&[u8]> = asked.iter().map(|asked| asked.what.0.as_slice()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let mut seen: HashMap<NodeHash, (i64, i64)> = HashMap::new();
    for row in query(client, sql::FIND_NODES, &[&owner.0, &hashes]).await? {
        seen.insert(NodeHash(hash_of(&row, 0)?), (row.get(1), row.get(2)));
    }
    let found = asked.iter().enumerate().map(|(index, asked)| {
        let as_of = asked.as_of.min(as_of).0;
        let (_, first) = *seen.get(&asked.what).filter(|(seen_at, _)| *seen_at <= as_of)?;
        Some(Found {
            index,
            hash: asked.what,
            as_of,
            first,
        })
    });
    ending_there(client, owner, found.collect(), limit).await
}

/// The exchanges whose request or answer ends at nodes that were found.
async fn ending_there(
    client: &Client,
    owner: OwnerId,
    found: Vec<Option<Found>>,
    limit: i64,
) -> Result<Vec<Option<KnownNode>>> {
    let nodes: Vec<&[u8]> = found.iter().flatten().map(|found| found.hash.0.as_slice()).collect();
    let times: Vec<i64> = found.iter().flatten().map(|found| found.as_of).collect();
    if nodes.is_empty() {
        return Ok(found.iter().map(|_| None).collect());
    }
    let values: [&(dyn ToSql + Sync); 4] = [&owner.0, &nodes, &times, &limit];
    let (inputs, outputs) = tokio::try_join!(
        query(client, sql::ENDING_IN_REQUEST, &values),
        query(client, sql::ENDING_IN_ANSWER, &values),
    )?;
    let mut inputs = by_place(&inputs, nodes.len()).into_iter();
    let mut outputs = by_place(&outputs, nodes.len()).into_iter();
    let mut answer = |found: &Found| KnownNode {
        index: found.index,
        as_input: inputs.next().unwrap_or_default(),
        as_output: outputs.next().unwrap_or_default(),
        first: ExchangeNumber(found.first),
    };
    Ok(found.iter().map(|found| found.as_ref().map(&mut answer)).collect())
}

async fn with_keys(
    client: &Client,
    owner: OwnerId,
    questions: &Questions,
    as_of: Micros,
    limit: i64,
) -> Result<Vec<Vec<ExchangeNumber>>> {
    let keys = &questions.keys;
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let kinds: Vec<i16> = keys.iter().map(|asked| i16::from(asked.what.kind.code())).collect();
    let hashes: Vec<&[u8]> = keys.iter().map(|asked| asked.what.hash.as_slice()).collect();
    let times: Vec<i64> = keys.iter().map(|asked| asked.as_of.min(as_of).0).collect();
    let rows = query(client, sql::WITH_KEY, &[&owner.0, &kinds, &hashes, &times, &limit]).await?;
    Ok(by_place(&rows, keys.len()))
}

async fn wanting(client: &Client, owner: OwnerId, hashes: &[[u8; 8]]) -> Result<Vec<Vec<ExchangeNumber>>> {
    if hashes.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = hashes.iter().map(|hash| i64::from_be_bytes(*hash)).collect();
    let rows = query(client, sql::WANTING, &[&owner.0, &numbers, &page(PAGE_MAX)]).await?;
    Ok(by_place(&rows, numbers.len()))
}

/// Exchanges by the place of what was asked, which SQL counts from 1.
fn by_place(rows: &[Row], count: usize) -> Vec<Vec<ExchangeNumber>> {
    let mut found = vec![Vec::new(); count];
    for row in rows {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        if let Some(found) = found.get_mut(place) {
            found.push(ExchangeNumber(row.get(1)));
        }
    }
    found
}
