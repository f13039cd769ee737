//! Names on their way out of a store and into another, with the exchanges that they belong to.

use std::collections::HashMap;

use ropewalk_store::facts::{ExchangeNumber, OwnerId};
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names, NewName};
use ropewalk_store::store::{ExchangeRow, PAGE_MAX};
use ropewalk_store::{Store, StoreError};
use ropewalk_wire::exchange::{LineMessageName, LineName, LineNames};

use crate::view::{Result, View};

/// Conversations whose messages' names are kept at hand while lines are written.
const CONVERSATIONS_MAX: usize = 64;

/// What many lines share.
#[derive(Debug, Default)]
pub struct NamesOfLine {
    /// By the exchange that a name was minted for, then by the exchange that brought the message.
    messages: HashMap<ExchangeNumber, HashMap<ExchangeNumber, Vec<MessageName>>>,
}

impl<S: Store> View<'_, S> {
    /// The names that were minted for an exchange, and those of the messages that it brought.
    pub(crate) async fn names_of_line(&self, row: &ExchangeRow, cache: &mut NamesOfLine) -> Result<LineNames> {
        let minted = Names::MintedFor(vec![row.number]);
        let own = self.store.names(self.owner, minted).await?;
        let mut names = LineNames {
            conversations: own.into_iter().map(line_name).collect(),
            messages: Vec::new(),
        };
        let Some(link) = self.find_link(row.number).await? else {
            return Ok(names);
        };
        let of = Names::OfConversations(vec![link.conversation]);
        for name in self.store.names(self.owner, of).await? {
            let all = self.messages_of_name(name.exchange, cache).await?;
            let brought = all.get(&row.number).into_iter().flatten();
            names.messages.extend(brought.map(|message| LineMessageName {
                conversation: name.friendly_id.clone(),
                short_hash: message.short_hash.clone(),
                node: hex::encode(message.node),
            }));
        }
        Ok(names)
    }

    async fn messages_of_name<'c>(
        &self,
        name: ExchangeNumber,
        cache: &'c mut NamesOfLine,
    ) -> Result<&'c HashMap<ExchangeNumber, Vec<MessageName>>> {
        if !cache.messages.contains_key(&name) {
            if cache.messages.len() >= CONVERSATIONS_MAX {
                cache.messages.clear();
            }
            let mut by_exchange: HashMap<_, Vec<_>> = HashMap::new();
            for message in all_messages(self.store, self.owner, name).await? {
                by_exchange.entry(message.exchange).or_default().push(message);
            }
            cache.messages.insert(name, by_exchange);
        }
        Ok(&cache.messages[&name])
    }
}

fn line_name(name: NameRow) -> LineName {
    LineName {
        friendly_id: name.friendly_id,
        title: name.title,
    }
}

/// The names of all messages of a conversation's name, in the order of their hashes.
pub(crate) async fn all_messages<S: Store>(
    store: &S,
    owner: OwnerId,
    name: ExchangeNumber,
) -> std::result::Result<Vec<MessageName>, StoreError> {
    let mut all: Vec<MessageName> = Vec::new();
    loop {
        let which = MessageNames::Of {
            name,
            after: all.last().map(|message| message.short_hash.clone()),
            limit: PAGE_MAX,
        };
        let page = store.message_names(owner, which).await?;
        let is_last = page.len() < PAGE_MAX;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Saves names that came with exchanges. What is taken by another, or belongs to a name that is not there, is left out.
pub(crate) async fn import<S: Store>(
    store: &S,
    owner: OwnerId,
    lines: &[(ExchangeNumber, &LineNames)],
) -> std::result::Result<(), StoreError> {
    let mut changes = NameChanges::default();
    for (number, line) in lines {
        changes.names.extend(line.conversations.iter().map(|name| NewName {
            name: NameRow {
                exchange: *number,
                friendly_id: name.friendly_id.clone(),
                title: name.title.clone(),
            },
            conversation: *number,
        }));
    }
    if !changes.names.is_empty() {
        store.save_names(owner, std::mem::take(&mut changes)).await?;
    }
    let mut names: HashMap<&str, Option<ExchangeNumber>> = HashMap::new();
    for message in lines.iter().flat_map(|(_, line)| &line.messages) {
        names.entry(&message.conversation).or_default();
    }
    for (id, exchange) in &mut names {
        let found = store.names(owner, Names::Ids(vec![(*id).to_owned()])).await?;
        *exchange = found.first().map(|name| name.exchange);
    }
    for (number, line) in lines {
        changes.messages.extend(line.messages.iter().filter_map(|message| {
            Some(MessageName {
                name: names.get(&*message.conversation).copied().flatten()?,
                short_hash: message.short_hash.clone(),
                exchange: *number,
                node: node_of(&message.node)?,
            })
        }));
    }
    if !changes.messages.is_empty() {
        store.save_names(owner, changes).await?;
    }
    Ok(())
}

fn node_of(digits: &str) -> Option<[u8; 8]> {
    let mut node = [0; 8];
    hex::decode_to_slice(digits, &mut node).ok()?;
    Some(node)
}
