//! Which exchanges and conversations somebody asked for: the same rule for `log` and for the lists of the API.

use std::collections::HashSet;

use ropewalk_store::Store;
use ropewalk_store::facts::ExchangeNumber;
use ropewalk_store::store::{PAGE_MAX, SearchQuery};

use crate::view::{Directory, ExchangeView, Result, View};

/// What an exchange has to have. What is `None` is not asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Words in the title of its conversation or in what was said.
    pub words: Option<String>,
    /// In the name of the model.
    pub model: Option<String>,
    /// The id or the key of its branch.
    pub branch: Option<String>,
    /// The id or the name of its agent.
    pub agent: Option<String>,
    /// How any of its hashes begins: see [`digits`].
    pub hash: Option<String>,
}

/// The beginning of a hash as hashes are written, or nothing where it is none.
pub fn digits(typed: &str) -> Option<String> {
    let digits = typed.strip_prefix("v1:").unwrap_or(typed).to_ascii_lowercase();
    let is_one = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then_some(digits)
}

/// What is wanted, with the exchanges where its words were said.
#[derive(Debug)]
pub struct Chosen {
    wanted: Wanted,
    /// Lower-case words for titles, and the best matches among exchanges.
    said: Option<(String, HashSet<ExchangeNumber>)>,
}

impl Chosen {
    pub async fn new<S: Store>(view: &View<'_, S>, wanted: Wanted) -> Result<Self> {
        let said = match &wanted.words {
            Some(words) => Some((words.to_lowercase(), said(view, words).await?)),
            None => None,
        };
        Ok(Chosen { wanted, said })
    }

    pub fn has(&self, number: ExchangeNumber, exchange: &ExchangeView) -> bool {
        let is_said = self.said.as_ref().is_none_or(|(_, said)| said.contains(&number));
        is_said && self.has_features(exchange)
    }

    fn has_features(&self, exchange: &ExchangeView) -> bool {
        let is = |asked: &Option<String>, values: &[Option<&str>]| {
            asked.as_ref().is_none_or(|asked| values.contains(&Some(&**asked)))
        };
        let Wanted {
            model,
            branch,
            agent,
            hash,
            ..
        } = &self.wanted;
        let name = exchange.model.as_deref().unwrap_or_default();
        let begins = |digits: &str| exchange.hashes().iter().any(|(_, hash)| hash.starts_with(digits));
        model.as_ref().is_none_or(|asked| name.contains(&**asked))
            && is(branch, &[exchange.branch_id.as_deref(), exchange.branch_key.as_deref()])
            && is(agent, &[exchange.agent.id.as_deref(), exchange.agent.name.as_deref()])
            && hash.as_ref().is_none_or(|digits| begins(digits))
    }

    /// Whether a conversation has to be looked into.
    fn looks_inside(&self) -> bool {
        let wanted = &self.wanted;
        [&wanted.model, &wanted.branch, &wanted.agent, &wanted.hash]
            .iter()
            .any(|asked| asked.is_some())
    }

    /// Whether a conversation has the words in its title, or an exchange that is asked for.
    pub async fn has_conversation<S: Store>(
        &self,
        view: &View<'_, S>,
        root: ExchangeNumber,
        title: Option<&str>,
    ) -> Result<bool> {
        let in_title = |words: &str| title.is_some_and(|title| title.to_lowercase().contains(words));
        let is_titled = self.said.as_ref().is_none_or(|(words, _)| in_title(words));
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
async fn said<S: Store>(view: &View<'_, S>, words: &str) -> Result<HashSet<ExchangeNumber>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_hash_is_hex_with_or_without_its_version() {
        assert_eq!(digits("v1:81A2").as_deref(), Some("81a2"));
        assert_eq!(digits("9f").as_deref(), Some("9f"));
        for none in ["", "v1:", "xyz", "12 34"] {
            assert_eq!(digits(none), None, "{none}");
        }
    }
}
