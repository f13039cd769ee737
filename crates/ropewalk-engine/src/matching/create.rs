//! Find what was answered, or ask and keep the answer: `find_or_create_from_messages` of seed 002.

use ropewalk_store::store::Recorded;
use ropewalk_store::{Store, StoreError};

use super::{Asked, Match, Outcome, StoredAnswer};
use crate::link::LinkError;
use crate::raw::RawExchange;
use crate::record::Recorder;
use crate::view::{View, ViewError};

/// What became of messages that were handed in.
#[derive(Debug, Clone)]
pub enum FoundOrCreated {
    /// Exactly this was answered before. Nobody was asked.
    Found {
        /// The newest answer to exactly this input.
        answer: Box<StoredAnswer>,
        /// All others at the same node: older ones, of other models, with other options.
        alternatives: Vec<StoredAnswer>,
    },
    /// Somebody was asked, and it is recorded and linked: behind `branch_point`, or as a conversation of its own.
    Created {
        recorded: Recorded,
        branch_point: Option<ropewalk_core::hash::NodeHash>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum FindOrCreateError<E> {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("nothing was answered")]
    Create(#[source] E),
}

impl<S: Store> Recorder<'_, S> {
    /// The answer to messages if there is one, else one that `create` gets, which is recorded and linked to what it goes on from.
    ///
    /// `create` is told how much is known: it can show where a new branch begins.
    pub async fn find_or_create_from_messages<E>(
        &mut self,
        asked: &Asked,
        create: impl AsyncFnOnce(&Match) -> Result<RawExchange, E>,
    ) -> Result<FoundOrCreated, FindOrCreateError<E>> {
        let view = View::new(self.store(), self.owner(), self.owner_name());
        let mut found = view.find_match(asked).await?;
        if found.outcome == Outcome::Exact {
            let answers = &mut found.answers.answers;
            if let Some(at) = answers.iter().position(|answer| asked.counts(answer)) {
                let answer = Box::new(answers.remove(at));
                let alternatives = std::mem::take(answers);
                return Ok(FoundOrCreated::Found { answer, alternatives });
            }
        }
        let raw = create(&found).await.map_err(FindOrCreateError::Create)?;
        let mut recorded = self.record(&[raw]).await?;
        self.link().await?;
        match recorded.pop() {
            Some(recorded) => Ok(FoundOrCreated::Created {
                recorded,
                branch_point: found.node,
            }),
            None => Err(StoreError::NoExchange.into()),
        }
    }
}
