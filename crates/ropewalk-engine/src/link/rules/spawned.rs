//! Agents that another one started.

use std::sync::Arc;

use ropewalk_store::Micros;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, Key, KeyKind, Spawn};

use crate::keys::id_key;
use crate::link::decide::{Case, Found};
use crate::link::decision::{Decision, Method, Place, Spawned, Why};
use crate::link::evidence::Known;
use crate::link::fact::{Fact, SKEW};
use crate::link::rules::session::keys_of_agent;

/// How long an answer may go on after the call that starts a child, in microseconds.
pub(in crate::link) const ANSWER_MAX: i64 = 600_000_000;

/// A call that may have started this exchange.
pub(super) struct Expected<'c> {
    pub(super) parent: &'c Arc<Fact>,
    pub(super) spawn: &'c Spawn,
}

/// Calls that may have started this exchange, and whose calls cannot have, with the reason.
#[derive(Default)]
pub(super) struct Open<'c> {
    waiting: Vec<Expected<'c>>,
    /// Their results came just now: clocks may say so although the child was first.
    just_closed: Vec<Expected<'c>>,
    rejected: Vec<(ExchangeNumber, Why)>,
}

impl<'c> Open<'c> {
    /// Those that wait; where none does, those that are just closed.
    pub(super) fn into_candidates(mut self) -> (Vec<Expected<'c>>, Vec<(ExchangeNumber, Why)>) {
        if self.waiting.is_empty() {
            return (self.just_closed, self.rejected);
        }
        let closed = self.just_closed.iter().map(|call| (call.parent.number(), Why::Closed));
        self.rejected.extend(closed);
        (self.waiting, self.rejected)
    }
}

