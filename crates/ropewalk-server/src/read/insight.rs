//! What the history shows: differences, who saw a text, what is alike, what recurs, what is sent again, what was quoted.

use ropewalk_core::hash::PartHash;
use ropewalk_engine::insight::diff::Diff;
use ropewalk_engine::insight::merges::Merges;
use ropewalk_engine::insight::spread::{Spread, UnsearchableText, Wanted};
use ropewalk_engine::insight::suggest::{self, Suggestions};
use ropewalk_engine::insight::templates::{self, Templates as Found};
use ropewalk_engine::insight::waste::{self, Waste};
use ropewalk_store::Store;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::bounded;
use crate::problem::Problem;
use crate::source::Owned;

const LINES: usize = 20;
const LINES_MAX: usize = 200;

/// Conversations that one question reads: an answer has to come within its time.
const CONVERSATIONS_MAX: usize = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Two {
    pub a: String,
    pub b: String,
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
    /// How much alike, from 0 to 1.
    pub score: Option<f64>,
}

pub async fn suggestions<S: Store>(owned: &Owned<S>, asked: &Suggest) -> Result<Suggestions, Problem> {
    let usual = suggest::Settings::default();
    let settings = suggest::Settings {
        conversations_max: CONVERSATIONS_MAX,
        compared_max: CONVERSATIONS_MAX,
        given_max: bounded(asked.limit, LINES, LINES_MAX),
        score_min: asked.score.unwrap_or(usual.score_min).clamp(0.0, 1.0),
    };
    match owned.view() {
        Some(view) => Ok(view.suggest(&settings).await?),
        None => Ok(Suggestions {
            v: 1,
            is_all: true,
            ..Suggestions::default()
        }),
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Templates {
    pub limit: Option<usize>,
    pub times: Option<usize>,
}

pub async fn templates<S: Store>(owned: &Owned<S>, asked: &Templates) -> Result<Found, Problem> {
    let usual = templates::Settings::default();
    let settings = templates::Settings {
        conversations_max: CONVERSATIONS_MAX,
        times_min: asked.times.unwrap_or(usual.times_min).max(2),
        given_max: bounded(asked.limit, LINES, LINES_MAX),
    };
    match owned.view() {
        Some(view) => Ok(view.templates(&settings).await?),
        None => Ok(Found {
            v: 1,
            is_all: true,
            ..Found::default()
        }),
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Limit {
    pub limit: Option<usize>,
}

pub async fn waste<S: Store>(owned: &Owned<S>, asked: &Limit) -> Result<Waste, Problem> {
    let settings = waste::Settings {
        conversations_max: CONVERSATIONS_MAX,
        given_max: bounded(asked.limit, LINES, LINES_MAX),
    };
    match owned.view() {
        Some(view) => Ok(view.waste(owned.prices(), &settings).await?),
        None => Ok(Waste {
            v: 1,
            owner: owned.name().to_owned(),
            is_all: true,
            ..Waste::default()
        }),
    }
}

pub async fn merges<S: Store>(owned: &Owned<S>, reference: &str) -> Result<Merges, Problem> {
    let view = owned.view_to_find(reference)?;
    let root = view.resolve_root(reference).await?;
    Ok(view.merges(root).await?)
}
