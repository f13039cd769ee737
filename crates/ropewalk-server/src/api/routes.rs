//! The routes: what each takes, and which question it is.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use super::{Answer, Json, Shared, events, openapi};
use crate::access::Caller;
use crate::problem::Problem;
use crate::read::matched::{self, MatchOptions};
use crate::read::{
    agents, audit, blame, cache, changes, conversations, exchanges, hashed, health, insight, replay, resolve, search,
    stats, time, tree, whole,
};
use crate::source::{Source, Whose};

/// Every route, by its method and path.
pub const ROUTES: [(Method, &str); 35] = [
    (Method::GET, "/api/v1/conversations"),
    (Method::GET, "/api/v1/conversations/{ref}"),
    (Method::GET, "/api/v1/conversations/{ref}/messages"),
    (Method::GET, "/api/v1/conversations/{ref}/changes"),
    (Method::POST, "/api/v1/conversations/{ref}/title"),
    (Method::GET, "/api/v1/exchanges"),
    (Method::GET, "/api/v1/exchanges/{ref}"),
    (Method::GET, "/api/v1/exchanges/{ref}/{half}"),
    (Method::GET, "/api/v1/sessions/{ref}/messages"),
    (Method::GET, "/api/v1/agents"),
    (Method::GET, "/api/v1/search"),
    (Method::GET, "/api/v1/resolve"),
    (Method::GET, "/api/v1/references"),
    (Method::POST, "/api/v1/match"),
    (Method::POST, "/api/v1/hash"),
    (Method::GET, "/api/v1/answers"),
    (Method::GET, "/api/v1/blame"),
    (Method::GET, "/api/v1/timeline"),
    (Method::GET, "/api/v1/cache"),
    (Method::GET, "/api/v1/cache/stats"),
    (Method::GET, "/api/v1/diff"),
    (Method::POST, "/api/v1/replay"),
    (Method::POST, "/api/v1/spread"),
    (Method::GET, "/api/v1/suggestions"),
    (Method::GET, "/api/v1/templates"),
    (Method::GET, "/api/v1/waste"),
    (Method::GET, "/api/v1/merges"),
    (Method::GET, "/api/v1/stats"),
    (Method::GET, "/api/v1/health"),
    (Method::POST, "/api/v1/health/check"),
    (Method::GET, "/api/v1/imports"),
    (Method::GET, "/api/v1/audit"),
    (Method::GET, "/api/v1/events"),
    (Method::GET, "/api/v1/openapi.json"),
    (Method::POST, "/mcp"),
];

pub(super) fn handler<S: Source>(path: &str) -> MethodRouter<Arc<Shared<S>>> {
    match path {
        "/api/v1/conversations" => get(list_conversations::<S>),
        "/api/v1/conversations/{ref}" => get(conversation::<S>),
        "/api/v1/conversations/{ref}/messages" => get(messages::<S>),
        "/api/v1/conversations/{ref}/changes" => get(changes_around::<S>),
        "/api/v1/conversations/{ref}/title" => post(retitle::<S>),
        "/api/v1/exchanges" => get(list_exchanges::<S>),
        "/api/v1/exchanges/{ref}" => get(exchange::<S>),
        "/api/v1/exchanges/{ref}/{half}" => get(recorded_bytes::<S>),
        "/api/v1/sessions/{ref}/messages" => get(session_messages::<S>),
        "/api/v1/agents" => get(list_agents::<S>),
        "/api/v1/search" => get(find_words::<S>),
        "/api/v1/resolve" => get(resolve_reference::<S>),
        "/api/v1/references" => get(references::<S>),
        "/api/v1/match" => post(match_body::<S>),
        "/api/v1/hash" => post(hash_body),
        "/api/v1/answers" => get(answers::<S>),
        "/api/v1/blame" => get(blame_of_exchange::<S>),
        "/api/v1/timeline" => get(timeline::<S>),
        "/api/v1/cache" => get(cache_of_exchange::<S>),
        "/api/v1/cache/stats" => get(cache_stats::<S>),
        "/api/v1/diff" => get(diff::<S>),
        "/api/v1/replay" => post(replay_of_exchange::<S>),
        "/api/v1/spread" => post(spread::<S>),
        "/api/v1/suggestions" => get(suggestions::<S>),
        "/api/v1/templates" => get(templates::<S>),
        "/api/v1/waste" => get(waste::<S>),
        "/api/v1/merges" => get(merges::<S>),
        "/api/v1/stats" => get(sum_up::<S>),
        "/api/v1/health" => get(health_report::<S>),
        "/api/v1/health/check" => post(begin_check::<S>),
        "/api/v1/audit" => get(list_noted::<S>),
        "/api/v1/imports" => get(list_imported_files::<S>),
        "/api/v1/events" => get(follow::<S>),
        "/api/v1/openapi.json" => get(|| async { Json(openapi::document().to_owned()) }),
        _ => get(|| async { Problem::no_route() }),
    }
}

