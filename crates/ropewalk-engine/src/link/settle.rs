//! Folding decisions into conversations: who stands on which branch, what the branches are called, what it all sums up to.
//!
//! [`fold`] takes every member of some conversations and depends on nothing else, so it gives the same whatever arrived first.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ropewalk_core::hash::sha256;
use ropewalk_store::Micros;
use ropewalk_store::derived::{BranchRow, ConversationRow, LinkKind};
use ropewalk_store::facts::ExchangeNumber;
use serde::{Deserialize, Serialize};

use crate::link::decision::{BranchKind, Decision, Linked, Place};
use crate::link::fact::Fact;
use crate::link::maps::{HashMap, HashSet};

/// What is kept of a branch beside its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchRecord {
    pub kind: BranchKind,
    /// The branch that it left, by its first exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<i64>,
    /// When, how deep and under which id its first exchange was made: what branches are sorted by.
    pub at: i64,
    pub depth: u32,
    pub id: String,
    /// When its agent was started, and as which of its parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned: Option<(i64, u32)>,
    /// The agent that begins with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// The client's id of it, else one made from its first exchange.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who started it, by its first exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub orphan: bool,
}

/// What is kept of a conversation beside its names and times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationRecord {
    pub exchanges: u64,
    pub turns: u64,
    pub branches: u64,
    pub agents: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub cost_nano_usd: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl ConversationRecord {
    /// Counts an exchange that begins.
    pub fn add_request(&mut self, decision: &Decision) {
        self.exchanges += 1;
        self.turns += u64::from(decision.kind == LinkKind::Turn);
    }

    /// Counts what its answer used.
    pub fn add_answer(&mut self, fact: &Fact) {
        // Providers count, and may count anything.
        let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count);
        if let Some(usage) = &fact.row.usage {
            add(&mut self.input_tokens, usage.input_tokens);
            add(&mut self.output_tokens, usage.output_tokens);
            add(&mut self.cache_read_tokens, usage.cache_read_tokens);
            add(&mut self.cache_write_tokens, usage.cache_write_tokens);
        }
        add(&mut self.cost_nano_usd, fact.row.cost_nano_usd.unwrap_or(0));
    }
}

/// An exchange with the decision about it.
#[derive(Debug, Clone)]
pub struct Member {
    pub fact: Arc<Fact>,
    pub decision: Decision,
}

/// A branch while it is put together.
#[derive(Debug, Clone)]
pub struct Branch {
    pub first: ExchangeNumber,
    pub conversation: ExchangeNumber,
    pub record: BranchRecord,
}

/// Some conversations, folded.
#[derive(Debug, Default)]
pub struct Folded {
    pub links: Vec<Linked>,
    pub branches: Vec<BranchRow>,
    pub conversations: Vec<ConversationRow>,
}

/// Where an exchange was put.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    pub conversation: ExchangeNumber,
    pub branch: ExchangeNumber,
    pub agent: ExchangeNumber,
}

impl Spot {
    pub fn of(linked: &Linked) -> Self {
        Spot {
            conversation: linked.conversation,
            branch: linked.branch,
            agent: linked.agent,
        }
    }

    /// The link of an exchange that stands here.
    pub fn link(self, fact: &Fact, decision: Decision) -> Linked {
        Linked {
            exchange: fact.number(),
            at: fact.row.at,
            decision,
            conversation: self.conversation,
            branch: self.branch,
            agent: self.agent,
        }
    }
}

/// Puts an exchange behind the one it is anchored at. `is_first` says that no other turn stands behind its parent yet.
pub fn put(fact: &Fact, decision: &Decision, anchor: Option<Spot>, is_first: bool) -> (Spot, Option<Branch>) {
    let me = fact.number();
    let opens = match (decision.place, anchor) {
        (Place::Root, _) | (_, None) => Some(BranchKind::Main),
        (Place::After(kind), Some(_)) => (!is_first).then_some(kind),
        (Place::Beside(kind), Some(_)) => Some(kind),
        (Place::Child, Some(_)) => Some(BranchKind::Subtask),
        (Place::Same, Some(_)) => None,
    };
    let begins_agent = matches!(opens, Some(BranchKind::Main | BranchKind::Subtask));
    let spot = Spot {
        conversation: anchor.map_or(me, |anchor| anchor.conversation),
        branch: anchor.filter(|_| opens.is_none()).map_or(me, |anchor| anchor.branch),
        agent: anchor.filter(|_| !begins_agent).map_or(me, |anchor| anchor.agent),
    };
    let branch = opens.map(|kind| Branch {
        first: me,
        conversation: spot.conversation,
        record: BranchRecord {
            kind,
            left: anchor.map(|anchor| anchor.branch.0),
            at: fact.row.at.0,
            depth: fact.row.depth,
            id: fact.row.id.clone(),
            spawned: decision
                .spawned
                .as_ref()
                .map(|spawned| (spawned.at, spawned.index.unwrap_or(u32::MAX))),
            agent: begins_agent.then(|| agent(fact, decision, anchor)),
        },
    });
    (spot, branch)
}

