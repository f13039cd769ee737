//! Tells of exchanges when they are linked, if anybody wants to hear of them.

use std::collections::BTreeMap;

use crate::telemetry::{Telemetry, Told};

/// Exchanges that wait for their links. While linking fails, more than this is not told.
const WAITING_MAX: usize = 4_096;

#[derive(Debug)]
pub(super) struct Telling {
    telemetry: Option<Telemetry>,
    /// By owner.
    waiting: BTreeMap<String, Vec<Told>>,
    count: usize,
}

impl Telling {
    pub(super) fn new(telemetry: Option<Telemetry>) -> Self {
        Telling {
            telemetry,
            waiting: BTreeMap::new(),
            count: 0,
        }
    }

    /// Whether anybody listens: otherwise nothing need be prepared.
    pub(super) fn is_heard(&self) -> bool {
        self.telemetry.is_some()
    }

    /// Is recorded, and not linked yet.
    pub(super) fn recorded(&mut self, told: Told) {
        if self.count < WAITING_MAX {
            self.count += 1;
            self.waiting.entry(told.owner.clone()).or_default().push(told);
        } else if let Some(telemetry) = &self.telemetry {
            telemetry.lost(1);
        }
    }

    /// Everything that was recorded of an owner is linked.
    pub(super) fn linked(&mut self, owner: &str) {
        let Some(waited) = self.waiting.remove(owner) else {
            return;
        };
        self.count -= waited.len();
        if let Some(telemetry) = &self.telemetry {
            waited.into_iter().for_each(|told| telemetry.tell(told));
        }
    }
}

impl Drop for Telling {
    /// The store has to be opened again, or everything ends: what waits is not told.
    fn drop(&mut self) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.lost(self.count);
        }
    }
}