/// What the caller may see. The store is asked when the rest of the request is known to be good.
impl<S: Source> FromRequestParts<Arc<Shared<S>>> for Whose<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared<S>>) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().ok_or_else(Problem::unauthorized)?;
        Ok(Whose::new(Arc::clone(&shared.source), Arc::clone(&caller.owner)))
    }
}

/// The parameters behind the path.
struct Asked<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(asked) = Query::from_request_parts(parts, state).await?;
        Ok(Asked(asked))
    }
}

/// The names in the path.
struct Within<T>(T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Within<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Path::from_request_parts(parts, state).await;
        let Path(names) = found.map_err(|_| Problem::bad_request("the path has a name that is no text"))?;
        Ok(Within(names))
    }
}

/// All of a body.
struct Whole(Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request<axum::body::Body>, state: &S) -> Result<Self, Problem> {
        Ok(Whole(Bytes::from_request(request, state).await?))
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Named {
    #[serde(rename = "ref")]
    reference: String,
    as_of: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Typed {
    /// What was typed so far.
    #[serde(default)]
    q: String,
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Followed {
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AsOf {
    as_of: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Branches {
    limit: Option<usize>,
    cursor: Option<String>,
    as_of: Option<String>,
}

async fn list_conversations<S: Source>(
    whose: Whose<S>,
    Asked(asked): Asked<conversations::ListConversations>,
) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&conversations::conversations(&owned, &asked).await?)
}

async fn conversation<S: Source>(
    whose: Whose<S>,
    Within(name): Within<String>,
    Asked(asked): Asked<Branches>,
) -> Answer {
    let asked = tree::ConversationTree {
        name,
        limit: asked.limit,
        cursor: asked.cursor,
        as_of: asked.as_of,
    };
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&tree::conversation_tree(&owned, &asked).await?)
}

async fn messages<S: Source>(
    State(shared): State<Arc<Shared<S>>>,
    whose: Whose<S>,
    Within(name): Within<String>,
    Asked(asked): Asked<whole::Paged>,
) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&whole::messages(&owned, &shared.shapes, &name, &asked).await?)
}

async fn session_messages<S: Source>(
    State(shared): State<Arc<Shared<S>>>,
    whose: Whose<S>,
    Within(session): Within<String>,
    Asked(asked): Asked<whole::Paged>,
) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&whole::session_messages(&owned, &shared.shapes, &session, &asked).await?)
}

async fn changes_around<S: Source>(
    whose: Whose<S>,
    Within(name): Within<String>,
    Asked(asked): Asked<changes::ListChanges>,
) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&changes::changes(&owned, &name, &asked).await?)
}

async fn retitle<S: Source>(whose: Whose<S>, Within(name): Within<String>, Whole(body): Whole) -> Answer {
    Json::of(&conversations::retitle(&whose.now().await?, &name, &body).await?)
}

async fn list_exchanges<S: Source>(whose: Whose<S>, Asked(asked): Asked<exchanges::ListExchanges>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&exchanges::exchanges(&owned, &asked).await?)
}

async fn exchange<S: Source>(whose: Whose<S>, Within(name): Within<String>, Asked(asked): Asked<AsOf>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&exchanges::explained(&owned, &name).await?)
}

/// As a file: what was recorded is nothing that a browser should show, or run.
async fn recorded_bytes<S: Source>(
    whose: Whose<S>,
    Within((name, half)): Within<(String, String)>,
    Asked(asked): Asked<AsOf>,
) -> Result<Response, Problem> {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    let bytes = exchanges::bytes(&owned, &name, &half).await?;
    let head = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((head, bytes).into_response())
}

async fn list_agents<S: Source>(whose: Whose<S>, Asked(asked): Asked<agents::ListAgents>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&agents::agents(&owned, &asked).await?)
}

async fn find_words<S: Source>(whose: Whose<S>, Asked(asked): Asked<search::Search>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&search::search(&owned, &asked).await?)
}

async fn resolve_reference<S: Source>(whose: Whose<S>, Asked(asked): Asked<Named>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&resolve::resolve(&owned, &asked.reference).await?)
}

