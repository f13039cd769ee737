//! What linking concluded: saved under the owner's lock, read from indexes.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::packed::{escape, unescape};
use super::problem::{damaged, problem};
use super::read::page;
use super::record::until_through;
use super::{Postgres, query, signed, sql, unsigned};
use crate::derived::{BranchRow, ConversationRow, Conversations, CourseRow, LinkChanges, LinkRow, LinkState, Links};
use crate::facts::{ExchangeNumber, Micros, OwnerId, Position};
use crate::packed::{link_kind_code, link_kind_of};
use crate::store::{BRANCHES_MAX, PAGE_MAX, Result, StoreError};

pub(super) async fn state(client: &Client, owner: OwnerId) -> Result<LinkState> {
    let rows = query(client, sql::LINK_STATE, &[&owner.0]).await?;
    let row = rows.first().ok_or(StoreError::NoOwner)?;
    Ok(LinkState {
        version: unsigned(row.get(0)),
        linked_to: Position(row.get(1)),
        newest: Position(row.get(2)),
        named_to: Position(row.get(3)),
    })
}

pub(super) async fn save(store: &Postgres, owner: OwnerId, changes: &LinkChanges) -> Result<bool> {
    until_through(|| try_save(store, owner, changes)).await
}

async fn try_save(store: &Postgres, owner: OwnerId, changes: &LinkChanges) -> Result<bool> {
    let mut client = store.client().await?;
    let transaction = client.transaction().await.map_err(problem)?;
    let rows = query(&transaction, sql::LOCK_LINKS, &[&owner.0]).await?;
    let version = unsigned(rows.first().ok_or(StoreError::NoOwner)?.get(0));
    if version != changes.version {
        return Ok(false);
    }
    if changes.from_scratch {
        drop_all(&transaction, owner).await?;
    }
    write(&transaction, owner, changes).await?;
    follow_names(&transaction, owner, changes).await?;
    query(&transaction, sql::ADVANCE_LINKS, &[&owner.0, &changes.linked_to.0]).await?;
    transaction.commit().await.map_err(problem)?;
    Ok(true)
}

pub(super) async fn keep_course(store: &Postgres, owner: OwnerId, version: u64, course: &CourseRow) -> Result<bool> {
    until_through(|| try_keep_course(store, owner, version, course)).await
}

async fn try_keep_course(store: &Postgres, owner: OwnerId, version: u64, course: &CourseRow) -> Result<bool> {
    let mut client = store.client().await?;
    let transaction = client.transaction().await.map_err(problem)?;
    let rows = query(&transaction, sql::LOCK_LINKS, &[&owner.0]).await?;
    if unsigned(rows.first().ok_or(StoreError::NoOwner)?.get(0)) != version {
        return Ok(false);
    }
    let values: [&(dyn ToSql + Sync); 3] = [&owner.0, &course.root.0, &course.packed];
    query(&transaction, sql::UPSERT_COURSE, &values).await?;
    transaction.commit().await.map_err(problem)?;
    Ok(true)
}