fn agent(fact: &Fact, decision: &Decision, parent: Option<Spot>) -> AgentRecord {
    let asked_for = decision.spawned.as_ref().and_then(|spawned| spawned.name.as_deref());
    let made_up = || format!("agent-{}", &hex::encode(sha256(fact.row.id.as_bytes()))[..12]);
    let client_id = fact.row.agent.clone();
    AgentRecord {
        id: match parent {
            None if client_id.is_none() => "main".to_owned(),
            _ => client_id.unwrap_or_else(made_up),
        },
        name: fact.said_name().or(asked_for).or(fact.agent_name()).map(str::to_owned),
        parent: parent.map(|parent| parent.agent.0),
        orphan: decision.orphan,
    }
}

/// The id of a conversation: made from the owner and the root exchange, as a UUID of version 8.
pub fn conversation_id(owner: &str, root: &str) -> [u8; 16] {
    let mut bytes = Vec::with_capacity(owner.len() + root.len() + 32);
    for field in ["v1:conversation", owner, root] {
        bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field.as_bytes());
    }
    let mut id = [0; 16];
    id.copy_from_slice(&sha256(&bytes)[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// Folds all members of some conversations. `titles` gives the title of each root.
pub fn fold(owner: &str, members: &[Member], titles: &HashMap<ExchangeNumber, String>) -> Folded {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| members[*a].fact.order().cmp(&members[*b].fact.order()));
    let places: HashMap<ExchangeNumber, usize> = members
        .iter()
        .enumerate()
        .map(|(at, member)| (member.fact.number(), at))
        .collect();
    let mut fold = Fold {
        members,
        places: &places,
        spots: HashMap::default(),
        followed: HashSet::default(),
        branches: Vec::new(),
    };
    for at in order {
        fold.member(at);
    }
    let Fold { spots, branches, .. } = fold;
    let mut sums: BTreeMap<ExchangeNumber, (Micros, Micros, ConversationRecord)> = BTreeMap::new();
    let mut links = Vec::with_capacity(members.len());
    for member in members {
        let fact = &member.fact;
        let spot = spots[&fact.number()];
        let sum = sums
            .entry(spot.conversation)
            .or_insert_with(|| (Micros::MAX, Micros(i64::MIN), ConversationRecord::default()));
        sum.0 = sum.0.min(fact.row.at);
        sum.1 = sum.1.max(fact.row.at);
        sum.2.add_request(&member.decision);
        let mut decision = member.decision.clone();
        decision.is_counted = fact.ended().is_some();
        if decision.is_counted {
            sum.2.add_answer(fact);
        }
        links.push(spot.link(fact, decision));
    }
    for branch in &branches {
        if let Some((_, _, record)) = sums.get_mut(&branch.conversation) {
            record.branches += 1;
            record.agents += u64::from(branch.record.agent.is_some());
        }
    }
    let root_id = |root: ExchangeNumber| places.get(&root).map_or("", |at| &*members[*at].fact.row.id);
    let conversations = sums.into_iter().map(|(root, (started_at, last_at, mut record))| {
        record.title = titles.get(&root).cloned();
        conversation_row(
            root,
            conversation_id(owner, root_id(root)),
            started_at,
            last_at,
            &record,
        )
    });
    Folded {
        conversations: conversations.collect(),
        branches: name_branches(branches),
        links,
    }
}

pub fn conversation_row(
    root: ExchangeNumber,
    id: [u8; 16],
    started_at: Micros,
    last_at: Micros,
    record: &ConversationRecord,
) -> ConversationRow {
    ConversationRow {
        root,
        id,
        started_at,
        last_at,
        // Plain numbers and words always serialise.
        record: serde_json::to_vec(record).unwrap_or_default(),
    }
}

struct Fold<'f> {
    members: &'f [Member],
    places: &'f HashMap<ExchangeNumber, usize>,
    spots: HashMap<ExchangeNumber, Spot>,
    /// Exchanges that a turn stands behind already.
    followed: HashSet<ExchangeNumber>,
    branches: Vec<Branch>,
}

