//! What was recorded and concluded, as people and programs read it.
//!
//! Read models over any store: no printing, no clock, and never the whole store in memory. [`View`] is one owner's data.
//! [`exchange`] has the row of `log --exchanges`, [`conversation`] that of `log`, [`agent`] the tree, [`message`] the active
//! path, [`context`] what changed around them, [`session`] all messages as a tree (seed 004), [`transcript`] a path to be read
//! elsewhere, [`explain`] the decision behind a link with `reason` as its words, [`mod@reference`] what people type for any of
//! them, [`named`] which message a reference names, `minted` what messages are called and `resolved` how programs are told, [`mod@line`] the exchange format.
//! `thread` is the course of a long conversation, of which pages are read without the rest. [`sums`] has what exchanges add up to and [`roll_up`] by what, [`chosen`] which of them somebody wants, `title` what logs call sessions, `directory` what many rows of one page share.
//!
//! Invariants: members are named as in the contract; times are UTC in RFC 3339 with microseconds; a list is given page by
//! page behind a cursor of immutable (at, number).

pub mod agent;
pub mod chosen;
pub mod context;
pub mod conversation;
mod directory;
pub mod exchange;
pub mod explain;
pub mod line;
pub mod message;
mod minted;
pub mod named;
mod news;
mod path;
mod reason;
pub mod reference;
mod resolved;
pub mod roll_up;
pub mod session;
pub mod sums;
pub(crate) mod thread;
mod title;
pub mod transcript;

use jiff::Timestamp;
use ropewalk_store::derived::{ConversationRow, Conversations, Links};
use ropewalk_store::facts::{ExchangeNumber, HashKind, OwnerId};
use ropewalk_store::names::{NameRow, Names};
use ropewalk_store::store::{ExchangeRow, PAGE_MAX, Selection, Spent};
use ropewalk_store::{Micros, Store, StoreError};

use crate::link::decision::{Linked, UnreadableLink};
use crate::link::settle::UnreadableRecord;
use crate::names::primary;

pub use agent::AgentView;
pub use context::{Context, ContextChange};
pub use conversation::ConversationView;
pub use directory::Directory;
pub use exchange::ExchangeView;
pub use explain::Explanation;
pub(crate) use line::recorded;
pub use message::{MessageIds, MessageView, Slice};
pub use named::{Quotation, Resolution, Suggestion};
pub use reference::Target;
pub use resolved::{QuotedMessage, ResolvedView};
pub use session::{SessionMessage, SessionMessages, SessionTree};
pub use sums::{Reused, Sums};
pub use thread::{Course, Thread};

#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Link(#[from] UnreadableLink),
    #[error(transparent)]
    Record(#[from] UnreadableRecord),
    #[error("nothing is named `{reference}`")]
    NotFound { reference: String },
    #[error("`{reference}` was forgotten on {at}")]
    Forgotten { reference: String, at: String },
    #[error("`{reference}` names {count} things{more}", more = if *.is_more { " or more" } else { "" })]
    Ambiguous {
        reference: String,
        count: usize,
        is_more: bool,
    },
    #[error("`{reference}` goes back {asked} turns, but only {there} are there")]
    TooFarBack {
        reference: String,
        asked: usize,
        there: usize,
    },
    #[error("exchange `{id}` is not linked yet")]
    NotLinked { id: String },
}

pub type Result<T> = std::result::Result<T, ViewError>;

/// Where a page ends.
pub type Cursor = (Micros, ExchangeNumber);

/// One owner's data.
#[derive(Debug)]
pub struct View<'s, S> {
    pub store: &'s S,
    pub owner: OwnerId,
    pub owner_name: String,
}

impl<'s, S: Store> View<'s, S> {
    pub fn new(store: &'s S, owner: OwnerId, owner_name: impl Into<String>) -> Self {
        View {
            store,
            owner,
            owner_name: owner_name.into(),
        }
    }

    /// Recorded exchanges in the order of their requests, behind a cursor.
    pub async fn rows_after(&self, after: Option<Cursor>, limit: usize) -> Result<Vec<ExchangeRow>> {
        let page = Selection::Since { after, limit };
        Ok(self.store.exchanges(self.owner, page, Micros::MAX).await?)
    }

    /// Recorded exchanges, those first that were asked last, before a cursor.
    pub async fn rows_before(&self, before: Option<Cursor>, limit: usize) -> Result<Vec<ExchangeRow>> {
        let page = Selection::Newest { before, limit };
        Ok(self.store.exchanges(self.owner, page, Micros::MAX).await?)
    }

