//! An exchange as linking sees it, and the order of exchanges.

use std::collections::BTreeMap;
use std::sync::Arc;

use ropewalk_store::Micros;
use ropewalk_store::facts::{ExchangeNumber, HashKind, Key, KeyKind, Status};
use ropewalk_store::store::ExchangeRow;

use crate::detail::Kept;
use crate::link::decision::Decision;
use crate::link::outline::Outline;
use crate::prepare::KIND_OPAQUE;

/// How much later than a follow-up an answer's clock may say it came, in microseconds.
pub const SKEW: i64 = 5_000_000;

/// What an exchange is, as far as linking cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Turn,
    Compaction,
    Auxiliary,
}

/// A recorded exchange.
#[derive(Debug, Clone)]
pub struct Fact {
    pub row: ExchangeRow,
    hints: BTreeMap<String, String>,
    /// Of one that lost something: what was decided while all of it was there.
    kept: Option<Decision>,
}

impl Fact {
    pub fn new(row: ExchangeRow) -> Self {
        let hints = Kept::of(&row).hints;
        let kept = row.hole.as_ref().and_then(|hole| Decision::kept(hole.link.as_ref()?));
        Fact { row, hints, kept }
    }

    pub(super) fn kept_decision(&self) -> Option<&Decision> {
        self.kept.as_ref()
    }

    pub fn number(&self) -> ExchangeNumber {
        self.row.number
    }

    /// Its place in the order of exchanges: time, then depth, then id.
    pub fn order(&self) -> (Micros, u32, &str) {
        (self.row.at, self.row.depth, &self.row.id)
    }

    pub fn is_before(&self, other: &Fact) -> bool {
        self.order() < other.order()
    }

    /// When its answer ended; `None` while it has none.
    pub fn ended(&self) -> Option<Micros> {
        self.row.response_sha256?;
        Some(self.row.ended_at.unwrap_or(self.row.at))
    }

    pub fn sort(&self) -> Sort {
        match &*self.row.kind {
            "turn" | KIND_OPAQUE => Sort::Turn,
            "compaction" => Sort::Compaction,
            _ => Sort::Auxiliary,
        }
    }

    pub fn is_turn(&self) -> bool {
        self.sort() == Sort::Turn
    }

    /// An attempt that did not lead to an answer.
    pub fn has_failed(&self) -> bool {
        match self.row.status {
            Status::Error | Status::Truncated | Status::ClientCancelled => true,
            Status::Pending | Status::Complete => false,
        }
    }

    pub fn hint(&self, name: &str) -> Option<&str> {
        self.hints.get(name).map(|value| &**value)
    }

    /// The client's session, unless its name may stand for more than one.
    pub fn session(&self) -> Option<&str> {
        let is_weak = self.hint("session_is_weak").is_some();
        self.row.session.as_deref().filter(|_| !is_weak)
    }

    pub fn keys(&self, kind: KeyKind) -> impl Iterator<Item = Key> + '_ {
        self.row.keys.iter().copied().filter(move |key| key.kind == kind)
    }

    pub fn hash(&self, kind: HashKind) -> Option<&[u8]> {
        let found = self.row.hashes.iter().find(|(known, _)| *known == kind);
        found.map(|(_, hash)| &**hash)
    }

    /// The id of its agent or thread: whoever has one is linked within it.
    pub fn own_id(&self) -> Option<&str> {
        self.hint("agent").or_else(|| self.hint("thread"))
    }

    /// The agent's name or kind, as far as the client says.
    pub fn said_name(&self) -> Option<&str> {
        self.hint("agent_name").or_else(|| self.hint("agent_type"))
    }

    /// The agent's name, as the client says or else its system prompt.
    pub fn agent_name(&self) -> Option<&str> {
        self.said_name().or_else(|| self.hint("name_in_system"))
    }

    /// Who started it, as far as the client says.
    pub fn named_parent(&self) -> Option<&str> {
        ["parent_agent", "parent_thread", "parent_session"]
            .iter()
            .find_map(|name| self.hint(name))
    }

    /// The latest moment that an answer on its chain may be of.
    pub fn horizon(&self) -> Micros {
        Micros(self.row.at.0.saturating_add(SKEW))
    }

    /// Both are known, and they are not the same.
    pub fn is_of_other_session(&self, other: &Fact) -> bool {
        let sessions = self.session().zip(other.session());
        sessions.is_some_and(|(mine, theirs)| mine != theirs)
    }

    pub fn is_of_same_session(&self, other: &Fact) -> bool {
        let sessions = self.session().zip(other.session());
        sessions.is_some_and(|(mine, theirs)| mine == theirs)
    }

    /// Whether `other` belongs to the same agent, where the clients say so.
    pub fn is_of_same_agent(&self, other: &Fact) -> bool {
        self.row.agent == other.row.agent && !self.is_of_other_session(other)
    }
}

/// The exchange that is being linked.
#[derive(Debug, Clone)]
pub struct Subject {
    pub fact: Arc<Fact>,
    pub outline: Arc<Outline>,
}

impl Subject {
    pub fn number(&self) -> ExchangeNumber {
        self.fact.number()
    }

    /// Nothing that a model said stands in it.
    pub fn is_opening(&self) -> bool {
        !self.outline.has_answer()
    }
}
