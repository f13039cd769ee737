//! The causes of a period, ranked by what they cost.
//!
//! A turn that read everything is known by two rows; bodies are read only where something was lost.

use std::collections::{BTreeMap, HashMap};

use ropewalk_core::cost::NanoUsd;
use ropewalk_store::derived::LinkKind;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::ExchangeRow;
use ropewalk_store::{Micros, Store};
use serde::Serialize;
use utoipa::ToSchema;

use super::rules::{left_behind, lost};
use super::{CacheReport, CauseKind, Outcome, Prices, is_answered, total_input};
use crate::detail::Kept;
use crate::link::decision::Linked;
use crate::view::{Cursor, Result, View, usd};

/// Rows that are read at once.
const PAGE: usize = 256;

/// Below this share of what could have been read, something is wrong.
pub const ALARM_SHARE: f64 = 0.5;

/// Fewer turns are no trend.
const ALARM_TURNS_MIN: u64 = 10;

/// Which exchanges are looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Period {
    pub since: Option<Micros>,
    pub until: Option<Micros>,
    /// At most so many; all of them if nothing is said.
    pub exchanges_max: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct CacheStats {
    pub v: u32,
    pub owner: String,
    /// Turns with a turn before them whose prompt the provider could have read.
    pub turns: u64,
    pub hits: u64,
    /// First turns, and those behind a turn that left nothing.
    pub nothing_to_read: u64,
    /// Exchanges whose answers say nothing of a cache.
    pub nothing_to_explain: u64,
    pub readable_tokens: u64,
    /// Of those, what was read.
    pub read_tokens: u64,
    pub lost_tokens: u64,
    /// Of what could have been read.
    pub read_share: Option<f64>,
    pub lost_usd: f64,
    pub lost_is_estimate: bool,
    /// Turns of models that no table knows the prices of; what they lost is in no sum of money.
    pub without_price: u64,
    /// There were more exchanges than were looked at: the newer ones are not in the sums.
    pub is_cut: bool,
    /// The dearest first.
    pub causes: Vec<CauseSums>,
    #[serde(skip)]
    lost: NanoUsd,
}

#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CauseSums {
    pub cause: CauseKind,
    pub turns: u64,
    pub lost_tokens: u64,
    pub lost_usd: f64,
    /// The turn that lost most by it.
    pub example: String,
    #[serde(skip)]
    lost: NanoUsd,
    #[serde(skip)]
    most: (NanoUsd, u64),
}

impl CacheStats {
    /// Of an owner without any data.
    pub fn of_nobody(owner: &str) -> Self {
        CacheStats {
            v: 1,
            owner: owner.to_owned(),
            ..CacheStats::default()
        }
    }

    /// Whether less was read than that share of what could have been, over enough turns to tell.
    pub fn is_alarming(&self, share: f64) -> bool {
        self.turns >= ALARM_TURNS_MIN && self.read_share.is_some_and(|read| read < share)
    }

    fn add(&mut self, report: &CacheReport, causes: &mut BTreeMap<CauseKind, CauseSums>) {
        match report.outcome {
            Outcome::NothingToExplain => self.nothing_to_explain += 1,
            Outcome::NothingToRead => self.nothing_to_read += 1,
            Outcome::Hit => self.add_hit(report.readable_tokens),
            Outcome::Partial | Outcome::Miss => {
                self.turns += 1;
                add(&mut self.readable_tokens, report.readable_tokens);
                add(&mut self.read_tokens, report.readable_tokens - report.lost_tokens);
                add(&mut self.lost_tokens, report.lost_tokens);
            }
        }
        let Some(cause) = &report.cause else { return };
        let lost = report.money.map_or(NanoUsd(0), |money| money.lost);
        self.without_price += u64::from(report.money.is_none());
        self.lost = self.lost + lost;
        self.lost_is_estimate |= report
            .money
            .is_some_and(|money| money.cost_is_estimate && money.lost.0 > 0);
        let sums = causes.entry(cause.kind).or_insert_with(|| CauseSums {
            cause: cause.kind,
            turns: 0,
            lost_tokens: 0,
            lost_usd: 0.0,
            example: report.exchange_id.clone(),
            lost: NanoUsd(0),
            most: (NanoUsd(0), 0),
        });
        sums.turns += 1;
        add(&mut sums.lost_tokens, report.lost_tokens);
        sums.lost = sums.lost + lost;
        sums.lost_usd = usd(sums.lost.0);
        if (lost, report.lost_tokens) > sums.most {
            sums.most = (lost, report.lost_tokens);
            sums.example.clone_from(&report.exchange_id);
        }
    }

