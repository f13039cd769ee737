//! Names of conversations and messages, and pins.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _, Row, Statement, params};

use crate::facts::{ExchangeNumber, OwnerId};
use crate::names::{MessageName, MessageNames, NameChanges, NameRow, Names, NewName, Pin, Taken, end_of};
use crate::sqlite::{derived, problem};
use crate::store::{PAGE_MAX, Result};

pub(super) fn save(connection: &Connection, owner: OwnerId, changes: &NameChanges) -> Result<Taken> {
    let mut taken = Taken::default();
    let insert = "INSERT INTO conversation_name (owner_id, friendly_id, exchange, conversation, title) \
                  VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (owner_id, friendly_id) DO NOTHING";
    let mut statement = connection.prepare_cached(insert).map_err(problem)?;
    for (place, name) in changes.names.iter().enumerate() {
        if !save_name(&mut statement, connection, owner, name)? {
            taken.names.push(place);
        }
    }
    let insert = "INSERT INTO message_name (owner_id, name, short_hash, exchange, node) VALUES (?1, ?2, ?3, ?4, ?5) \
                  ON CONFLICT (owner_id, name, short_hash) DO NOTHING";
    let mut statement = connection.prepare_cached(insert).map_err(problem)?;
    for (place, message) in changes.messages.iter().enumerate() {
        if !save_message(&mut statement, connection, owner, message)? {
            taken.messages.push(place);
        }
    }
    let update = "UPDATE conversation_name SET title = ?3 WHERE owner_id = ?1 AND exchange = ?2";
    for (exchange, title) in &changes.titles {
        let mut statement = connection.prepare_cached(update).map_err(problem)?;
        statement
            .execute(params![owner.0, exchange.0, title])
            .map_err(problem)?;
    }
    if !changes.titles.is_empty() {
        derived::touch(connection, owner)?;
    }
    if let Some(position) = changes.named_to {
        let update = "UPDATE owner SET named_to = max(named_to, ?2) WHERE owner_id = ?1";
        let mut statement = connection.prepare_cached(update).map_err(problem)?;
        statement.execute([owner.0, position.0]).map_err(problem)?;
    }
    Ok(taken)
}

/// `false` if another exchange has the name.
fn save_name(insert: &mut Statement<'_>, connection: &Connection, owner: OwnerId, new: &NewName) -> Result<bool> {
    let name = &new.name;
    let row = params![
        owner.0,
        name.friendly_id,
        name.exchange.0,
        new.conversation.0,
        name.title
    ];
    if insert.execute(row).map_err(problem)? > 0 {
        return Ok(true);
    }
    let select = "SELECT exchange FROM conversation_name WHERE owner_id = ?1 AND friendly_id = ?2";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let known: i64 = statement
        .query_row(params![owner.0, name.friendly_id], |row| row.get(0))
        .map_err(problem)?;
    Ok(known == name.exchange.0)
}

/// `false` if another message has the name.
fn save_message(
    insert: &mut Statement<'_>,
    connection: &Connection,
    owner: OwnerId,
    message: &MessageName,
) -> Result<bool> {
    let node = i64::from_be_bytes(message.node);
    let row = params![owner.0, message.name.0, message.short_hash, message.exchange.0, node];
    if insert.execute(row).map_err(problem)? > 0 {
        return Ok(true);
    }
    let select = "SELECT node FROM message_name WHERE owner_id = ?1 AND name = ?2 AND short_hash = ?3";
    let mut statement = connection.prepare_cached(select).map_err(problem)?;
    let known: i64 = statement
        .query_row(params![owner.0, message.name.0, message.short_hash], |row| row.get(0))
        .map_err(problem)?;
    Ok(known == node)
}

