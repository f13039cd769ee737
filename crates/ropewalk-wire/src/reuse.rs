//! Which calls may share an answer: those of which the model sees the same.
//!
//! [`Essence`] is what of a call reaches the model, as bytes: where it goes, the headers that switch features, and every member of
//! the body but those that only the provider's accounting and framing read. Values count as they were written, so that nothing is
//! equal that a model could tell apart; the order of the members of a body does not reach it and does not count. `stream` is no part
//! of it, and neither is Gemini's verb that means the same.
//!
//! [`temperature`] and [`is_volatile`] say whether the same input has the same answer.

use sha2::{Digest as _, Sha256};

use ropewalk_core::json::Doc;
use ropewalk_core::model::{Block, MediaSource, Provider, Request, ToolContent};

use crate::body::{Member, RequestBody};
use crate::provider::{Endpoint, Route};

/// In front of everything that is hashed: raised when something else counts.
const TAG: &[u8] = b"v1:reuse\0";

/// Headers that change what a model is given.
const HEADERS: [&str; 3] = ["anthropic-beta", "anthropic-version", "openai-beta"];

/// Query parameters that frame the answer or open the door.
const UNSEEN_PARAMETERS: [&str; 2] = ["alt", "key"];

/// The only parameter that counts and is kept.
const COUNTED_PARAMETER: &str = "beta";

/// A call as far as it reaches the model. Equal ones are equal byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Essence<'c> {
    /// Upstream, path, headers.
    place: Vec<String>,
    /// Names and values, in the order of the names.
    members: Vec<(&'c str, Vec<&'c [u8]>)>,
}

impl<'c> Essence<'c> {
    /// `None` where nothing is answered that could be reused, and where part of what counts is not recorded.
    pub fn of<'h>(
        read: &'c RequestBody,
        route: &Route<'_>,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    ) -> Option<Self> {
        if read.request.messages.is_empty() {
            return None;
        }
        let mut members = Vec::new();
        for member in &read.memo.members {
            // Which of two members of one name a provider reads, it alone knows.
            if member.is_shadowed {
                return None;
            }
            if !is_unseen(read.request.provider, &member.key) {
                members.push((&*member.key, values(read, member)));
            }
        }
        members.sort_unstable();
        let mut place = place(route)?;
        place.extend(counted_headers(headers)?);
        Some(Essence { place, members })
    }

    /// What it is looked up by. A hit is confirmed by comparing the essences themselves.
    pub fn hash(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(TAG);
        self.each_field(|field| {
            hasher.update((field.len() as u64).to_le_bytes());
            hasher.update(field);
        });
        hasher.finalize().into()
    }

    /// All of it, to be compared when the bodies are gone. [`Self::hash`] is their SHA-256.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = TAG.to_vec();
        self.each_field(|field| {
            bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
            bytes.extend_from_slice(field);
        });
        bytes
    }

    /// Whether these are its bytes.
    pub fn is(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes.strip_prefix(TAG);
        self.each_field(|field| {
            let length = (field.len() as u64).to_le_bytes();
            rest = rest.and_then(|rest| rest.strip_prefix(&length)?.strip_prefix(field));
        });
        rest.is_some_and(<[u8]>::is_empty)
    }

    fn each_field(&self, mut field: impl FnMut(&[u8])) {
        for text in &self.place {
            field(text.as_bytes());
        }
        for (name, values) in &self.members {
            field(name.as_bytes());
            field(&(values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| field(value));
        }
    }
}

/// A list of messages, system blocks or tools has a value per element and an empty one in front, which no other value is.
fn values<'r>(read: &'r RequestBody, member: &'r Member) -> Vec<&'r [u8]> {
    let body = &read.memo.body;
    let is_list = match member.held.first() {
        Some(first) => body[..first.range.start].trim_ascii_end().ends_with(b"["),
        None => true,
    };
    let list = is_list.then_some(&b""[..]);
    let held = member.held.iter().map(|held| &body[held.range.clone()]);
    list.into_iter().chain(held).collect()
}

/// Members that the model does not see: how the answer is framed, who asks, how it is accounted for and cached.
pub fn is_unseen(provider: Provider, name: &str) -> bool {
    match provider {
        Provider::Anthropic => matches!(name, "stream" | "metadata"),
        Provider::OpenAiChat | Provider::OpenAiResponses => matches!(
            name,
            "stream"
                | "stream_options"
                | "metadata"
                | "user"
                | "safety_identifier"
                | "prompt_cache_key"
                | "prompt_cache_retention"
        ),
        Provider::Gemini => name == "labels",
    }
}

