//! Names for conversations and messages (seed 003), minted when an exchange is linked.
//!
//! [`Namer`] follows the log like linking does, one step behind it, so that whatever was recorded before there were names, or by
//! somebody else, gets its names as well. A conversation's id is minted with its first turn, from the client's title if that is
//! known by then, else from what the user says first, and never again; a message's short hash with the exchange that brings it.
//!
//! Invariants: a name that was given out stays; doing it again changes nothing; what an exchange needs is one save for a batch.

mod fresh;
mod line;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use ropewalk_core::friendly;
use ropewalk_core::hash::NodeHash;
use ropewalk_store::derived::{ConversationRow, Conversations, LinkKind, LinkRow, Links};
use ropewalk_store::facts::{ExchangeNumber, OwnerId, Position};
use ropewalk_store::names::{MessageName, NameChanges, NameRow, Names, NewName};
use ropewalk_store::store::{ExchangeRow, Selection};
use ropewalk_store::{Micros, Store, StoreError};
use ropewalk_wire::auxiliary::RequestKind;

use crate::link::JustLinked;
use crate::link::settle::ConversationRecord;
use crate::view::{View, ViewError, uuid_text};
pub(crate) use fresh::{Fresh, Said};
pub use line::NamesOfLine;
pub(crate) use line::{all_messages, import};

/// Exchanges that are named and saved at once.
const BATCH: usize = 256;

/// Conversations whose names are at hand.
const KNOWN_MAX: usize = 8_192;

/// Short hashes that are kept at hand.
const GIVEN_MAX: usize = 65_536;

/// How often a batch tries names that others have taken. Each time what they took is known.
const TRIES_MAX: usize = 100;

/// Links of a conversation among which a client's title is looked for, from its first.
const TITLE_LINKS: usize = 16;

/// Characters of a title.
pub const TITLE_CHARS_MAX: usize = 200;

/// A conversation's name, as naming its messages needs it.
#[derive(Debug)]
struct Known {
    /// The exchange that it was minted for.
    name: ExchangeNumber,
    friendly_id: String,
}

/// Hashes that were given out, of conversations in which a text occurred twice: the next one that is free need not be searched by
/// trying.
#[derive(Debug, Default)]
struct Given {
    hashes: HashMap<ExchangeNumber, HashMap<String, [u8; 8]>>,
    count: usize,
}

impl Given {
    /// A hash that no other message has, as far as is known.
    fn mint(&mut self, known: &Known, text: &str, node: [u8; 8]) -> Option<String> {
        let Some(given) = self.hashes.get_mut(&known.name) else {
            return friendly::mint_short_hash(&known.friendly_id, text, |_| false);
        };
        let is_anothers = |hash: &str| given.get(hash).is_some_and(|of| *of != node);
        let hash = friendly::mint_short_hash(&known.friendly_id, text, is_anothers)?;
        self.count += usize::from(given.insert(hash.clone(), node).is_none());
        Some(hash)
    }

    fn learn(&mut self, name: ExchangeNumber, messages: Vec<MessageName>) {
        if self.count > GIVEN_MAX {
            *self = Given::default();
        }
        self.count += messages.len();
        let hashes = messages.into_iter().map(|message| (message.short_hash, message.node));
        self.hashes.insert(name, hashes.collect());
    }
}

/// Names one owner's conversations and messages.
#[derive(Debug)]
pub struct Namer<'s, S> {
    view: View<'s, S>,
    fresh: Fresh,
    known: HashMap<ExchangeNumber, Arc<Known>>,
    given: Given,
}

impl<'s, S: Store> Namer<'s, S> {
    pub fn new(store: &'s S, owner: OwnerId, owner_name: &str) -> Self {
        Namer {
            view: View::new(store, owner, owner_name),
            fresh: Fresh::default(),
            known: HashMap::new(),
            given: Given::default(),
        }
    }

    /// What was just recorded, so that it need not be read again.
    pub(crate) fn fresh(&mut self) -> &mut Fresh {
        &mut self.fresh
    }

    /// Names what was just linked, where all before it is named.
    pub(crate) async fn name_linked(&mut self, just: &JustLinked) -> Result<(), ViewError> {
        let rows: Vec<&ExchangeRow> = just.facts.iter().map(|fact| &fact.row).collect();
        self.name(&rows, &just.links, &just.conversations, just.linked_to).await
    }

