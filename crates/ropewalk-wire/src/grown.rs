//! Requests that grow by messages: a log has every message once, behind another.
//!
//! A [`Grown`] is a message with everything that hashing needs to go on behind it. What a request costs is what is new in it,
//! beside a walk over the messages before. Its body is written with the messages first and everything else behind them, so that the
//! hash of the next one's body goes on where this one's stood.
//!
//! Invariant: the body that [`Grown::request`] describes, read by [`read_request`](crate::read_request), gives the same request, the same
//! chain and the same pieces.

use std::sync::Arc;

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::NodeHash;
use ropewalk_core::json::{JsonError, Style, parse_value_at, quote};
use ropewalk_core::model::{ChainStart, Message, Provider, Role};
use ropewalk_core::prompt_path::{GrowingPath, RequestPath, ToolNames};
use ropewalk_core::system_prompt::raw_text;
use ropewalk_core::transcript::{Transcript, TranscriptHashes};
use sha2::{Digest as _, Sha256};

use crate::assemble;
use crate::body::{Element, Held, Member, Memo, RequestBody, Said, Section, read_element};
use crate::split::{Segment, Split};

/// A message behind others.
#[derive(Debug)]
pub struct Grown {
    provider: Provider,
    behind: Option<Arc<Grown>>,
    element: Arc<Element>,
    /// What it adds to a body: its pieces behind what separates it from the message before.
    added: Arc<Element>,
    /// Behind its last block.
    node: NodeHash,
    nodes: Vec<NodeHash>,
    /// Messages up to here, and blocks in the chain.
    count: usize,
    depth: usize,
    /// Of the body up to here.
    hashed: Sha256,
    length: u64,
    transcript: Transcript,
    path: GrowingPath,
    /// Nothing but the system prompt stands up to here.
    is_leading: bool,
}

/// A request with the hashes that were made as it grew.
#[derive(Debug)]
pub struct GrownRequest {
    pub body: RequestBody,
    pub sha256: [u8; 32],
    pub length: u64,
    pub transcript: TranscriptHashes,
    pub path: RequestPath,
}

/// Which member the messages stand in.
fn member(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic | Provider::OpenAiChat => "messages",
        Provider::OpenAiResponses => "input",
        Provider::Gemini => "contents",
    }
}

/// What stands between two messages.
const SEPARATOR: &str = ",";

/// What every body begins with.
fn opening(provider: Provider) -> String {
    format!("{{\"{}\":[", member(provider))
}

impl Grown {
    /// A message, in the provider's JSON, behind another one of the same provider. `repeats` says whether a call or a result in it
    /// stands in a message before; `names` are those of the calls so far.
    pub fn new(
        provider: Provider,
        behind: Option<Arc<Grown>>,
        json: &str,
        repeats: impl FnOnce(&Message) -> bool,
        names: &mut ToolNames,
    ) -> Result<Self, JsonError> {
        let (doc, end) = parse_value_at(json, 0)?;
        if !json[end..].trim_ascii().is_empty() {
            return Err(JsonError::Unexpected { at: end });
        }
        let (start, json) = (doc.root().range().start, &json[..end]);
        let element = Arc::new(read_element(
            provider,
            Section::Messages,
            json,
            doc.root(),
            &mut String::new(),
        ));
        let before = behind.as_deref();
        let separator = if before.is_some() {
            SEPARATOR
        } else {
            &opening(provider)
        };
        let added = Arc::new(element.led_by(separator.as_bytes()));
        let mut grown = Grown {
            provider,
            node: before.map_or_else(|| chain::root(&ChainStart::Root), |before| before.node),
            nodes: Vec::new(),
            count: before.map_or(0, |before| before.count) + 1,
            depth: before.map_or(0, |before| before.depth),
            hashed: before.map_or_else(
                || Sha256::new_with_prefix(opening(provider)),
                |before| before.hashed.clone(),
            ),
            length: before.map_or(opening(provider).len() as u64, |before| before.length),
            transcript: before.map(|before| before.transcript.clone()).unwrap_or_default(),
            path: before.map(|before| before.path.clone()).unwrap_or_default(),
            is_leading: before.is_none_or(|before| before.is_leading),
            behind: None,
            element,
            added,
        };
        for separator in before.map(|_| SEPARATOR).into_iter().chain([&json[start..]]) {
            grown.hashed.update(separator);
            grown.length += separator.len() as u64;
        }
        grown.behind = behind;
        grown.chain(repeats, names);
        Ok(grown)
    }

