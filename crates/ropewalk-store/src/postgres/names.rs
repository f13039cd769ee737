//! Names of conversations and messages, and pins.

use std::collections::{BTreeMap, HashMap, HashSet};

use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::Row;

use super::packed::{escape, unescape};
use super::problem::problem;
use super::record::until_through;
use super::{Postgres, hash_of, query, sql};
use crate::facts::{ExchangeNumber, OwnerId};
use crate::names::{MessageName, MessageNames, NameChanges, NameRow, Names, Pin, Taken, end_of};
use crate::store::{PAGE_MAX, Result};

pub(super) async fn save(store: &Postgres, owner: OwnerId, changes: &NameChanges) -> Result<Taken> {
    until_through(|| try_save(store, owner, changes)).await
}

async fn try_save(store: &Postgres, owner: OwnerId, changes: &NameChanges) -> Result<Taken> {
    let mut client = store.client().await?;
    let transaction = client.transaction().await.map_err(problem)?;
    let taken = Taken {
        names: save_names(&transaction, owner, changes).await?,
        messages: save_messages(&transaction, owner, &changes.messages).await?,
    };
    if !changes.titles.is_empty() {
        let titles: BTreeMap<i64, &str> = changes.titles.iter().map(|(of, title)| (of.0, &**title)).collect();
        let exchanges: Vec<i64> = titles.keys().copied().collect();
        let titles: Vec<_> = titles.values().map(|title| escape(title)).collect();
        // First the row that linking holds while it moves names.
        query(&transaction, sql::TOUCH_LINKS, &[&owner.0]).await?;
        query(&transaction, sql::SET_TITLES, &[&owner.0, &exchanges, &titles]).await?;
    }
    if let Some(position) = changes.named_to {
        query(&transaction, sql::ADVANCE_NAMES, &[&owner.0, &position.0]).await?;
    }
    transaction.commit().await.map_err(problem)?;
    Ok(taken)
}

/// Places of those that another exchange has.
async fn save_names(client: &impl GenericClient, owner: OwnerId, changes: &NameChanges) -> Result<Vec<usize>> {
    // The first of each id, in one order for everybody.
    let mut first = BTreeMap::new();
    for new in &changes.names {
        first.entry(&*new.name.friendly_id).or_insert(new);
    }
    if first.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<&str> = first.keys().copied().collect();
    let exchanges: Vec<i64> = first.values().map(|new| new.name.exchange.0).collect();
    let conversations: Vec<i64> = first.values().map(|new| new.conversation.0).collect();
    let titles: Vec<_> = first
        .values()
        .map(|new| new.name.title.as_deref().map(escape))
        .collect();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [&owner.0, &ids, &exchanges, &conversations, &titles];
    query(client, sql::INSERT_NAMES, &values).await?;
    let rows = query(client, sql::NAMES_BY_ID, &[&owner.0, &ids]).await?;
    let known: HashSet<NameKey> = rows
        .iter()
        .map(read_name)
        .map(|name| (name.friendly_id, name.exchange))
        .collect();
    let all = changes.names.iter().enumerate();
    let taken = all.filter(|(_, new)| !known.contains(&(new.name.friendly_id.clone(), new.name.exchange)));
    Ok(taken.map(|(place, _)| place).collect())
}

type NameKey = (String, ExchangeNumber);

async fn save_messages(client: &impl GenericClient, owner: OwnerId, messages: &[MessageName]) -> Result<Vec<usize>> {
    let mut taken = Vec::new();
    let mut first = BTreeMap::new();
    for message in messages {
        first.entry((message.name.0, &*message.short_hash)).or_insert(message);
    }
    let rows: Vec<&MessageName> = first.into_values().collect();
    let mut known: HashMap<(i64, String), [u8; 8]> = HashMap::new();
    for page in rows.chunks(PAGE_MAX) {
        let names: Vec<i64> = page.iter().map(|message| message.name.0).collect();
        let hashes: Vec<&str> = page.iter().map(|message| &*message.short_hash).collect();
        let exchanges: Vec<i64> = page.iter().map(|message| message.exchange.0).collect();
        let nodes: Vec<i64> = page.iter().map(|message| i64::from_be_bytes(message.node)).collect();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] = [&owner.0, &names, &hashes, &exchanges, &nodes];
        query(client, sql::INSERT_MESSAGE_NAMES, &values).await?;
        let rows = query(client, sql::MESSAGES_NAMED, &[&owner.0, &names, &hashes]).await?;
        let read = rows.iter().map(read_message);
        known.extend(read.map(|message| ((message.name.0, message.short_hash), message.node)));
    }
    for (place, message) in messages.iter().enumerate() {
        if known.get(&(message.name.0, message.short_hash.clone())) != Some(&message.node) {
            taken.push(place);
        }
    }
    Ok(taken)
}

