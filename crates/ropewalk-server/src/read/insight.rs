//! What the history shows: differences, who saw a text, what is alike, what recurs, what is sent again, what was quoted.

use ropewalk_core::hash::PartHash;
use ropewalk_engine::insight::diff::Diff;
use ropewalk_engine::insight::merges::Merges;
use ropewalk_engine::insight::spread::{Spread, UnsearchableText, Wanted};
use ropewalk_engine::insight::suggest::{self, Suggestions};
use ropewalk_engine::insight::templates::{self, Templates as Found};
use ropewalk_engine::insight::waste::{self, Waste};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use crate::problem::Problem;
use crate::source::Owned;

const LINES: usize = 20;
const LINES_MAX: usize = 200;

/// Lines of all pages together: whoever wants more looks for something else.
const RANKED_MAX: usize = 1_000;

/// Found by looking at everything, the most important first. So a cursor counts, as that of a search does.
#[derive(Debug, Serialize, ToSchema)]
pub struct Ranked<T: ToSchema> {
    #[serde(flatten)]
    pub found: T,
    pub next_cursor: Option<String>,
}

/// Which lines of a ranking.
struct Lines {
    skipped: usize,
    /// Of those that are skipped, those of the page, and one more.
    found_max: usize,
    limit: usize,
    is_more: bool,
}

impl Lines {
    fn of(limit: Option<usize>, cursor: Option<&str>) -> Result<Self, Problem> {
        let limit = bounded(limit, LINES, LINES_MAX);
        let skipped = match cursor {
            Some(cursor) => cursor.parse().map_err(|_| Problem::bad_cursor())?,
            None => 0,
        };
        if skipped >= RANKED_MAX {
            return Err(Problem::bad_cursor());
        }
        Ok(Lines {
            skipped,
            found_max: skipped + limit + 1,
            limit,
            is_more: false,
        })
    }

    /// Leaves those of the page; says how many more there are.
    fn cut<T>(&mut self, found: &mut Vec<T>) -> usize {
        found.drain(..self.skipped.min(found.len()));
        let more = found.len().saturating_sub(self.limit);
        self.is_more |= more > 0;
        found.truncate(self.limit);
        more
    }

    fn page<T: ToSchema>(&self, found: T) -> Ranked<T> {
        let next = Some(self.skipped + self.limit).filter(|next| self.is_more && *next < RANKED_MAX);
        Ranked {
            found,
            next_cursor: next.map(|next| next.to_string()),
        }
    }
}

/// Conversations that one question reads: an answer has to come within its time.
const CONVERSATIONS_MAX: usize = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Two {
    pub a: String,
    pub b: String,
    pub as_of: Option<String>,
}

pub async fn diff<S: Store>(owned: &Owned<S>, asked: &Two) -> Result<Diff, Problem> {
    let view = owned.view_to_find(&asked.a)?;
    let a = view.resolve_exchange(&asked.a).await?;
    let b = view.resolve_exchange(&asked.b).await?;
    Ok(view.diff(&a, &b).await?)
}

/// A text, or the name of a part that has it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedText {
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub part: Option<String>,
}

impl WantedText {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body)
            .map_err(|_| Problem::bad_request("this says no text").hint("send {\"text\": …} or {\"part\": SHA-256}"))
    }
}

pub async fn spread<S: Store>(owned: &Owned<S>, asked: &WantedText) -> Result<Spread, Problem> {
    let part: Option<PartHash> = match &asked.part {
        Some(name) => Some(name.parse().map_err(|_| Problem::bad_request("this is no SHA-256"))?),
        None => None,
    };
    let nobody = Spread {
        v: 1,
        is_complete: true,
        ..Spread::default()
    };
    let Some(view) = owned.view() else {
        return Ok(nobody);
    };
    let wanted = match (part, &asked.text) {
        (Some(name), _) => match view.store.part(view.owner, name).await? {
            Some(bytes) => Wanted::of_part(bytes)?,
            None => return Ok(nobody),
        },
        (None, text) => Wanted::new(text.as_deref().unwrap_or_default())?,
    };
    Ok(view.spread(&wanted).await?)
}

