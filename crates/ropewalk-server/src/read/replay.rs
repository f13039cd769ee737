//! A recorded request, made ready to be sent again.
//!
//! The server has no key of anybody, so it sends nothing itself: whoever asked sends it through the proxy with a key of their own, and the
//! answer is recorded as a sibling of the one there is.

use std::collections::BTreeMap;

use ropewalk_engine::replay::{Otherwise, ReplayError};
use ropewalk_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::source::Owned;

/// What to send again, and what is to be different.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// An exchange, or what leads to one.
    #[serde(rename = "ref")]
    #[schema(example = "dev-env-a3f9b2c1")]
    pub reference: String,
    #[serde(default)]
    #[schema(example = "claude-opus-4-5")]
    pub model: Option<String>,
    /// Options with their values; `generationConfig.temperature` is an option in an option.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>, example = json!({"temperature": 0}))]
    pub set: BTreeMap<String, Value>,
    /// Options to leave out.
    #[serde(default)]
    pub unset: Vec<String>,
}

/// A request to be sent through the proxy, with a key added to it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Replay {
    pub v: u32,
    /// The exchange that it is the request of.
    pub exchange: String,
    /// Where it goes: the name of a configured upstream.
    #[schema(example = "anthropic")]
    pub upstream: String,
    /// Path and query.
    #[schema(example = "/v1/messages")]
    pub target: String,
    /// Those that were recorded. No key is among them.
    pub headers: BTreeMap<String, String>,
    /// With what was to be different; everything else has its bytes.
    pub body: String,
    /// Secrets that recording put something else in place of; the model will see that instead.
    pub redactions: u64,
}

impl Wanted {
    pub fn read(body: &[u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body).map_err(|_| {
            Problem::bad_request("this says no exchange")
                .hint("send {\"ref\": …, \"model\": …, \"set\": {\"temperature\": 0}}")
        })
    }

    fn otherwise(&self) -> Result<Otherwise, ReplayError> {
        let mut otherwise = Otherwise {
            model: self.model.clone(),
            ..Otherwise::default()
        };
        for (name, value) in &self.set {
            otherwise.set_value(name, value)?;
        }
        for name in &self.unset {
            otherwise.unset(name)?;
        }
        Ok(otherwise)
    }
}

pub async fn replay<S: Store>(owned: &Owned<S>, asked: &Wanted) -> Result<Replay, Problem> {
    let otherwise = asked.otherwise()?;
    let view = owned.view_to_find(&asked.reference)?;
    let row = view.resolve_exchange(&asked.reference).await?;
    let again = view.again(&row, &otherwise).await?;
    Ok(Replay {
        v: 1,
        exchange: row.id,
        upstream: again.upstream,
        target: again.target,
        headers: again.headers.into_iter().collect(),
        body: String::from_utf8_lossy(&again.body).into_owned(),
        redactions: again.redactions,
    })
}

impl From<ReplayError> for Problem {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::View(error) => error.into(),
            error => Problem::bad_request(error.to_string()),
        }
    }
}
