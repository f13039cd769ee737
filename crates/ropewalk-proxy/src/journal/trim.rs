//! Which segments may go.

use std::collections::BTreeSet;

use super::{Journal, Position};

impl Journal {
    /// Removes the segments before a position, but for those in which an open exchange has a record. Gives how many went.
    ///
    /// Everything before the position must be in the store, or belong to a pinned exchange. The newest segment always stays.
    pub fn trim(&self, recorded_to: Position, pinned: &BTreeSet<u32>) -> usize {
        let removable: Vec<u32> = {
            let table = self.segments.table();
            let newest = table.segments.keys().next_back().copied().unwrap_or(0);
            let before = table.segments.range(..recorded_to.segment.min(newest));
            before
                .map(|(number, _)| *number)
                .filter(|number| !pinned.contains(number))
                .collect()
        };
        for number in &removable {
            // It is recorded: a file that cannot be removed is read once more after a restart.
            if let Err(error) = self.segments.remove(*number) {
                tracing::warn!(%error, segment = number, "a segment of the journal cannot be removed");
            }
        }
        if !removable.is_empty() {
            self.segments.decide_accepts(false);
        }
        removable.len()
    }
}
