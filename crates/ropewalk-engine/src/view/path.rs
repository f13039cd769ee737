//! Path hashes: each over that of the parent exchange of the same agent.

use std::collections::{HashMap, HashSet};

use ropewalk_core::prompt_path::path_hash;
use ropewalk_store::Store;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, HashKind};
use ropewalk_store::store::ExchangeRow;

use crate::link::decision::Linked;
use crate::view::{Result, View, hash_of};

/// Paths that are kept; of a listing in the order of time the parents are nearly always among them.
const PATHS_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Paths {
    /// With the agent of the exchange, since a child's path does not go on from its parent's.
    known: HashMap<ExchangeNumber, (Option<ExchangeNumber>, Option<String>)>,
}

/// One exchange on the way back to the root.
struct Step {
    number: ExchangeNumber,
    prompt: Option<String>,
    /// Another attempt is the same step.
    is_repeated: bool,
}

impl Paths {
    /// The path hash of an exchange; `None` for one whose request cannot be read.
    pub(super) async fn of<S: Store>(
        &mut self,
        view: &View<'_, S>,
        row: &ExchangeRow,
        link: Option<&Linked>,
    ) -> Result<Option<String>> {
        if self.known.len() >= PATHS_MAX {
            self.known.clear();
        }
        let agent = link.map(|link| link.agent);
        // From the exchange back to one whose path is known, then forward again.
        let mut steps = vec![step(row, link)];
        let mut met = HashSet::from([row.number]);
        let mut parent = link.and_then(|link| link.decision.parent);
        let mut path: Option<String> = None;
        while let Some(number) = parent {
            if let Some((of, known)) = self.known.get(&number) {
                path = known.clone().filter(|_| *of == agent);
                break;
            }
            let link = view.find_link(number).await?.filter(|link| Some(link.agent) == agent);
            let (Some(link), Some(row)) = (link, view.find_row(number).await?) else {
                break;
            };
            // Links never go in a circle; a damaged store may.
            if !met.insert(number) {
                break;
            }
            steps.push(step(&row, Some(&link)));
            parent = link.decision.parent;
        }
        for step in steps.into_iter().rev() {
            if !step.is_repeated || path.is_none() {
                path = step.prompt.map(|prompt| path_hash(path.as_deref(), &prompt));
            }
            self.known.insert(step.number, (agent, path.clone()));
        }
        Ok(path)
    }
}

fn step(row: &ExchangeRow, link: Option<&Linked>) -> Step {
    Step {
        number: row.number,
        prompt: hash_of(row, HashKind::Prompt),
        is_repeated: link.is_some_and(|link| link.kind() == LinkKind::Retry),
    }
}
