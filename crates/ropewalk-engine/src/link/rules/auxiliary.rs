//! Calls beside the conversation.

use std::sync::Arc;

use ropewalk_store::Micros;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{Key, KeyKind};

use crate::keys::id_key;
use crate::link::decide::Case;
use crate::link::decision::{Decision, Method, Place};
use crate::link::evidence::Known;
use crate::link::fact::Fact;
use crate::link::rules::session::keys_of_agent;

/// How long before its conversation's first turn a helper call may come, and how long after it may quote it, in microseconds.
const EARLY_MAX: i64 = 3_600_000_000;

/// How far ahead that turn is looked for first.
const EARLY_STEP: i64 = 60_000_000;

/// Shortest quote that tells a conversation from others. Many begin with the same few words.
const QUOTE_CHARS_MIN: usize = 100;

impl Case<'_> {
    /// Belongs to its session's conversation, also when it comes before the first turn; else to the one that it extends or
    /// quotes; else stands alone.
    pub(in crate::link) fn auxiliary(&self) -> Known<Decision> {
        let beside =
            |method, fact: &Fact| Decision::new(LinkKind::Auxiliary, method, Place::Same).attached(fact.number());
        let turn = match self.turn_of_agent(self.me.fact.row.agent.as_deref())? {
            Some(own) => Some(own),
            None => match self.me.fact.session() {
                Some(session) => self.turn_by([id_key(KeyKind::Session, session)], |_| true)?,
                None => None,
            },
        };
        if let Some(turn) = turn {
            return Ok(beside(Method::Session, turn));
        }
        let found = self.prefix()?;
        if let Some(decision) = found.decision
            && let Some(parent) = decision.parent
        {
            let attached = Decision::new(LinkKind::Auxiliary, decision.method, Place::Same).attached(parent);
            return Ok(attached);
        }
        if let Some(quoted) = self.quoted()? {
            return Ok(beside(Method::Quote, quoted));
        }
        let mut alone = Decision::root();
        alone.kind = LinkKind::Auxiliary;
        Ok(alone)
    }

    /// The last turn of an agent of the session, of its main agent if it is none, before this exchange, else its first one soon after.
    pub(super) fn turn_of_agent(&self, agent: Option<&str>) -> Known<Option<&Arc<Fact>>> {
        match self.me.fact.session() {
            Some(session) => self.turn_by(keys_of_agent(session, agent), |fact| fact.row.agent.as_deref() == agent),
            None => Ok(None),
        }
    }

    fn turn_by<const N: usize>(&self, keys: [Key; N], is_wanted: impl Fn(&Fact) -> bool) -> Known<Option<&Arc<Fact>>> {
        let me = &self.me.fact;
        let is_mine = |fact: &&Arc<Fact>| fact.is_turn() && me.is_of_same_session(fact) && is_wanted(fact);
        let before = self.preceding(keys)?;
        if let Some(last) = before.into_iter().find(is_mine) {
            return Ok(Some(last));
        }
        // Step by step, because a look-up that reaches far ahead gives the last ones that came until then.
        let mut ahead = EARLY_STEP;
        loop {
            let found = self.known.keys(keys, Micros(me.row.at.0.saturating_add(ahead)))?;
            let facts = self.known.facts(found.into_iter().flatten().copied())?;
            let turns = facts.into_iter().filter(is_mine).filter(|fact| me.is_before(fact));
            let first = turns.min_by(|a, b| a.order().cmp(&b.order()));
            if first.is_some() || ahead >= EARLY_MAX {
                return Ok(first);
            }
            ahead = (ahead * 8).min(EARLY_MAX);
        }
    }

    /// The conversation that begins with what this call quotes.
    fn quoted(&self) -> Known<Option<&Arc<Fact>>> {
        let me = &self.me.fact;
        let chars = self.me.outline.chars(self.me.outline.steps().len());
        if chars < QUOTE_CHARS_MIN {
            return Ok(None);
        }
        // A title may be asked for before the first turn is: the conversation that is meant may begin just now, and then tells that
        // another one with these words is not.
        let found = self.known.keys(me.keys(KeyKind::Opening), me.horizon())?;
        let facts = self.known.facts(found.into_iter().flatten().copied())?;
        let mut fitting = facts.into_iter().filter(|fact| {
            let is_other = fact.number() != me.number() && fact.row.at <= me.horizon();
            is_other && fact.is_turn() && !me.is_of_other_session(fact)
        });
        // What several conversations begin with tells nothing.
        let (only, another) = (fitting.next(), fitting.next());
        let is_near = |fact: &Fact| me.row.at.0.saturating_sub(fact.row.at.0) <= EARLY_MAX;
        Ok(only.filter(|only| another.is_none() && is_near(only)))
    }
}
