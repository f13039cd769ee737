//! Which exchanges and conversations `log` was asked for.

use jiff::Timestamp;
use ropewalk_engine::view::chosen::{Chosen, Wanted, digits};
use ropewalk_engine::view::{ExchangeView, View};
use ropewalk_store::Micros;
use ropewalk_store::facts::ExchangeNumber;

use crate::any_store::AnyStore;
use crate::cli::Log;
use crate::failure::{Failure, Kind};
use crate::print::time;

/// What `log` was asked for, checked.
pub(super) struct Selected {
    pub(super) since: Option<Micros>,
    pub(super) until: Option<Micros>,
    chosen: Chosen,
}

impl Selected {
    pub(super) async fn new(view: &View<'_, AnyStore>, log: &Log) -> Result<Self, Failure> {
        let now = Timestamp::now();
        let time = |text: &Option<String>| text.as_ref().map(|text| time::parse(text, now)).transpose();
        let (since, until) = (time(&log.since)?, time(&log.until)?);
        let wanted = Wanted {
            words: log.grep.clone(),
            model: log.model.clone(),
            branch: log.branch.clone(),
            agent: log.agent.clone(),
            hash: log.hash.as_deref().map(prefix).transpose()?,
        };
        Ok(Selected {
            since,
            until,
            chosen: Chosen::new(view, wanted).await?,
        })
    }

    pub(super) fn is_in_time(&self, at: Micros) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at <= until)
    }

    pub(super) fn has(&self, number: ExchangeNumber, exchange: &ExchangeView) -> bool {
        self.chosen.has(number, exchange)
    }

    /// Whether a conversation has the words in its title, or an exchange that is asked for.
    pub(super) async fn has_conversation(
        &self,
        view: &View<'_, AnyStore>,
        root: ExchangeNumber,
        title: Option<&str>,
    ) -> Result<bool, Failure> {
        Ok(self.chosen.has_conversation(view, root, title).await?)
    }
}

fn prefix(typed: &str) -> Result<String, Failure> {
    digits(typed).ok_or_else(|| {
        Failure::new(Kind::Usage, format!("`{typed}` is no beginning of a hash")).hint("hex digits: --hash 8182")
    })
}
