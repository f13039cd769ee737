//! Requests that grow by messages: a log has every message once, behind another.
//!
//! A [`Grown`] is a message with everything that hashing needs to go on behind it, and with the lists of what stands before it, which
//! all that grow from it share. What a request costs is what is new in it. Its body is written with the messages first and everything
//! else behind them, so that the hash of the next one's body goes on where this one's stood.
//!
//! Invariant: the body that [`Grown::request`] describes, read by [`read_request`](crate::read_request), gives the same request, the same
//! chain and the same pieces.

use std::sync::Arc;

use ropewalk_core::chain::{self, Link};
use ropewalk_core::hash::NodeHash;
use ropewalk_core::json::{JsonError, Style, parse_value_at, quote};
use ropewalk_core::model::{Block, ChainStart, Message, Provider, Request, Role, Tool};
use ropewalk_core::prompt_path::{GrowingPath, RequestPath, ToolNames};
use ropewalk_core::shared_list::SharedList;
use ropewalk_core::system_prompt::raw_text;
use ropewalk_core::transcript::{Transcript, TranscriptHashes};
use sha2::{Digest as _, Sha256};

use crate::assemble::{system_blocks, takes_leading_system};
use crate::body::{Element, Said, Section, read_element};
use crate::split::{GrownSegments, Split};

/// A message behind others.
#[derive(Debug, Clone)]
pub struct Grown {
    provider: Provider,
    /// What it says, if it is a message rather than a list of tools.
    message: Option<Arc<Message>>,
    /// Where its own blocks begin in the chain, and the node before them.
    first: usize,
    before: NodeHash,
    chain: SharedList<Link>,
    /// As a request has them: without those that are its system prompt.
    messages: SharedList<Arc<Message>>,
    heading: Arc<Heading>,
    segments: GrownSegments,
    /// Of the body up to here.
    hashed: Sha256,
    length: u64,
    transcript: Transcript,
    path: GrowingPath,
    /// Nothing but the system prompt stands up to here.
    is_leading: bool,
}

/// What a request has beside its messages, as far as it stands among them.
#[derive(Debug, Clone, Default)]
struct Heading {
    system: Vec<Arc<Block>>,
    tools: Vec<Arc<Tool>>,
}

/// A request with the hashes that were made as it grew.
#[derive(Debug)]
pub struct GrownRequest {
    pub request: Request,
    /// The node before the first block.
    pub start: NodeHash,
    pub chain: SharedList<Link>,
    pub split: Split,
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
    /// Before the first message.
    fn nothing(provider: Provider) -> Self {
        let opening = opening(provider);
        Grown {
            provider,
            message: None,
            first: 0,
            before: chain::root(&ChainStart::Root),
            chain: SharedList::default(),
            messages: SharedList::default(),
            heading: Arc::default(),
            segments: GrownSegments::default(),
            hashed: Sha256::new_with_prefix(&opening),
            length: opening.len() as u64,
            transcript: Transcript::default(),
            path: GrowingPath::default(),
            is_leading: true,
        }
    }

    /// A message, in the provider's JSON, behind another one of the same provider. `repeats` says whether a call or a result in it
    /// stands in a message before; `names` are those of the calls so far.
    pub fn new(
        provider: Provider,
        behind: Option<&Grown>,
        json: &str,
        repeats: impl FnOnce(&Message) -> bool,
        names: &mut ToolNames,
    ) -> Result<Self, JsonError> {
        let (doc, end) = parse_value_at(json, 0)?;
        if !json[end..].trim_ascii().is_empty() {
            return Err(JsonError::Unexpected { at: end });
        }
        let (start, json) = (doc.root().range().start, &json[..end]);
        let element = read_element(provider, Section::Messages, json, doc.root(), &mut String::new());
        let (framing, separator) = match behind {
            Some(_) => (SEPARATOR.to_owned(), SEPARATOR),
            None => (opening(provider), ""),
        };
        let mut grown = behind.cloned().unwrap_or_else(|| Grown::nothing(provider));
        for written in [separator, &json[start..]] {
            grown.hashed.update(written);
            grown.length += written.len() as u64;
        }
        let (pieces, parts) = element.led_by(framing.as_bytes());
        grown.segments.push(pieces, parts);
        grown.say(element, repeats, names);
        Ok(grown)
    }

    fn say(&mut self, element: Element, repeats: impl FnOnce(&Message) -> bool, names: &mut ToolNames) {
        self.before = self.node();
        self.first = self.chain.len();
        for value in element.values {
            let node = chain::node(self.node(), value);
            self.chain.push(Link { value, node });
        }
        self.message = None;
        match element.said {
            Said::Message(message) => self.say_message(message, repeats, names),
            Said::Tools(tools) => Arc::make_mut(&mut self.heading).tools.extend(tools),
            Said::System(_) | Said::Option(_) => {}
        }
    }

