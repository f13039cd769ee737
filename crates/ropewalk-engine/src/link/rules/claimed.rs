//! Children that nothing tells but that somebody expects one just now (seed 001).

use std::sync::Arc;

use ropewalk_core::claim::Tier;
use ropewalk_store::Micros;
use ropewalk_store::facts::{ExchangeNumber, HashKind, KeyKind};

use crate::keys::id_key;
use crate::link::decide::{Case, Found, Settings};
use crate::link::decision::Method;
use crate::link::evidence::{Evidence, Known};
use crate::link::fact::Fact;
use crate::link::rules::spawned::{ANSWER_MAX, Expected};

/// Answers with calls for a name that are looked through for the last child of that name.
const SPAWNERS_MAX: usize = 16;

/// When a call must have been made for somebody who begins at a time to be taken for its child.
pub(in crate::link) fn claims_for(at: Micros, settings: &Settings) -> (Micros, Micros) {
    let first = Micros(at.0.saturating_sub(settings.claim_window).saturating_add(1));
    // A child may begin while its parent's answer still goes on.
    (first, Micros(at.0.saturating_add(ANSWER_MAX)))
}

impl Case<'_> {
    /// Somebody expects a child of its name or type, or any child, at this moment.
    pub(in crate::link) fn claimed(&self) -> Known<Found> {
        if !self.settings.claims || !self.me.is_opening() {
            return Ok(Found::nothing());
        }
        let (first, last) = claims_for(self.me.fact.row.at, self.settings);
        let between = self.known.spawns_between(first, last)?;
        let parents = self.before_me(between.iter().map(|(parent, _)| *parent))?;
        let mut calls = Vec::new();
        for parent in &parents {
            let theirs = between.iter().filter(|(number, _)| *number == parent.number());
            calls.extend(theirs.map(|(_, spawn)| Expected { parent, spawn }));
        }
        calls.retain(|call| self.may_be_my_parent(call.parent));
        let (open, rejected) = self.open(calls)?.into_candidates();
        let mut found = Found {
            decision: None,
            rejected,
        };
        let mut fitting = Vec::new();
        for call in open {
            fitting.extend(self.tier(&call)?.map(|tier| (tier, call)));
        }
        let Some(best) = fitting.iter().map(|(tier, _)| *tier).min() else {
            return Ok(found);
        };
        let of_best = fitting.into_iter().filter(|(tier, _)| *tier == best);
        let oldest = self.oldest(of_best.map(|(_, call)| call));
        found.decision = oldest.map(|expected| self.child(method_of(best), &expected));
        Ok(found)
    }

    /// How well a claim fits, if it does.
    fn tier(&self, call: &Expected<'_>) -> Known<Option<Tier>> {
        let me = &self.me.fact;
        let name = me.agent_name();
        let is_name = name.is_some() && name == call.spawn.name.as_deref();
        // Strangers begin at any time. Unless its name says so, only another kind of agent than the parent may be the child.
        let is_other_kind = me.hash(HashKind::AgentType) != call.parent.hash(HashKind::AgentType);
        // Where the call says with which words the child begins, one that begins with others and does not say its name is taken only
        // within a session: all agents of a client may be of one type, and the right one would be turned away.
        let may_be_nameless = me.is_of_same_session(call.parent) || call.spawn.prompt.is_none();
        let may_be_it = (is_name || is_other_kind) && (name.is_some() || may_be_nameless);
        if !may_be_it {
            return Ok(None);
        }
        Ok(Tier::of(is_name, self.expects_my_type(call)?, name.is_some()))
    }

    /// Whether the type that was last linked for the call's name, before the call, is this one's.
    fn expects_my_type(&self, call: &Expected<'_>) -> Known<bool> {
        let Some(name) = &call.spawn.name else {
            return Ok(false);
        };
        let last = last_child_named(self.known, name, call.spawn.at, Some(call.parent.number()), |child| {
            child.row.at < call.spawn.at && child.number() != self.me.number() && child.is_before(&self.me.fact)
        })?;
        let mine = self.me.fact.hash(HashKind::AgentType);
        Ok(last.is_some_and(|last| last.hash(HashKind::AgentType) == mine))
    }
}

/// The last of those children that was asked for by that name, in answers up to a time and in one that may still go on.
pub(in crate::link) fn last_child_named<'k>(
    known: &'k Evidence,
    name: &str,
    as_of: Micros,
    going_on: Option<ExchangeNumber>,
    is_wanted: impl Fn(&Fact) -> bool,
) -> Known<Option<&'k Arc<Fact>>> {
    let spawners = known.keys([id_key(KeyKind::SpawnName, name)], as_of)?;
    let spawners = spawners.into_iter().flatten().copied().take(SPAWNERS_MAX);
    let children = known.children_of(spawners.chain(going_on))?;
    let children: Vec<ExchangeNumber> = children.into_iter().flatten().copied().collect();
    let mut last: Option<&Arc<Fact>> = None;
    for child in known.facts(children)? {
        let linked = known.link(child.number())?;
        let spawned = linked.decision.spawned.as_ref();
        let is_named = spawned.is_some_and(|spawned| spawned.name.as_deref() == Some(name));
        let is_later = last.is_none_or(|last| last.is_before(child));
        if is_named && is_later && is_wanted(child) {
            last = Some(child);
        }
    }
    Ok(last)
}

fn method_of(tier: Tier) -> Method {
    match tier {
        Tier::NameAndType => Method::ClaimNameAndType,
        Tier::Name => Method::ClaimName,
        Tier::Type => Method::ClaimType,
        Tier::Any => Method::ClaimAny,
    }
}
