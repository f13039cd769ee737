//! The neutral exchange format v1: one JSON line per exchange, for import and export.
//!
//! `{"v":1,"id","at","spawned_at","owner","method","path","request":{"headers","body" or "body_base64"},
//! "sent":{"body" or "body_base64"},"response":{"status","headers","body" or "body_base64","cut_off"},"ended_at","names"}`. A body that is JSON stands for the bytes it is
//! written with in the line; a body that is a string is that text.

use base64::Engine as _;
use ropewalk_core::json::{Doc, JsonError, Node, Style, quote};

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
    /// The body that the provider got in the request's place, where it got another.
    pub sent: Option<Vec<u8>>,
    /// Absent where no response began.
    pub response: Option<Half>,
    pub status: Option<u16>,
    pub cut_off: bool,
    pub names: LineNames,
}

/// Names that were given out for an exchange's conversation and for the messages that it brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineNames {
    pub conversations: Vec<LineName>,
    pub messages: Vec<LineMessageName>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineName {
    pub friendly_id: String,
    pub title: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMessageName {
    /// The friendly id that the hash was made with.
    pub conversation: String,
    pub short_hash: String,
    /// The first 16 hex digits of the node that the message ends at.
    pub node: String,
}

impl LineNames {
    pub fn is_empty(&self) -> bool {
        self.conversations.is_empty() && self.messages.is_empty()
    }
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
        let sent = root.get("sent").filter(|node| node.is_object());
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
            sent: sent.map(body).transpose()?,
            response: response.map(half).transpose()?,
            status: response.and_then(|node| node.get("status")?.as_u64()?.try_into().ok()),
            cut_off: response
                .and_then(|node| node.get("cut_off")?.as_bool())
                .unwrap_or(false),
            names: root.get("names").map(names).unwrap_or_default(),
        })
    }
}

impl ExchangeLine {
    /// The line, without its end. Parsing it gives the same exchange, to the byte.
    pub fn write(&self) -> String {
        let mut out = String::from("{\"v\":1");
        member(&mut out, "id", &self.id);
        member(&mut out, "at", &self.at);
        if !self.spawned_at.is_empty() {
            out.push_str(",\"spawned_at\":");
            write_pairs(&mut out, &self.spawned_at);
        }
        if let Some(owner) = &self.owner {
            member(&mut out, "owner", owner);
        }
        member(&mut out, "method", &self.method);
        member(&mut out, "path", &self.path);
        out.push_str(",\"request\":{\"headers\":");
        write_half(&mut out, &self.request);
        out.push('}');
        if let Some(sent) = &self.sent {
            out.push_str(",\"sent\":{");
            write_body(&mut out, sent);
            out.push('}');
        }
        if let Some(response) = &self.response {
            out.push_str(",\"response\":{");
            if let Some(status) = self.status {
                out.push_str(&format!("\"status\":{status},"));
            }
            out.push_str("\"headers\":");
            write_half(&mut out, response);
            out.push_str(&format!(",\"cut_off\":{}}}", self.cut_off));
        }
        if let Some(ended_at) = &self.ended_at {
            member(&mut out, "ended_at", ended_at);
        }
        if !self.names.is_empty() {
            write_names(&mut out, &self.names);
        }
        out.push('}');
        out
    }
}

fn member(out: &mut String, name: &str, text: &str) {
    out.push_str(&format!(",\"{name}\":"));
    out.push_str(&quote(text, Style::Plain));
}

/// `,"names":{"conversations":[{"friendly_id","title"}],"messages":[{"conversation","short_hash","node"}]}`.
fn write_names(out: &mut String, names: &LineNames) {
    let text = |text: &str| quote(text, Style::Plain);
    let conversations = names.conversations.iter().map(|name| {
        let title = name.title.as_deref().map(|title| format!(",\"title\":{}", text(title)));
        format!(
            "{{\"friendly_id\":{}{}}}",
            text(&name.friendly_id),
            title.unwrap_or_default()
        )
    });
    let messages = names.messages.iter().map(|name| {
        let (of, hash, node) = (text(&name.conversation), text(&name.short_hash), text(&name.node));
        format!("{{\"conversation\":{of},\"short_hash\":{hash},\"node\":{node}}}")
    });
    let (conversations, messages) = (conversations.collect::<Vec<_>>(), messages.collect::<Vec<_>>());
    out.push_str(&format!(
        ",\"names\":{{\"conversations\":[{}],\"messages\":[{}]}}",
        conversations.join(","),
        messages.join(",")
    ));
}

/// What of them is whole.
fn names(node: Node<'_>) -> LineNames {
    let items = |name: &str| {
        node.get(name)
            .into_iter()
            .flat_map(|list| list.items())
            .collect::<Vec<_>>()
    };
    let text = |node: &Node<'_>, name: &str| node.get(name).and_then(|text| text.to_text());
    let conversations = items("conversations").into_iter().filter_map(|name| {
        Some(LineName {
            friendly_id: text(&name, "friendly_id").filter(|id| is_name(id))?,
            title: text(&name, "title"),
        })
    });
    let messages = items("messages").into_iter().filter_map(|name| {
        Some(LineMessageName {
            conversation: text(&name, "conversation").filter(|id| is_name(id))?,
            short_hash: text(&name, "short_hash").filter(|hash| is_name(hash))?,
            node: text(&name, "node")?,
        })
    });
    LineNames {
        conversations: conversations.collect(),
        messages: messages.collect(),
    }
}

