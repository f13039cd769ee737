//! How far imports have come that a server writes for commands.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ropewalk_engine::view::utc;
use ropewalk_server::source::Import;
use ropewalk_store::Micros;

use super::{Answer, Became, Request};

/// Imports that ended and are still told of, so that who looks seldom sees the end.
const ENDED_MAX: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    begun: u64,
    /// With whose it is.
    by_number: BTreeMap<u64, (String, Import)>,
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
        let own = state.by_number.values().filter(|(of, _)| of == owner);
        own.map(|(_, import)| import.clone()).collect()
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
        let (_, import) = state.by_number.entry(self.number).or_insert_with(|| {
            let begun = Import {
                import: self.number,
                started_at: utc(Micros(Timestamp::now().as_microsecond())),
                exchanges: 0,
                lines: 0,
                new: 0,
                known: 0,
                conflicts: 0,
                problems: 0,
                is_done: false,
            };
            (owner.clone(), begun)
        });
        import.exchanges += exchanges as u64;
        import.lines += lines as u64;
    }

    /// What became of what was brought.
    pub(super) fn became(&self, answer: &Answer) {
        let (became, problems) = match answer {
            Answer::Recorded(became) => (became, 0),
            Answer::Taken { became, problems } => (became, problems.len()),
            _ => return,
        };
        let mut state = self.imports.state();
        let Some((_, import)) = state.by_number.get_mut(&self.number) else {
            return;
        };
        import.problems += problems as u64;
        for became in became {
            match became {
                Became::New | Became::Completed | Became::Replaced => import.new += 1,
                Became::Known | Became::Forgotten => import.known += 1,
                Became::Conflict => import.conflicts += 1,
            }
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        let mut state = self.imports.state();
        if let Some((_, import)) = state.by_number.get_mut(&self.number) {
            import.is_done = true;
        }
        let ended: Vec<u64> = state
            .by_number
            .values()
            .filter(|(_, import)| import.is_done)
            .map(|(_, import)| import.import)
            .collect();
        for number in ended.iter().rev().skip(ENDED_MAX) {
            state.by_number.remove(number);
        }
    }
}
