//! What readers ask that wait for something to happen.

use ropewalk_store::derived::LinkState;
use ropewalk_store::facts::{ExchangeNumber, KeyKind, Position};
use ropewalk_store::store::{Asked, ExchangeRow, Questions, Selection};
use ropewalk_store::{Micros, Store};

use crate::keys::id_key;
use crate::view::{Result, View};

impl<S: Store> View<'_, S> {
    /// The newest exchanges of a client's session, newest first.
    pub async fn newest_of_session(&self, session: &str, limit: usize) -> Result<Vec<ExchangeNumber>> {
        let questions = Questions {
            keys: vec![Asked::of(id_key(KeyKind::Session, session))],
            limit,
            ..Questions::default()
        };
        let answers = self.store.look_up(self.owner, questions, Micros::MAX).await?;
        Ok(answers.exchanges.into_iter().flatten().collect())
    }

    /// What was linked and named behind a position, in the order of commits, and where to go on. An exchange comes when it begins,
    /// and again when it ends.
    pub async fn settled_after(
        &self,
        state: &LinkState,
        after: Position,
        limit: usize,
    ) -> Result<(Vec<ExchangeRow>, Position)> {
        let settled = state.linked_to.min(state.named_to);
        if settled <= after {
            return Ok((Vec::new(), after));
        }
        let page = Selection::Log { after, limit };
        let mut rows = self.store.exchanges(self.owner, page, Micros::MAX).await?;
        rows.retain(|row| row.position <= settled);
        let last = rows.last().map_or(settled, |row| row.position);
        Ok((rows, last))
    }
}
