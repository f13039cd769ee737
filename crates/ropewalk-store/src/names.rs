//! Names that people type for conversations and messages (seed 003), and what references were resolved to.
//!
//! All of it is minted once and kept: links may be dropped and made again, names may not. A name belongs to an exchange, the root of
//! its conversation when it was minted; wherever that exchange is linked later, the name leads there. So a merge makes
//! no name wrong, and what becomes surplus is an alias.

use crate::facts::{ExchangeNumber, Position};

/// A conversation's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameRow {
    /// The exchange that it was minted for.
    pub exchange: ExchangeNumber,
    /// Unique per owner.
    pub friendly_id: String,
    /// What its user calls the conversation, if anything.
    pub title: Option<String>,
}

/// A message's name within its conversation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageName {
    /// [`NameRow::exchange`] of its conversation's name.
    pub name: ExchangeNumber,
    /// Unique in its conversation.
    pub short_hash: String,
    /// The exchange that the message came with.
    pub exchange: ExchangeNumber,
    /// The first bytes of the node that it ends at.
    pub node: [u8; 8],
}

/// A name to be saved, and the conversation that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewName {
    pub name: NameRow,
    pub conversation: ExchangeNumber,
}

/// What to save, all or nothing. What is there stays; the same again changes nothing.
#[derive(Debug, Clone, Default)]
pub struct NameChanges {
    pub names: Vec<NewName>,
    pub messages: Vec<MessageName>,
    /// Titles of names, by their exchanges. These replace what is there.
    pub titles: Vec<(ExchangeNumber, String)>,
    /// Every exchange up to here has its names.
    pub named_to: Option<Position>,
}

/// What was not saved because another has the name: places among the changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    pub names: Vec<usize>,
    pub messages: Vec<usize>,
}

/// Which names, at most a page of each question's.
#[derive(Debug, Clone)]
pub enum Names {
    /// In the order of the ids, those that exist.
    Ids(Vec<String>),
    /// Minted for one of these exchanges, in order.
    MintedFor(Vec<ExchangeNumber>),
    /// Of the conversations with these roots, in order; wherever their exchanges are linked now.
    OfConversations(Vec<ExchangeNumber>),
    /// Those that begin so, in the order of the ids, behind `after`.
    Beginning {
        prefix: String,
        after: Option<String>,
        limit: usize,
    },
}

/// Behind everything that begins with a prefix: ids are of lower-case letters, digits and `_`.
pub(crate) fn end_of(prefix: &str) -> String {
    format!("{prefix}~")
}

/// Which messages' names.
#[derive(Debug, Clone)]
pub enum MessageNames {
    /// By [`MessageName::name`] and short hash, those that exist.
    Named(Vec<(ExchangeNumber, String)>),
    /// Of one name, in the order of the hashes, behind `after`.
    Of {
        name: ExchangeNumber,
        after: Option<String>,
        limit: usize,
    },
}

/// What the references in a text were resolved to, for ever: the provider's cache has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Made from the text.
    pub key: [u8; 32],
    /// The resolver's own record.
    pub outcome: String,
}
