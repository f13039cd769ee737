//! Every hash of a request that need not be recorded: what `ropewalk hash` prints.

use bytes::Bytes;
use ropewalk_engine::hashed::Hashed;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::matched::Format;
use crate::problem::Problem;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AskHashes {
    /// Whose shape the request has; told from the request unless you say.
    #[param(inline)]
    pub format: Option<Format>,
    /// With the chain, block by block.
    #[serde(default)]
    pub chain: bool,
}

/// What needs an answer is `null`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestHashes {
    pub v: u32,
    pub provider: String,
    pub model: Option<String>,
    pub rules_version: u32,
    pub input_node: String,
    pub message_hash: Option<String>,
    pub current_message_hash: Option<String>,
    pub parent_message_hash: Option<String>,
    pub system_hash: String,
    pub system_raw_hash: String,
    pub toolset_hash: String,
    /// Of the tools with their descriptions and schemas.
    pub tools_hash: String,
    /// Of the system prompt and the names of the tools (seed 001).
    pub agent_type_hash: String,
    pub first_user_hash: String,
    pub first_response_hash: Option<String>,
    pub conversation_hash: Option<String>,
    pub prompt_hash: String,
    pub path_hash: String,
    pub request_sha256: String,
    /// Where it was asked for.
    #[serde(default)]
    pub chain: Option<Vec<ChainedBlock>>,
}

/// One block of the chain.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChainedBlock {
    /// Whose message it is of.
    pub role: String,
    /// `text`, `thinking`, `tool_use`, `tool_result`, `media`, `reference` or `other`.
    pub kind: String,
    /// Of the block by itself.
    pub value: String,
    /// Of everything up to it.
    pub node: String,
}

pub fn hashes(body: &Bytes, asked: &AskHashes) -> Result<RequestHashes, Problem> {
    let unknown = || {
        Problem::bad_request("this is no request we know")
            .hint("a request has `messages`, `input` or `contents`; `format` says which kind it is")
    };
    let hashed = Hashed::request(body, asked.format.map(Format::provider)).ok_or_else(unknown)?;
    let hashes = hashed
        .hashes(asked.chain)
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    // Both are made of the same members, here with their names for the document.
    serde_json::to_value(&hashes)
        .and_then(serde_json::from_value)
        .map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_hashes_and_what_is_none_says_so() {
        let body = Bytes::from_static(br#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}"#);
        let alone = hashes(&body, &AskHashes::default()).unwrap();
        assert!(alone.input_node.starts_with("v1:") && alone.chain.is_none());
        assert_eq!((alone.model.as_deref(), &alone.conversation_hash), (Some("m"), &None));
        let chained = AskHashes {
            format: Some(Format::Anthropic),
            chain: true,
        };
        let chain = hashes(&body, &chained).unwrap().chain.unwrap();
        assert_eq!(chain.len(), 1);
        assert_eq!(chain[0].node, alone.input_node);
        for bad in ["", "3", "{}", "{\"messages\""] {
            assert!(
                hashes(&Bytes::from_static(bad.as_bytes()), &AskHashes::default()).is_err(),
                "{bad}"
            );
        }
    }
}
