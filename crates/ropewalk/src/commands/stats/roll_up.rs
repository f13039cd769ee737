//! Sums by day, project, session, conversation, branch or agent.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ropewalk_engine::view::{Directory, Sums, View};
use ropewalk_store::Micros;
use ropewalk_store::Store as _;
use ropewalk_store::derived::{LinkRow, Links};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{Selection, Spent};

use super::super::PAGE;
use crate::any_store::AnyStore;
use crate::cli::{By, Stats};
use crate::context::Context;
use crate::failure::{Failure, Kind};

/// Agents that started each other and are counted in each other's figures; deeper ones are not looked for.
const AGENTS_DEEP: usize = 64;

/// What to sum up by.
pub(super) struct RollUp {
    by: By,
    zone: TimeZone,
}

/// Sums so far: by name, or by the exchange that a conversation, a branch or an agent begins with.
#[derive(Debug, Default)]
pub(super) struct Rolled {
    by_name: BTreeMap<String, Sums>,
    by_first: HashMap<ExchangeNumber, Sums>,
    links: HashMap<ExchangeNumber, LinkRow>,
}

impl RollUp {
    pub(super) fn new(context: &Context, arguments: &Stats) -> Result<Self, Failure> {
        let zone = match &arguments.tz {
            Some(name) => TimeZone::get(name).map_err(|error| {
                Failure::new(Kind::Usage, format!("no such time zone: {error}")).hint("as in Europe/Berlin, or UTC")
            })?,
            None if context.json => TimeZone::UTC,
            None => TimeZone::system(),
        };
        Ok(RollUp { by: arguments.by, zone })
    }

    pub(super) async fn add(
        &self,
        view: &View<'_, AnyStore>,
        rows: &[Spent],
        rolled: &mut Rolled,
    ) -> Result<(), Failure> {
        if matches!(self.by, By::Conversation | By::Branch | By::Agent) {
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
                rolled.by_first.entry(first).or_default().add(row);
            }
            rolled
                .links
                .extend(links.into_iter().filter(|(number, link)| link.agent == *number));
            return Ok(());
        }
        for row in rows {
            let name = match self.by {
                By::Day => self.day(row.at),
                By::Project => row.project.clone(),
                By::Session => row.session.clone(),
                _ => continue,
            };
            let name = name.unwrap_or_else(|| "unknown".to_owned());
            rolled.by_name.entry(name).or_default().add(row);
        }
        Ok(())
    }

    fn day(&self, at: Micros) -> Option<String> {
        let time = Timestamp::from_microsecond(at.0).ok()?;
        Some(time.to_zoned(self.zone.clone()).date().to_string())
    }

    /// `None` where the figures are by model.
    pub(super) async fn finish(
        &self,
        view: &View<'_, AnyStore>,
        mut rolled: Rolled,
    ) -> Result<Option<BTreeMap<String, Sums>>, Failure> {
        match self.by {
            By::Model => return Ok(None),
            By::Agent => rolled.add_to_parents(view).await?,
            _ => {}
        }
        let mut by_name = rolled.by_name;
        let firsts: Vec<ExchangeNumber> = rolled.by_first.keys().copied().collect();
        for page in firsts.chunks(PAGE) {
            let rows = view
                .store
                .exchanges(view.owner, Selection::Numbers(page.to_vec()), Micros::MAX)
                .await?;
            let shown = view.exchanges(&rows, &mut Directory::default()).await?;
            for (row, shown) in rows.iter().zip(shown) {
                let conversation = shown.conversation_id.unwrap_or_default();
                let name = match (self.by, shown.branch_id) {
                    (By::Branch | By::Agent, Some(branch)) => format!("{conversation}/{branch}"),
                    _ => conversation,
                };
                if let Some(sums) = rolled.by_first.get(&row.number) {
                    by_name.entry(name).or_default().merge(sums);
                }
            }
        }
        Ok(Some(by_name))
    }
}

impl Rolled {
    /// An agent's figures include those of the agents that it started.
    async fn add_to_parents(&mut self, view: &View<'_, AnyStore>) -> Result<(), Failure> {
        let parents: Vec<ExchangeNumber> = self.links.values().filter_map(|link| link.parent).collect();
        let mut agent_of: HashMap<ExchangeNumber, ExchangeNumber> = HashMap::new();
        for page in parents.chunks(PAGE) {
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