    fn say_message(&mut self, message: Arc<Message>, repeats: impl FnOnce(&Message) -> bool, names: &mut ToolNames) {
        let is_system = message.role == Role::System;
        self.is_leading &= is_system;
        if self.is_leading && takes_leading_system(self.provider) {
            self.path.push_system(&raw_text(&message.blocks));
            Arc::make_mut(&mut self.heading).system.extend(system_blocks(&message));
        } else {
            self.messages.push(Arc::clone(&message));
        }
        if !is_system && !repeats(&message) {
            self.transcript.push(&message);
        }
        self.path.push(&message, names);
        self.message = Some(message);
    }

    /// What it says, if it is a message rather than a list of tools.
    pub fn message(&self) -> Option<&Arc<Message>> {
        self.message.as_ref()
    }

    /// The nodes of its own blocks.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeHash> {
        self.chain.range(self.first..).map(|link| link.node)
    }

    /// The node behind its last block.
    fn node(&self) -> NodeHash {
        self.chain.last().map_or(self.before, |link| link.node)
    }

    /// The node behind one of its blocks. A block that is not in the chain has the node of what was said before it.
    pub fn node_of(&self, block: usize) -> NodeHash {
        let Some(message) = self.message() else {
            return self.before;
        };
        let blocks = message.blocks.iter().take(block.saturating_add(1));
        let count = blocks.filter(|block| chain::has_value(message.role, block)).count();
        let last = count.checked_sub(1).and_then(|last| self.nodes().nth(last));
        last.unwrap_or(self.before)
    }

    /// The request that ends with `last`, to a model.
    pub fn request(provider: Provider, last: Option<&Grown>, model: Option<&str>) -> GrownRequest {
        let nothing;
        let last = match last {
            Some(last) => last,
            None => {
                nothing = Grown::nothing(provider);
                &nothing
            }
        };
        let closing = match model.map(|model| quote(model, Style::Plain)) {
            Some(model) => format!("],\"model\":{model}}}"),
            None => "]}".to_owned(),
        };
        let mut hashed = last.hashed.clone();
        hashed.update(&closing);
        let opening = match last.segments.is_empty() {
            true => opening(provider),
            false => String::new(),
        };
        GrownRequest {
            request: Request {
                provider,
                model: model.map(Into::into),
                stream: false,
                start: ChainStart::Root,
                system: last.heading.system.clone(),
                tools: last.heading.tools.clone(),
                messages: last.messages.clone(),
                options: Vec::new(),
            },
            start: chain::root(&ChainStart::Root),
            chain: last.chain.clone(),
            split: Split::grown(last.segments.clone(), format!("{opening}{closing}").as_bytes()),
            sha256: hashed.finalize().into(),
            length: last.length + closing.len() as u64,
            transcript: last.transcript.hashes(),
            path: last.path.request_path(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use ropewalk_core::hash::sha256;
    use ropewalk_core::projections::Projections;

    use super::*;
    use crate::read_request;

    /// Grows a request and reads its body as one; both must say the same after every message.
    #[track_caller]
    fn check(provider: Provider, messages: &[&str]) {
        let mut last: Option<Grown> = None;
        let mut names = ToolNames::default();
        for count in 0..=messages.len() {
            if let Some(json) = count.checked_sub(1).map(|index| messages[index]) {
                let grown = Grown::new(provider, last.as_ref(), json, |_| false, &mut names).unwrap();
                last = Some(grown);
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
            assert_eq!(grown.request, read.request);
            assert_eq!(grown.start, read.start);
            assert!(grown.chain.iter().map(|link| &link.node).eq(read.nodes()));
            assert!(grown.chain.iter().map(|link| link.value).eq(read.values()));
            check_split(&grown.split, &read.split);
            let whole = Projections::of(&read.request, None);
            let grown = Projections::of_grown(&read.request, None, grown.transcript, grown.path);
            assert_eq!(grown, whole);
        }
    }

    /// Both have the same pieces and parts, from any place on.
    #[track_caller]
    fn check_split(grown: &Split, read: &Split) {
        let pieces: Vec<_> = read.pieces().cloned().collect();
        assert_eq!(grown.pieces().cloned().collect::<Vec<_>>(), pieces);
        assert_eq!((grown.layout(), grown.piece_count()), (read.layout(), pieces.len()));
        assert_eq!(grown.shared_pieces(read), pieces.len());
        for first in 0..=pieces.len() {
            assert!(grown.pieces_behind(first).eq(&pieces[first..]));
            let parts = |split: &Split| split.parts_behind(first).map(|part| part.hash).collect::<BTreeSet<_>>();
            // A message brings its own framing along, which a body that was read has in a segment of its own.
            assert!(parts(grown).is_superset(&parts(read)));
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