    /// What exchanges took, in the order of their requests, behind a cursor; as many as a page holds.
    pub async fn spent_after(&self, after: Option<Cursor>) -> Result<Vec<Spent>> {
        Ok(self.store.spent(self.owner, after, PAGE_MAX, Micros::MAX).await?)
    }

    /// Those that exist, in no order.
    pub async fn rows(&self, mut numbers: Vec<ExchangeNumber>) -> Result<Vec<ExchangeRow>> {
        numbers.sort_unstable();
        numbers.dedup();
        let mut rows = Vec::with_capacity(numbers.len());
        for page in numbers.chunks(PAGE_MAX) {
            let page = Selection::Numbers(page.to_vec());
            rows.extend(self.store.exchanges(self.owner, page, Micros::MAX).await?);
        }
        Ok(rows)
    }

    pub async fn find_row(&self, number: ExchangeNumber) -> Result<Option<ExchangeRow>> {
        Ok(self.rows(vec![number]).await?.pop())
    }

    pub async fn links(&self, mut numbers: Vec<ExchangeNumber>) -> Result<Vec<Linked>> {
        numbers.sort_unstable();
        numbers.dedup();
        let mut links = Vec::with_capacity(numbers.len());
        for page in numbers.chunks(PAGE_MAX) {
            links.extend(self.store.links(self.owner, Links::Of(page.to_vec())).await?);
        }
        Ok(links.iter().map(Linked::read).collect::<std::result::Result<_, _>>()?)
    }

    pub async fn find_link(&self, number: ExchangeNumber) -> Result<Option<Linked>> {
        Ok(self.links(vec![number]).await?.pop())
    }

    /// The links of a conversation in the order of their requests, behind a cursor.
    pub async fn links_in(&self, conversation: ExchangeNumber, after: Option<Cursor>) -> Result<Vec<Linked>> {
        let page = Links::InConversation {
            conversation,
            after,
            limit: LINKS_PAGE,
        };
        let rows = self.store.links(self.owner, page).await?;
        Ok(rows.iter().map(Linked::read).collect::<std::result::Result<_, _>>()?)
    }

    /// All of them behind a cursor.
    pub(crate) async fn all_links_in(
        &self,
        conversation: ExchangeNumber,
        mut after: Option<Cursor>,
    ) -> Result<Vec<Linked>> {
        let mut links = Vec::new();
        loop {
            let page = self.links_in(conversation, after).await?;
            let Some(last) = page.last() else { return Ok(links) };
            after = Some((last.at, last.exchange));
            links.extend(page);
        }
    }

    /// What a conversation is called in references.
    pub(crate) async fn name_of(&self, root: ExchangeNumber) -> Result<Option<NameRow>> {
        let names = self.store.names(self.owner, Names::OfConversations(vec![root])).await?;
        Ok(primary(root, &names).cloned())
    }

    pub(crate) async fn find_conversation_row(&self, root: ExchangeNumber) -> Result<Option<ConversationRow>> {
        let one = Conversations::Of(vec![root]);
        Ok(self.store.conversations(self.owner, one).await?.into_iter().next())
    }

    /// The conversation of that root.
    pub async fn find_conversation(&self, root: ExchangeNumber) -> Result<Option<ConversationView>> {
        match self.find_conversation_row(root).await? {
            Some(row) => self.conversation(&row).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Links of a conversation that are read at once.
pub const LINKS_PAGE: usize = 256;

/// A time as data has it.
pub fn utc(at: Micros) -> String {
    let time = Timestamp::from_microsecond(at.0).unwrap_or_default();
    format!("{time:.6}")
}

pub fn usd(nano: u64) -> f64 {
    nano as f64 / 1e9
}

pub(crate) fn hash_of(row: &ExchangeRow, kind: HashKind) -> Option<String> {
    let found = row.hashes.iter().find(|(known, _)| *known == kind);
    found.map(|(_, hash)| hex::encode(hash))
}

/// Sixteen bytes as a UUID is written.
pub fn uuid_text(id: &[u8; 16]) -> String {
    let digits = hex::encode(id);
    let groups = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    groups.join("-")
}

/// A UUID (version 8) made of other names, the same wherever it is made.
pub fn derived_uuid(fields: &[&str]) -> String {
    let hash = digest(fields);
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    uuid_text(&id)
}

/// A name made of others, the same wherever it is made.
fn digest(fields: &[&str]) -> [u8; 32] {
    let mut bytes = Vec::new();
    for field in fields {
        bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field.as_bytes());
    }
    ropewalk_core::hash::sha256(&bytes)
}
