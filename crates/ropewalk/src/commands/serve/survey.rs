//! What only a look at the store tells, for `/metrics`: how much it holds, and whether the records of logs keep their rules.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ropewalk_engine::records::{Checked, Rule};
use ropewalk_engine::view::{View, ViewError};
use ropewalk_store::Store as _;
use ropewalk_store::store::Severity;

use crate::any_store::AnyStore;
use crate::changes::server::Opened;

/// How often what is stored is added up: a row for each owner.
const SIZES_EVERY: Duration = Duration::from_secs(30);

/// How often the records of logs are gone over, which reads all of them.
const RECORDS_EVERY: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surveyed {
    /// What was said, each once: as it came, and as it is stored.
    pub(super) raw_bytes: u64,
    pub(super) stored_bytes: u64,
    /// Tool messages that do not hang where they belong, or are not marked as beside the main flow.
    pub(super) without_parent: u64,
    pub(super) without_flag: u64,
    pub(super) cycles: u64,
}

#[derive(Debug, Default)]
pub(super) struct Survey(Mutex<Surveyed>);

impl Survey {
    /// Begins to look, until the server ends.
    pub(super) fn start(store: Opened) -> Arc<Self> {
        let survey = Arc::<Survey>::default();
        tokio::spawn(Arc::clone(&survey).look_again_and_again(store));
        survey
    }

    pub(super) fn read(&self) -> Surveyed {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_again_and_again(self: Arc<Self>, mut store: Opened) {
        let mut records_read_at: Option<Instant> = None;
        loop {
            let Ok(opened) = store.wait_for(Option::is_some).await.map(|opened| opened.clone()) else {
                return;
            };
            let Some(opened) = opened else { continue };
            let reads_records = records_read_at.is_none_or(|at| at.elapsed() >= RECORDS_EVERY);
            if reads_records {
                records_read_at = Some(Instant::now());
            }
            match look(&opened, self.read(), reads_records).await {
                Ok(found) => *self.0.lock().unwrap_or_else(PoisonError::into_inner) = found,
                Err(error) => tracing::debug!(%error, "the store cannot be surveyed"),
            }
            drop(opened);
            tokio::time::sleep(SIZES_EVERY).await;
        }
    }
}

async fn look(store: &AnyStore, before: Surveyed, reads_records: bool) -> Result<Surveyed, ViewError> {
    let mut found = match reads_records {
        true => Surveyed::default(),
        false => Surveyed {
            raw_bytes: 0,
            stored_bytes: 0,
            ..before
        },
    };
    for (owner, name) in store.all_owners().await? {
        let sizes = store.stats(owner).await?;
        found.raw_bytes += sizes.part_bytes;
        found.stored_bytes += sizes.stored_bytes;
        if reads_records {
            found.add(&View::new(store, owner, name).check_records().await?);
        }
    }
    Ok(found)
}

impl Surveyed {
    fn add(&mut self, checked: &Checked) {
        for found in &checked.found {
            match (found.rule, found.severity) {
                // Of other messages it is a warning.
                (Rule::Parent, Severity::Error) | (Rule::ToolUseParent | Rule::ToolResultParent, _) => {
                    self.without_parent += found.count;
                }
                (Rule::ToolFlag, _) => self.without_flag += found.count,
                (Rule::Cycle, _) => self.cycles += found.count,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ropewalk_engine::records::Found;

    use super::*;

    #[test]
    fn broken_rules_are_counted_by_what_is_missing() {
        let found = [
            (Rule::Parent, Severity::Error, 1),
            (Rule::Parent, Severity::Warning, 10),
            (Rule::ToolUseParent, Severity::Error, 2),
            (Rule::ToolResultParent, Severity::Error, 4),
            (Rule::ToolFlag, Severity::Error, 5),
            (Rule::Cycle, Severity::Error, 3),
            (Rule::ToolPair, Severity::Note, 9),
        ];
        let checked = Checked {
            found: found
                .map(|(rule, severity, count)| Found {
                    rule,
                    severity,
                    count,
                    examples: Vec::new(),
                })
                .to_vec(),
            ..Checked::default()
        };
        let mut surveyed = Surveyed::default();
        surveyed.add(&checked);
        surveyed.add(&checked);
        assert_eq!(
            (surveyed.without_parent, surveyed.without_flag, surveyed.cycles),
            (14, 10, 6)
        );
    }
}
