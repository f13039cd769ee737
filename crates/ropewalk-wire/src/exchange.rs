//! The neutral exchange format v1: one JSON line per exchange, for import and export.
//!
//! `{"v":1,"id","at","spawned_at","owner","method","path","request":{"headers","body" or "body_base64"},
//! "response":{"status","headers","body" or "body_base64","cut_off"},"ended_at"}`. A body that is JSON stands for the bytes it is
//! written with in the line; a body that is a string is that text.

use base64::Engine as _;
use ropewalk_core::json::{Doc, JsonError, Node};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeLine {
    pub id: String,
    pub at: String,
    pub ended_at: Option<String>,
    /// When each spawning tool call ended in the stream, by tool_use id.
    pub spawned_at: Vec<(String, String)>,
    pub owner: Option<String>,
    pub method: String,
    pub path: String,
    pub request: Half,
    /// Absent where no response began.
    pub response: Option<Half>,
    pub status: Option<u16>,
    pub cut_off: bool,
}

/// Headers and body of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Half {
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Half {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    #[error("not JSON")]
    Json(#[from] JsonError),
    #[error("no exchange of format v1: `{0}` is missing or of another kind")]
    Member(&'static str),
    #[error("`body_base64` is no base64")]
    Base64,
}

impl ExchangeLine {
    /// Whether a text looks like a line of this format, whatever else is wrong with it.
    pub fn is_exchange(line: &[u8]) -> bool {
        Doc::parse(line).is_ok_and(|doc| {
            let root = doc.root();
            root.get("v").is_some() && root.get("request").is_some_and(|request| request.is_object())
        })
    }

    pub fn parse(line: &[u8]) -> Result<Self, ExchangeError> {
        let doc = Doc::parse(line)?;
        let root = doc.root();
        if root.get("v").and_then(|version| version.as_u64()) != Some(1) {
            return Err(ExchangeError::Member("v"));
        }
        let text = |name: &'static str| root.get(name).and_then(|node| node.to_text());
        let request = root.get("request").filter(|node| node.is_object());
        let response = root.get("response").filter(|node| node.is_object());
        let spawned = root.get("spawned_at").into_iter().flat_map(|node| node.members());
        Ok(ExchangeLine {
            id: text("id").ok_or(ExchangeError::Member("id"))?,
            at: text("at").ok_or(ExchangeError::Member("at"))?,
            ended_at: text("ended_at"),
            spawned_at: spawned
                .filter_map(|(id, at)| Some((id.to_text()?, at.to_text()?)))
                .collect(),
            owner: text("owner"),
            method: text("method").unwrap_or_else(|| "POST".to_owned()),
            path: text("path").ok_or(ExchangeError::Member("path"))?,
            request: half(request.ok_or(ExchangeError::Member("request"))?)?,
            response: response.map(half).transpose()?,
            status: response.and_then(|node| node.get("status")?.as_u64()?.try_into().ok()),
            cut_off: response
                .and_then(|node| node.get("cut_off")?.as_bool())
                .unwrap_or(false),
        })
    }
}

fn half(node: Node<'_>) -> Result<Half, ExchangeError> {
    let headers = node.get("headers").into_iter().flat_map(|headers| headers.members());
    let headers = headers.filter_map(|(name, value)| Some((name.to_text()?.to_ascii_lowercase(), value.to_text()?)));
    let body = match (
        node.get("body_base64").and_then(|text| text.to_text()),
        node.get("body"),
    ) {
        (Some(text), _) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            decoded.map_err(|_| ExchangeError::Base64)?
        }
        (None, None) => Vec::new(),
        (None, Some(body)) if body.is_null() => Vec::new(),
        (None, Some(body)) => body.to_text().unwrap_or_else(|| body.raw().to_owned()).into_bytes(),
    };
    Ok(Half {
        headers: headers.collect(),
        body,
    })
}