impl Fold<'_> {
    /// Puts a member, and before it whatever it is anchored at: clocks may say otherwise.
    fn member(&mut self, at: usize) {
        let mut waiting = vec![at];
        while let Some(at) = waiting.last().copied() {
            let member = &self.members[at];
            let number = member.fact.number();
            let anchor = member.decision.anchor();
            let before = anchor.and_then(|anchor| self.places.get(&anchor).copied());
            let is_ready = before.is_none_or(|before| {
                let anchor = self.members[before].fact.number();
                // Decisions that point at each other would wait for ever; whoever is met twice begins anew.
                self.spots.contains_key(&anchor) || waiting.contains(&before)
            });
            if self.spots.contains_key(&number) {
                waiting.pop();
            } else if is_ready {
                self.put(member);
                waiting.pop();
            } else {
                waiting.extend(before);
            }
        }
    }

    fn put(&mut self, member: &Member) {
        let anchor = member.decision.anchor();
        let is_turn = member.decision.kind == LinkKind::Turn;
        let takes_tip = is_turn && matches!(member.decision.place, Place::After(_));
        let is_first = !takes_tip || anchor.is_none_or(|anchor| self.followed.insert(anchor));
        let spot = anchor.and_then(|anchor| self.spots.get(&anchor).copied());
        let (spot, branch) = put(&member.fact, &member.decision, spot, is_first);
        self.spots.insert(member.fact.number(), spot);
        self.branches.extend(branch);
    }
}

/// Gives the branches of whole conversations the ids that people see.
pub fn name_branches(mut branches: Vec<Branch>) -> Vec<BranchRow> {
    branches.sort_by(|a, b| key(a).cmp(&key(b)));
    let mut subtasks: HashMap<ExchangeNumber, u64> = HashMap::default();
    let mut used: HashMap<(ExchangeNumber, String), u64> = HashMap::default();
    let named = branches.into_iter().map(|branch| {
        let record = &branch.record;
        let shown = match record.kind {
            BranchKind::Main => "main".to_owned(),
            BranchKind::Subtask => {
                let number = subtasks.entry(branch.conversation).or_default();
                *number += 1;
                format!("subtask_{number}")
            }
            BranchKind::Compact => format!("compact_{}", clock(record.at, "%H%M%S")),
            BranchKind::Edit | BranchKind::Regeneration => format!("branch_{}", clock(record.at, "%Y%m%d%H%M%S")),
        };
        let times = used.entry((branch.conversation, shown.clone())).or_default();
        *times += 1;
        BranchRow {
            first: branch.first,
            conversation: branch.conversation,
            shown: if *times == 1 { shown } else { format!("{shown}_{times}") },
            record: serde_json::to_vec(record).unwrap_or_default(),
        }
    });
    named.collect()
}

/// Agents in the order of their starts, other branches in the order of their first exchanges.
fn key(branch: &Branch) -> (ExchangeNumber, (i64, u32), i64, u32, &str) {
    let record = &branch.record;
    let spawned = record.spawned.unwrap_or((record.at, 0));
    (branch.conversation, spawned, record.at, record.depth, &record.id)
}

fn clock(micros: i64, format: &str) -> String {
    let time = Timestamp::from_microsecond(micros).unwrap_or_default();
    time.strftime(format).to_string()
}

#[derive(Debug, thiserror::Error)]
#[error("the record of {what} {number} cannot be read")]
pub struct UnreadableRecord {
    pub what: &'static str,
    pub number: i64,
    #[source]
    source: serde_json::Error,
}

impl BranchRecord {
    pub fn read(row: &BranchRow) -> Result<Self, UnreadableRecord> {
        serde_json::from_slice(&row.record).map_err(|source| UnreadableRecord {
            what: "branch",
            number: row.first.0,
            source,
        })
    }
}

impl ConversationRecord {
    pub fn read(row: &ConversationRow) -> Result<Self, UnreadableRecord> {
        serde_json::from_slice(&row.record).map_err(|source| UnreadableRecord {
            what: "conversation",
            number: row.root.0,
            source,
        })
    }
}
