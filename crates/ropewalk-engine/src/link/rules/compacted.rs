//! A conversation that goes on from a summary of itself.

use std::sync::Arc;

use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;

use crate::link::decide::{Case, Found};
use crate::link::decision::{BranchKind, Decision, Method, Place};
use crate::link::evidence::Known;
use crate::link::fact::{Fact, Sort};

impl Case<'_> {
    /// Its first words say that it continues a conversation, or its client does.
    pub(in crate::link) fn continued(&self) -> Known<Found> {
        if let Some(summarised) = self.recorded_summary()? {
            return Ok(self.compacted(Method::Summary, summarised)?.into());
        }
        if !self.says_it_continues()? {
            return Ok(Found::nothing());
        }
        if let Some(last) = self.last_of_session()? {
            return Ok(self.compacted(Method::CompactedSession, last.number())?.into());
        }
        Ok(Found::nothing())
    }

    /// The exchange whose answer is the summary that this one begins with.
    fn recorded_summary(&self) -> Known<Option<ExchangeNumber>> {
        let me = &self.me.fact;
        let Some(summaries) = self.me.outline.continues() else {
            return Ok(None);
        };
        // A summary that it begins with was heard, whatever the clocks say.
        let found = self.known.keys(summaries.iter().copied(), me.horizon())?;
        let mut facts = self.known.facts(found.into_iter().flatten().copied())?;
        facts.retain(|fact| self.is_heard(fact));
        facts.sort_by(|a, b| b.order().cmp(&a.order()));
        let same_session = facts.iter().find(|fact| me.is_of_same_session(fact));
        let any = facts.first().filter(|fact| !me.is_of_other_session(fact));
        Ok(same_session.or(any).map(|fact| fact.number()))
    }

    fn says_it_continues(&self) -> Known<bool> {
        let me = &self.me.fact;
        if self.me.outline.continues().is_some() {
            return Ok(true);
        }
        // Codex counts the windows of a thread.
        let Some(window) = me.hint("window").and_then(|window| window.parse::<u64>().ok()) else {
            return Ok(false);
        };
        let last = self.last_of_session()?;
        let before = last.and_then(|fact| fact.hint("window")?.parse::<u64>().ok());
        Ok(before.is_some_and(|before| before < window))
    }

    /// The last request for a summary, else the last turn, of the same session and agent.
    fn last_of_session(&self) -> Known<Option<&Arc<Fact>>> {
        let Some(session) = self.me.fact.session() else {
            return Ok(None);
        };
        let mut all = self.of_my_agent(session)?;
        all.retain(|fact| self.allows(fact).is_ok() && fact.sort() != Sort::Auxiliary);
        Ok(all.into_iter().next())
    }

    fn compacted(&self, method: Method, from: ExchangeNumber) -> Known<Decision> {
        let place = Place::Beside(BranchKind::Compact);
        Ok(Decision::new(LinkKind::Turn, method, place).behind(from))
    }
}