/// Conversations that are none of their own any more: their names go where their exchanges went.
pub(super) fn follow(connection: &Connection, owner: OwnerId, gone: &[ExchangeNumber]) -> Result<()> {
    let update = "UPDATE conversation_name SET conversation = coalesce((SELECT l.conversation FROM link l \
                  WHERE l.key = (conversation_name.owner_id << 40 | conversation_name.exchange) \
                  AND l.owner_id = ?1), conversation) \
                  WHERE owner_id = ?1 AND conversation = ?2";
    for root in gone {
        let mut statement = connection.prepare_cached(update).map_err(problem)?;
        statement.execute([owner.0, root.0]).map_err(problem)?;
    }
    Ok(())
}

/// The same of all.
pub(super) fn follow_all(connection: &Connection, owner: OwnerId) -> Result<()> {
    let update = "UPDATE conversation_name SET conversation = coalesce((SELECT l.conversation FROM link l \
                  WHERE l.key = (conversation_name.owner_id << 40 | conversation_name.exchange) \
                  AND l.owner_id = ?1), conversation) \
                  WHERE owner_id = ?1";
    connection.execute(update, [owner.0]).map_err(problem)?;
    Ok(())
}

const NAME: &str = "SELECT exchange, friendly_id, title FROM conversation_name WHERE owner_id = ?1 AND ";

pub(super) fn names(connection: &Connection, owner: OwnerId, which: &Names) -> Result<Vec<NameRow>> {
    let mut found = Vec::new();
    let mut ask = |condition: &str, value: &dyn rusqlite::ToSql| -> Result<()> {
        let select = format!("{NAME}{condition}");
        let mut statement = connection.prepare_cached(&select).map_err(problem)?;
        let rows = statement
            .query_map(params![owner.0, value], read_name)
            .map_err(problem)?;
        for row in rows {
            found.push(row.map_err(problem)?);
        }
        Ok(())
    };
    match which {
        Names::Ids(ids) => {
            for id in ids.iter().take(PAGE_MAX) {
                ask("friendly_id = ?2", id)?;
            }
        }
        Names::MintedFor(exchanges) => {
            for exchange in exchanges.iter().take(PAGE_MAX) {
                ask("exchange = ?2 ORDER BY friendly_id LIMIT 1000", &exchange.0)?;
            }
        }
        Names::OfConversations(roots) => {
            for root in roots.iter().take(PAGE_MAX) {
                found.extend(of_conversation(connection, owner, *root)?);
            }
        }
        Names::Beginning { prefix, after, limit } => {
            let select = format!(
                "{NAME}friendly_id >= ?2 AND friendly_id < ?5 AND friendly_id > ?3 \
                 AND substr(friendly_id, 1, length(?2)) = ?2 \
                 ORDER BY friendly_id LIMIT ?4"
            );
            let after = after.as_deref().unwrap_or_default();
            let mut statement = connection.prepare_cached(&select).map_err(problem)?;
            let bounds = params![owner.0, prefix, after, (*limit).min(PAGE_MAX) as i64, end_of(prefix)];
            let rows = statement.query_map(bounds, read_name).map_err(problem)?;
            for row in rows {
                found.push(row.map_err(problem)?);
            }
        }
    }
    Ok(found)
}

/// What is written down as the conversation may be old; where the exchange is linked is not. Two questions, because with an OR
/// between them all names of the owner would be read.
fn of_conversation(connection: &Connection, owner: OwnerId, root: ExchangeNumber) -> Result<Vec<NameRow>> {
    let by_exchange = "SELECT exchange, friendly_id, title FROM conversation_name INDEXED BY conversation_name_exchange \
                       WHERE owner_id = ?1 AND exchange = ?2 AND ?2 = (SELECT l.conversation FROM link l \
                       WHERE l.key = (conversation_name.owner_id << 40 | conversation_name.exchange) \
                       AND l.owner_id = ?1) LIMIT ?3";
    let by_conversation = "SELECT exchange, friendly_id, title FROM conversation_name INDEXED BY conversation_name_conversation \
                           WHERE owner_id = ?1 AND conversation = ?2 AND ?2 = (SELECT l.conversation FROM link l \
                           WHERE l.key = (conversation_name.owner_id << 40 | conversation_name.exchange) \
                       AND l.owner_id = ?1) LIMIT ?3";
    let mut found = BTreeSet::new();
    for select in [by_exchange, by_conversation] {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let bounds = [owner.0, root.0, PAGE_MAX as i64];
        let rows = statement.query_map(bounds, read_name).map_err(problem)?;
        for row in rows {
            found.insert(row.map_err(problem)?);
        }
    }
    Ok(found.into_iter().collect())
}

