//! Sums by day, project, session, conversation, branch or agent.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ropewalk_store::derived::{LinkRow, Links};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{PAGE_MAX, Spent};
use ropewalk_store::{Micros, Store};

use crate::view::{Directory, Result, Sums, View};

/// Agents that started each other and are counted in each other's figures; deeper ones are not looked for.
const AGENTS_DEEP: usize = 64;

/// What to sum up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Day,
    Project,
    Session,
    Conversation,
    Branch,
    Agent,
}

/// The day of a time, where a zone has it.
pub fn day(at: Micros, zone: &TimeZone) -> Option<String> {
    let time = Timestamp::from_microsecond(at.0).ok()?;
    Some(time.to_zoned(zone.clone()).date().to_string())
}

/// Sums so far: by name, or by the exchange that a conversation, a branch or an agent begins with.
#[derive(Debug)]
pub struct RollUp {
    by: By,
    zone: TimeZone,
    by_name: BTreeMap<String, Sums>,
    by_first: HashMap<ExchangeNumber, Sums>,
    links: HashMap<ExchangeNumber, LinkRow>,
}

impl RollUp {
    pub fn new(by: By, zone: TimeZone) -> Self {
        RollUp {
            by,
            zone,
            by_name: BTreeMap::new(),
            by_first: HashMap::new(),
            links: HashMap::new(),
        }
    }

    pub async fn add<S: Store>(&mut self, view: &View<'_, S>, rows: &[&Spent]) -> Result<()> {
        if matches!(self.by, By::Conversation | By::Branch | By::Agent) {
            return self.add_linked(view, rows).await;
        }
        for row in rows {
            let name = match self.by {
                By::Day => day(row.at, &self.zone),
                By::Project => row.project.clone(),
                _ => row.session.clone(),
            };
            let name = name.unwrap_or_else(|| "unknown".to_owned());
            self.by_name.entry(name).or_default().add(row);
        }
        Ok(())
    }

    async fn add_linked<S: Store>(&mut self, view: &View<'_, S>, rows: &[&Spent]) -> Result<()> {
        let numbers = rows.iter().map(|row| row.number).collect();
        let links = view.store.links(view.owner, Links::Of(numbers)).await?;
        let links: HashMap<ExchangeNumber, LinkRow> = links.into_iter().map(|link| (link.exchange, link)).collect();
        for row in rows {
            // What is not linked yet belongs nowhere.
            let Some(link) = links.get(&row.number) else { continue };
            let first = match self.by {
                By::Conversation => link.conversation,
                By::Branch => link.branch,
                _ => link.agent,
            };
            self.by_first.entry(first).or_default().add(row);
        }
        let firsts = links.into_iter().filter(|(number, link)| link.agent == *number);
        self.links.extend(firsts);
        Ok(())
    }

    /// All sums, or those of the `most` that cost most.
    pub async fn finish<S: Store>(
        mut self,
        view: &View<'_, S>,
        most: Option<usize>,
    ) -> Result<(BTreeMap<String, Sums>, usize)> {
        if self.by == By::Agent {
            self.add_to_parents(view).await?;
        }
        let mut left_out = 0;
        if let Some(most) = most {
            for name in cheaper(self.by_name.iter(), most) {
                self.by_name.remove(&name);
                left_out += 1;
            }
            for first in cheaper(self.by_first.iter(), most) {
                self.by_first.remove(&first);
                left_out += 1;
            }
        }
        let firsts: Vec<ExchangeNumber> = self.by_first.keys().copied().collect();
        for page in firsts.chunks(PAGE_MAX) {
            let rows = view.rows(page.to_vec()).await?;
            let shown = view.exchanges(&rows, &mut Directory::default()).await?;
            for (row, shown) in rows.iter().zip(shown) {
                let conversation = shown.conversation_id.unwrap_or_default();
                let name = match (self.by, shown.branch_id) {
                    (By::Branch | By::Agent, Some(branch)) => format!("{conversation}/{branch}"),
                    _ => conversation,
                };
                if let Some(sums) = self.by_first.get(&row.number) {
                    self.by_name.entry(name).or_default().merge(sums);
                }
            }
        }
        Ok((self.by_name, left_out))
    }

    /// An agent's figures include those of the agents that it started.
    async fn add_to_parents<S: Store>(&mut self, view: &View<'_, S>) -> Result<()> {
        let parents: Vec<ExchangeNumber> = self.links.values().filter_map(|link| link.parent).collect();
        let mut agent_of: HashMap<ExchangeNumber, ExchangeNumber> = HashMap::new();
        for page in parents.chunks(PAGE_MAX) {
            let links = view.store.links(view.owner, Links::Of(page.to_vec())).await?;
            agent_of.extend(links.iter().map(|link| (link.exchange, link.agent)));
        }
        let own = self.by_first.clone();
        for (agent, sums) in own {
            let mut at = agent;
            for _ in 0..AGENTS_DEEP {
                let started_by = self.links.get(&at).and_then(|link| agent_of.get(&link.parent?));
                let Some(parent) = started_by.copied().filter(|parent| *parent != at) else {
                    break;
                };
                self.by_first.entry(parent).or_default().merge(&sums);
                at = parent;
            }
        }
        Ok(())
    }
}

/// What is dear, and among what has no price, what is long.
fn weight(sums: &Sums) -> (u64, u64) {
    let nano_usd = (sums.cost_usd * 1e9) as u64;
    (nano_usd, sums.input_tokens + sums.output_tokens)
}

/// All but the `most` that cost most.
fn cheaper<'s, K: Clone + Ord + 's>(sums: impl Iterator<Item = (&'s K, &'s Sums)>, most: usize) -> Vec<K> {
    let mut weights: Vec<_> = sums.map(|(key, sums)| (weight(sums), key.clone())).collect();
    weights.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    weights.into_iter().skip(most).map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(cost_usd: f64, input_tokens: u64) -> Sums {
        let mut sums = Sums::default();
        (sums.cost_usd, sums.input_tokens) = (cost_usd, input_tokens);
        sums
    }

    #[test]
    fn the_dearest_are_kept_and_among_those_without_a_price_the_longest() {
        let all = BTreeMap::from([
            ("free and short", sums(0.0, 1)),
            ("dear", sums(2.0, 1)),
            ("free and long", sums(0.0, 900)),
            ("cheap", sums(0.001, 1)),
        ]);
        assert_eq!(cheaper(all.iter(), 2), ["free and long", "free and short"]);
        assert_eq!(cheaper(all.iter(), 3), ["free and short"]);
        assert!(cheaper(all.iter(), 9).is_empty());
    }
}
