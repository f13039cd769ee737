//! What linking asks. Every answer comes from an index, and none depends on how much is stored.

use deadpool_postgres::Client;
use ropewalk_core::hash::NodeHash;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::nodes::deepest_known;
use super::read::page;
use super::{query, sql};
use crate::facts::{ExchangeNumber, Micros, OwnerId};
use crate::store::{Answers, KnownNode, Questions, Result};

pub(super) async fn look_up(client: &Client, owner: OwnerId, questions: &Questions, as_of: Micros) -> Result<Answers> {
    let limit = page(questions.limit);
    let (deepest, exchanges) = tokio::try_join!(
        known_nodes(client, owner, &questions.chains, as_of, limit),
        with_keys(client, owner, questions, as_of, limit),
    )?;
    Ok(Answers { deepest, exchanges })
}

async fn known_nodes(
    client: &Client,
    owner: OwnerId,
    chains: &[Vec<NodeHash>],
    as_of: Micros,
    limit: i64,
) -> Result<Vec<Option<KnownNode>>> {
    let slices: Vec<&[NodeHash]> = chains.iter().map(Vec::as_slice).collect();
    let known = deepest_known(client, owner, &slices, as_of).await?;
    let nodes: Vec<&[u8]> = chains
        .iter()
        .zip(&known)
        .filter_map(|(chain, known)| known.map(|(index, _)| chain[index].0.as_slice()))
        .collect();
    if nodes.is_empty() {
        return Ok(chains.iter().map(|_| None).collect());
    }
    let values: [&(dyn ToSql + Sync); 4] = [&owner.0, &nodes, &as_of.0, &limit];
    let (inputs, outputs) = tokio::try_join!(
        query(client, sql::ENDING_IN_REQUEST, &values),
        query(client, sql::ENDING_IN_ANSWER, &values),
    )?;
    let mut inputs = by_place(&inputs, nodes.len()).into_iter();
    let mut outputs = by_place(&outputs, nodes.len()).into_iter();
    let mut answer = |(index, seen): (usize, super::nodes::Seen)| KnownNode {
        index,
        as_input: inputs.next().unwrap_or_default(),
        as_output: outputs.next().unwrap_or_default(),
        first: ExchangeNumber(seen.exchange),
    };
    Ok(known.into_iter().map(|known| known.map(&mut answer)).collect())
}

async fn with_keys(
    client: &Client,
    owner: OwnerId,
    questions: &Questions,
    as_of: Micros,
    limit: i64,
) -> Result<Vec<Vec<ExchangeNumber>>> {
    if questions.keys.is_empty() {
        return Ok(Vec::new());
    }
    let kinds: Vec<i16> = questions.keys.iter().map(|key| i16::from(key.kind.code())).collect();
    let hashes: Vec<&[u8]> = questions.keys.iter().map(|key| key.hash.as_slice()).collect();
    let rows = query(client, sql::WITH_KEY, &[&owner.0, &kinds, &hashes, &as_of.0, &limit]).await?;
    Ok(by_place(&rows, questions.keys.len()))
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
