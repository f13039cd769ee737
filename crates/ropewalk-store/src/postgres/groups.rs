//! Batches of one owner that wait for each other, recorded together.
//!
//! Positions follow commits, so an owner's lock is held until its fsync is done, and the batches of an owner come one
//! after the other. Here those that are handed in meanwhile become one transaction, which costs one fsync for all of
//! them and fewer statements for each ([decision 7](../../../../docs/decisions/0007-groups-and-tails.md)).
//!
//! Invariants:
//! - A batch that the server refuses fails alone: a group that is refused is recorded again, batch by batch.
//! - What nobody waits for any more is not begun, and given up unless others are in the same transaction.
//! - Groups have no part in what is right: several processes still meet at the owner's lock.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::problem::{is_of_connection, shared};
use super::{Postgres, record};
use crate::facts::{NewExchange, OwnerId};
use crate::store::{Recorded, Result, StoreError};

/// Transactions of an owner at a time: while one waits for the disk under the owner's lock, the other gets as far as to
/// that lock. A third would only take batches away from them.
const RUNNING_MAX: usize = 2;

/// Exchanges of a group: enough to make an fsync small, few enough for statements that take some hundredths of a second.
const GROUP_MAX: usize = 512;

type Answer = oneshot::Sender<Result<Vec<Recorded>>>;

/// Who records for whom in this process. Only owners with something under way are in it.
#[derive(Debug, Default)]
pub(super) struct Groups {
    owners: Mutex<HashMap<OwnerId, Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Vec<NewExchange>, Answer)>,
    running: usize,
}

/// Stores a batch, with others of the same owner if there are any.
pub(super) async fn record(store: &Postgres, owner: OwnerId, batch: Vec<NewExchange>) -> Result<Vec<Recorded>> {
    record::check(&batch)?;
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let (answer, outcome) = oneshot::channel();
    if let Some(runner) = Runner::needed_for(&store.groups, owner, batch, answer) {
        // A task of its own: a caller that gives up must not take the others with it.
        tokio::spawn(runner.run(store.clone()));
    }
    outcome.await.map_err(|_| StoreError::Stopped)?
}

/// Records an owner's groups, one after the other, until nothing waits.
struct Runner {
    groups: Arc<Groups>,
    owner: OwnerId,
    is_done: bool,
}

impl Runner {
    /// Queues a batch. Where nobody is there to take it soon, gives who has to.
    fn needed_for(groups: &Arc<Groups>, owner: OwnerId, batch: Vec<NewExchange>, answer: Answer) -> Option<Self> {
        let mut owners = groups.lock();
        let queue = owners.entry(owner).or_default();
        queue.waiting.push_back((batch, answer));
        if queue.running >= RUNNING_MAX {
            return None;
        }
        queue.running += 1;
        Some(Runner {
            groups: Arc::clone(groups),
            owner,
            is_done: false,
        })
    }

    async fn run(mut self, store: Postgres) {
        while let Some(group) = self.next_group() {
            group.record(&store, self.owner).await;
        }
    }

    /// What waits now. Whoever finds nothing is done, and under the same lock, so that no batch is left behind.
    fn next_group(&mut self) -> Option<Group> {
        let mut owners = self.groups.lock();
        let queue = owners.get_mut(&self.owner)?;
        let mut group = Group::default();
        while let Some((batch, answer)) = queue.waiting.pop_front() {
            if answer.is_closed() {
                continue;
            }
            if !group.answers.is_empty() && group.exchanges.len() + batch.len() > GROUP_MAX {
                queue.waiting.push_front((batch, answer));
                break;
            }
            group.push(batch, answer);
        }
        if !group.answers.is_empty() {
            return Some(group);
        }
        queue.leave();
        if queue.running == 0 {
            owners.remove(&self.owner);
        }
        self.is_done = true;
        None
    }
}

impl Queue {
    fn leave(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
}

impl Drop for Runner {
    /// Only of use where the runtime ends in the middle: those who wait then hear that nobody comes.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut owners = self.groups.lock();
        if let Some(queue) = owners.get_mut(&self.owner) {
            queue.leave();
            if queue.running == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Queue>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Batches that become one transaction.
#[derive(Debug, Default)]
struct Group {
    exchanges: Vec<NewExchange>,
    /// Per batch: where it lies among them, and who waits for it.
    answers: Vec<(Range<usize>, Answer)>,
}

impl Group {
    fn push(&mut self, batch: Vec<NewExchange>, answer: Answer) {
        let start = self.exchanges.len();
        self.exchanges.extend(batch);
        self.answers.push((start..self.exchanges.len(), answer));
    }

    async fn record(mut self, store: &Postgres, owner: OwnerId) {
        let together = tokio::select! {
            outcome = record::record(store, owner, &self.exchanges) => outcome,
            () = nobody_waits(&mut self.answers) => return,
        };
        match together {
            Ok(recorded) => {
                for (range, answer) in self.answers {
                    say(answer, Ok(recorded[range].to_vec()));
                }
            }
            Err(error) if self.answers.len() > 1 && !is_of_connection(&error) => {
                for (range, answer) in self.answers {
                    say(answer, record::record(store, owner, &self.exchanges[range]).await);
                }
            }
            Err(error) => {
                let mut answers = self.answers.into_iter();
                let first = answers.next();
                for (_, answer) in answers {
                    say(answer, Err(shared(&error)));
                }
                if let Some((_, answer)) = first {
                    say(answer, Err(error));
                }
            }
        }
    }
}

async fn nobody_waits(answers: &mut [(Range<usize>, Answer)]) {
    for (_, answer) in answers {
        answer.closed().await;
    }
}

/// A caller that has gone meanwhile hears nothing; what is committed stays.
fn say(answer: Answer, outcome: Result<Vec<Recorded>>) {
    let _ = answer.send(outcome);
}