async fn references<S: Source>(whose: Whose<S>, Asked(asked): Asked<Typed>) -> Answer {
    Json::of(&resolve::suggestions(&whose.now().await?, &asked.q, asked.limit, asked.cursor.as_deref()).await?)
}

async fn match_body<S: Source>(whose: Whose<S>, Asked(asked): Asked<MatchOptions>, Whole(body): Whole) -> Answer {
    Json::of(&matched::match_body(&whose.now().await?, &body, &asked).await?)
}

async fn hash_body(Asked(asked): Asked<hashed::AskHashes>, Whole(body): Whole) -> Answer {
    Json::of(&hashed::hashes(&body, &asked)?)
}

async fn answers<S: Source>(whose: Whose<S>, Asked(asked): Asked<Named>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&matched::answers(&owned, &asked.reference).await?)
}

async fn blame_of_exchange<S: Source>(whose: Whose<S>, Asked(asked): Asked<Named>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&blame::blame(&owned, &asked.reference).await?)
}

async fn timeline<S: Source>(whose: Whose<S>, Asked(asked): Asked<blame::TimelineOf>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&blame::timeline(&owned, &asked).await?)
}

async fn cache_of_exchange<S: Source>(whose: Whose<S>, Asked(asked): Asked<Named>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&cache::explain(&owned, &asked.reference).await?)
}

async fn cache_stats<S: Source>(whose: Whose<S>, Asked(asked): Asked<cache::CachePeriod>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&cache::stats(&owned, &asked).await?)
}

async fn diff<S: Source>(whose: Whose<S>, Asked(asked): Asked<insight::Two>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&insight::diff(&owned, &asked).await?)
}

async fn replay_of_exchange<S: Source>(whose: Whose<S>, Whole(body): Whole) -> Answer {
    let wanted = replay::Wanted::read(&body)?;
    Json::of(&replay::replay(&whose.now().await?, &wanted).await?)
}

/// By POST: a text that is looked for may be a secret, and addresses are written down everywhere.
async fn spread<S: Source>(whose: Whose<S>, Whole(body): Whole) -> Answer {
    let asked = insight::WantedText::read(&body)?;
    Json::of(&insight::spread(&whose.now().await?, &asked).await?)
}

async fn suggestions<S: Source>(whose: Whose<S>, Asked(asked): Asked<insight::Suggest>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&insight::suggestions(&owned, &asked).await?)
}

async fn templates<S: Source>(whose: Whose<S>, Asked(asked): Asked<insight::Templates>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&insight::templates(&owned, &asked).await?)
}

async fn waste<S: Source>(whose: Whose<S>, Asked(asked): Asked<insight::ListWaste>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&insight::waste(&owned, &asked).await?)
}

async fn merges<S: Source>(whose: Whose<S>, Asked(asked): Asked<Named>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&insight::merges(&owned, &asked.reference).await?)
}

async fn sum_up<S: Source>(whose: Whose<S>, Asked(asked): Asked<stats::AskStats>) -> Answer {
    let owned = whose.at(time(asked.as_of.as_deref())?).await?;
    Json::of(&stats::stats(&owned, &asked).await?)
}

async fn health_report<S: Source>(State(shared): State<Arc<Shared<S>>>, whose: Whose<S>) -> Answer {
    Json::of(&health::report(&whose, &shared.checks))
}

/// By POST: it takes time, and what it answers with is no page.
async fn begin_check<S: Source>(State(shared): State<Arc<Shared<S>>>, whose: Whose<S>, _: Whole) -> Answer {
    Json::of(&health::begin_check(whose, &shared.checks))
}

async fn list_imported_files<S: Source>(whose: Whose<S>, Asked(asked): Asked<health::ListFiles>) -> Answer {
    Json::of(&health::imported_files(&whose.now().await?, &asked).await?)
}

async fn list_noted<S: Source>(whose: Whose<S>, Asked(asked): Asked<audit::ListNoted>) -> Answer {
    Json::of(&audit::noted(whose, &asked).await?)
}

async fn follow<S: Source>(
    State(shared): State<Arc<Shared<S>>>,
    whose: Whose<S>,
    headers: HeaderMap,
    Asked(asked): Asked<Followed>,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = last.map(str::to_owned).or(asked.after);
    let place = Arc::clone(&shared.followers).try_acquire_owned();
    let place = place.map_err(|_| Problem::busy())?;
    let follower = events::Follower::begin(whose, after.as_deref()).await?;
    Ok(events::stream(follower, asked.limit, place, shared.closing.subscribe()))
}