/// Where the call goes: the upstream and the path, without the verb that says how Gemini frames its answer.
fn place(route: &Route<'_>) -> Option<Vec<String>> {
    let (path, query) = route.rest.split_once('?').unwrap_or((route.rest, ""));
    let path = match route.endpoint {
        Endpoint::Messages | Endpoint::Chat | Endpoint::Responses => path.trim_end_matches('/'),
        Endpoint::GeminiGenerate { .. } | Endpoint::GeminiStream { .. } => path.rsplit_once(':')?.0,
        Endpoint::CountTokens(_) | Endpoint::ResponsesCompact | Endpoint::Models | Endpoint::Other => return None,
    };
    let mut counted = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let name = parameter.split('=').next().unwrap_or_default();
        match name {
            COUNTED_PARAMETER => counted.push(parameter),
            name if UNSEEN_PARAMETERS.contains(&name) => {}
            _ => return None,
        }
    }
    Some(vec![
        route.upstream?.name().to_owned(),
        path.to_owned(),
        counted.join("&"),
    ])
}

/// The value of each header that counts; `None` where one is there twice, because only one of them is recorded.
fn counted_headers<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Option<[String; 3]> {
    let mut values: [Option<&str>; 3] = [None; 3];
    for (name, value) in headers {
        let place = HEADERS.iter().position(|known| name.eq_ignore_ascii_case(known));
        if place.is_some_and(|place| values[place].replace(value).is_some()) {
            return None;
        }
    }
    Some(values.map(|value| value.unwrap_or_default().to_owned()))
}

/// How freely the model chooses its words. `None` where the request leaves it to the provider, which then is 1 or unknown.
pub fn temperature(request: &Request) -> Option<f64> {
    let number = |json: &str| Doc::parse_str(json).ok()?.root().as_f64();
    if request.provider != Provider::Gemini {
        return number(request.option("temperature")?);
    }
    let config = request
        .option("generationConfig")
        .or_else(|| request.option("generation_config"))?;
    let doc = Doc::parse_str(config).ok()?;
    doc.root().get("temperature")?.as_f64()
}

/// Whether part of the input lies elsewhere and may be another tomorrow: files and pages by their name, a conversation or a prompt
/// that the provider keeps, tools that the provider itself runs.
pub fn is_volatile(read: &RequestBody) -> bool {
    const KEPT_ELSEWHERE: [&str; 5] = [
        "container",
        "conversation",
        "mcp_servers",
        "prompt",
        "web_search_options",
    ];
    let request = &read.request;
    let names_something = |name: &str| request.option(name).is_some_and(|json| json != "null");
    // As they were sent: one object of Gemini's may hold tools of several kinds.
    let mut tools = read.memo.members.iter().filter(|member| &*member.key == "tools");
    KEPT_ELSEWHERE.iter().any(|name| names_something(name))
        || request.messages.iter().any(|message| any_volatile(&message.blocks))
        || request.system.iter().any(|block| is_block_volatile(block))
        || tools.any(|member| values(read, member).iter().any(|json| runs_elsewhere(json)))
        || request.tools.iter().any(|tool| runs_elsewhere(tool.json.as_bytes()))
}

fn any_volatile(blocks: &[Block]) -> bool {
    blocks.iter().any(is_block_volatile)
}

fn is_block_volatile(block: &Block) -> bool {
    match block {
        Block::Media(media) => match media.source {
            MediaSource::Base64(_) | MediaSource::Text(_) => false,
            MediaSource::Url(_) | MediaSource::FileId(_) | MediaSource::Missing => true,
        },
        Block::ToolResult(result) => match &result.content {
            ToolContent::Blocks { blocks, .. } => any_volatile(blocks),
            ToolContent::Absent | ToolContent::Text(_) => false,
        },
        Block::Other { json, .. } => names_a_file(json),
        Block::Text { .. } | Block::Thinking { .. } | Block::ToolUse(_) | Block::Reference { .. } => false,
    }
}

/// Of a block that nobody knows, members that name a file are a sign.
fn names_a_file(json: &str) -> bool {
    const NAMES: [&str; 5] = ["\"file_id\"", "\"file_uri\"", "\"fileUri\"", "\"url\"", "\"file_url\""];
    NAMES.iter().any(|name| json.contains(name))
}

/// Tools that the provider runs look at the world.
fn runs_elsewhere(json: &[u8]) -> bool {
    const KINDS: [&str; 7] = [
        "web_search",
        "web_fetch",
        "code_execution",
        "file_search",
        "code_interpreter",
        "image_generation",
        "mcp",
    ];
    const GEMINI: [&str; 12] = [
        "googleSearch",
        "google_search",
        "googleSearchRetrieval",
        "google_search_retrieval",
        "googleMaps",
        "google_maps",
        "urlContext",
        "url_context",
        "codeExecution",
        "code_execution",
        "fileSearch",
        "file_search",
    ];
    let Ok(doc) = Doc::parse(json) else {
        // The mark of a list, see `values`.
        return !json.is_empty();
    };
    let tool = doc.root();
    let kind = tool.get_str("type").unwrap_or_default();
    KINDS.iter().any(|known| kind.starts_with(known)) || GEMINI.iter().any(|name| tool.get(name).is_some())
}

#[cfg(test)]
mod tests;
