//! What clients' logs call a session.

use std::collections::HashSet;

use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::log::{RecordKind, RecordRow, Records};

use crate::view::{Result, View};

/// Titles of a session that are looked at. Clients write one again when a session goes on, so the newest are enough.
const TITLES_MAX: usize = 64;

/// The title that counts: the person's before the client's, then the newest. One for a record counts where the record is.
pub(super) fn title_among<'r>(
    titles: impl Iterator<Item = &'r RecordRow>,
    has_record: impl Fn(&str) -> bool,
) -> Option<&'r str> {
    let counts = titles.filter(|title| title.stands_for.as_deref().is_none_or(&has_record));
    let rank = |title: &&RecordRow| {
        let newest = (title.at, title.file.clone(), title.line);
        (std::cmp::Reverse(title.title_rank()), newest)
    };
    counts.max_by_key(rank)?.text.as_deref()
}

impl<S: Store> View<'_, S> {
    /// Whether anything was told by logs: only they have titles, and an exchange is much to read for somebody who imported none.
    pub(super) async fn has_logs(&self) -> Result<bool> {
        let any = Records::All { after: None, limit: 1 };
        Ok(!self.store.records(self.owner, any).await?.is_empty())
    }

    /// What a log calls the session of a conversation.
    pub(super) async fn logged_title(&self, root: ExchangeNumber) -> Result<Option<String>> {
        let Some(session) = self.find_row(root).await?.and_then(|row| row.session) else {
            return Ok(None);
        };
        let page = Records::titles_first(session.clone(), TITLES_MAX);
        let mut titles = self.store.records(self.owner, page).await?;
        titles.retain(|record| record.kind == RecordKind::Summary);
        if titles.is_empty() {
            return Ok(None);
        }
        let named = titles.iter().filter_map(|title| title.stands_for.clone());
        let named = named.map(|uuid| (session.clone(), uuid)).collect();
        let known = self.store.records(self.owner, Records::Named(named)).await?;
        let known: HashSet<String> = known.into_iter().map(|record| record.uuid).collect();
        Ok(title_among(titles.iter(), |uuid| known.contains(uuid)).map(str::to_owned))
    }
}
