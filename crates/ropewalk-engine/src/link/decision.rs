//! A decision: where an exchange belongs, why, and what else it might have been.

use ropewalk_store::Micros;
use ropewalk_store::derived::{LinkKind, LinkRow};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::forget::KeptLink;
use serde::{Deserialize, Serialize};

/// By which rule an exchange is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Nothing before it belongs to it.
    New,
    /// The client named the agent, thread or session that started it.
    Header,
    /// It names the answer that it goes on from.
    Reference,
    /// It repeats an attempt that failed.
    Retry,
    /// It contains a recorded answer, with everything before it.
    Prefix,
    /// It contains the beginning of an answer that was interrupted.
    Partial,
    /// It begins like another request of its session.
    Opening,
    /// It contains a history that was seen before, though not as an answer.
    History,
    /// It contains a recorded answer, although what stands before it changed.
    Anchor,
    /// Its first words are the prompt of a spawning call.
    SpawnPrompt,
    ClaimNameAndType,
    ClaimName,
    ClaimType,
    /// An expected child of unknown name.
    ClaimAny,
    /// It begins with a recorded summary.
    Summary,
    /// It begins like a continued conversation, in the same session.
    CompactedSession,
    /// Same session, nothing else.
    Session,
    /// A helper call that quotes the conversation.
    Quote,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::New => "new",
            Method::Header => "header",
            Method::Reference => "reference",
            Method::Retry => "retry",
            Method::Prefix => "prefix",
            Method::Partial => "partial",
            Method::Opening => "opening",
            Method::History => "history",
            Method::Anchor => "anchor",
            Method::SpawnPrompt => "spawn_prompt",
            Method::ClaimNameAndType => "claim_name_and_type",
            Method::ClaimName => "claim_name",
            Method::ClaimType => "claim_type",
            Method::ClaimAny => "claim_any",
            Method::Summary => "summary",
            Method::CompactedSession => "compacted_session",
            Method::Session => "session",
            Method::Quote => "quote",
        }
    }

    /// How sure it is, from 0 to 1.
    pub fn confidence(self) -> f64 {
        match self {
            Method::New | Method::Header | Method::Reference | Method::Prefix => 1.0,
            Method::Retry | Method::Partial | Method::SpawnPrompt | Method::Summary => 0.95,
            Method::Anchor | Method::ClaimNameAndType => 0.9,
            Method::Opening | Method::ClaimName | Method::CompactedSession => 0.8,
            Method::History | Method::Session | Method::ClaimType | Method::Quote => 0.7,
            Method::ClaimAny => 0.5,
        }
    }
}

/// What a branch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchKind {
    Main,
    Edit,
    Regeneration,
    Compact,
    Subtask,
}

impl BranchKind {
    pub fn name(self) -> &'static str {
        match self {
            BranchKind::Main => "main",
            BranchKind::Edit => "edit",
            BranchKind::Regeneration => "regeneration",
            BranchKind::Compact => "compact",
            BranchKind::Subtask => "subtask",
        }
    }
}

/// Where an exchange stands in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A conversation begins.
    Root,
    /// Behind its parent: on the parent's branch if it is the first there, else on a new one of this kind.
    After(BranchKind),
    /// On a new branch of this kind, behind its parent or at the root.
    Beside(BranchKind),
    /// An agent begins, started by its parent.
    Child,
    /// On the branch of its parent or of what it is attached to, as no turn of its own.
    Same,
}

/// The spawning call that an agent was started by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// Which of the parent's calls it is; `None` where only the parent is known.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// When the call was complete, in microseconds.
    #[serde(rename = "t")]
    pub at: i64,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A candidate that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    #[serde(rename = "e")]
    pub exchange: i64,
    #[serde(rename = "w")]
    pub why: Why,
}

/// Why a candidate was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Another one fits as well and is of the same session, agent type or system prompt, or is more recent.
    LessAlike,
    OtherSession,
    OtherAgent,
    /// It ended with success, so this one repeats nothing.
    NotAFailure,
    /// The bytes differ, or it was too long ago.
    NotRepeated,
    /// An equal opening alone does not link strangers.
    OnlyAnOpening,
    /// Its place is taken by an earlier child.
    Taken,
    /// Its result had come before.
    Closed,
    Expired,
    /// More than one lineage has this answer.
    Ambiguous,
}

impl Why {
    pub fn explained(self) -> &'static str {
        match self {
            Why::LessAlike => "fits as well, but another one is closer (session, agent type, system prompt, time)",
            Why::OtherSession => "is of another session",
            Why::OtherAgent => "is of another agent",
            Why::NotAFailure => "has the same request, but succeeded: this is an alternative, not a retry",
            Why::NotRepeated => "has the same request, but other bytes or another time",
            Why::OnlyAnOpening => "begins alike, and an equal opening alone does not link strangers",
            Why::Taken => "expected a child that came before",
            Why::Closed => "expected a child, but its result had already come",
            Why::Expired => "expected a child, but too long ago",
            Why::Ambiguous => "is one of several lineages with this answer",
        }
    }
}

