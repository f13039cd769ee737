//! A request as the provider's prompt cache sees it: one row of parts, in the order in which they are read.
//!
//! Providers keep the beginning of a prompt and read it again as long as not a byte of it differs. The order is tools, system
//! prompt, messages. [`Part::text`] is what a part says to the model, so that two spellings of one thing are equal: white space between
//! tokens, a text as a string or as a block, where `cache_control` stands. [`limits`] has the sizes and times. What stands inside a tool's input or schema stays in its
//! order, because that order is what the model reads.

mod anthropic;
mod gemini;
pub mod limits;
mod openai;

use std::collections::BTreeMap;

use memchr::memmem;
use ropewalk_core::json::{Doc, Node, to_compact_js};
use ropewalk_core::model::Provider;

/// What a picture or another file counts for in bytes: as a part of a prompt it is no longer than a page of text, however many bytes it
/// is sent in.
const FILE_BYTES: usize = 6_000;

/// How long a provider keeps what it was asked to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifetime {
    FiveMinutes,
    OneHour,
    OneDay,
}

impl Lifetime {
    pub fn seconds(self) -> i64 {
        match self {
            Lifetime::FiveMinutes => 300,
            Lifetime::OneHour => 3_600,
            Lifetime::OneDay => 86_400,
        }
    }
}

/// Which section of the prompt a part is in, in the order of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    Tools,
    System,
    Messages,
}

/// Where a part stands, as people count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Tool {
        name: String,
    },
    /// From 1.
    System {
        number: usize,
    },
    /// Message and block within it, from 1.
    Message {
        number: usize,
        block: usize,
        role: String,
    },
}

impl Place {
    pub fn section(&self) -> Section {
        match self {
            Place::Tool { .. } => Section::Tools,
            Place::System { .. } => Section::System,
            Place::Message { .. } => Section::Messages,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub place: Place,
    /// What it says, in one spelling.
    pub text: String,
    /// How much of the prompt it is, in bytes.
    pub weight: usize,
    /// The client asks to keep the prompt up to here.
    pub breakpoint: Option<Lifetime>,
}

impl Part {
    fn new(place: Place, text: String, files: usize) -> Self {
        Part {
            place,
            weight: text.len().saturating_sub(files) + if files > 0 { FILE_BYTES } else { 0 },
            text,
            breakpoint: None,
        }
    }

    /// Wherever they stand: messages are split and merged between turns, and nobody reads the difference.
    fn says_the_same(&self, other: &Part) -> bool {
        let is_same_place = match (&self.place, &other.place) {
            (Place::Message { role, .. }, Place::Message { role: other, .. }) => role == other,
            (one, other) => one.section() == other.section(),
        };
        is_same_place && self.text == other.text
    }
}

/// Who says what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// The client, by breakpoints.
    Asked,
    /// The provider keeps everything long enough by itself, at least for this long.
    Automatic(Lifetime),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub caching: Caching,
    pub parts: Vec<Part>,
    /// Options that stand between the system prompt and the messages, as far as a cache is concerned: by name.
    pub settings: BTreeMap<String, String>,
    /// Requests with different keys may be served by different machines.
    pub cache_key: Option<String>,
    /// The messages before these are with the provider, under the id of its answer.
    pub goes_on_elsewhere: bool,
}

impl Prompt {
    /// `None` for what is no JSON object.
    pub fn read(provider: Provider, body: &[u8]) -> Option<Self> {
        let doc = Doc::parse(body).ok()?;
        let root = doc.root();
        if !root.is_object() {
            return None;
        }
        Some(match provider {
            Provider::Anthropic => anthropic::read(root),
            Provider::OpenAiChat => openai::read_chat(root),
            Provider::OpenAiResponses => openai::read_responses(root),
            Provider::Gemini => gemini::read(root),
        })
    }

    pub fn weight(&self) -> usize {
        self.weight_of_first(self.parts.len())
    }

    pub fn weight_of_first(&self, parts: usize) -> usize {
        self.parts.iter().take(parts).map(|part| part.weight).sum()
    }

    /// How many parts stand before the first that is another one, or is missing, in either.
    pub fn parts_in_common(&self, other: &Prompt) -> usize {
        let both = self.parts.iter().zip(&other.parts);
        both.take_while(|(one, other)| one.says_the_same(other)).count()
    }
}

/// Whether an answer says how much was read from the cache, be it nothing. `body` may be a stream of events.
pub fn tells_of_cache(provider: Provider, body: &[u8]) -> bool {
    let members: &[&str] = match provider {
        Provider::Anthropic => &["\"cache_read_input_tokens\"", "\"cache_creation_input_tokens\""],
        Provider::OpenAiChat | Provider::OpenAiResponses => &["\"cached_tokens\"", "\"prompt_cache_hit_tokens\""],
        Provider::Gemini => &["\"cachedContentTokenCount\""],
    };
    // Inside a text the quotes would be escaped.
    members
        .iter()
        .any(|member| memmem::find(body, member.as_bytes()).is_some())
}

/// An object with its members in the order of their names, without those that say nothing to the model. Values stay in their order.
fn spelled(object: Node<'_>, left_out: &[&str]) -> String {
    if !object.is_object() {
        return to_compact_js(object);
    }
    let mut members = BTreeMap::new();
    for (key, value) in object.members() {
        let name = key.to_text().unwrap_or_default();
        if !value.is_null() && !left_out.contains(&&*name) {
            members.insert(name, (key, value));
        }
    }
    let mut out = String::from("{");
    for (key, value) in members.into_values() {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&to_compact_js(key));
        out.push(':');
        out.push_str(&to_compact_js(value));
    }
    out.push('}');
    out
}

/// A text as it is spelled as a block.
fn text_block(kind: &str, text: Node<'_>) -> String {
    format!("{{\"text\":{},\"type\":\"{kind}\"}}", to_compact_js(text))
}

/// Options by name, those that are there.
fn settings(root: Node<'_>, names: &[&str]) -> BTreeMap<String, String> {
    let there = names
        .iter()
        .filter_map(|name| Some((*name, root.get(name).filter(|value| !value.is_null())?)));
    there
        .map(|(name, value)| (name.to_owned(), to_compact_js(value)))
        .collect()
}

/// Bytes of base64 in a block, in whichever member it has them.
fn file_bytes(block: Node<'_>, members: &[&[&str]]) -> usize {
    let of = |path: &[&str]| {
        let found = path.iter().try_fold(block, |node, name| node.get(name))?;
        found.literal().map(str::len)
    };
    members.iter().filter_map(|path| of(path)).sum()
}

#[cfg(test)]
mod tests;
