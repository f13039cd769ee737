//! A request that may be answered from the store.

use std::sync::Arc;

use http::{HeaderMap, header};
use ropewalk_core::hash::sha256;
use ropewalk_core::model::Provider;
use ropewalk_engine::decode::{DecodeLimits, decode};
use ropewalk_engine::reuse::{Reusable, find};
use ropewalk_store::{Store, StoreError};
use ropewalk_wire::provider::{Endpoint, Upstream, route};
use ropewalk_wire::read_request;
use ropewalk_wire::replay::{Framing, Reframed, reframe};
use ropewalk_wire::reuse::{Essence, is_volatile, temperature};

use super::NOW;
use super::counters::Outcome;
use super::flights::CallName;
use super::rules::{Rule, Subject, Wish, project};
use crate::forward::{FlightAnswer, WholeRequest};

/// All of it that is needed to look it up. Its name is large: who waits for somebody else's call keeps [`Reader`] only.
pub(super) struct Call {
    pub(super) wish: Wish,
    pub(super) name: CallName,
    pub(super) reader: Reader,
}

/// How the client wants to read an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    provider: Provider,
    framing: Framing,
}

impl Call {
    /// `None` where nobody asked for it after all; an error says why it is not looked up.
    pub(super) fn read(asked: &WholeRequest, rules: &[Rule]) -> Result<Option<Self>, Outcome> {
        let prefix = Upstream::of_name(&asked.upstream).ok_or(Outcome::Unfit)?.prefix();
        let target = format!("{prefix}{}", asked.target);
        let route = route(&target);
        let provider = route.endpoint.provider().ok_or(Outcome::Unfit)?;
        let read = read_request(provider, &asked.body, None).map_err(|_| Outcome::Unfit)?;
        let subject = Subject {
            project: project(&asked.headers).or(asked.project.as_deref()),
            model: read.request.model.as_deref().or(model_in(&route.endpoint)),
            ..Subject::of_head(&route, &asked.headers)
        };
        let rule = rules.iter().find(|rule| rule.fits(subject));
        let wish = match (Wish::of(&asked.headers), rule) {
            (Some(Wish::Off), _) | (None, None) => return Ok(None),
            (Some(wish), _) => wish,
            (None, Some(_)) => Wish::Exact,
        };
        if temperature(&read.request) != Some(0.0) && !rule.is_some_and(|rule| rule.any_temperature) {
            return Err(Outcome::Temperature);
        }
        if is_volatile(&read) && !rule.is_some_and(|rule| rule.volatile) {
            return Err(Outcome::Volatile);
        }
        let essence = Essence::of(&read, &route, pairs(&asked.headers)).ok_or(Outcome::Unfit)?;
        let essence: Arc<[u8]> = essence.to_bytes().into();
        let name = CallName {
            key: (Arc::clone(&asked.owner), sha256(&essence)),
            essence,
        };
        Ok(Some(Call {
            wish,
            name,
            reader: Reader {
                provider,
                framing: Framing::asked(&route.endpoint, &read.request),
            },
        }))
    }

    /// The newest answer that the store has.
    pub(super) async fn find<S: Store>(&self, store: &S, owner: &str) -> Result<Option<Reusable>, StoreError> {
        let Some(owner) = store.find_owner(owner).await? else {
            return Ok(None);
        };
        let (_, hash) = self.name.key;
        find(store, owner, hash, &self.name.essence, NOW).await
    }
}

impl Reader {
    /// An answer in the framing that was asked for.
    pub(super) fn reframe(&self, found: &Reusable) -> Option<Reframed> {
        reframe(self.provider, found.content_type.as_deref(), &found.body, self.framing)
    }
}

/// Gemini names the model in the path.
fn model_in<'r>(endpoint: &Endpoint<'r>) -> Option<&'r str> {
    match endpoint {
        Endpoint::GeminiGenerate { model } | Endpoint::GeminiStream { model, .. } => Some(model),
        _ => None,
    }
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let pairs = headers.iter();
    pairs.map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()))
}

/// Somebody else's answer, decoded. `None` where it was no success.
pub(super) fn reusable(answer: &FlightAnswer) -> Option<Reusable> {
    if !answer.status.is_success() {
        return None;
    }
    let text = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let body = match text(header::CONTENT_ENCODING) {
        None => answer.body.clone(),
        Some(encoding) => {
            let decoded = decode(&answer.body, encoding, &DecodeLimits::default());
            decoded.end.is_whole().then_some(decoded.bytes)?
        }
    };
    Some(Reusable {
        id: answer.id?.to_string(),
        ended_at: answer.ended_at,
        status: answer.status.as_u16(),
        content_type: text(header::CONTENT_TYPE).map(str::to_owned),
        body,
    })
}