pub(super) async fn find_course(client: &Client, owner: OwnerId, root: ExchangeNumber) -> Result<Option<Vec<u8>>> {
    let rows = query(client, sql::COURSE, &[&owner.0, &root.0]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Names go where their exchanges went.
async fn follow_names(transaction: &Transaction<'_>, owner: OwnerId, changes: &LinkChanges) -> Result<()> {
    let gone: Vec<i64> = changes.gone_conversations.iter().map(|root| root.0).collect();
    if changes.from_scratch {
        query(transaction, sql::FOLLOW_ALL_NAMES, &[&owner.0]).await?;
    } else if !gone.is_empty() {
        query(transaction, sql::FOLLOW_NAMES, &[&owner.0, &gone]).await?;
    }
    Ok(())
}

/// Everything but the aliases: an id that was given out finds its conversation for ever.
async fn drop_all(transaction: &Transaction<'_>, owner: OwnerId) -> Result<()> {
    for statement in [
        sql::DROP_LINKS,
        sql::DROP_BRANCHES,
        sql::DROP_CONVERSATIONS,
        sql::DROP_WANTED,
        sql::DROP_COURSES,
    ] {
        query(transaction, statement, &[&owner.0]).await?;
    }
    Ok(())
}

/// Rows are sorted by their keys, each once: of several with one name the last counts.
async fn write(transaction: &Transaction<'_>, owner: OwnerId, changes: &LinkChanges) -> Result<()> {
    let owner = &owner.0;
    let gone_branches = numbers(&changes.gone_branches);
    let gone_conversations = numbers(&changes.gone_conversations);
    let values: [&(dyn ToSql + Sync); 2] = [owner, &gone_branches];
    run_for(transaction, sql::DELETE_BRANCHES, &gone_branches, &values).await?;
    let values: [&(dyn ToSql + Sync); 2] = [owner, &gone_conversations];
    run_for(transaction, sql::DELETE_CONVERSATIONS, &gone_conversations, &values).await?;
    let turned = numbers(&[&changes.gone_conversations[..], &changes.turned].concat());
    let values: [&(dyn ToSql + Sync); 2] = [owner, &turned];
    run_for(transaction, sql::DELETE_COURSES, &turned, &values).await?;
    let links: BTreeMap<i64, &LinkRow> = changes.links.iter().map(|link| (link.exchange.0, link)).collect();
    let branches: BTreeMap<i64, &BranchRow> = changes.branches.iter().map(|branch| (branch.first.0, branch)).collect();
    let conversations = changes.conversations.iter();
    let conversations: BTreeMap<i64, &ConversationRow> = conversations.map(|row| (row.root.0, row)).collect();
    let wanted: BTreeSet<(i64, i64)> = changes
        .wanted
        .iter()
        .map(|(hash, exchange)| (i64::from_be_bytes(*hash), exchange.0))
        .collect();
    tokio::try_join!(
        upsert_links(transaction, owner, &links),
        upsert_branches(transaction, owner, &branches),
        upsert_conversations(transaction, owner, &conversations),
        insert_wanted(transaction, owner, &wanted),
    )?;
    Ok(())
}

fn numbers(exchanges: &[ExchangeNumber]) -> Vec<i64> {
    let sorted: BTreeSet<i64> = exchanges.iter().map(|exchange| exchange.0).collect();
    sorted.into_iter().collect()
}

/// Runs a statement for these keys, if there are any.
async fn run_for(
    transaction: &Transaction<'_>,
    statement: &'static str,
    keys: &[i64],
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>> {
    match keys {
        [] => Ok(Vec::new()),
        _ => query(transaction, statement, values).await,
    }
}

/// Runs an upsert, which gives back every key that it wrote.
async fn upsert(
    transaction: &Transaction<'_>,
    statement: &'static str,
    keys: &[i64],
    values: &[&(dyn ToSql + Sync)],
) -> Result<()> {
    let written = run_for(transaction, statement, keys, values).await?;
    match written.len() == keys.len() {
        true => Ok(()),
        false => Err(damaged("not every row that linking made could be written")),
    }
}

async fn upsert_links(transaction: &Transaction<'_>, owner: &i64, links: &BTreeMap<i64, &LinkRow>) -> Result<()> {
    let exchanges: Vec<i64> = links.keys().copied().collect();
    let at: Vec<i64> = links.values().map(|link| link.at.0).collect();
    let kinds: Vec<i16> = links.values().map(|link| link_kind_code(link.kind)).collect();
    let conversations: Vec<i64> = links.values().map(|link| link.conversation.0).collect();
    let branches: Vec<i64> = links.values().map(|link| link.branch.0).collect();
    let agents: Vec<i64> = links.values().map(|link| link.agent.0).collect();
    let parents: Vec<Option<i64>> = links.values().map(|link| link.parent.map(|parent| parent.0)).collect();
    let decisions: Vec<&[u8]> = links.values().map(|link| link.decision.as_slice()).collect();
    let values: [&(dyn ToSql + Sync); 9] = [
        owner,
        &exchanges,
        &at,
        &kinds,
        &conversations,
        &branches,
        &agents,
        &parents,
        &decisions,
    ];
    upsert(transaction, sql::UPSERT_LINKS, &exchanges, &values).await
}

async fn upsert_branches(
    transaction: &Transaction<'_>,
    owner: &i64,
    branches: &BTreeMap<i64, &BranchRow>,
) -> Result<()> {
    let first: Vec<i64> = branches.keys().copied().collect();
    let conversations: Vec<i64> = branches.values().map(|branch| branch.conversation.0).collect();
    let shown: Vec<_> = branches.values().map(|branch| escape(&branch.shown)).collect();
    let records: Vec<&[u8]> = branches.values().map(|branch| branch.record.as_slice()).collect();
    let values: [&(dyn ToSql + Sync); 5] = [owner, &first, &conversations, &shown, &records];
    upsert(transaction, sql::UPSERT_BRANCHES, &first, &values).await
}

async fn upsert_conversations(
    transaction: &Transaction<'_>,
    owner: &i64,
    conversations: &BTreeMap<i64, &ConversationRow>,
) -> Result<()> {
    let roots: Vec<i64> = conversations.keys().copied().collect();
    let ids: Vec<&[u8]> = conversations.values().map(|row| row.id.as_slice()).collect();
    let started_at: Vec<i64> = conversations.values().map(|row| row.started_at.0).collect();
    let last_at: Vec<i64> = conversations.values().map(|row| row.last_at.0).collect();
    let records: Vec<&[u8]> = conversations.values().map(|row| row.record.as_slice()).collect();
    let rows: [&(dyn ToSql + Sync); 6] = [owner, &roots, &ids, &started_at, &last_at, &records];
    let aliases: [&(dyn ToSql + Sync); 3] = [owner, &ids, &roots];
    tokio::try_join!(
        upsert(transaction, sql::UPSERT_CONVERSATIONS, &roots, &rows),
        run_for(transaction, sql::INSERT_ALIASES, &roots, &aliases),
    )?;
    Ok(())
}

async fn insert_wanted(transaction: &Transaction<'_>, owner: &i64, wanted: &BTreeSet<(i64, i64)>) -> Result<()> {
    let hashes: Vec<i64> = wanted.iter().map(|(hash, _)| *hash).collect();
    let exchanges: Vec<i64> = wanted.iter().map(|(_, exchange)| *exchange).collect();
    let values: [&(dyn ToSql + Sync); 3] = [owner, &hashes, &exchanges];
    run_for(transaction, sql::INSERT_WANTED, &hashes, &values).await?;
    Ok(())
}

pub(super) async fn links(client: &Client, owner: OwnerId, which: Links) -> Result<Vec<LinkRow>> {
    let most = page(PAGE_MAX);
    let rows = match which {
        Links::Of(exchanges) => {
            let exchanges: Vec<i64> = exchanges.iter().take(PAGE_MAX).map(|exchange| exchange.0).collect();
            query(client, sql::LINKS_OF, &[&owner.0, &exchanges]).await?
        }
        Links::Children(parents) => {
            let parents = numbers(&parents[..parents.len().min(PAGE_MAX)]);
            query(client, sql::CHILDREN, &[&owner.0, &parents, &most]).await?
        }
        Links::InConversation {
            conversation,
            after,
            limit,
        } => {
            let (at, exchange) = after.map_or((i64::MIN, i64::MIN), |(at, exchange)| (at.0, exchange.0));
            let limit = page(limit);
            let values: [&(dyn ToSql + Sync); 5] = [&owner.0, &conversation.0, &at, &exchange, &limit];
            query(client, sql::LINKS_IN_CONVERSATION, &values).await?
        }
    };
    rows.iter().map(read_link).collect()
}

pub(super) async fn branches(client: &Client, owner: OwnerId, conversation: ExchangeNumber) -> Result<Vec<BranchRow>> {
    let most = signed(BRANCHES_MAX as u64);
    let rows = query(client, sql::BRANCHES, &[&owner.0, &conversation.0, &most]).await?;
    let branch = |row: &Row| BranchRow {
        first: ExchangeNumber(row.get(0)),
        conversation: ExchangeNumber(row.get(1)),
        shown: unescape(row.get(2)),
        record: row.get(3),
    };
    Ok(rows.iter().map(branch).collect())
}

pub(super) async fn conversations(
    client: &Client,
    owner: OwnerId,
    which: Conversations,
) -> Result<Vec<ConversationRow>> {
    let rows = match which {
        Conversations::Of(roots) => {
            let roots: Vec<i64> = roots.iter().take(PAGE_MAX).map(|root| root.0).collect();
            query(client, sql::CONVERSATIONS_OF, &[&owner.0, &roots]).await?
        }
        Conversations::Ids(ids) => {
            let ids: Vec<&[u8]> = ids.iter().take(PAGE_MAX).map(<[u8; 16]>::as_slice).collect();
            query(client, sql::CONVERSATIONS_BY_ID, &[&owner.0, &ids]).await?
        }
        Conversations::Newest { before, limit } => {
            let (at, root) = before.map_or((i64::MAX, i64::MAX), |(at, root)| (at.0, root.0));
            query(client, sql::NEWEST_CONVERSATIONS, &[&owner.0, &at, &root, &page(limit)]).await?
        }
    };
    rows.iter().map(read_conversation).collect()
}

fn read_link(row: &Row) -> Result<LinkRow> {
    Ok(LinkRow {
        exchange: ExchangeNumber(row.get(0)),
        at: Micros(row.get(1)),
        kind: link_kind_of(row.get(2))?,
        conversation: ExchangeNumber(row.get(3)),
        branch: ExchangeNumber(row.get(4)),
        agent: ExchangeNumber(row.get(5)),
        parent: row.get::<_, Option<i64>>(6).map(ExchangeNumber),
        decision: row.get(7),
    })
}

fn read_conversation(row: &Row) -> Result<ConversationRow> {
    let id: &[u8] = row.get(1);
    Ok(ConversationRow {
        root: ExchangeNumber(row.get(0)),
        id: id
            .try_into()
            .map_err(|_| damaged("the id of a conversation has another length than 16 bytes"))?,
        started_at: Micros(row.get(2)),
        last_at: Micros(row.get(3)),
        record: row.get(4),
    })
}
