//! What a round did, for those who want to know.

use ropewalk_store::Store;
use ropewalk_store::facts::{ExchangeNumber, Spawn};

use crate::link::LinkError;
use crate::link::decision::Place;
use crate::link::evidence::Need;
use crate::link::maps::HashSet;
use crate::link::progress::{AgentChange, Moved, Progress, Standing};
use crate::link::round::Round;
use crate::link::settle::BranchRecord;

impl<S: Store> Round<'_, S> {
    /// What is otherwise than before the round, and the claims that came with new answers.
    pub(super) async fn progress(&mut self) -> Result<(Progress, Vec<(ExchangeNumber, Spawn)>), LinkError> {
        let claims = self.new_claims().await?;
        let mut progress = Progress {
            created: self.created(),
            agents: self.changed_agents()?,
            ..Progress::default()
        };
        progress.claims.created = claims.len();
        for (number, before) in &self.before {
            let Some(Some(now)) = self.known.links.get(number) else {
                continue;
            };
            match before {
                None => *progress.methods.entry(now.decision.method.name()).or_default() += 1,
                Some(before) => {
                    let (from, to) = (Standing::from(&**before), Standing::from(&**now));
                    progress.moved.extend((from != to).then_some(Moved {
                        exchange: *number,
                        from,
                        to,
                    }));
                }
            }
            let was_orphan = before.as_ref().is_some_and(|before| before.decision.orphan);
            progress.orphans += i64::from(now.decision.orphan) - i64::from(was_orphan);
            let call = now.decision.spawned.as_ref().filter(|spawned| spawned.index.is_some());
            let call_before = before.as_ref().and_then(|before| before.decision.spawned.as_ref());
            if now.decision.place == Place::Child && call.is_some() && call != call_before {
                progress.claims.matched += 1;
            }
        }
        progress.moved.sort_unstable_by_key(|moved| moved.exchange);
        Ok((progress, claims))
    }

    /// Conversations whose root began none before.
    fn created(&self) -> Vec<ExchangeNumber> {
        let is_new = |root: &ExchangeNumber| {
            let is_there = matches!(self.conversations.get(root), Some(Some(_)));
            let before = self.before.get(root);
            is_there && before.is_some_and(|before| before.as_ref().is_none_or(|before| before.conversation != *root))
        };
        let mut created: Vec<_> = self.changed_conversations.iter().copied().filter(is_new).collect();
        created.sort_unstable();
        created
    }

    fn changed_agents(&self) -> Result<Vec<AgentChange>, LinkError> {
        let mut changes = Vec::new();
        let mut left = self.agents_before.clone();
        for row in self.changed_rows() {
            let before = left.remove(&row.first);
            let record = BranchRecord::read(row)?.agent;
            // A branch that was not folded and is not new has only got another name.
            let was_seen = before.is_some() || matches!(self.before.get(&row.first), Some(None));
            let now = record.clone().map(|record| (row.conversation, record));
            if was_seen && now != before {
                changes.push(AgentChange {
                    agent: row.first,
                    conversation: row.conversation,
                    record,
                });
            }
        }
        changes.extend(left.into_iter().map(|(agent, (conversation, _))| AgentChange {
            agent,
            conversation,
            record: None,
        }));
        changes.sort_unstable_by_key(|change| change.agent);
        Ok(changes)
    }

    /// The spawning calls of turns that were answered in this round.
    async fn new_claims(&mut self) -> Result<Vec<(ExchangeNumber, Spawn)>, LinkError> {
        if !self.settings.claims {
            return Ok(Vec::new());
        }
        let needs: HashSet<Need> = self.answered.iter().map(|number| Need::Spawns(*number)).collect();
        self.source.fetch(&needs, &mut self.known).await?;
        let calls = self.answered.iter().flat_map(|number| {
            let spawns = self.known.spawns.get(number).into_iter().flatten();
            spawns.map(|spawn| (*number, spawn.clone()))
        });
        Ok(calls.collect())
    }
}
