//! Which message a reference names, and what people may mean by the beginning of one.
//!
//! Only the owner's own names are ever asked: whether something is another's or nobody's makes no difference to what is
//! done, and none to what is answered.

use std::collections::HashSet;

use ropewalk_core::friendly;
use ropewalk_core::reference::{Quoted, Reading, Reference, injected};
use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::names::{MessageName, MessageNames, NameChanges, NameRow, Names};
use ropewalk_store::store::{ExchangeRow, PAGE_MAX};
use serde::Serialize;
use utoipa::ToSchema;

use crate::names::{TITLE_CHARS_MAX, beginning, primary};
use crate::view::message::{MessageView, kind_of, text_of};
use crate::view::minted::{FEW_MESSAGES, has_name};
use crate::view::{Result, View, ViewError};

/// Characters of a message that a suggestion shows.
const PREVIEW_CHARS: usize = 120;

/// A message that is quoted.
#[derive(Debug, Clone)]
pub struct Quotation {
    pub friendly_id: String,
    /// The root of its conversation.
    pub conversation: ExchangeNumber,
    /// On the active path, or on the way to it where it is on another.
    pub index: u64,
    pub short_hash: Option<String>,
    pub is_user: bool,
    pub text: String,
    /// The exchange that it came with.
    pub row: ExchangeRow,
    /// The reference as it was written, with its `@`.
    pub written: String,
}

impl Quotation {
    /// As the model gets to read it.
    pub fn injected(&self) -> String {
        injected(&Quoted {
            written: &self.written,
            friendly_id: &self.friendly_id,
            index: self.index,
            is_user: self.is_user,
            text: &self.text,
        })
    }

    pub fn role(&self) -> &'static str {
        if self.is_user { "user" } else { "assistant" }
    }
}

/// What a reference comes to.
#[derive(Debug, Clone)]
pub enum Resolution {
    Found(Box<Quotation>),
    /// Nobody's, or another's.
    Unknown,
    /// It names that many messages.
    Ambiguous(usize),
}

/// What may be meant by something half typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ReferenceSuggestion)]
pub struct Suggestion {
    /// `conversation` or `message`.
    pub kind: &'static str,
    pub friendly_id: String,
    /// Of a message: what to type.
    pub reference: Option<String>,
    pub index: Option<usize>,
    pub short_hash: Option<String>,
    pub role: Option<&'static str>,
    /// The title, or how the message begins.
    pub text: Option<String>,
}