impl From<UnsearchableText> for Problem {
    fn from(error: UnsearchableText) -> Self {
        Problem::bad_request(error.to_string())
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Suggest {
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// How much alike, from 0 to 1.
    pub score: Option<f64>,
    pub as_of: Option<String>,
}

pub async fn suggestions<S: Store>(owned: &Owned<S>, asked: &Suggest) -> Result<Ranked<Suggestions>, Problem> {
    let mut lines = Lines::of(asked.limit, asked.cursor.as_deref())?;
    let usual = suggest::Settings::default();
    let settings = suggest::Settings {
        conversations_max: CONVERSATIONS_MAX,
        compared_max: CONVERSATIONS_MAX,
        given_max: lines.found_max,
        score_min: asked.score.unwrap_or(usual.score_min).clamp(0.0, 1.0),
    };
    let mut found = match owned.view() {
        Some(view) => view.suggest(&settings).await?,
        None => Suggestions {
            v: 1,
            is_all: true,
            ..Suggestions::default()
        },
    };
    found.pairs_left_out += lines.cut(&mut found.pairs);
    Ok(lines.page(found))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Templates {
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    pub times: Option<usize>,
    pub as_of: Option<String>,
}

pub async fn templates<S: Store>(owned: &Owned<S>, asked: &Templates) -> Result<Ranked<Found>, Problem> {
    let mut lines = Lines::of(asked.limit, asked.cursor.as_deref())?;
    let usual = templates::Settings::default();
    let settings = templates::Settings {
        conversations_max: CONVERSATIONS_MAX,
        times_min: asked.times.unwrap_or(usual.times_min).max(2),
        given_max: lines.found_max,
    };
    let mut found = match owned.view() {
        Some(view) => view.templates(&settings).await?,
        None => Found {
            v: 1,
            is_all: true,
            ..Found::default()
        },
    };
    found.templates_left_out += lines.cut(&mut found.templates);
    Ok(lines.page(found))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListWaste {
    /// Lines of each list.
    pub limit: Option<usize>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    pub as_of: Option<String>,
}

pub async fn waste<S: Store>(owned: &Owned<S>, asked: &ListWaste) -> Result<Ranked<Waste>, Problem> {
    let mut lines = Lines::of(asked.limit, asked.cursor.as_deref())?;
    let settings = waste::Settings {
        conversations_max: CONVERSATIONS_MAX,
        given_max: lines.found_max,
    };
    let mut found = match owned.view() {
        Some(view) => view.waste(owned.prices(), &settings).await?,
        None => Waste {
            v: 1,
            owner: owned.name().to_owned(),
            is_all: true,
            ..Waste::default()
        },
    };
    for repeated in [&mut found.results, &mut found.files, &mut found.largest] {
        lines.cut(repeated);
    }
    lines.cut(&mut found.agents);
    Ok(lines.page(found))
}

pub async fn merges<S: Store>(owned: &Owned<S>, reference: &str) -> Result<Merges, Problem> {
    let view = owned.view_to_find(reference)?;
    let root = view.resolve_root(reference).await?;
    Ok(view.merges(root).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, ToSchema)]
    struct Numbers {
        numbers: Vec<usize>,
    }

    fn page(cursor: Option<&str>) -> Ranked<Numbers> {
        let mut lines = Lines::of(Some(4), cursor).unwrap();
        let mut numbers: Vec<usize> = (0..10).take(lines.found_max).collect();
        lines.cut(&mut numbers);
        lines.page(Numbers { numbers })
    }

    #[test]
    fn the_pages_of_a_ranking_are_all_of_it() {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = page(cursor.as_deref());
            all.extend(page.found.numbers);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert!(page(Some("500")).found.numbers.is_empty());
        for bad in ["", "x", "-1", "1000", "99999999999999999999999"] {
            assert!(Lines::of(None, Some(bad)).is_err(), "{bad}");
        }
    }
}
