//! The decision: which rule links an exchange, tried in order.
//!
//! The rules themselves are in `rules/`. Each looks at the evidence and gives a decision, nothing, or what it would have
//! to know. A rule reads facts that precede the exchange, and decisions about them, so the result does not depend on
//! the order in which facts arrived.

use std::sync::Arc;

use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, Key};
use ropewalk_store::store::Asked;

use crate::link::decision::{BranchKind, Decision, Method, Place, Why};
use crate::link::evidence::{Evidence, Known, Need};
use crate::link::fact::{Fact, Sort, Subject};

/// What linking depends on beside the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Whether newcomers may be taken for expected children by name, type or time.
    pub claims: bool,
    /// How long a claim is open, in microseconds.
    pub claim_window: i64,
    /// How long a spawning call waits for a child with its prompt.
    pub spawn_window: i64,
    /// How long after a failed attempt equal bytes are a retry, where no session says so.
    pub retry_window: i64,
}

const SECOND: i64 = 1_000_000;

impl Default for Settings {
    fn default() -> Self {
        Settings {
            claims: true,
            claim_window: 30 * SECOND,
            spawn_window: 24 * 3_600 * SECOND,
            retry_window: 120 * SECOND,
        }
    }
}

/// How many ends of answers are looked up first; each further look-up takes twice as many.
pub(super) const FIRST_PROBE: usize = 2;

/// Shortest opening, in characters, that tells a conversation from others where nothing else does.
const OPENING_CHARS_MIN: usize = 100;

/// Decides about an exchange, or says what has to be known first.
pub fn decide(me: &Subject, known: &Evidence, settings: &Settings) -> Known<Decision> {
    let case = Case { me, known, settings };
    let decision = match (case.kept()?, me.fact.sort()) {
        (Some(kept), _) => kept,
        (None, Sort::Auxiliary) => case.auxiliary()?,
        (None, Sort::Compaction) => case.compaction()?,
        (None, Sort::Turn) => case.turn()?,
    };
    // Whatever it hangs on has to have its own place first.
    if let Some(anchor) = decision.anchor() {
        known.link(anchor)?;
    }
    Ok(decision)
}

/// What nearly every decision needs, so that it can be fetched at once.
pub(super) fn first_needs(me: &Subject) -> Vec<Need> {
    let mut needs = vec![Need::Node(Asked {
        what: me.fact.row.input_node,
        as_of: me.fact.row.at,
    })];
    let probed = me.outline.answer_ends().take(FIRST_PROBE);
    let nodes = probed.map(|end| me.outline.steps()[end].node);
    needs.extend(nodes.map(|what| {
        Need::Node(Asked {
            what,
            as_of: me.fact.horizon(),
        })
    }));
    needs
}

/// One exchange before the evidence.
pub(super) struct Case<'c> {
    pub(super) me: &'c Subject,
    pub(super) known: &'c Evidence,
    pub(super) settings: &'c Settings,
}

