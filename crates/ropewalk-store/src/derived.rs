//! What linking concluded: links, branches, conversations. All of it can be dropped and computed again.
//!
//! A conversation is named by its root exchange, a branch and an agent by their first exchange. What the linker needs beside
//! the names is packed by it and opaque here.
//!
//! Invariants: what is saved in one call becomes visible at once or not at all; no answer has more than [`PAGE_MAX`] rows, and
//! of a list that is longer only so many are looked at.
//!
//! [`PAGE_MAX`]: crate::store::PAGE_MAX

use crate::facts::{ExchangeNumber, Micros, Position};
use crate::store::Selection;

/// What an exchange is in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    Turn,
    /// Another attempt at a turn.
    Retry,
    /// A call beside the conversation: a title, a token count.
    Auxiliary,
    /// Asks for the summary that the conversation goes on from.
    Compaction,
}

impl LinkKind {
    pub const ALL: [LinkKind; 4] = [
        LinkKind::Turn,
        LinkKind::Retry,
        LinkKind::Auxiliary,
        LinkKind::Compaction,
    ];

    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Turn => "turn",
            LinkKind::Retry => "retry",
            LinkKind::Auxiliary => "auxiliary",
            LinkKind::Compaction => "compaction",
        }
    }
}

/// The conclusion about one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkRow {
    pub exchange: ExchangeNumber,
    /// When its request was made: a conversation is read in this order.
    pub at: Micros,
    pub kind: LinkKind,
    pub conversation: ExchangeNumber,
    pub branch: ExchangeNumber,
    pub agent: ExchangeNumber,
    /// The exchange that it goes on from, was spawned by or is another attempt of.
    pub parent: Option<ExchangeNumber>,
    /// The linker's own record: the decision with its reason.
    pub decision: Vec<u8>,
}

/// A branch of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchRow {
    pub first: ExchangeNumber,
    pub conversation: ExchangeNumber,
    /// The id that people see, unique in its conversation: `main`, `branch_…`, `compact_…`, `subtask_…`.
    pub shown: String,
    /// The linker's own record: its kind, and the agent that begins with it.
    pub record: Vec<u8>,
}

/// A conversation with its sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRow {
    pub root: ExchangeNumber,
    /// Derived from the owner and the root exchange. It stays an alias when a late fact moves the root.
    pub id: [u8; 16],
    pub started_at: Micros,
    pub last_at: Micros,
    /// The linker's own record: counts, tokens, cost, title.
    pub record: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkState {
    /// Grows with every save, and with every change of a title or a log. With the positions below it tells whether anything changed.
    pub version: u64,
    /// Every fact up to here is linked.
    pub linked_to: Position,
    /// Every exchange up to here has its names.
    pub named_to: Position,
    /// The newest fact. While it is behind `linked_to` (or equal) nothing is left to settle.
    pub newest: Position,
}

impl LinkState {
    /// The first exchanges of the log that have no links.
    pub(crate) fn unlinked(&self, limit: usize) -> Selection {
        Selection::Log {
            after: self.linked_to,
            limit,
        }
    }
}

/// How a conversation goes on, as its reader packed it: no text, and nothing that cannot be counted again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseRow {
    pub root: ExchangeNumber,
    pub packed: Vec<u8>,
}

/// What to save. Rows replace those of the same name.
#[derive(Debug, Clone, Default)]
pub struct LinkChanges {
    /// [`LinkState::version`] of the state that these changes were made from.
    pub version: u64,
    pub linked_to: Position,
    /// First drop everything that linking ever concluded for this owner, but for the aliases.
    pub from_scratch: bool,
    pub links: Vec<LinkRow>,
    pub branches: Vec<BranchRow>,
    pub gone_branches: Vec<ExchangeNumber>,
    pub conversations: Vec<ConversationRow>,
    /// They are no conversations of their own any more; their ids stay as aliases.
    pub gone_conversations: Vec<ExchangeNumber>,
    /// Conversations in which somebody stands otherwise than before: their courses go.
    pub turned: Vec<ExchangeNumber>,
    /// What an exchange would be linked by if it were recorded later: first eight bytes of a hash. They add to those that are
    /// there and stay until linking starts from scratch; who is found by one decides anew whether it still waits.
    pub wanted: Vec<([u8; 8], ExchangeNumber)>,
}

/// Which links.
#[derive(Debug, Clone)]
pub enum Links {
    /// In the order of the numbers, those that exist.
    Of(Vec<ExchangeNumber>),
    /// Those whose parent is one of these, in the order of (at, exchange), as many as a page holds.
    Children(Vec<ExchangeNumber>),
    /// In the order of (at, exchange), behind `after`.
    InConversation {
        conversation: ExchangeNumber,
        after: Option<(Micros, ExchangeNumber)>,
        limit: usize,
    },
}

/// Which conversations.
#[derive(Debug, Clone)]
pub enum Conversations {
    /// In the order of the roots, those that exist.
    Of(Vec<ExchangeNumber>),
    /// By id or by an id that one of them had before. In the order of the ids, those that exist.
    Ids(Vec<[u8; 16]>),
    /// Newest first by (last_at, root), behind `before`.
    Newest {
        before: Option<(Micros, ExchangeNumber)>,
        limit: usize,
    },
}
