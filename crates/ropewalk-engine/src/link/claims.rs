//! Calls that wait for their children, so that somebody can be told when nobody comes.
//!
//! Links never depend on this: whether a claim fits is decided from the facts alone.

use std::collections::BTreeMap;

use ropewalk_store::facts::{ExchangeNumber, KeyKind, Spawn};
use ropewalk_store::store::Asked;
use ropewalk_store::{Micros, Store};

use crate::keys::id_key;
use crate::link::LinkError;
use crate::link::evidence::{Evidence, Need};
use crate::link::fetch::Source;
use crate::link::maps::HashSet;
use crate::link::progress::Claim;

/// Claims that are watched at a time. Beyond them the oldest are no longer watched.
const WATCHED_MAX: usize = 10_000;

/// Claims that are open as far as this process knows, by the time they were made.
#[derive(Debug, Default)]
pub(super) struct Watched(BTreeMap<(Micros, ExchangeNumber, u32), Spawn>);

impl Watched {
    pub(super) fn add(&mut self, parent: ExchangeNumber, spawn: Spawn) {
        self.0.insert((spawn.at, parent, spawn.index), spawn);
        while self.0.len() > WATCHED_MAX {
            self.0.pop_first();
        }
    }

    /// Takes out the claims whose window is over at `now`, and gives those that nobody came for.
    pub(super) async fn expire<S: Store>(
        &mut self,
        source: Source<'_, S>,
        window: i64,
        now: Micros,
    ) -> Result<Vec<Claim>, LinkError> {
        let end = Micros(now.0.saturating_sub(window).saturating_add(1));
        let open = self.0.split_off(&(end, ExchangeNumber(i64::MIN), 0));
        let due = std::mem::replace(&mut self.0, open);
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let result_of = |spawn: &Spawn| {
            let call = spawn.call.as_deref()?;
            Some(Asked {
                what: id_key(KeyKind::CallResult, call),
                as_of: Micros(spawn.at.0.saturating_add(window)),
            })
        };
        let mut needs: HashSet<Need> = due.values().filter_map(result_of).map(Need::Key).collect();
        needs.extend(due.keys().map(|(_, parent, _)| Need::Children(*parent)));
        let mut known = Evidence::default();
        source.fetch(&needs, &mut known).await?;
        let expired = due.into_iter().filter(|((_, parent, index), spawn)| {
            let has_result = result_of(spawn)
                .and_then(|asked| known.keys.get(&asked))
                .is_some_and(|found| !found.is_empty());
            !has_result && !is_matched(&known, *parent, *index)
        });
        Ok(expired
            .map(|((at, parent, index), spawn)| Claim {
                parent,
                index,
                name: spawn.name,
                at,
            })
            .collect())
    }
}

/// Whether a child is linked to that call.
fn is_matched(known: &Evidence, parent: ExchangeNumber, index: u32) -> bool {
    let children = known.children.get(&parent).into_iter().flatten();
    let mut links = children.filter_map(|child| known.links.get(child)?.as_ref());
    links.any(|linked| {
        let spawned = linked.decision.spawned.as_ref();
        spawned.and_then(|spawned| spawned.index) == Some(index)
    })
}
