//! A recorded request, made ready to be sent again: to another model, with other options.
//!
//! Everything that is not asked for otherwise keeps its bytes. What was never recorded, a key above all, is not there: whoever
//! sends it adds that.

use bytes::Bytes;
use ropewalk_core::model::Provider;
use ropewalk_store::Store;
use ropewalk_store::store::{ExchangeRow, Half};
use ropewalk_wire::edit::{Edit, edited};
use ropewalk_wire::provider::{Endpoint, Upstream, route};
use ropewalk_wire::response::decode_response;

use crate::detail::Kept;
use crate::view::message::{answer_message, text_of};
use crate::view::{View, ViewError};

/// Recorded headers that belong to one sending of a request.
const HEADERS_OF_ONE_SENDING: [&str; 3] = ["content-encoding", "traceparent", "x-stainless-retry-count"];

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("exchange `{id}` has no request that a model would answer")]
    NoRequest { id: String },
    #[error("`{model}` is no name of a model")]
    NoModel { model: String },
    #[error("`{option}` is no option with a value")]
    NoOption { option: String },
}

/// What is to be different.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Otherwise {
    pub model: Option<String>,
    pub members: Vec<Edit>,
}

impl Otherwise {
    pub fn is_nothing(&self) -> bool {
        self.model.is_none() && self.members.is_empty()
    }

    /// `temperature=0`, `stop_sequences=["."]`, `generationConfig.temperature=0`; a value that is no JSON is a text.
    pub fn set(&mut self, option: &str) -> Result<(), ReplayError> {
        let no_option = || ReplayError::NoOption {
            option: option.to_owned(),
        };
        let (name, value) = option.split_once('=').ok_or_else(no_option)?;
        let is_json = serde_json::from_str::<serde_json::Value>(value).is_ok();
        let value = match is_json {
            true => value.to_owned(),
            false => serde_json::to_string(value).unwrap_or_default(),
        };
        self.change(name, Some(value)).ok_or_else(no_option)
    }

    /// An option with a value that is JSON already.
    pub fn set_value(&mut self, name: &str, value: &serde_json::Value) -> Result<(), ReplayError> {
        self.change(name, Some(value.to_string()))
            .ok_or_else(|| ReplayError::NoOption {
                option: name.to_owned(),
            })
    }

    pub fn unset(&mut self, name: &str) -> Result<(), ReplayError> {
        self.change(name, None).ok_or_else(|| ReplayError::NoOption {
            option: name.to_owned(),
        })
    }

    fn change(&mut self, name: &str, value: Option<String>) -> Option<()> {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return None;
        }
        self.members.push(Edit { path, value });
        Some(())
    }
}

/// A request to be sent through a proxy.
#[derive(Debug, Clone)]
pub struct Again {
    pub provider: Provider,
    /// The name of the upstream that it went to.
    pub upstream: String,
    /// Path and query, with the prefixes that say where it goes.
    pub target: String,
    /// Those that were recorded: what the client is, which session it is, which features it wants. No key is among them.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// Secrets that recording put something else in place of, in the request or its answer.
    pub redactions: u64,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// What was said, then a line for each tool call.
    pub text: String,
    /// Why it is no answer: what the provider says, or that it was cut off.
    pub problem: Option<String>,
}

impl Heard {
    pub fn read(provider: Provider, status: u16, content_type: Option<&str>, body: &[u8]) -> Self {
        let response = decode_response(provider, status, content_type, body);
        let problem = match &response.error {
            Some(error) => Some(format!("{status} {}: {}", error.kind, error.message)),
            None if !(200..300).contains(&status) => Some(format!("status {status}")),
            None if !response.complete => Some("the answer breaks off".to_owned()),
            None => None,
        };
        Heard {
            text: text_of(&answer_message(response)),
            problem,
        }
    }
}

impl<S: Store> View<'_, S> {
    /// The request of an exchange with what is to be different in it.
    pub async fn again(&self, row: &ExchangeRow, otherwise: &Otherwise) -> Result<Again, ReplayError> {
        let no_request = || ReplayError::NoRequest { id: row.id.clone() };
        let kept = Kept::of(row);
        let recorded = kept.target(row);
        let route = route(&recorded);
        let is_answered = matches!(
            route.endpoint,
            Endpoint::Messages
                | Endpoint::Chat
                | Endpoint::Responses
                | Endpoint::GeminiGenerate { .. }
                | Endpoint::GeminiStream { .. }
        );
        let provider = route
            .endpoint
            .provider()
            .filter(|_| is_answered)
            .ok_or_else(no_request)?;
        let body = self.store.body(self.owner, row.number, Half::Request).await;
        let body = body.map_err(ViewError::from)?.ok_or_else(no_request)?;
        let mut edits = Vec::new();
        let mut target = recorded.clone();
        if let Some(model) = &otherwise.model {
            match provider {
                Provider::Gemini => target = with_model(&recorded, model)?,
                _ => edits.push(Edit {
                    path: vec!["model".to_owned()],
                    value: serde_json::to_string(model).ok(),
                }),
            }
        }
        edits.extend(otherwise.members.iter().cloned());
        let body = edited(&body, &edits).ok_or_else(no_request)?;
        let headers = kept.request_headers.into_iter();
        Ok(Again {
            provider,
            upstream: route.upstream.map_or(&*row.provider, Upstream::name).to_owned(),
            target,
            headers: headers
                .filter(|(name, _)| !HEADERS_OF_ONE_SENDING.contains(&&**name))
                .collect(),
            body: body.into(),
            redactions: kept.redactions,
        })
    }

    /// The answer that was recorded; `None` where none is complete.
    pub async fn heard(&self, row: &ExchangeRow) -> Result<Option<String>, ViewError> {
        if row.output_node.is_none() {
            return Ok(None);
        }
        let answer = self.read_answer(row).await?;
        Ok(answer.map(|answer| text_of(&answer_message(answer))))
    }
}

/// Gemini's path names the model.
fn with_model(target: &str, model: &str) -> Result<String, ReplayError> {
    let no_model = || ReplayError::NoModel {
        model: model.to_owned(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    if model.is_empty() || !model.chars().all(is_plain) {
        return Err(no_model());
    }
    let (before, rest) = target.split_once("/models/").ok_or_else(no_model)?;
    let (_, verb) = rest.rsplit_once(':').ok_or_else(no_model)?;
    Ok(format!("{before}/models/{model}:{verb}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_json_or_texts() {
        let mut otherwise = Otherwise::default();
        for option in ["temperature=0", "service_tier=flex", "a.b=[1, 2]", "text=a=b"] {
            otherwise.set(option).unwrap();
        }
        otherwise.unset("top_p").unwrap();
        let values: Vec<_> = otherwise.members.iter().map(|edit| edit.value.as_deref()).collect();
        assert_eq!(
            values,
            [Some("0"), Some("\"flex\""), Some("[1, 2]"), Some("\"a=b\""), None]
        );
        assert_eq!(otherwise.members[2].path, ["a", "b"]);
        for wrong in ["temperature", "=1", "a..b=1"] {
            assert!(otherwise.set(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn geminis_model_is_in_the_path_and_nothing_else_gets_there() {
        let path = "/gemini/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";
        assert_eq!(
            with_model(path, "gemini-2.5-flash").unwrap(),
            "/gemini/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
        );
        for wrong in ["", "a/b", "a?b", "a:b", "a b"] {
            assert!(with_model(path, wrong).is_err(), "{wrong}");
        }
    }
}