impl<S: Store> View<'_, S> {
    /// The name with this friendly id, and the root of the conversation that it is of now.
    pub(super) async fn find_named(&self, friendly_id: &str) -> Result<Option<(NameRow, ExchangeNumber)>> {
        let which = Names::Ids(vec![friendly_id.to_owned()]);
        let Some(name) = self.store.names(self.owner, which).await?.pop() else {
            return Ok(None);
        };
        let link = self.find_link(name.exchange).await?;
        Ok(link.map(|link| (name, link.conversation)))
    }

    /// The message that a reference names. `written` is how it stands in the text.
    pub async fn find_message(&self, reference: &Reference, written: &str) -> Result<Resolution> {
        let Some((name, root)) = self.find_named(&reference.friendly_id).await? else {
            return Ok(Resolution::Unknown);
        };
        let written = match written.starts_with('@') {
            true => written.to_owned(),
            false => format!("@{written}"),
        };
        for reading in reference.readings() {
            let found = match reading {
                Reading::ShortHash(hash) => self.by_short_hash(&name, root, hash, &written).await?,
                Reading::Index(index) => self.by_index(&name, root, index, &written).await?,
            };
            if !matches!(found, Resolution::Unknown) {
                return Ok(found);
            }
        }
        Ok(Resolution::Unknown)
    }

    async fn by_short_hash(
        &self,
        name: &NameRow,
        root: ExchangeNumber,
        hash: &str,
        written: &str,
    ) -> Result<Resolution> {
        let own = vec![(name.exchange, hash.to_owned())];
        let mut found = self.store.message_names(self.owner, MessageNames::Named(own)).await?;
        if found.is_empty() {
            // A conversation that was merged into this one gave out names as well.
            let all = self.store.names(self.owner, Names::OfConversations(vec![root])).await?;
            let exchanges: HashSet<ExchangeNumber> = all.iter().map(|name| name.exchange).collect();
            let others = exchanges.into_iter().map(|exchange| (exchange, hash.to_owned()));
            let others = MessageNames::Named(others.collect());
            found = self.store.message_names(self.owner, others).await?;
        }
        let nodes: HashSet<[u8; 8]> = found.iter().map(|message| message.node).collect();
        match (nodes.len(), found.pop()) {
            (1, Some(message)) => self.quote(name, root, &message, written).await,
            (0, _) => {
                // What was recorded before there were names, and not reached yet.
                let messages = self.messages(root).await?;
                let is_it = |message: &&MessageView| message.short_hash.as_deref() == Some(hash);
                self.quote_view(name, root, messages.iter().find(is_it), written).await
            }
            (count, _) => Ok(Resolution::Ambiguous(count)),
        }
    }

    async fn by_index(&self, name: &NameRow, root: ExchangeNumber, index: u64, written: &str) -> Result<Resolution> {
        let messages = self.messages(root).await?;
        let is_it = |message: &&MessageView| message.index.is_some_and(|known| known as u64 == index);
        self.quote_view(name, root, messages.iter().find(is_it), written).await
    }

    async fn quote_view(
        &self,
        name: &NameRow,
        root: ExchangeNumber,
        message: Option<&MessageView>,
        written: &str,
    ) -> Result<Resolution> {
        let Some(message) = message else {
            return Ok(Resolution::Unknown);
        };
        let id = message.exchange_id.clone().unwrap_or_default();
        let row = match self.find_exchange(&id).await? {
            Some(row) => row,
            None => return Ok(Resolution::Unknown),
        };
        Ok(Resolution::Found(Box::new(Quotation {
            friendly_id: name.friendly_id.clone(),
            conversation: root,
            index: message.index.unwrap_or_default() as u64,
            short_hash: message.short_hash.clone(),
            is_user: message.role == "user",
            text: message.content.clone(),
            row,
            written: written.to_owned(),
        })))
    }

    /// A message by its stored name: from the exchange that brought it, wherever the conversation has gone since.
    async fn quote(
        &self,
        name: &NameRow,
        root: ExchangeNumber,
        message: &MessageName,
        written: &str,
    ) -> Result<Resolution> {
        let Some(row) = self.find_row(message.exchange).await? else {
            return Ok(Resolution::Unknown);
        };
        let is_it = |node: Option<_>| node.is_some_and(|node| beginning(&node) == message.node);
        let said = self.said_by(&row).await?;
        let Some((_, said)) = said.into_iter().find(|(node, _)| is_it(*node)) else {
            return Ok(Resolution::Unknown);
        };
        let active = self.messages(root).await?;
        let mut index = active
            .iter()
            .find(|shown| is_it(shown.node))
            .and_then(|shown| shown.index);
        if index.is_none()
            && let Some(link) = self.find_link(row.number).await?
        {
            let path = self.messages_to(link).await?;
            index = path
                .iter()
                .find(|shown| is_it(shown.node))
                .and_then(|shown| shown.index);
        }
        Ok(Resolution::Found(Box::new(Quotation {
            friendly_id: name.friendly_id.clone(),
            conversation: root,
            index: index.unwrap_or_default() as u64,
            short_hash: Some(message.short_hash.clone()),
            is_user: kind_of(&said) == "user",
            text: text_of(&said),
            row,
            written: written.to_owned(),
        })))
    }

    /// Gives messages the names that were minted for them; where none was yet, the one that will be.
    pub(super) async fn add_names(&self, root: ExchangeNumber, messages: &mut [MessageView]) -> Result<()> {
        let names = self.store.names(self.owner, Names::OfConversations(vec![root])).await?;
        let Some(main) = primary(root, &names) else {
            return Ok(());
        };
        let few = match &names[..] {
            [only] if messages.len() <= FEW_MESSAGES => self.minted_for(only, messages).await?,
            _ => None,
        };
        let minted = match few {
            Some(minted) => minted,
            None => self.all_minted(main, &names).await?,
        };
        let mut taken = minted.taken;
        for message in messages {
            message.friendly_id = Some(main.friendly_id.clone());
            if !has_name(message) {
                continue;
            }
            let known = message
                .node
                .and_then(|node| minted.by_node.get(&beginning(&node)).cloned());
            let named = known.or_else(|| {
                let is_taken = |hash: &str| taken.contains(hash);
                let hash = friendly::mint_short_hash(&main.friendly_id, &message.content, is_taken)?;
                taken.insert(hash.clone());
                Some((main.friendly_id.clone(), hash))
            });
            if let Some((friendly_id, hash)) = named {
                message.reference = Some(format!("@conversation_{friendly_id}_message_{hash}"));
                message.short_hash = Some(hash);
            }
        }
        Ok(())
    }

    /// Gives a conversation another title, which people chose; says its friendly id, which stays.
    pub async fn set_title(&self, reference: &str, title: &str) -> Result<String> {
        let root = self.resolve_root(reference).await?;
        let name = self.name_of(root).await?.ok_or_else(|| ViewError::NotFound {
            reference: reference.to_owned(),
        })?;
        let title = title.chars().take(TITLE_CHARS_MAX).collect();
        let changes = NameChanges {
            titles: vec![(name.exchange, title)],
            ..NameChanges::default()
        };
        self.store.save_names(self.owner, changes).await?;
        Ok(name.friendly_id)
    }

    /// What may be meant: conversations whose friendly id begins so; of one that is whole, its messages, newest first. Behind `after`:
    /// the friendly id of a conversation, or the reference of a message.
    pub async fn references(&self, typed: &str, after: Option<&str>, limit: usize) -> Result<Vec<Suggestion>> {
        let limit = limit.min(PAGE_MAX);
        let typed = typed.strip_prefix('@').unwrap_or(typed);
        let prefixes = ["conversation_", "conv_"];
        let typed = prefixes
            .iter()
            .find_map(|prefix| typed.strip_prefix(prefix))
            .unwrap_or(typed);
        let separators = ["_message_", "_msg_"];
        if let Some((id, begun)) = separators.iter().find_map(|separator| typed.rsplit_once(separator)) {
            return self.messages_beginning(id, begun, after, limit).await;
        }
        let (message, conversation) = match after {
            Some(after) if after.starts_with('@') => (Some(after), None),
            conversation => (None, conversation),
        };
        let beginning = |after: Option<&str>| Names::Beginning {
            prefix: typed.to_owned(),
            after: after.map(str::to_owned),
            limit,
        };
        let mut suggestions = Vec::new();
        let names = self.store.names(self.owner, beginning(conversation)).await?;
        if after.is_some() && (message.is_some() || names.is_empty()) {
            // Behind the only one that begins so come its messages.
            let all = self.store.names(self.owner, beginning(None)).await?;
            return match all.as_slice() {
                [only] => self.messages_beginning(&only.friendly_id, "", message, limit).await,
                _ => Ok(Vec::new()),
            };
        }
        for name in &names {
            suggestions.push(Suggestion {
                kind: "conversation",
                friendly_id: name.friendly_id.clone(),
                reference: None,
                index: None,
                short_hash: None,
                role: None,
                text: self.title_of(name).await?,
            });
        }
        if let ([only], None) = (names.as_slice(), after) {
            let room = limit.saturating_sub(suggestions.len());
            suggestions.extend(self.messages_beginning(&only.friendly_id, "", None, room).await?);
        }
        Ok(suggestions)
    }

    async fn title_of(&self, name: &NameRow) -> Result<Option<String>> {
        let Some(link) = self.find_link(name.exchange).await? else {
            return Ok(name.title.clone());
        };
        let conversation = self.find_conversation(link.conversation).await?;
        Ok(conversation.and_then(|conversation| conversation.title))
    }

    async fn messages_beginning(
        &self,
        id: &str,
        begun: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Suggestion>> {
        let Some((name, root)) = self.find_named(id).await? else {
            return Ok(Vec::new());
        };
        let mut messages = self.messages(root).await?;
        if let Some(after) = after {
            let last = messages
                .iter()
                .position(|message| message.reference.as_deref() == Some(after));
            messages.truncate(last.unwrap_or_default());
        }
        let meant = messages.into_iter().rev().filter(|message| {
            let hash = message.short_hash.as_deref().unwrap_or_default();
            let index = message.index.map(|index| index.to_string()).unwrap_or_default();
            message.reference.is_some() && (hash.starts_with(begun) || index.starts_with(begun))
        });
        let suggestion = |message: MessageView| Suggestion {
            kind: "message",
            friendly_id: name.friendly_id.clone(),
            reference: message.reference,
            index: message.index,
            short_hash: message.short_hash,
            role: Some(message.role),
            text: Some(message.content.chars().take(PREVIEW_CHARS).collect()),
        };
        Ok(meant.take(limit).map(suggestion).collect())
    }
}
