//! Generated API traffic of many conversations at once, with the truth about who belongs to whom.
//!
//! For tests of linking, at any size: a hundred conversations in a property test, a hundred thousand by hand. [`Traffic`] yields
//! the exchanges in the order in which they took place, many conversations interleaved, each with its [`Truth`]; [`score()`]
//! compares what a linker found with it. [`Mix`] says how much of what there is, [`Cause`] names how an exchange came about.
//!
//! Inside: `script` and `plot` make up one conversation (`agents` and `compaction` its harder parts), `send` makes single exchanges
//! of it, `render` writes their bodies, `draft` finishes them.
//!
//! Everything follows from the settings. The two modes of one seed have the same exchanges and the same truth, and differ in
//! what the client says about itself only.

mod agents;
mod compaction;
mod draft;
mod history;
mod mix;
mod plot;
mod render;
mod score;
mod script;
mod send;
mod texts;
mod truth;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ropewalk_wire::exchange::ExchangeLine;

pub use mix::Mix;
pub use score::{CauseScore, Found, Score, score};
pub use truth::{ByContent, Cause, Kind, Spawn, Truth};
pub use write::write_line;

use crate::conversation::Random;
use script::Script;

/// 2026-03-01T00:00:00Z.
const START_MICROS: i64 = 1_772_323_200_000_000;

/// What a client says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Sessions and agents, in headers and in the body.
    Hinted,
    /// Nothing.
    ContentOnly,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub seed: u64,
    pub conversations: u64,
    pub mode: Mode,
    pub mix: Mix,
    /// Conversations are dealt out to so many; one owner is not named.
    pub owners: u64,
    /// From the start of one conversation to the start of the next. They last for minutes, so most of them overlap.
    pub spacing_ms: u64,
}

impl Settings {
    pub fn new(seed: u64, conversations: u64, mode: Mode) -> Self {
        Settings {
            seed,
            conversations,
            mode,
            mix: Mix::default(),
            owners: 1,
            spacing_ms: 1_000,
        }
    }
}

/// A recorded exchange with what is true of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub line: ExchangeLine,
    pub truth: Truth,
}

/// The exchanges of all conversations, in true time. Holds only the conversations that are under way.
#[derive(Debug)]
pub struct Traffic {
    settings: Settings,
    begun: u64,
    /// By true time, conversation and place in it.
    waiting: BTreeMap<(i64, u64, usize), Recorded>,
}

impl Traffic {
    pub fn new(settings: Settings) -> Self {
        Traffic {
            settings,
            begun: 0,
            waiting: BTreeMap::new(),
        }
    }

    fn next_start(&self) -> Option<i64> {
        let start = START_MICROS + (self.begun * self.settings.spacing_ms) as i64 * script::MILLISECOND;
        (self.begun < self.settings.conversations).then_some(start)
    }

    fn begin(&mut self, start: i64) {
        let number = self.begun;
        self.begun += 1;
        // Conversations have random numbers of their own, so that one more of them changes no other.
        let random = Random(Random(self.settings.seed ^ number.rotate_left(32)).next_u64());
        let drafts = Script::new(&self.settings, random).play(start);
        let recorded = draft::finish(&self.settings, number, drafts);
        for (place, (at, recorded)) in recorded.into_iter().enumerate() {
            self.waiting.insert((at, number, place), recorded);
        }
    }
}

impl Iterator for Traffic {
    type Item = Recorded;

    fn next(&mut self) -> Option<Recorded> {
        while let Some(start) = self.next_start() {
            let earliest = self.waiting.first_key_value().map(|(key, _)| key.0);
            if earliest.is_some_and(|earliest| earliest < start) {
                break;
            }
            self.begin(start);
        }
        self.waiting.pop_first().map(|(_, recorded)| recorded)
    }
}
