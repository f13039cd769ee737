//! Another attempt at a request that failed.

use std::sync::Arc;

use ropewalk_store::Micros;
use ropewalk_store::derived::LinkKind;

use crate::link::decide::{Case, Found};
use crate::link::decision::{Decision, Method, Place, Why};
use crate::link::evidence::Known;
use crate::link::fact::Fact;

/// How long after the start of a retry the failed attempt may still have ended, in microseconds: clocks and streams.
const LATE_END: i64 = 2_000_000;

/// Two bodies that differ only in `stream` differ in length by no more than this.
const STREAM_MEMBER_MAX: u64 = 24;

impl Case<'_> {
    /// Same request as an attempt that ended without success. Retries are byte-identical; a stranger's equal opening is not.
    pub(in crate::link) fn retry(&self) -> Known<Found> {
        let me = &self.me.fact;
        let ends = self.known.nodes(&[me.row.input_node], me.row.at)?;
        let same = ends
            .into_iter()
            .flatten()
            .flat_map(|node| node.as_input.iter().copied());
        let mut found = Found::nothing();
        for attempt in self.before_me(same)? {
            match self.is_attempt(attempt)? {
                Ok(()) => {
                    if self.expects_me()? {
                        return Ok(found);
                    }
                    let linked = self.known.link(attempt.number())?;
                    // A chain of attempts: all are attempts at the first one's turn.
                    let first = match linked.kind() {
                        LinkKind::Retry => linked.decision.anchor().unwrap_or(attempt.number()),
                        _ => attempt.number(),
                    };
                    let mut decision = Decision::new(LinkKind::Retry, Method::Retry, Place::Same).behind(first);
                    decision.shared = me.row.depth;
                    found.decision = Some(decision);
                    return Ok(found);
                }
                Err(why) => found.rejected.push((attempt.number(), why)),
            }
        }
        Ok(found)
    }

    fn is_attempt(&self, earlier: &Arc<Fact>) -> Known<std::result::Result<(), Why>> {
        let me = &self.me.fact;
        if let Err(why) = self.allows(earlier) {
            return Ok(Err(why));
        }
        if me.is_of_other_session(earlier) {
            return Ok(Err(Why::OtherSession));
        }
        if !earlier.is_turn() {
            return Ok(Err(Why::OtherAgent));
        }
        let latest = Micros(me.row.at.0.saturating_add(LATE_END));
        let has_failed = match earlier.ended() {
            Some(ended) => earlier.has_failed() && ended <= latest,
            None => true,
        };
        if !has_failed {
            return Ok(Err(Why::NotAFailure));
        }
        if me.is_of_same_session(earlier) {
            return Ok(Ok(()));
        }
        let is_soon = me.row.at.0 - earlier.row.at.0 <= self.settings.retry_window;
        let is_same = is_soon && self.is_same_but_for_stream(earlier)?;
        Ok(if is_same { Ok(()) } else { Err(Why::NotRepeated) })
    }

    /// Clients send a dropped stream again without `stream`.
    fn is_same_but_for_stream(&self, earlier: &Arc<Fact>) -> Known<bool> {
        let (mine, theirs) = (&self.me.fact.row, &earlier.row);
        if mine.request_sha256 == theirs.request_sha256 {
            return Ok(true);
        }
        if mine.request_length.abs_diff(theirs.request_length) > STREAM_MEMBER_MAX {
            return Ok(false);
        }
        let bodies = self.known.requests([self.me.number(), earlier.number()])?;
        Ok(bodies[0] == bodies[1])
    }
}