    fn chain(&mut self, repeats: impl FnOnce(&Message) -> bool, names: &mut ToolNames) {
        for value in &self.element.values {
            self.node = chain::node(self.node, *value);
            self.nodes.push(self.node);
        }
        self.depth += self.nodes.len();
        let Said::Message(message) = &self.element.said else {
            return;
        };
        let is_system = message.role == Role::System;
        // Where system and developer messages come first, they are the system prompt.
        let takes_system = matches!(self.provider, Provider::OpenAiChat | Provider::OpenAiResponses);
        if is_system && self.is_leading && takes_system {
            self.path.push_system(&raw_text(&message.blocks));
        }
        self.is_leading &= is_system;
        if !is_system && !repeats(message) {
            self.transcript.push(message);
        }
        self.path.push(message, names);
    }

    /// What it says, if it is a message rather than a list of tools.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match &self.element.said {
            Said::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The node behind one of its blocks. A block that is not in the chain has the node of what was said before it.
    pub fn node_of(&self, block: usize) -> NodeHash {
        let before = || {
            self.behind
                .as_ref()
                .map_or_else(|| chain::root(&ChainStart::Root), |behind| behind.node)
        };
        let Some(message) = self.message() else { return before() };
        let blocks = message.blocks.iter().take(block.saturating_add(1));
        let count = blocks.filter(|block| chain::has_value(message.role, block)).count();
        match count.checked_sub(1).and_then(|last| self.nodes.get(last)) {
            Some(node) => *node,
            None => before(),
        }
    }

    /// The one before it.
    pub fn behind(&self) -> Option<&Arc<Grown>> {
        self.behind.as_ref()
    }

    /// The request that ends with `last`, to a model.
    pub fn request(provider: Provider, last: Option<&Arc<Grown>>, model: Option<&str>) -> GrownRequest {
        let mut messages: Vec<&Grown> = Vec::with_capacity(last.map_or(0, |last| last.count));
        let mut at = last;
        while let Some(grown) = at {
            messages.push(grown);
            at = grown.behind.as_ref();
        }
        messages.reverse();
        let model = model.map(|model| quote(model, Style::Plain));
        let closing = match &model {
            Some(model) => format!("],\"model\":{model}}}"),
            None => "]}".to_owned(),
        };
        let opening = opening(provider);
        let mut hashed = last.map_or_else(|| Sha256::new_with_prefix(&opening), |last| last.hashed.clone());
        hashed.update(&closing);
        let length = last.map_or(opening.len() as u64, |last| last.length) + closing.len() as u64;
        let members = members(provider, &messages, model.as_deref());
        let request = assemble::request(provider, &members);
        let start = chain::root(&request.start);
        let mut nodes = Vec::with_capacity(last.map_or(0, |last| last.depth));
        messages.iter().for_each(|grown| nodes.extend(&grown.nodes));
        GrownRequest {
            body: RequestBody {
                request,
                start,
                split: split(&opening, &messages, &closing),
                memo: Memo {
                    provider,
                    // Nothing will be compared with it: the next request comes from its messages too.
                    body: Bytes::new(),
                    members,
                    start,
                    nodes,
                },
            },
            sha256: hashed.finalize().into(),
            length,
            transcript: last.map(|last| last.transcript.hashes()).unwrap_or_default(),
            path: last.map_or_else(
                || GrowingPath::default().request_path(),
                |last| last.path.request_path(),
            ),
        }
    }
}

