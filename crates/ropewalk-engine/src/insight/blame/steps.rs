//! The exchanges that are looked at, in order, and the few of them whose bodies are read.
//!
//! Exchanges with the same hashes of system prompt and tools stand behind the same parts, so one body is read for all of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::{ExchangeNumber, HashKind, Key};
use ropewalk_store::store::{Asked, ExchangeRow, PAGE_MAX, Questions};
use ropewalk_store::{Micros, Store};

use super::parts::{ContextPart, parts};
use crate::insight::cache::total_input;
use crate::link::decision::Linked;
use crate::view::{Directory, Result, View, ViewError, hash_of};

/// Links of one conversation that are kept at once. One that has more is followed link by link.
const LINKS_MAX: usize = 20_000;

/// Turns of one path that are looked at.
pub(super) const STEPS_MAX: usize = 20_000;

/// Bodies that are read for one answer.
pub(super) const BODIES_MAX: usize = 256;

/// Bodies that are read at once, and about how many bytes of them: what turns share is then read once.
const TOGETHER_MAX: usize = 8;
const TOGETHER_BYTES_MAX: u64 = 8 << 20;

/// Exchanges in a row with the same system prompt and tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) first: usize,
    /// The last one included.
    pub(super) last: usize,
}

pub(super) fn runs(steps: &[ExchangeRow]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if name(&steps[run.last]) == name(step) => run.last = at,
            _ => runs.push(Run { first: at, last: at }),
        }
    }
    runs
}

type ContextName = (Option<String>, Option<String>);

fn name(row: &ExchangeRow) -> ContextName {
    (hash_of(row, HashKind::SystemRaw), hash_of(row, HashKind::Tools))
}

/// Parts by the hashes of what they belong to.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    known: HashMap<ContextName, Arc<[ContextPart]>>,
}

impl Contexts {
    /// Whether [`Self::of`] may be asked for an exchange.
    pub(super) fn has_room_for(&self, row: &ExchangeRow) -> bool {
        self.known.len() < BODIES_MAX || self.known.contains_key(&name(row))
    }

    /// What stood in front of an exchange's messages. Those that are `next` will be asked for, and may be read with it.
    pub(super) async fn of<'r, S: Store>(
        &mut self,
        view: &View<'_, S>,
        row: &'r ExchangeRow,
        next: impl Iterator<Item = &'r ExchangeRow>,
    ) -> Result<Arc<[ContextPart]>> {
        let wanted = name(row);
        if let Some(known) = self.known.get(&wanted) {
            return Ok(Arc::clone(known));
        }
        let mut together = vec![(wanted, row)];
        let mut bytes = row.request_length;
        for row in next.take(TOGETHER_MAX) {
            bytes = bytes.saturating_add(row.request_length);
            let is_full = together.len() == TOGETHER_MAX || self.known.len() + together.len() >= BODIES_MAX;
            if is_full || bytes > TOGETHER_BYTES_MAX {
                break;
            }
            let name = name(row);
            if !self.known.contains_key(&name) && together.iter().all(|(other, _)| *other != name) {
                together.push((name, row));
            }
        }
        let rows: Vec<&ExchangeRow> = together.iter().map(|(_, row)| *row).collect();
        let prompts = view.prompts_sent(&rows).await?;
        let mut found: Vec<Arc<[ContextPart]>> = Vec::with_capacity(prompts.len());
        for ((name, row), prompt) in together.into_iter().zip(prompts) {
            let tokens = row.usage.as_ref().map_or(0, total_input);
            let parts = prompt.map_or_else(Vec::new, |prompt| parts(&prompt, tokens));
            found.push(parts.into());
            self.known.extend(found.last().map(|parts| (name, Arc::clone(parts))));
        }
        Ok(found.swap_remove(0))
    }
}

impl<S: Store> View<'_, S> {
    /// An agent's exchanges from its first to this one, those that a provider answered, and whether there are more.
    pub(super) async fn steps_to(&self, row: &ExchangeRow) -> Result<(Vec<ExchangeRow>, bool)> {
        let link = self.find_link(row.number).await?;
        let link = link.ok_or_else(|| ViewError::NotLinked { id: row.id.clone() })?;
        let mut near = self.links_near(&link).await?;
        let (agent, mut next) = (link.agent, Some(link));
        let mut path = Vec::new();
        let mut met = HashSet::new();
        // Links never go in a circle; a damaged store may.
        while let Some(link) = next.take_if(|link| link.agent == agent && met.insert(link.exchange)) {
            if path.len() == STEPS_MAX {
                next = Some(link);
                break;
            }
            path.push(link.exchange);
            next = match link.decision.parent {
                Some(parent) => match near.remove(&parent) {
                    Some(known) => Some(known),
                    None => self.find_link(parent).await?,
                },
                None => None,
            };
        }
        let is_cut = path.len() == STEPS_MAX && next.is_some();
        // By links rather than by clocks, which may be wrong.
        let places: HashMap<ExchangeNumber, usize> = path.iter().rev().copied().zip(0..).collect();
        let mut rows = self.rows(path).await?;
        rows.retain(|step| step.usage.is_some() || step.number == row.number);
        rows.sort_by_key(|step| places.get(&step.number).copied());
        Ok((rows, is_cut))
    }

    async fn links_near(&self, link: &Linked) -> Result<HashMap<ExchangeNumber, Linked>> {
        let mut near = HashMap::new();
        let mut after = None;
        while near.len() < LINKS_MAX {
            let page = self.links_in(link.conversation, after).await?;
            let Some(last) = page.last().map(|last| (last.at, last.exchange)) else {
                break;
            };
            after = Some(last);
            near.extend(page.into_iter().map(|link| (link.exchange, link)));
            if last >= (link.at, link.exchange) {
                break;
            }
        }
        Ok(near)
    }

    /// The newest turns with a key, oldest first, apart by who asked: a main agent, and each kind of agent that was started. With
    /// whether there are older ones.
    pub(super) async fn lanes_of(&self, key: Key) -> Result<(Vec<Vec<ExchangeRow>>, bool)> {
        let questions = Questions {
            keys: vec![Asked::of(key)],
            limit: PAGE_MAX,
            ..Questions::default()
        };
        let mut found = self.store.look_up(self.owner, questions, Micros::MAX).await?;
        let numbers = found.exchanges.pop().unwrap_or_default();
        let is_cut = numbers.len() >= PAGE_MAX;
        let links = self.links(numbers.clone()).await?;
        let links: HashMap<ExchangeNumber, Linked> = links.into_iter().map(|link| (link.exchange, link)).collect();
        let mut rows = self.rows(numbers).await?;
        rows.retain(|row| row.usage.is_some());
        rows.sort_by_key(|row| (row.at, row.number));
        let mut directory = Directory::default();
        let mut lanes: BTreeMap<(String, Option<String>), Vec<ExchangeRow>> = BTreeMap::new();
        for row in rows {
            let Some(link) = links.get(&row.number).filter(|link| link.kind() == LinkKind::Turn) else {
                continue;
            };
            let mut name = None;
            if link.agent != link.conversation
                && let Some(conversation) = directory.conversation(self, link.conversation).await?
            {
                let agent = directory.agent(self, &conversation, link.agent).await?;
                name = agent.and_then(|agent| agent.record.name.clone());
            }
            lanes.entry((row.provider.clone(), name)).or_default().push(row);
        }
        Ok((lanes.into_values().collect(), is_cut))
    }
}