    /// Names everything that is linked.
    pub async fn catch_up(&mut self) -> Result<(), ViewError> {
        let (store, owner) = (self.view.store, self.view.owner);
        loop {
            let state = store.link_state(owner).await?;
            if state.named_to >= state.linked_to {
                return Ok(());
            }
            let page = Selection::Log {
                after: state.named_to,
                limit: BATCH,
            };
            let mut rows = store.exchanges(owner, page, Micros::MAX).await?;
            let is_last = rows.len() < BATCH;
            rows.retain(|row| row.position <= state.linked_to);
            let last = rows.last().map(|row| row.position).filter(|_| !is_last);
            let links = self.links(&rows).await?;
            let rows: Vec<&ExchangeRow> = rows.iter().collect();
            let named_to = last.unwrap_or(state.linked_to);
            self.name(&rows, &links, &HashMap::new(), named_to).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Gives ids to conversations that have none although all of their exchanges were named: linking has changed its mind.
    pub async fn name_split_off(&mut self) -> Result<(), ViewError> {
        let mut before = None;
        loop {
            let rows = self.view.conversations_before(before, BATCH).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            before = Some((last.last_at, last.root));
            let with_turns = rows.iter().filter(|row| {
                let record = ConversationRecord::read(row);
                record.is_ok_and(|record| record.turns > 0)
            });
            let roots: HashSet<ExchangeNumber> = with_turns.map(|row| row.root).collect();
            self.find_names(&roots).await?;
            let unnamed = roots.into_iter().filter(|root| !self.known.contains_key(root));
            self.mint(unnamed.collect(), &HashMap::new()).await?;
        }
    }

    async fn name(
        &mut self,
        rows: &[&ExchangeRow],
        links: &HashMap<ExchangeNumber, LinkRow>,
        conversations: &HashMap<ExchangeNumber, ConversationRow>,
        named_to: Position,
    ) -> Result<(), ViewError> {
        let turns = links.values().filter(|link| link.kind == LinkKind::Turn);
        let roots: HashSet<ExchangeNumber> = turns.map(|link| link.conversation).collect();
        self.find_names(&roots).await?;
        let unnamed = roots.iter().copied().filter(|root| !self.known.contains_key(root));
        let mut unnamed: Vec<ExchangeNumber> = unnamed.collect();
        unnamed.sort_unstable();
        self.mint(unnamed, conversations).await?;
        let mut said = Vec::new();
        for row in rows {
            let Some(link) = links.get(&row.number) else { continue };
            let Some(known) = self.known.get(&link.conversation).cloned() else {
                continue;
            };
            if matches!(link.kind, LinkKind::Turn | LinkKind::Retry) {
                let is_root = link.exchange == link.conversation;
                let messages = self.said(row, is_root).await?;
                said.extend(
                    messages
                        .into_iter()
                        .map(|message| (row.number, Arc::clone(&known), message)),
                );
            }
        }
        self.name_messages(said, named_to).await
    }

    async fn links(&self, rows: &[ExchangeRow]) -> Result<HashMap<ExchangeNumber, LinkRow>, StoreError> {
        let numbers = rows.iter().map(|row| row.number).collect();
        let links = self.view.store.links(self.view.owner, Links::Of(numbers)).await?;
        Ok(links.into_iter().map(|link| (link.exchange, link)).collect())
    }

    /// The names that there are of these conversations.
    async fn find_names(&mut self, roots: &HashSet<ExchangeNumber>) -> Result<(), StoreError> {
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        let unknown = roots.iter().copied().filter(|root| !self.known.contains_key(root));
        let unknown: Vec<ExchangeNumber> = unknown.collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let (store, owner) = (self.view.store, self.view.owner);
        let names = store.names(owner, Names::OfConversations(unknown.clone())).await?;
        // Most are their root's own. Where the others belong, their links say.
        let elsewhere = names.iter().map(|name| name.exchange).filter(|of| !roots.contains(of));
        let links = store.links(owner, Links::Of(elsewhere.collect())).await?;
        let moved: HashMap<_, _> = links.iter().map(|link| (link.exchange, link.conversation)).collect();
        let mut by_root: HashMap<ExchangeNumber, Vec<NameRow>> = HashMap::new();
        for name in names {
            let root = moved.get(&name.exchange).copied().unwrap_or(name.exchange);
            by_root.entry(root).or_default().push(name);
        }
        for root in unknown {
            if let Some(name) = by_root.get(&root).and_then(|names| primary(root, names)) {
                self.remember(root, &name.clone());
            }
        }
        Ok(())
    }

    fn remember(&mut self, root: ExchangeNumber, name: &NameRow) {
        let known = Known {
            name: name.exchange,
            friendly_id: name.friendly_id.clone(),
        };
        self.known.insert(root, Arc::new(known));
    }

    /// Gives conversations their ids. Those that were just saved are at hand.
    async fn mint(
        &mut self,
        roots: Vec<ExchangeNumber>,
        saved: &HashMap<ExchangeNumber, ConversationRow>,
    ) -> Result<(), ViewError> {
        if roots.is_empty() {
            return Ok(());
        }
        let (store, owner) = (self.view.store, self.view.owner);
        let (at_hand, others): (Vec<_>, Vec<_>) = roots.into_iter().partition(|root| saved.contains_key(root));
        let mut rows: Vec<ConversationRow> = at_hand.iter().filter_map(|root| saved.get(root).cloned()).collect();
        if !others.is_empty() {
            rows.extend(store.conversations(owner, Conversations::Of(others)).await?);
        }
        let mut unnamed = Vec::new();
        for row in rows {
            // Most have nothing beside their turns that could be a title.
            let record = ConversationRecord::read(&row)?;
            let title = match record.exchanges > record.turns {
                true => self.client_title(row.root).await?,
                false => None,
            };
            let text = match title {
                Some(title) => title,
                None => self.first_text(row.root).await?,
            };
            unnamed.push((row, text));
        }
        let mut taken: HashSet<String> = HashSet::new();
        for _ in 0..TRIES_MAX {
            let names: Vec<NewName> = unnamed.iter().map(|(row, text)| new_name(row, text, &taken)).collect();
            let changes = NameChanges {
                names: names.clone(),
                ..NameChanges::default()
            };
            let others = store.save_names(owner, changes).await?;
            let mut left = Vec::new();
            for (place, (new, asked)) in names.into_iter().zip(unnamed).enumerate() {
                if others.names.contains(&place) {
                    taken.insert(new.name.friendly_id);
                    left.push(asked);
                } else {
                    self.remember(asked.0.root, &new.name);
                }
            }
            unnamed = left;
            if unnamed.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// What the client called the conversation, if it had asked for a title by now.
    async fn client_title(&mut self, root: ExchangeNumber) -> Result<Option<String>, ViewError> {
        let which = Links::InConversation {
            conversation: root,
            after: None,
            limit: TITLE_LINKS,
        };
        let links = self.view.store.links(self.view.owner, which).await?;
        let beside = links.into_iter().filter(|link| link.kind == LinkKind::Auxiliary);
        let beside: Vec<ExchangeNumber> = beside.map(|link| link.exchange).collect();
        if beside.is_empty() {
            return Ok(None);
        }
        let mut rows = self.view.rows(beside).await?;
        rows.retain(|row| row.kind == RequestKind::Title.name());
        rows.sort_by_key(|row| (row.at, row.number));
        for row in rows.into_iter().rev() {
            if let Some(said) = self.answer(&row).await? {
                return Ok(title_in(&said.text));
            }
        }
        Ok(None)
    }

    async fn name_messages(
        &mut self,
        said: Vec<(ExchangeNumber, Arc<Known>, Said)>,
        named_to: Position,
    ) -> Result<(), ViewError> {
        let mut unnamed: Vec<_> = said.iter().collect();
        for _ in 0..TRIES_MAX {
            // Where no hash is free the message stays without one.
            let named = unnamed.iter().filter_map(|asked| {
                let (exchange, known, said) = *asked;
                let node = beginning(&said.node);
                let short_hash = self.given.mint(known, &said.text, node)?;
                let name = MessageName {
                    name: known.name,
                    short_hash,
                    exchange: *exchange,
                    node,
                };
                Some((*asked, name))
            });
            let (asked, messages): (Vec<_>, Vec<MessageName>) = named.unzip();
            let changes = NameChanges {
                messages,
                named_to: Some(named_to),
                ..NameChanges::default()
            };
            let others = self.view.store.save_names(self.view.owner, changes).await?;
            if others.messages.is_empty() {
                return Ok(());
            }
            unnamed = others.messages.iter().map(|place| asked[*place]).collect();
            let names: HashSet<ExchangeNumber> = unnamed.iter().map(|(_, known, _)| known.name).collect();
            for name in names {
                let given = all_messages(self.view.store, self.view.owner, name).await?;
                self.given.learn(name, given);
            }
        }
        Ok(())
    }
}

fn new_name(row: &ConversationRow, text: &str, taken: &HashSet<String>) -> NewName {
    let id = uuid_text(&row.id);
    NewName {
        name: NameRow {
            exchange: row.root,
            friendly_id: friendly::mint(text, &created_at(row.started_at), &id, |id| taken.contains(id)),
            title: None,
        },
        conversation: row.root,
    }
}

/// The name that a conversation goes by; the others are aliases. Its root's own, else the one that was there first.
pub(crate) fn primary(root: ExchangeNumber, names: &[NameRow]) -> Option<&NameRow> {
    let own = names.iter().find(|name| name.exchange == root);
    own.or_else(|| names.first())
}

/// What is kept of a node.
pub(crate) fn beginning(node: &NodeHash) -> [u8; 8] {
    let mut beginning = [0; 8];
    beginning.copy_from_slice(&node.0[..8]);
    beginning
}

/// As the seed's hash has it.
fn created_at(at: Micros) -> String {
    let time = Timestamp::from_microsecond(at.0).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The title in the answer to a title call: a JSON object with one, or the text itself.
fn title_in(answer: &str) -> Option<String> {
    let json: Option<serde_json::Value> = serde_json::from_str(answer).ok();
    let said = json.as_ref().and_then(|json| json.get("title")?.as_str());
    let line = said.unwrap_or(answer).lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(TITLE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_read_from_json_and_from_text() {
        for (answer, title) in [
            (r#"{"title":"React optimisation"}"#, Some("React optimisation")),
            ("\n React optimisation \nmore", Some("React optimisation")),
            (r#"{"isNewTopic":false}"#, Some(r#"{"isNewTopic":false}"#)),
            ("  ", None),
        ] {
            assert_eq!(title_in(answer).as_deref(), title, "{answer}");
        }
    }

    #[test]
    fn times_are_written_as_the_seed_hashes_them() {
        assert_eq!(created_at(Micros(1_770_631_200_999_999)), "2026-02-09 10:00:00");
    }
}
