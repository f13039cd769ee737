//! Finding by what people type: the name of an owner, the beginning of a hash.

use deadpool_postgres::Client;
use ropewalk_core::hash::NodeHash;
use tokio_postgres::types::ToSql;

use super::packed::{escape, unescape};
use super::problem::damaged;
use super::{hash_of, query, sql};
use crate::facts::{ExchangeNumber, KeyKind, OwnerId};
use crate::hash_prefix::HashPrefix;
use crate::store::{Beginning, PAGE_MAX, Result};

pub(super) async fn owner(client: &Client, name: &str) -> Result<Option<OwnerId>> {
    let rows = query(client, sql::FIND_OWNER, &[&escape(name)]).await?;
    Ok(rows.first().map(|row| OwnerId(row.get(0))))
}

pub(super) async fn owners(client: &Client, after: Option<&str>) -> Result<Vec<(OwnerId, String)>> {
    let after = after.map(escape);
    let rows = query(client, sql::OWNERS, &[&after, &(PAGE_MAX as i64)]).await?;
    let owners = rows.iter().map(|row| (OwnerId(row.get(0)), unescape(row.get(1))));
    Ok(owners.collect())
}

pub(super) async fn beginning_with(
    client: &Client,
    owner: OwnerId,
    prefix: &HashPrefix,
    limit: usize,
) -> Result<Beginning> {
    let limit = limit.min(PAGE_MAX) as i64;
    let (first, last) = (&prefix.first()[..], &prefix.last()[..]);
    let hashes: [&(dyn ToSql + Sync); 4] = [&owner.0, &first, &last, &limit];
    let ids: [&(dyn ToSql + Sync); 4] = [&owner.0, &&first[..16], &&last[..16], &limit];
    let kind = i16::from(KeyKind::Hash.code());
    let keys: [&(dyn ToSql + Sync); 5] = [&owner.0, &first, &last, &limit, &kind];
    let (conversations, nodes, exchanges) = tokio::try_join!(
        query(client, sql::CONVERSATIONS_BEGINNING, &ids),
        query(client, sql::NODES_BEGINNING, &hashes),
        query(client, sql::EXCHANGES_BEGINNING, &keys),
    )?;
    let id = |row: &tokio_postgres::Row| {
        let bytes: &[u8] = row.get(0);
        bytes
            .try_into()
            .map_err(|_| damaged("a conversation's id has another length than 16 bytes"))
    };
    let mut exchanges: Vec<_> = exchanges.iter().map(|row| ExchangeNumber(row.get(0))).collect();
    exchanges.sort_unstable();
    exchanges.dedup();
    Ok(Beginning {
        conversations: conversations.iter().map(id).collect::<Result<_>>()?,
        nodes: nodes
            .iter()
            .map(|row| hash_of(row, 0).map(NodeHash))
            .collect::<Result<_>>()?,
        exchanges,
    })
}