fn members(provider: Provider, messages: &[&Grown], model: Option<&str>) -> Vec<Member> {
    let held = messages.iter().map(|grown| Held::of(Arc::clone(&grown.element)));
    let mut members = vec![Member::new(member(provider), held.collect())];
    members.extend(model.map(|model| Member::new("model", vec![Held::of(Arc::new(Element::option(model)))])));
    members
}

fn split(opening: &str, messages: &[&Grown], closing: &str) -> Split {
    let mut segments = Vec::with_capacity(messages.len() + 1);
    segments.extend(messages.iter().map(|grown| Segment::Element {
        element: Arc::clone(&grown.added),
        known: false,
    }));
    let newest = messages.len().checked_sub(1).map(|last| last..messages.len());
    let mut split = Split { segments, newest };
    let opening = if messages.is_empty() { opening } else { "" };
    split.push_frame(format!("{opening}{closing}").as_bytes());
    split
}

#[cfg(test)]
mod tests {
    use ropewalk_core::hash::sha256;
    use ropewalk_core::projections::Projections;

    use super::*;
    use crate::read_request;

    /// Grows a request and reads its body as one; both must say the same after every message.
    #[track_caller]
    fn check(provider: Provider, messages: &[&str]) {
        let mut last: Option<Arc<Grown>> = None;
        let mut names = ToolNames::default();
        for count in 0..=messages.len() {
            if let Some(json) = count.checked_sub(1).map(|index| messages[index]) {
                let grown = Grown::new(provider, last.take(), json, |_| false, &mut names).unwrap();
                last = Some(Arc::new(grown));
            }
            let text = messages[..count]
                .iter()
                .map(|json| json.trim())
                .collect::<Vec<_>>()
                .join(",");
            let text = format!("{}{text}],\"model\":\"m \\\"1\\\"\"}}", opening(provider));
            let body = Bytes::from(text);
            let read = read_request(provider, &body, None).unwrap();
            let grown = Grown::request(provider, last.as_ref(), Some("m \"1\""));
            assert_eq!((grown.sha256, grown.length), (sha256(&body), body.len() as u64));
            assert_eq!(grown.body.request, read.request);
            assert_eq!(grown.body.nodes(), read.nodes());
            assert_eq!(
                grown.body.values().collect::<Vec<_>>(),
                read.values().collect::<Vec<_>>()
            );
            let pieces = |split: &Split| split.pieces().cloned().collect::<Vec<_>>();
            assert_eq!(pieces(&grown.body.split), pieces(&read.split));
            assert_eq!(grown.body.split.layout(), read.split.layout());
            let whole = Projections::of(&read.request, None);
            let grown = Projections::of_grown(&read.request, None, grown.transcript, grown.path);
            assert_eq!(grown, whole);
        }
    }

    #[test]
    fn a_grown_request_is_the_one_that_its_body_says() {
        check(
            Provider::Anthropic,
            &[
                r#"{"role":"user","content":"a question that is long enough to be a part"}"#,
                r#" {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
                    {"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/a/rather/long/path/to/a/file"}}]} "#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"what the file says, which is a lot"}]}"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"done"}]}"#,
                r#"{"role":"user","content":[{"type":"text","text":"and?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}"#,
                r#"{"role":"system","content":"context"}"#,
            ],
        );
        check(
            Provider::OpenAiResponses,
            &[
                r#"{"type":"additional_tools","tools":[{"type":"function","name":"exec"}]}"#,
                r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"you are"}]}"#,
                r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"very careful"}]}"#,
                r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}"#,
                r#"{"type":"function_call","call_id":"c1","name":"exec","arguments":"{\"cmd\":\"ls\"}"}"#,
                r#"{"type":"function_call_output","call_id":"c1","output":"a b c"}"#,
                r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"later"}]}"#,
                r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}"#,
            ],
        );
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for json in ["", "{", "{} {}"] {
            assert!(Grown::new(Provider::Anthropic, None, json, |_| false, &mut ToolNames::default()).is_err());
        }
    }
}