pub(super) async fn names(client: &Client, owner: OwnerId, which: Names) -> Result<Vec<NameRow>> {
    let most = PAGE_MAX as i64;
    let numbers = |all: &[ExchangeNumber]| -> Vec<i64> { all.iter().take(PAGE_MAX).map(|number| number.0).collect() };
    let rows = match which {
        Names::Ids(ids) => {
            let ids: Vec<_> = ids.iter().take(PAGE_MAX).map(|id| escape(id)).collect();
            query(client, sql::NAMES_BY_ID, &[&owner.0, &ids]).await?
        }
        Names::MintedFor(exchanges) => {
            let exchanges = numbers(&exchanges);
            query(client, sql::NAMES_MINTED_FOR, &[&owner.0, &exchanges, &most]).await?
        }
        Names::OfConversations(roots) => {
            let roots = numbers(&roots);
            query(client, sql::NAMES_OF_CONVERSATIONS, &[&owner.0, &roots, &most]).await?
        }
        Names::Beginning { prefix, after, limit } => {
            let (prefix, after) = (escape(&prefix), after.unwrap_or_default());
            let (after, limit, end) = (escape(&after), limit.min(PAGE_MAX) as i64, end_of(&prefix));
            query(client, sql::NAMES_BEGINNING, &[&owner.0, &prefix, &after, &limit, &end]).await?
        }
    };
    Ok(rows.iter().map(read_name).collect())
}

fn read_name(row: &Row) -> NameRow {
    NameRow {
        exchange: ExchangeNumber(row.get(0)),
        friendly_id: row.get(1),
        title: row.get::<_, Option<String>>(2).map(unescape),
    }
}

pub(super) async fn message_names(client: &Client, owner: OwnerId, which: MessageNames) -> Result<Vec<MessageName>> {
    let rows = match which {
        MessageNames::Named(names) => {
            let names = names.iter().take(PAGE_MAX);
            let (names, hashes): (Vec<i64>, Vec<_>) = names.map(|(name, hash)| (name.0, escape(hash))).unzip();
            query(client, sql::MESSAGES_NAMED, &[&owner.0, &names, &hashes]).await?
        }
        MessageNames::Of { name, after, limit } => {
            let after = after.unwrap_or_default();
            let limit = limit.min(PAGE_MAX) as i64;
            query(client, sql::MESSAGE_NAMES_OF, &[&owner.0, &name.0, &after, &limit]).await?
        }
    };
    Ok(rows.iter().map(read_message).collect())
}

fn read_message(row: &Row) -> MessageName {
    MessageName {
        name: ExchangeNumber(row.get(0)),
        short_hash: row.get(1),
        exchange: ExchangeNumber(row.get(2)),
        node: row.get::<_, i64>(3).to_be_bytes(),
    }
}

pub(super) async fn pin(store: &Postgres, owner: OwnerId, pins: &[Pin]) -> Result<Vec<Pin>> {
    until_through(|| try_pin(store, owner, pins)).await?;
    let keys: Vec<[u8; 32]> = pins.iter().map(|pin| pin.key).collect();
    self::pins(&store.client().await?, owner, &keys).await
}

async fn try_pin(store: &Postgres, owner: OwnerId, pins: &[Pin]) -> Result<()> {
    let first: BTreeMap<&[u8], &str> = pins.iter().rev().map(|pin| (&pin.key[..], &*pin.outcome)).collect();
    let keys: Vec<&[u8]> = first.keys().copied().collect();
    let outcomes: Vec<_> = first.values().map(|outcome| escape(outcome)).collect();
    query(&store.client().await?, sql::INSERT_PINS, &[&owner.0, &keys, &outcomes]).await?;
    Ok(())
}

pub(super) async fn pins(client: &Client, owner: OwnerId, keys: &[[u8; 32]]) -> Result<Vec<Pin>> {
    let keys: Vec<&[u8]> = keys.iter().take(PAGE_MAX).map(<[u8; 32]>::as_slice).collect();
    let rows = query(client, sql::PINS, &[&owner.0, &keys]).await?;
    let pin = |row: &Row| {
        Ok(Pin {
            key: hash_of(row, 0)?,
            outcome: unescape(row.get(1)),
        })
    };
    rows.iter().map(pin).collect()
}