impl Case<'_> {
    /// The first exchange of an agent, thread or session whose client says that somebody started it.
    pub(in crate::link) fn named_child(&self) -> Known<Found> {
        let me = &self.me.fact;
        let is_agent = me.hint("agent").is_some() || me.named_parent().is_some();
        if !is_agent || self.has_own_history()? {
            return Ok(Found::nothing());
        }
        let (expected, _) = self.expected_with_my_prompt()?.into_candidates();
        if let Some(expected) = self.oldest(expected.into_iter().filter(|one| self.may_be_my_parent(one.parent))) {
            return Ok(self.child(Method::Header, &expected).into());
        }
        let lineage = self.named_lineage()?;
        let numbers: Vec<_> = lineage.iter().map(|fact| fact.number()).collect();
        let mut calls = Vec::new();
        for (parent, spawns) in lineage.iter().zip(self.known.spawns(numbers)?) {
            let open = spawns.iter().map(|spawn| Expected { parent, spawn });
            calls.extend(open);
        }
        let (open, _) = self.open(calls)?.into_candidates();
        if let Some(expected) = self.oldest(open.into_iter()) {
            return Ok(self.child(Method::Header, &expected).into());
        }
        let Some(parent) = lineage.first() else {
            return self.orphan().map(Found::from);
        };
        let mut decision = Decision::new(LinkKind::Turn, Method::Header, Place::Child).behind(parent.number());
        decision.spawned = Some(Spawned {
            index: None,
            at: me.row.at.0,
            name: None,
        });
        Ok(decision.into())
    }

    fn has_own_history(&self) -> Known<bool> {
        let me = &self.me.fact;
        let earlier = match me.own_id() {
            Some(id) => self.preceding([id_key(KeyKind::Agent, id)])?,
            None => match me.session() {
                Some(session) => self.preceding(keys_of_agent(session, None))?,
                None => return Ok(false),
            },
        };
        let mut own = earlier.iter().filter(|fact| fact.own_id() == me.own_id());
        Ok(own.any(|fact| fact.is_turn() && !me.is_of_other_session(fact)))
    }

    /// Whom the client names as the one who started it, else its session's main agent; the last exchange first.
    fn named_lineage(&self) -> Known<Vec<&Arc<Fact>>> {
        let me = &self.me.fact;
        let mut facts = if let Some(agent) = me.hint("parent_agent").or_else(|| me.hint("parent_thread")) {
            let mut facts = self.preceding([id_key(KeyKind::Agent, agent)])?;
            facts.retain(|fact| fact.own_id() == Some(agent) && !me.is_of_other_session(fact));
            facts
        } else if let Some(session) = me.hint("parent_session") {
            self.preceding(keys_of_agent(session, None))?
        } else if let Some(session) = me.session() {
            let mut facts = self.preceding(keys_of_agent(session, None))?;
            facts.retain(|fact| fact.row.agent.is_none());
            facts
        } else {
            Vec::new()
        };
        facts.retain(|fact| fact.is_turn());
        Ok(facts)
    }

    pub(super) fn may_be_my_parent(&self, parent: &Fact) -> bool {
        let me = &self.me.fact;
        match me.hint("parent_session") {
            Some(session) => parent.row.session.as_deref() == Some(session),
            None => !me.is_of_other_session(parent),
        }
    }

    /// An agent whose parent is not known: with its session's main agent, also when that is first heard of later, else with
    /// whoever of the session was first.
    fn orphan(&self) -> Known<Decision> {
        let mut decision = match self.turn_of_agent(None)? {
            Some(main) => Some(main),
            None => self.first_of_session()?,
        }
        .map_or_else(Decision::root, |other| {
            Decision::new(LinkKind::Turn, Method::Session, Place::Child).attached(other.number())
        });
        decision.orphan = true;
        Ok(decision)
    }

    fn first_of_session(&self) -> Known<Option<&Arc<Fact>>> {
        let Some(session) = self.me.fact.session() else {
            return Ok(None);
        };
        let mut turns = self.preceding([id_key(KeyKind::Session, session)])?;
        turns.retain(|fact| fact.is_turn() && fact.session() == Some(session));
        Ok(turns.pop())
    }

    /// Its first words are the prompt of a call that still waits for its child.
    pub(in crate::link) fn spawned(&self) -> Known<Found> {
        let (expected, rejected) = self.expected_with_my_prompt()?.into_candidates();
        let mut found = Found {
            decision: None,
            rejected,
        };
        if let Some(expected) = self.oldest(expected.into_iter()) {
            found.decision = Some(self.child(Method::SpawnPrompt, &expected));
        }
        Ok(found)
    }

    /// Whether a call waits for exactly this prompt.
    pub(super) fn expects_me(&self) -> Known<bool> {
        Ok(!self.expected_with_my_prompt()?.waiting.is_empty())
    }

    fn expected_with_my_prompt(&self) -> Known<Open<'_>> {
        let me = &self.me.fact;
        let prompts: Vec<[u8; 32]> = me.keys(KeyKind::Opening).map(|key| key.hash).collect();
        let keys = prompts.iter().map(|hash| Key {
            kind: KeyKind::SpawnPrompt,
            hash: *hash,
        });
        // A child may begin while its parent's answer still goes on.
        let until = Micros(me.row.at.0.saturating_add(ANSWER_MAX));
        let found = self.known.keys(keys, until)?;
        let parents = self.before_me(found.into_iter().flatten().copied())?;
        let parents: Vec<_> = parents
            .into_iter()
            .filter(|parent| self.may_be_my_parent(parent))
            .collect();
        let calls = self.known.spawns(parents.iter().map(|parent| parent.number()))?;
        let mut waiting = Vec::new();
        for (parent, spawns) in parents.iter().zip(calls) {
            let same = spawns.iter().filter(|spawn| {
                let is_same = spawn.prompt.is_some_and(|prompt| prompts.contains(&prompt));
                is_same && me.row.at.0 <= spawn.at.0.saturating_add(self.settings.spawn_window)
            });
            waiting.extend(same.map(|spawn| Expected { parent, spawn }));
        }
        self.open(waiting)
    }

    /// Calls whose child has not come and whose result has not either, and the others with the reason.
    pub(super) fn open<'e>(&self, calls: Vec<Expected<'e>>) -> Known<Open<'e>> {
        let mut open = Open::default();
        for call in calls {
            if self.is_taken(&call)? {
                open.rejected.push((call.parent.number(), Why::Taken));
                continue;
            }
            match self.closed_at(&call)? {
                None => open.waiting.push(call),
                Some(at) if at.0.saturating_add(SKEW) >= self.me.fact.row.at.0 => open.just_closed.push(call),
                Some(_) => open.rejected.push((call.parent.number(), Why::Closed)),
            }
        }
        Ok(open)
    }

    fn is_taken(&self, call: &Expected<'_>) -> Known<bool> {
        let children = self.known.children(call.parent.number())?;
        for child in self.before_me(children.iter().copied())? {
            let linked = self.known.link(child.number())?;
            let index = linked.decision.spawned.as_ref().and_then(|spawned| spawned.index);
            if index == Some(call.spawn.index) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// When its result came, if it did.
    fn closed_at(&self, call: &Expected<'_>) -> Known<Option<Micros>> {
        let Some(id) = &call.spawn.call else {
            return Ok(None);
        };
        let results = self
            .known
            .keys([id_key(KeyKind::CallResult, id)], self.me.fact.row.at)?;
        let results = self.before_me(results.into_iter().flatten().copied())?;
        Ok(results.iter().map(|result| result.row.at).min())
    }

    /// First come, first served: the session's own first.
    pub(super) fn oldest<'e>(&self, calls: impl Iterator<Item = Expected<'e>>) -> Option<Expected<'e>> {
        calls.min_by(|a, b| {
            let rank = |call: &Expected<'e>| !self.me.fact.is_of_same_session(call.parent);
            let age = |call: &Expected<'e>| (call.parent.row.at, call.parent.row.id.clone(), call.spawn.index);
            rank(a).cmp(&rank(b)).then_with(|| age(a).cmp(&age(b)))
        })
    }

    pub(super) fn child(&self, method: Method, expected: &Expected<'_>) -> Decision {
        let parent = expected.parent.number();
        let mut decision = Decision::new(LinkKind::Turn, method, Place::Child).behind(parent);
        decision.spawned = Some(Spawned {
            index: Some(expected.spawn.index),
            at: expected.spawn.at.0,
            name: expected.spawn.name.clone(),
        });
        decision
    }
}