impl Case<'_> {
    /// Of an exchange that lost something what was decided before, as long as what it hangs on is there: its request cannot be
    /// asked any more.
    fn kept(&self) -> Known<Option<Decision>> {
        let Some(kept) = self.me.fact.kept_decision() else {
            return Ok(None);
        };
        let is_there = match kept.anchor() {
            Some(anchor) => !self.known.facts([anchor])?.is_empty(),
            None => true,
        };
        Ok(is_there.then(|| kept.clone()))
    }

    fn turn(&self) -> Known<Decision> {
        let rules = [
            Case::retry,
            Case::referenced,
            Case::after_silence,
            Case::prefix,
            // Behind the prefix, because only an agent without a history of its own can be a new child, and the prefix looks
            // at nobody else's.
            Case::named_child,
            Case::continued,
            Case::anchored,
            Case::opening_of_session,
            Case::spawned,
            Case::history,
            Case::claimed,
            Case::known_session,
        ];
        let mut rejected = Vec::new();
        for rule in rules {
            let mut found = rule(self)?;
            rejected.append(&mut found.rejected);
            if let Some(decision) = found.decision {
                return Ok(decision.rejecting(rejected));
            }
        }
        Ok(Decision::root().rejecting(rejected))
    }

    /// Asks for a summary: it extends a request, without its answer, and nothing extends it.
    fn compaction(&self) -> Known<Decision> {
        let found = self.prefix()?;
        let extended = self.extended_request(found.decision.as_ref())?;
        let mut decision = match (found.decision, extended) {
            (Some(decision), None) => decision,
            (Some(decision), Some(asked)) => decision.behind(asked.number()),
            (None, Some(asked)) => {
                let mut decision =
                    Decision::new(LinkKind::Compaction, Method::Opening, Place::Same).behind(asked.number());
                decision.shared = asked.row.depth;
                decision
            }
            (None, None) => self.of_session()?,
        };
        if decision.anchor().is_some() {
            decision.place = Place::Same;
        }
        decision.kind = LinkKind::Compaction;
        Ok(decision.rejecting(found.rejected))
    }

    /// The request that this one extends: behind the answer it contains, or, where it contains none, of its session or the only
    /// one that begins so.
    fn extended_request(&self, prefix: Option<&Decision>) -> Known<Option<&Arc<Fact>>> {
        let asked = self.requests_on_chain()?;
        let Some(prefix) = prefix else {
            let of_session = asked.iter().find(|(_, fact)| fact.is_of_same_session(&self.me.fact));
            let only = match &asked[..] {
                [(at, fact)] if self.me.outline.chars(at + 1) >= OPENING_CHARS_MIN => Some(*fact),
                _ => None,
            };
            return Ok(of_session.map(|(_, fact)| *fact).or(only));
        };
        for (at, fact) in asked {
            let is_behind = at >= prefix.shared as usize;
            if is_behind && self.known.link(fact.number())?.decision.parent == prefix.parent {
                return Ok(Some(fact));
            }
        }
        Ok(None)
    }

    /// In its session's conversation, if there is one.
    fn of_session(&self) -> Known<Decision> {
        Ok(self.known_session()?.decision.unwrap_or_else(Decision::root))
    }

    /// Facts that have one of these keys and precede this exchange, the last first.
    pub(super) fn preceding(&self, keys: impl IntoIterator<Item = Key>) -> Known<Vec<&Arc<Fact>>> {
        let found = self.known.keys(keys, self.me.fact.horizon())?;
        self.before_me(found.into_iter().flatten().copied())
    }

    /// Those that precede this exchange, the last first.
    pub(super) fn before_me(&self, numbers: impl IntoIterator<Item = ExchangeNumber>) -> Known<Vec<&Arc<Fact>>> {
        let mut facts = Vec::new();
        for fact in self.known.facts(numbers)? {
            if fact.number() != self.me.number() && fact.is_before(&self.me.fact) && !self.answers(fact)? {
                facts.push(fact);
            }
        }
        facts.sort_by(|a, b| b.order().cmp(&a.order()));
        facts.dedup_by_key(|fact| fact.number());
        Ok(facts)
    }

    /// Whether another exchange contains this one's question although its clock is earlier: then this one comes first.
    fn answers(&self, other: &Fact) -> Known<bool> {
        let me = &self.me.fact;
        let is_near = other.horizon() >= me.row.at && other.row.depth > me.row.depth;
        if !is_near || me.row.output_node.is_none() || me.row.depth == 0 {
            return Ok(false);
        }
        let chain = self.known.chain(other.number())?;
        let question = chain.get(me.row.depth as usize - 1);
        let mut behind = chain.iter().skip(me.row.depth as usize);
        let has_answer = behind.any(|node| Some(*node) == me.row.output_node);
        Ok(question == Some(&me.row.input_node) && has_answer)
    }

    /// Whether the client's ids allow a link to that exchange.
    pub(super) fn allows(&self, other: &Fact) -> std::result::Result<(), Why> {
        let me = &self.me.fact;
        if let Some(id) = me.own_id() {
            let is_forked_from = other.own_id().is_some() && other.own_id() == me.hint("forked_from_thread");
            // Agent ids are not unique across sessions.
            let is_same = other.own_id() == Some(id) && !me.is_of_other_session(other);
            return if is_same || is_forked_from {
                Ok(())
            } else {
                Err(Why::OtherAgent)
            };
        }
        if me.session().is_some() && other.row.agent.is_some() {
            return Err(Why::OtherAgent);
        }
        Ok(())
    }

    /// Exchanges that go on from `parent`, are turns and precede this one, the first first.
    pub(super) fn turns_after(&self, parent: ExchangeNumber) -> Known<Vec<&Arc<Fact>>> {
        let mut turns = Vec::new();
        for fact in self.before_me(self.known.children(parent)?.iter().copied())? {
            let linked = self.known.link(fact.number())?;
            if linked.kind() == LinkKind::Turn && linked.decision.place != Place::Child {
                turns.push(fact);
            }
        }
        turns.reverse();
        Ok(turns)
    }
}

/// What a rule found: a decision or none, and whom it turned down.
#[derive(Default)]
pub(super) struct Found {
    pub(super) decision: Option<Decision>,
    pub(super) rejected: Vec<(ExchangeNumber, Why)>,
}

impl Found {
    pub(super) fn nothing() -> Self {
        Found::default()
    }
}

impl From<Decision> for Found {
    fn from(decision: Decision) -> Self {
        Found {
            decision: Some(decision),
            rejected: Vec::new(),
        }
    }
}

/// A turn behind `parent`.
pub(super) fn turn_after(method: Method, parent: ExchangeNumber, otherwise: BranchKind) -> Decision {
    Decision::new(LinkKind::Turn, method, Place::After(otherwise)).behind(parent)
}
