//! What the client's session alone can say.

use std::sync::Arc;

use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{Key, KeyKind};

use crate::keys::id_key;
use crate::link::decide::{Case, Found};
use crate::link::decision::{BranchKind, Decision, Method, Place};
use crate::link::evidence::Known;
use crate::link::fact::Fact;

/// How many openings of a session are compared.
const OPENINGS_MAX: usize = 8;

/// What the exchanges of an agent of a session are found by, of its main agent if it is none. Behind many calls of its subagents the
/// session alone does not find them; by the session those are found that were recorded before main agents had a key.
pub(in crate::link) fn keys_of_agent(session: &str, agent: Option<&str>) -> [Key; 2] {
    [
        id_key(KeyKind::Agent, agent.unwrap_or(session)),
        id_key(KeyKind::Session, session),
    ]
}

impl Case<'_> {
    /// Turns of the same session and agent that precede this one, the last first.
    pub(super) fn turns_of_session(&self) -> Known<Vec<&Arc<Fact>>> {
        let Some(session) = self.me.fact.session() else {
            return Ok(Vec::new());
        };
        let mut turns = self.of_my_agent(session)?;
        turns.retain(|fact| fact.is_turn() && fact.session() == Some(session) && self.allows(fact).is_ok());
        Ok(turns)
    }

    /// What precedes this exchange of the agent that may be its own, and of others of the session.
    pub(super) fn of_my_agent(&self, session: &str) -> Known<Vec<&Arc<Fact>>> {
        self.preceding(keys_of_agent(session, self.me.fact.own_id()))
    }

    /// No recorded answer stands in it, but it begins like another request of its session.
    pub(in crate::link) fn opening_of_session(&self) -> Known<Found> {
        let steps = self.me.outline.steps();
        let mut best: Option<(usize, &Arc<Fact>)> = None;
        let mut compared = 0;
        for fact in self.turns_of_session()? {
            let is_opening = self.known.link(fact.number())?.decision.parent.is_none();
            if !is_opening || compared == OPENINGS_MAX {
                continue;
            }
            compared += 1;
            let chain = self.known.chain(fact.number())?;
            let same = steps.iter().zip(chain).take_while(|(step, node)| step.node == **node);
            let shared = same.count();
            if shared > 0 && best.is_none_or(|(most, _)| shared > most) {
                best = Some((shared, fact));
            }
        }
        let Some((shared, fact)) = best else {
            return Ok(Found::nothing());
        };
        let is_whole = shared == fact.row.depth as usize;
        let kind = if is_whole {
            BranchKind::Regeneration
        } else {
            BranchKind::Edit
        };
        let mut decision = Decision::new(LinkKind::Turn, Method::Opening, Place::Beside(kind)).attached(fact.number());
        decision.shared = shared as u32;
        Ok(decision.into())
    }

    /// The session is known, the content is not.
    pub(in crate::link) fn known_session(&self) -> Known<Found> {
        let turns = self.turns_of_session()?;
        let Some(last) = turns.first() else {
            return Ok(Found::nothing());
        };
        let place = Place::Beside(BranchKind::Edit);
        let mut decision = Decision::new(LinkKind::Turn, Method::Session, place).attached(last.number());
        decision.discontinuous = true;
        Ok(decision.into())
    }
}
