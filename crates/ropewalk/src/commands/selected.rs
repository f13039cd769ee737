//! Which exchanges and conversations `log` was asked for.

use std::collections::HashSet;

use jiff::Timestamp;
use ropewalk_engine::view::{Directory, ExchangeView, View};
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{PAGE_MAX, SearchQuery};
use ropewalk_store::{Micros, Store as _};

use crate::any_store::AnyStore;
use crate::cli::Log;
use crate::failure::{Failure, Kind};
use crate::print::time;

/// What `log` was asked for, checked.
pub(super) struct Selected {
    pub(super) since: Option<Micros>,
    pub(super) until: Option<Micros>,
    /// Lower-case words for titles, and the exchanges where they were said.
    grep: Option<(String, HashSet<ExchangeNumber>)>,
    model: Option<String>,
    branch: Option<String>,
    agent: Option<String>,
    hash: Option<String>,
}

impl Selected {
    pub(super) async fn new(view: &View<'_, AnyStore>, log: &Log) -> Result<Self, Failure> {
        let now = Timestamp::now();
        let time = |text: &Option<String>| text.as_ref().map(|text| time::parse(text, now)).transpose();
        let hash = log.hash.as_ref().map(|digits| prefix(digits)).transpose()?;
        let grep = match &log.grep {
            Some(words) => Some((words.to_lowercase(), said(view, words).await?)),
            None => None,
        };
        Ok(Selected {
            since: time(&log.since)?,
            until: time(&log.until)?,
            grep,
            model: log.model.clone(),
            branch: log.branch.clone(),
            agent: log.agent.clone(),
            hash,
        })
    }

    pub(super) fn is_in_time(&self, at: Micros) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at <= until)
    }

    pub(super) fn has(&self, number: ExchangeNumber, exchange: &ExchangeView) -> bool {
        let is_said = self.grep.as_ref().is_none_or(|(_, said)| said.contains(&number));
        is_said && self.has_features(exchange)
    }

    fn has_features(&self, exchange: &ExchangeView) -> bool {
        let is = |asked: &Option<String>, values: &[Option<&str>]| {
            asked.as_ref().is_none_or(|asked| values.contains(&Some(&**asked)))
        };
        let agent = &exchange.agent;
        let model = exchange.model.as_deref().unwrap_or_default();
        self.model.as_ref().is_none_or(|asked| model.contains(&**asked))
            && is(
                &self.branch,
                &[exchange.branch_id.as_deref(), exchange.branch_key.as_deref()],
            )
            && is(&self.agent, &[agent.id.as_deref(), agent.name.as_deref()])
            && self
                .hash
                .as_ref()
                .is_none_or(|digits| exchange.hashes().iter().any(|(_, hash)| hash.starts_with(&**digits)))
    }

    /// Whether a conversation has to be looked into.
    fn looks_inside(&self) -> bool {
        self.model.is_some() || self.branch.is_some() || self.agent.is_some() || self.hash.is_some()
    }

    /// Whether a conversation has the words in its title, or an exchange that is asked for.
    pub(super) async fn has_conversation(
        &self,
        view: &View<'_, AnyStore>,
        root: ExchangeNumber,
        title: Option<&str>,
    ) -> Result<bool, Failure> {
        let in_title = |words: &str| title.is_some_and(|title| title.to_lowercase().contains(words));
        let is_titled = self.grep.as_ref().is_none_or(|(words, _)| in_title(words));
        if is_titled && !self.looks_inside() {
            return Ok(true);
        }
        let mut directory = Directory::default();
        let mut after = None;
        loop {
            let links = view.links_in(root, after).await?;
            let Some(last) = links.last() else { return Ok(false) };
            after = Some((last.at, last.exchange));
            let rows = view.rows(links.iter().map(|link| link.exchange).collect()).await?;
            let views = view.exchanges(&rows, &mut directory).await?;
            let mut both = rows.iter().zip(&views);
            if both.any(|(row, exchange)| match is_titled {
                true => self.has_features(exchange),
                false => self.has(row.number, exchange),
            }) {
                return Ok(true);
            }
        }
    }
}

/// Exchanges where the words were said, the best matches.
async fn said(view: &View<'_, AnyStore>, words: &str) -> Result<HashSet<ExchangeNumber>, Failure> {
    let query = SearchQuery {
        text: words.to_owned(),
        source: None,
        model: None,
        since: None,
        limit: PAGE_MAX,
    };
    let hits = view.store.search(view.owner, query).await?;
    Ok(hits.into_iter().map(|hit| hit.exchange).collect())
}

fn prefix(digits: &str) -> Result<String, Failure> {
    let digits = digits.strip_prefix("v1:").unwrap_or(digits).to_ascii_lowercase();
    match digits.is_empty() || digits.chars().any(|c| !c.is_ascii_hexdigit()) {
        true => Err(
            Failure::new(Kind::Usage, format!("`{digits}` is no beginning of a hash")).hint("hex digits: --hash 8182"),
        ),
        false => Ok(digits),
    }
}