    fn add_hit(&mut self, readable: u64) {
        self.turns += 1;
        self.hits += 1;
        add(&mut self.readable_tokens, readable);
        add(&mut self.read_tokens, readable);
    }
}

impl<S: Store> View<'_, S> {
    /// What the exchanges of a period lost, and by what.
    pub async fn cache_stats(&self, period: Period, prices: Prices<'_>) -> Result<CacheStats> {
        let Period { since, until, .. } = period;
        let mut stats = CacheStats::of_nobody(&self.owner_name);
        let mut causes = BTreeMap::new();
        let mut left = period.exchanges_max.unwrap_or(u64::MAX);
        let mut after: Option<Cursor> =
            since.map(|since| (Micros(since.0.saturating_sub(1)), ExchangeNumber(i64::MAX)));
        loop {
            let mut rows = self.rows_after(after, PAGE).await?;
            let Some(last) = rows.last() else { break };
            after = Some((last.at, last.number));
            let is_over = until.is_some_and(|until| last.at > until);
            rows.retain(|row| until.is_none_or(|until| row.at <= until));
            stats.is_cut = rows.len() as u64 > left;
            rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= rows.len() as u64;
            self.add_page(&rows, &mut stats, &mut causes, prices).await?;
            if is_over || stats.is_cut {
                break;
            }
        }
        let (read, readable) = (stats.read_tokens as f64, stats.readable_tokens as f64);
        stats.read_share = (stats.readable_tokens > 0).then(|| read / readable);
        stats.lost_usd = usd(stats.lost.0);
        stats.causes = causes.into_values().collect();
        stats
            .causes
            .sort_by_key(|sums| std::cmp::Reverse((sums.lost, sums.lost_tokens, sums.turns)));
        Ok(stats)
    }

    async fn add_page(
        &self,
        rows: &[ExchangeRow],
        stats: &mut CacheStats,
        causes: &mut BTreeMap<CauseKind, CauseSums>,
        prices: Prices<'_>,
    ) -> Result<()> {
        let links = self.by_number(rows.iter().map(|row| row.number).collect()).await?;
        let parents: Vec<ExchangeNumber> = links.values().filter_map(|link| link.decision.parent).collect();
        let parent_links = self.by_number(parents.clone()).await?;
        let parent_rows = self.rows(parents).await?;
        let parent_rows: HashMap<ExchangeNumber, &ExchangeRow> =
            parent_rows.iter().map(|row| (row.number, row)).collect();
        for row in rows.iter().filter(|row| is_answered(row)) {
            // What is not linked yet is counted when it is.
            let Some(link) = links.get(&row.number) else { continue };
            let parent = link.decision.parent.filter(|parent| {
                let theirs = parent_links.get(parent);
                link.kind() == LinkKind::Turn && theirs.is_some_and(|theirs| theirs.agent == link.agent)
            });
            let before = parent.and_then(|parent| parent_rows.get(&parent));
            match before.and_then(|before| hit(before, row)) {
                Some(readable) => stats.add_hit(readable),
                None => stats.add(&self.explain_cache(row, prices).await?, causes),
            }
        }
        Ok(())
    }

    async fn by_number(&self, numbers: Vec<ExchangeNumber>) -> Result<HashMap<ExchangeNumber, Linked>> {
        let links = self.links(numbers).await?;
        Ok(links.into_iter().map(|link| (link.exchange, link)).collect())
    }
}

/// Providers count, and may count anything.
fn add(sum: &mut u64, tokens: u64) {
    *sum = sum.saturating_add(tokens);
}

/// What could be read, where two rows are enough to see that all of it was.
fn hit(before: &ExchangeRow, now: &ExchangeRow) -> Option<u64> {
    if !is_answered(before) {
        return None;
    }
    let (provider, usage) = (Kept::of(before).provider(before)?, now.usage?);
    let left = left_behind(provider, before.model.as_deref().unwrap_or_default(), &before.usage?);
    let readable = left.min(total_input(&usage));
    (readable > 0 && lost(provider, readable, usage.cache_read_tokens) == 0).then_some(readable)
}
