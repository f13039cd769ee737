//! Sums by day and model: what was spent on what, and how much room it takes.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use ropewalk_engine::view::Sums;
use ropewalk_engine::view::roll_up::{self, RollUp, day};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::Spent;
use ropewalk_store::{Micros, Store};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{bounded, time};
use crate::problem::Problem;
use crate::source::Owned;

/// Exchanges that are added up for one question: seconds of work. Who has more asks for a part of the time.
const ROWS_MAX: usize = 2_000_000;

/// Lines of what is summed up by.
const LISTED: usize = 100;
const LISTED_MAX: usize = 1_000;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AskStats {
    /// Only what was asked since then.
    pub since: Option<String>,
    pub until: Option<String>,
    /// Whose days, as in Europe/Berlin; UTC unless you say.
    pub tz: Option<String>,
    /// What to sum up by as well.
    #[param(inline)]
    pub by: Option<By>,
    /// Of what is summed up by, how many: those that cost most.
    pub limit: Option<usize>,
    pub as_of: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Project,
    Session,
    Conversation,
    Branch,
    Agent,
}

impl From<By> for roll_up::By {
    fn from(by: By) -> Self {
        match by {
            By::Project => roll_up::By::Project,
            By::Session => roll_up::By::Session,
            By::Conversation => roll_up::By::Conversation,
            By::Branch => roll_up::By::Branch,
            By::Agent => roll_up::By::Agent,
        }
    }
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Stats {
    pub v: u32,
    pub total: Sums,
    pub models: BTreeMap<String, Sums>,
    /// Days on which something was asked, each with its models.
    pub days: BTreeMap<String, BTreeMap<String, Sums>>,
    /// Bytes of requests and answers that came on a day.
    pub bytes_by_day: BTreeMap<String, u64>,
    /// By what was asked for: projects, sessions, conversations by their ids, or `conversation/branch`.
    pub by: Option<BTreeMap<String, Sums>>,
    /// Of those, how many cost less and are not given.
    pub by_left_out: usize,
    /// Not all of the time that was asked for: there was too much.
    pub is_cut_off: bool,
    /// Of everything the owner has, whenever it was asked.
    pub storage: Storage,
}

#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Storage {
    pub exchanges: u64,
    pub bytes_in: u64,
    pub stored_bytes: u64,
    /// How often the bytes that came fit into those that are stored.
    pub ratio: Option<f64>,
}

pub async fn stats<S: Store>(owned: &Owned<S>, asked: &AskStats) -> Result<Stats, Problem> {
    let (since, until) = (time(asked.since.as_deref())?, time(asked.until.as_deref())?);
    let zone = match asked.tz.as_deref() {
        None => TimeZone::UTC,
        Some(name) => TimeZone::get(name)
            .map_err(|_| Problem::bad_request("this is no time zone").hint("as in Europe/Berlin, or UTC"))?,
    };
    let mut stats = Stats {
        v: 1,
        ..Stats::default()
    };
    let Some(view) = owned.view() else {
        return Ok(stats);
    };
    let stored = view.store.stats(view.owner).await?;
    stats.storage = Storage {
        exchanges: stored.exchanges,
        bytes_in: stored.bytes_in,
        stored_bytes: stored.stored_bytes,
        ratio: (stored.stored_bytes > 0).then(|| stored.bytes_in as f64 / stored.stored_bytes as f64),
    };
    let mut after = since.map(|since| (Micros(since.0.saturating_sub(1)), ExchangeNumber(i64::MAX)));
    let mut roll_up = asked.by.map(|by| RollUp::new(by.into(), zone.clone()));
    let mut read = 0;
    loop {
        let rows = view.spent_after(after).await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.at, last.number));
        let is_last = until.is_some_and(|until| last.at > until);
        let in_time: Vec<&Spent> = rows
            .iter()
            .filter(|row| until.is_none_or(|until| row.at <= until))
            .collect();
        for row in &in_time {
            stats.add(row, &zone);
        }
        if let Some(roll_up) = &mut roll_up {
            roll_up.add(&view, &in_time).await?;
        }
        read += rows.len();
        if is_last {
            break;
        }
        if read >= ROWS_MAX {
            stats.is_cut_off = true;
            break;
        }
    }
    if let Some(roll_up) = roll_up {
        let most = bounded(asked.limit, LISTED, LISTED_MAX);
        let (by, left_out) = roll_up.finish(&view, Some(most)).await?;
        (stats.by, stats.by_left_out) = (Some(by), left_out);
    }
    Ok(stats)
}

impl Stats {
    fn add(&mut self, row: &Spent, zone: &TimeZone) {
        let model = row.model.as_deref().unwrap_or("unknown");
        self.total.add(row);
        self.models.entry(model.to_owned()).or_default().add(row);
        if let Some(day) = day(row.at, zone) {
            *self.bytes_by_day.entry(day.clone()).or_default() += row.bytes;
            let models = self.days.entry(day).or_default();
            models.entry(model.to_owned()).or_default().add(row);
        }
    }
}