fn read_name(row: &Row<'_>) -> rusqlite::Result<NameRow> {
    Ok(NameRow {
        exchange: ExchangeNumber(row.get(0)?),
        friendly_id: row.get(1)?,
        title: row.get(2)?,
    })
}

pub(super) fn message_names(connection: &Connection, owner: OwnerId, which: &MessageNames) -> Result<Vec<MessageName>> {
    let mut found = Vec::new();
    match which {
        MessageNames::Named(names) => {
            let select = "SELECT name, short_hash, exchange, node FROM message_name \
                          WHERE owner_id = ?1 AND name = ?2 AND short_hash = ?3";
            for (name, hash) in names.iter().take(PAGE_MAX) {
                let mut statement = connection.prepare_cached(select).map_err(problem)?;
                let row = statement.query_row(params![owner.0, name.0, hash], read_message);
                found.extend(row.optional().map_err(problem)?);
            }
        }
        MessageNames::Of { name, after, limit } => {
            let select = "SELECT name, short_hash, exchange, node FROM message_name \
                          WHERE owner_id = ?1 AND name = ?2 AND short_hash > ?3 ORDER BY short_hash LIMIT ?4";
            let after = after.as_deref().unwrap_or_default();
            let mut statement = connection.prepare_cached(select).map_err(problem)?;
            let bounds = params![owner.0, name.0, after, (*limit).min(PAGE_MAX) as i64];
            let rows = statement.query_map(bounds, read_message).map_err(problem)?;
            for row in rows {
                found.push(row.map_err(problem)?);
            }
        }
    }
    Ok(found)
}

fn read_message(row: &Row<'_>) -> rusqlite::Result<MessageName> {
    Ok(MessageName {
        name: ExchangeNumber(row.get(0)?),
        short_hash: row.get(1)?,
        exchange: ExchangeNumber(row.get(2)?),
        node: row.get::<_, i64>(3)?.to_be_bytes(),
    })
}

pub(super) fn pin(connection: &Connection, owner: OwnerId, pins: &[Pin]) -> Result<Vec<Pin>> {
    let insert = "INSERT INTO pin (owner_id, key, outcome) VALUES (?1, ?2, ?3) ON CONFLICT (owner_id, key) DO NOTHING";
    for pin in pins {
        let mut statement = connection.prepare_cached(insert).map_err(problem)?;
        let row = params![owner.0, pin.key, pin.outcome];
        statement.execute(row).map_err(problem)?;
    }
    let keys: Vec<[u8; 32]> = pins.iter().map(|pin| pin.key).collect();
    self::pins(connection, owner, &keys)
}

pub(super) fn pins(connection: &Connection, owner: OwnerId, keys: &[[u8; 32]]) -> Result<Vec<Pin>> {
    let select = "SELECT outcome FROM pin WHERE owner_id = ?1 AND key = ?2";
    let mut found = Vec::new();
    for key in keys.iter().take(PAGE_MAX) {
        let mut statement = connection.prepare_cached(select).map_err(problem)?;
        let outcome = statement.query_row(params![owner.0, key], |row| row.get(0));
        let outcome = outcome.optional().map_err(problem)?;
        found.extend(outcome.map(|outcome| Pin { key: *key, outcome }));
    }
    Ok(found)
}
