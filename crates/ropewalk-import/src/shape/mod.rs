//! What was said, in the JSON of the provider that it was said to.
//!
//! Some logs have no provider's JSON: their own words for texts, calls and files are brought into the form in which the call was made, so
//! that it has the nodes of the same call on the wire. Texts are JSON literals all the way: they come from JSON, or go into it once.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use ropewalk_core::json::{Doc, Style, quote};
use ropewalk_core::model::Provider;

/// A message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) role: Role,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    System,
    #[default]
    User,
    Assistant,
}

/// A JSON string, with its quotes.
pub(crate) type Literal = String;

#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(Literal),
    Thinking(Literal),
    Call(Call),
    Result(CallResult),
    Media(Media),
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: Option<Literal>,
    pub(crate) name: Literal,
    pub(crate) input: Input,
}

#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// As it stands in the log.
    Json(String),
    Text(Literal),
}

impl Input {
    /// From what a model gave as text, which is mostly JSON.
    pub(crate) fn of_text(text: &str) -> Self {
        match Doc::parse_str(text) {
            Ok(_) => Input::Json(text.to_owned()),
            Err(_) => Input::Text(literal(text)),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CallResult {
    pub(crate) id: Option<Literal>,
    pub(crate) name: Option<Literal>,
    pub(crate) text: Option<Literal>,
    pub(crate) media: Vec<Media>,
    pub(crate) is_error: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Media {
    /// Empty where nobody says it.
    pub(crate) media_type: String,
    pub(crate) source: Source,
    pub(crate) file_name: Option<Literal>,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Base64(String),
    Url(String),
    /// A file by the name that the client had for it; what was in it is not known.
    File(String),
}

impl Media {
    fn is_image(&self) -> bool {
        self.media_type.starts_with("image/")
    }

    /// Where it is, or all of it, as one URL.
    fn url(&self) -> Literal {
        match &self.source {
            Source::Base64(data) => literal(&format!("data:{};base64,{data}", self.media_type)),
            Source::Url(url) | Source::File(url) => literal(url),
        }
    }
}

/// An answer as the provider would have given it whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) id: Option<Literal>,
    pub(crate) model: Option<Literal>,
    pub(crate) parts: Vec<Part>,
    /// In the provider's own word.
    pub(crate) stop_reason: Option<Literal>,
    pub(crate) usage: Option<Usage>,
}

/// What a log counted, in the provider's way of counting, and the provider's own members beside the two totals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) details: Vec<(Literal, String)>,
}

impl Usage {
    /// The totals under the provider's names for them, then what the log has beside.
    fn write(&self, input: &str, output: &str) -> String {
        let totals = [(input, self.input), (output, self.output)];
        let totals = totals.map(|(name, count)| (literal(name), count.to_string()));
        let beside = self
            .details
            .iter()
            .filter(|(name, _)| totals.iter().all(|(total, _)| total != name));
        object(totals.iter().chain(beside).cloned())
    }
}

/// What a request says beside its messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    pub(crate) model: Option<Literal>,
    pub(crate) system: Option<Literal>,
    pub(crate) tools: Vec<Tool>,
    /// JSON.
    pub(crate) schema: Option<String>,
    /// Name and JSON.
    pub(crate) options: Vec<(Literal, String)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: Literal,
    pub(crate) description: Option<Literal>,
    /// JSON.
    pub(crate) schema: String,
}

pub(crate) fn literal(text: &str) -> Literal {
    quote(text, Style::Plain)
}

/// A message as elements of the request's list; there may be none or several.
pub(crate) fn messages(provider: Provider, said: &Said) -> Vec<String> {
    match provider {
        Provider::Anthropic => anthropic::messages(said),
        Provider::OpenAiChat => chat::messages(said),
        Provider::OpenAiResponses => responses::items(said),
        Provider::Gemini => gemini::messages(said),
    }
}

pub(crate) fn answer(provider: Provider, answer: &Answer) -> String {
    match provider {
        Provider::Anthropic => anthropic::answer(answer),
        Provider::OpenAiChat => chat::answer(answer),
        Provider::OpenAiResponses => responses::answer(answer),
        Provider::Gemini => gemini::answer(answer),
    }
}

/// The body of a request: its messages first, what changes seldom behind them.
pub(crate) fn request(provider: Provider, messages: &[String], context: &Context) -> String {
    match provider {
        Provider::Anthropic => anthropic::request(messages, context),
        Provider::OpenAiChat => chat::request(messages, context),
        Provider::OpenAiResponses => responses::request(messages, context),
        Provider::Gemini => gemini::request(messages, context),
    }
}

/// Members that a request has anyway. An option of that name is not one of the provider's.
const NOT_OPTIONS: [&str; 9] = [
    "messages",
    "input",
    "contents",
    "model",
    "system",
    "instructions",
    "tools",
    "stream",
    "systemInstruction",
];

impl Context {
    fn own_options(&self) -> impl Iterator<Item = (Literal, String)> + '_ {
        let is_option = |name: &str| !NOT_OPTIONS.iter().any(|known| literal(known) == name);
        self.options.iter().filter(move |(name, _)| is_option(name)).cloned()
    }
}

fn object(members: impl IntoIterator<Item = (Literal, String)>) -> String {
    let members = members.into_iter().map(|(name, value)| format!("{name}:{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Members of which some may be absent, under plain names.
fn members<const N: usize>(members: [(&str, Option<String>); N]) -> impl Iterator<Item = (Literal, String)> {
    let members = members.map(|(name, value)| value.map(|value| (literal(name), value)));
    members.into_iter().flatten()
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn text_of(literal: &str) -> String {
    let doc = Doc::parse_str(literal);
    doc.ok().and_then(|doc| doc.root().to_text()).unwrap_or_default()
}

/// Texts as one, for a provider that takes one.
pub(crate) fn joined<'t>(texts: impl Iterator<Item = &'t Literal>, between: &str) -> Option<Literal> {
    let texts: Vec<&Literal> = texts.collect();
    match &texts[..] {
        [] => None,
        [only] => Some((*only).clone()),
        many => {
            let many: Vec<String> = many.iter().map(|text| text_of(text)).collect();
            Some(literal(&many.join(between)))
        }
    }
}

pub(crate) fn texts(parts: &[Part]) -> impl Iterator<Item = &Literal> {
    parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    })
}

fn thoughts(parts: &[Part]) -> impl Iterator<Item = &Literal> {
    parts.iter().filter_map(|part| match part {
        Part::Thinking(text) => Some(text),
        _ => None,
    })
}