/// Most candidates that are remembered with a decision.
pub const REJECTED_MAX: usize = 8;

/// A decision. Short member names, and nothing for what is usual: there is one with every exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Stored beside the decision, as is the parent.
    #[serde(skip, default = "turn")]
    pub kind: LinkKind,
    #[serde(rename = "m", default = "usual_method", skip_serializing_if = "is_usual_method")]
    pub method: Method,
    #[serde(rename = "p", default = "usual_place", skip_serializing_if = "is_usual_place")]
    pub place: Place,
    #[serde(skip)]
    pub parent: Option<ExchangeNumber>,
    /// Whose conversation it is in, where it has no parent, or whose branch, where it is no turn.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub attached_to: Option<i64>,
    /// How many blocks of its request it shares with what it is linked to.
    #[serde(rename = "d", default, skip_serializing_if = "is_zero")]
    pub shared: u32,
    /// First and last block that changed before the anchor.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<(u32, u32)>,
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub discontinuous: bool,
    /// An agent whose parent is not known.
    #[serde(rename = "o", default, skip_serializing_if = "std::ops::Not::not")]
    pub orphan: bool,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub spawned: Option<Spawned>,
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
    /// Its answer is counted in the sums of its conversation.
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_counted: bool,
}

fn turn() -> LinkKind {
    LinkKind::Turn
}

/// Most exchanges contain the last answer and go on from it.
fn usual_method() -> Method {
    Method::Prefix
}

fn is_usual_method(method: &Method) -> bool {
    *method == usual_method()
}

fn usual_place() -> Place {
    Place::After(BranchKind::Edit)
}

fn is_usual_place(place: &Place) -> bool {
    *place == usual_place()
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Decision {
    pub fn new(kind: LinkKind, method: Method, place: Place) -> Self {
        Decision {
            kind,
            method,
            place,
            parent: None,
            attached_to: None,
            shared: 0,
            rewritten: None,
            discontinuous: false,
            orphan: false,
            spawned: None,
            rejected: Vec::new(),
            is_counted: false,
        }
    }

    /// As it was kept with an exchange that lost something; `None` where it cannot be read.
    pub(super) fn kept(link: &KeptLink) -> Option<Self> {
        let decision: Decision = serde_json::from_slice(&link.decision).ok()?;
        Some(Decision {
            kind: link.kind,
            parent: link.parent,
            is_counted: false,
            ..decision
        })
    }

    /// A conversation that begins.
    pub fn root() -> Self {
        Decision::new(LinkKind::Turn, Method::New, Place::Root)
    }

    pub fn behind(mut self, parent: ExchangeNumber) -> Self {
        self.parent = Some(parent);
        self
    }

    pub fn attached(mut self, to: ExchangeNumber) -> Self {
        self.attached_to = Some(to.0);
        self
    }

    pub fn rejecting(mut self, rejected: impl IntoIterator<Item = (ExchangeNumber, Why)>) -> Self {
        let left = REJECTED_MAX.saturating_sub(self.rejected.len());
        let more = rejected.into_iter().take(left);
        self.rejected.extend(more.map(|(exchange, why)| Rejected {
            exchange: exchange.0,
            why,
        }));
        self
    }

    /// The exchange whose conversation it is in, if it does not begin one.
    pub fn anchor(&self) -> Option<ExchangeNumber> {
        self.parent.or(self.attached_to.map(ExchangeNumber))
    }
}

/// A decision with what settling made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    pub exchange: ExchangeNumber,
    pub at: Micros,
    pub decision: Decision,
    pub conversation: ExchangeNumber,
    pub branch: ExchangeNumber,
    pub agent: ExchangeNumber,
}

#[derive(Debug, thiserror::Error)]
#[error("the link of exchange {exchange} cannot be read")]
pub struct UnreadableLink {
    pub exchange: i64,
    #[source]
    source: serde_json::Error,
}

impl Linked {
    pub fn kind(&self) -> LinkKind {
        self.decision.kind
    }

    pub fn read(row: &LinkRow) -> Result<Self, UnreadableLink> {
        let decision = serde_json::from_slice(&row.decision).map_err(|source| UnreadableLink {
            exchange: row.exchange.0,
            source,
        });
        let mut decision: Decision = decision?;
        decision.kind = row.kind;
        decision.parent = row.parent;
        Ok(Linked {
            exchange: row.exchange,
            at: row.at,
            decision,
            conversation: row.conversation,
            branch: row.branch,
            agent: row.agent,
        })
    }

    pub fn to_row(&self) -> LinkRow {
        LinkRow {
            exchange: self.exchange,
            at: self.at,
            kind: self.kind(),
            conversation: self.conversation,
            branch: self.branch,
            agent: self.agent,
            parent: self.decision.parent,
            // Plain numbers, words and lists always serialise.
            decision: serde_json::to_vec(&self.decision).unwrap_or_default(),
        }
    }
}
