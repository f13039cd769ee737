//! How far imports have come that a server writes for commands.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::Request;

/// Imports that ended and are still told of, so that who looks seldom sees the end.
const ENDED_MAX: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    begun: u64,
    by_number: BTreeMap<u64, Import>,
}

/// What one command brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Import {
    pub(crate) import: u64,
    #[serde(skip)]
    pub(crate) owner: String,
    /// Exchanges, and lines of logs.
    pub(crate) exchanges: u64,
    pub(crate) lines: u64,
    pub(crate) is_done: bool,
}

impl Imports {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a command that may bring something.
    pub(super) fn begin(&self) -> Counting<'_> {
        let mut state = self.state();
        state.begun += 1;
        Counting {
            imports: self,
            number: state.begun,
        }
    }

    /// Those of one owner.
    pub(crate) fn of(&self, owner: &str) -> Vec<Import> {
        let state = self.state();
        state
            .by_number
            .values()
            .filter(|import| import.owner == owner)
            .cloned()
            .collect()
    }
}

/// Counts until it is dropped.
pub(super) struct Counting<'i> {
    imports: &'i Imports,
    number: u64,
}

impl Counting<'_> {
    pub(super) fn count(&self, request: &Request) {
        let (owner, exchanges, lines) = match request {
            Request::Record { owner, exchanges } => (owner, exchanges.len(), 0),
            Request::Log { owner, logged, .. } => (owner, 0, logged.len()),
            _ => return,
        };
        let mut state = self.imports.state();
        let import = state.by_number.entry(self.number).or_insert_with(|| Import {
            import: self.number,
            owner: owner.clone(),
            exchanges: 0,
            lines: 0,
            is_done: false,
        });
        import.exchanges += exchanges as u64;
        import.lines += lines as u64;
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let mut state = self.imports.state();
        if let Some(import) = state.by_number.get_mut(&self.number) {
            import.is_done = true;
        }
        let ended: Vec<u64> = state
            .by_number
            .values()
            .filter(|import| import.is_done)
            .map(|import| import.import)
            .collect();
        for number in ended.iter().rev().skip(ENDED_MAX) {
            state.by_number.remove(number);
        }
    }
}
