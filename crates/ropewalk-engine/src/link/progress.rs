//! What a run of linking did: all that an event stream publishes and metrics count.
//!
//! Conversations, branches and agents are named by their first exchanges, as in the store.

use std::collections::BTreeMap;

use ropewalk_store::Micros;
use ropewalk_store::derived::LinkRow;
use ropewalk_store::facts::ExchangeNumber;

use crate::link::decision::Linked;
use crate::link::settle::AgentRecord;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    pub linked: usize,
    /// Exchanges that were linked before and now stand elsewhere.
    pub moved: Vec<Moved>,
    /// Conversations that there were not before.
    pub created: Vec<ExchangeNumber>,
    /// Agents that are new or say something else about themselves than before.
    pub agents: Vec<AgentChange>,
    /// How many exchanges each rule linked that had no link before, by [`Method::name`](crate::link::decision::Method::name).
    pub methods: BTreeMap<&'static str, usize>,
    /// How many more agents than before have nobody who started them; fewer, where somebody was found.
    pub orphans: i64,
    pub claims: Claims,
}

/// Where an exchange stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub conversation: ExchangeNumber,
    pub branch: ExchangeNumber,
    pub agent: ExchangeNumber,
    pub parent: Option<ExchangeNumber>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub exchange: ExchangeNumber,
    pub from: Standing,
    pub to: Standing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentChange {
    /// Its first exchange.
    pub agent: ExchangeNumber,
    pub conversation: ExchangeNumber,
    /// `None` where it turned out to be no agent of its own.
    pub record: Option<AgentRecord>,
}

/// What became of calls that start agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub created: usize,
    pub matched: usize,
    /// Nobody came within the claim's window, and no result either.
    pub expired: Vec<Claim>,
}

/// An expected child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whose answer asks for it, and as which of its spawning calls.
    pub parent: ExchangeNumber,
    pub index: u32,
    pub name: Option<String>,
    pub at: Micros,
}

impl Progress {
    pub(super) fn add(&mut self, other: Progress) {
        self.linked += other.linked;
        self.moved.extend(other.moved);
        self.created.extend(other.created);
        self.agents.extend(other.agents);
        for (method, count) in other.methods {
            *self.methods.entry(method).or_default() += count;
        }
        self.orphans += other.orphans;
        self.claims.created += other.claims.created;
        self.claims.matched += other.claims.matched;
        self.claims.expired.extend(other.claims.expired);
    }
}

impl From<&Linked> for Standing {
    fn from(linked: &Linked) -> Self {
        Standing {
            conversation: linked.conversation,
            branch: linked.branch,
            agent: linked.agent,
            parent: linked.decision.parent,
        }
    }
}

impl From<&LinkRow> for Standing {
    fn from(row: &LinkRow) -> Self {
        Standing {
            conversation: row.conversation,
            branch: row.branch,
            agent: row.agent,
            parent: row.parent,
        }
    }
}