/// Longest name: two words of 40 characters, and a conversation's id where no hash was free.
const NAME_BYTES_MAX: usize = 128;

/// Names are what stands in a reference.
fn is_name(text: &str) -> bool {
    let is_ours = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_ours)
}

fn write_pairs(out: &mut String, pairs: &[(String, String)]) {
    out.push('{');
    for (index, (name, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&quote(name, Style::Plain));
        out.push(':');
        out.push_str(&quote(value, Style::Plain));
    }
    out.push('}');
}

/// Headers and body, the body in the most readable form that reproduces its bytes.
fn write_half(out: &mut String, half: &Half) {
    write_pairs(out, &half.headers);
    out.push(',');
    write_body(out, &half.body);
}

fn write_body(out: &mut String, body: &[u8]) {
    match std::str::from_utf8(body) {
        Ok(json) if stands_for_itself(json) => {
            out.push_str("\"body\":");
            out.push_str(json);
        }
        Ok(text) => {
            out.push_str("\"body\":");
            out.push_str(&quote(text, Style::Plain));
        }
        Err(_) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(body);
            out.push_str(&format!("\"body_base64\":\"{encoded}\""));
        }
    }
}

/// Whether a body can stand in the line as it is: an object or a list on one line, with nothing around it, and not so deep
/// that the line around it would be too deep.
fn stands_for_itself(body: &str) -> bool {
    if !body.starts_with(['{', '[']) || body.contains(['\n', '\r']) {
        return false;
    }
    let inside = format!("[[{body}]]");
    Doc::parse_str(&inside).is_ok_and(|doc| {
        let outer = doc.root().items().next();
        let mut values = outer.iter().flat_map(|outer| outer.items());
        let is_whole = values.next().is_some_and(|value| value.raw().len() == body.len());
        is_whole && values.next().is_none()
    })
}

fn half(node: Node<'_>) -> Result<Half, ExchangeError> {
    let headers = node.get("headers").into_iter().flat_map(|headers| headers.members());
    let headers = headers.filter_map(|(name, value)| Some((name.to_text()?.to_ascii_lowercase(), value.to_text()?)));
    Ok(Half {
        headers: headers.collect(),
        body: body(node)?,
    })
}

fn body(node: Node<'_>) -> Result<Vec<u8>, ExchangeError> {
    let encoded = node.get("body_base64").and_then(|text| text.to_text());
    Ok(match (encoded, node.get("body")) {
        (Some(text), _) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            decoded.map_err(|_| ExchangeError::Base64)?
        }
        (None, None) => Vec::new(),
        (None, Some(body)) if body.is_null() => Vec::new(),
        (None, Some(body)) => body.to_text().unwrap_or_else(|| body.raw().to_owned()).into_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(body: &[u8], response: Option<&[u8]>) -> ExchangeLine {
        let half = |body: &[u8]| Half {
            headers: vec![("content-type".to_owned(), "a \"quoted\" one".to_owned())],
            body: body.to_vec(),
        };
        ExchangeLine {
            id: "id \n \u{7f}".to_owned(),
            at: "2026-01-01T00:00:00.000001Z".to_owned(),
            ended_at: response.map(|_| "2026-01-01T00:00:01Z".to_owned()),
            spawned_at: vec![("toolu_1".to_owned(), "2026-01-01T00:00:00.5Z".to_owned())],
            owner: Some("ann".to_owned()),
            method: "POST".to_owned(),
            path: "/v1/messages?beta=true".to_owned(),
            request: half(body),
            sent: response.map(|_| body.to_vec()),
            response: response.map(half),
            status: response.map(|_| 200),
            cut_off: response.is_some_and(<[u8]>::is_empty),
            names: match response {
                Some(_) => LineNames {
                    conversations: vec![LineName {
                        friendly_id: "react_b4f2".to_owned(),
                        title: Some("A \"title\"".to_owned()),
                    }],
                    messages: vec![LineMessageName {
                        conversation: "react_b4f2".to_owned(),
                        short_hash: "a3f2b1".to_owned(),
                        node: "0123456789abcdef".to_owned(),
                    }],
                },
                None => LineNames::default(),
            },
        }
    }

    #[test]
    fn what_is_written_is_read_again_to_the_byte() {
        let bodies: [&[u8]; 11] = [
            b"{\"a\": 1.0 , \"a\":\"\\u00e9\"}",
            b"[1,2]",
            b"{\"a\":\n1}",
            b" {}",
            b"{} ",
            b"\"text\"",
            b"null",
            b"",
            b"event: x\ndata: {}\n\n",
            b"\xff\xfe",
            b"\0\x01\xe2\x80\xa8",
        ];
        for body in bodies {
            for response in bodies.iter().map(|body| Some(*body)).chain([None]) {
                let line = line(body, response);
                let written = line.write();
                assert!(!written.contains('\n'));
                assert_eq!(ExchangeLine::parse(written.as_bytes()).unwrap(), line, "{written}");
            }
        }
    }

    #[test]
    fn json_stays_readable() {
        let written = line(b"{\"model\":\"m\"}", None).write();
        assert!(written.contains(r#""body":{"model":"m"}"#), "{written}");
    }
}
