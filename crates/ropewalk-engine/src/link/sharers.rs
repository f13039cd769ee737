//! Who shares an end or a key with a fact that came late.
//!
//! A look-up gives the newest that share something, [`CANDIDATES_MAX`] of them and no more. So a late fact does two things to an
//! exchange behind it that looked them up: it is one more to choose from, and it pushes out the last. Both concern only those
//! that follow closely: behind as many others that share the same, a look-up no longer reaches back to the fact. Wherever it
//! stands among thousands, these few are found by asking at other times.

use std::collections::BTreeSet;

use ropewalk_core::hash::NodeHash;
use ropewalk_store::facts::{ExchangeNumber, Key};
use ropewalk_store::store::Asked;
use ropewalk_store::{Micros, Store};

use crate::link::LinkError;
use crate::link::evidence::{Evidence, Need};
use crate::link::fact::SKEW;
use crate::link::fetch::CANDIDATES_MAX;
use crate::link::maps::HashSet;
use crate::link::round::Round;

/// What many exchanges may have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shared {
    /// Where the request ends, or the answer.
    Input(NodeHash),
    Output(NodeHash),
    Key(Key),
}

impl Shared {
    pub(super) fn need(self, as_of: Micros) -> Need {
        match self {
            Shared::Input(what) | Shared::Output(what) => Need::Node(Asked { what, as_of }),
            Shared::Key(what) => Need::Key(Asked { what, as_of }),
        }
    }

    /// Those that were found, the newest first.
    fn found(self, known: &Evidence, as_of: Micros) -> Vec<ExchangeNumber> {
        let node = |what| known.nodes.get(&Asked { what, as_of }).and_then(Option::as_ref);
        let found = match self {
            Shared::Input(what) => node(what).map(|node| &node.as_input),
            Shared::Output(what) => node(what).map(|node| &node.as_output),
            Shared::Key(what) => known.keys.get(&Asked { what, as_of }),
        };
        found.cloned().unwrap_or_default()
    }
}

impl<S: Store> Round<'_, S> {
    /// Those that share something with a fact of that time, and that one look-up can give together with it: the last before it
    /// and the next behind it, and some that are not as close.
    pub(super) async fn sharing_around(
        &mut self,
        shared: Shared,
        at: Micros,
        until: Micros,
    ) -> Result<BTreeSet<ExchangeNumber>, LinkError> {
        let newest = self.sharing(shared, until).await?;
        let mut around: BTreeSet<ExchangeNumber> = newest.iter().copied().collect();
        let horizon = self.newest.map(|newest| Micros(newest.0.saturating_add(SKEW)));
        let Some(horizon) = horizon.filter(|horizon| *horizon >= at && newest.len() >= CANDIDATES_MAX) else {
            // There are no others, or nobody who is linked comes behind it.
            return Ok(around);
        };
        // Without the fact itself, which takes a place: the one that it pushes out is the last of these.
        let before = Micros(at.0.saturating_sub(1));
        around.extend(self.sharing(shared, before).await?);
        around.extend(self.sharing(shared, at).await?);
        // All that are up to `early` are found, and those between `oldest` and `late`.
        let (mut early, mut late) = (at, until.min(horizon));
        let mut oldest = self.oldest(&newest).await?;
        if oldest > early {
            let last = self.sharing(shared, late).await?;
            oldest = self.oldest(&last).await?;
            around.extend(last);
        }
        while oldest.0.saturating_sub(early.0) > 1 {
            let middle = Micros(early.0.midpoint(late.0));
            let found = self.sharing(shared, middle).await?;
            match self.oldest(&found).await? {
                far if far > early => (late, oldest) = (middle, far),
                _ => early = middle,
            }
            around.extend(found);
        }
        Ok(around)
    }

    async fn sharing(&mut self, shared: Shared, as_of: Micros) -> Result<Vec<ExchangeNumber>, LinkError> {
        self.fetch(HashSet::from_iter([shared.need(as_of)])).await?;
        Ok(shared.found(&self.known, as_of))
    }

    /// Back to which time a look-up found all there are.
    async fn oldest(&mut self, found: &[ExchangeNumber]) -> Result<Micros, LinkError> {
        let Some(last) = found.last().filter(|_| found.len() >= CANDIDATES_MAX) else {
            return Ok(Micros(i64::MIN / 2));
        };
        self.fetch(HashSet::from_iter([Need::Fact(*last)])).await?;
        let fact = self.known.facts.get(last).and_then(Option::as_ref);
        Ok(fact.map_or(Micros(i64::MIN / 2), |fact| fact.row.at))
    }
}
