//! Hashes of prompts, answers and paths (seed 002).
//!
//! First the functions of the seed, over given parts; then how a request on the wire is cut into the
//! steps that they hash. `path_hash` leaves answers out: it finds candidates for reuse, it identifies nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::hash::{sha256, sha256_hex};
use crate::json::{Doc, Node, Style, quote, to_python};
use crate::model::{
    Block, ChainStart, Media, MediaSource, Message, Provider, Request, Response, Role, ToolContent, ToolInput,
    ToolResult,
};
use crate::system_prompt::raw_text;
use crate::text::{js_trim, strip_reminders};

/// Padding is often forgotten, and the bytes do not depend on it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Options that count always; `temperature` counts only when it is 0.
const COUNTED_OPTIONS: [&str; 3] = ["max_tokens", "stop_sequences", "top_k"];

/// Gemini's names of the counted options.
const GEMINI_OPTIONS: [(&str, &str); 4] = [
    ("maxOutputTokens", "max_tokens"),
    ("stopSequences", "stop_sequences"),
    ("topK", "top_k"),
    ("temperature", "temperature"),
];

/// What an attachment is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment<'a> {
    Content(&'a [u8]),
    Url(&'a str),
    Path(&'a str),
    Empty,
}

pub fn attachment_hash(attachment: Attachment<'_>) -> String {
    match attachment {
        Attachment::Content(bytes) => format!("content:{}", hex::encode(sha256(bytes))),
        Attachment::Url(url) => format!("url:{}", sha256_hex(url)),
        Attachment::Path(path) => format!("path:{}", sha256_hex(path)),
        Attachment::Empty => "empty".to_owned(),
    }
}

pub fn tool_call_hash(name: &str, arguments: Node<'_>) -> String {
    tool_call_hash_of(name, &to_python(arguments))
}

fn tool_call_hash_of(name: &str, canonical_arguments: &str) -> String {
    sha256_hex(&format!(
        "{{\"arguments\":{canonical_arguments},\"name\":{}}}",
        python_string(name)
    ))
}

/// `attachments` are their hashes, in order; an empty list is left out.
pub fn tool_result_hash(name: &str, output: &str, attachments: &[String]) -> String {
    let mut json = String::from("{");
    if !attachments.is_empty() {
        let list: Vec<String> = attachments.iter().map(|hash| python_string(hash)).collect();
        json.push_str(&format!("\"attachments\":[{}],", list.join(",")));
    }
    json.push_str(&format!(
        "\"name\":{},\"output\":{}}}",
        python_string(name),
        python_string(output)
    ));
    sha256_hex(&json)
}

/// What made one answer. Lists hold hashes; options hold their canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt<'a> {
    pub system: Cow<'a, str>,
    pub prompt: Cow<'a, str>,
    pub attachments: Vec<String>,
    pub tool_calls: Vec<String>,
    pub tool_results: Vec<String>,
    pub options: Vec<(&'static str, String)>,
}

/// SHA-256 over the parts that are present, joined by `|`.
pub fn prompt_hash(prompt: &Prompt<'_>) -> String {
    let mut parts = Vec::new();
    for (name, text) in [("system", &prompt.system), ("prompt", &prompt.prompt)] {
        if !text.is_empty() {
            parts.push(format!("{name}:{}", sha256_hex(text)));
        }
    }
    let mut attachments = prompt.attachments.clone();
    attachments.sort();
    for (name, hashes) in [
        ("attachments", &attachments),
        ("tool_calls", &prompt.tool_calls),
        ("tool_results", &prompt.tool_results),
    ] {
        if !hashes.is_empty() {
            parts.push(format!("{name}:{}", hashes.join(",")));
        }
    }
    if !prompt.options.is_empty() {
        let mut options = prompt.options.clone();
        options.sort();
        let members: Vec<String> = options
            .iter()
            .map(|(name, json)| format!("\"{name}\":{json}"))
            .collect();
        parts.push(format!("options:{}", sha256_hex(&format!("{{{}}}", members.join(",")))));
    }
    sha256_hex(&parts.join("|"))
}

/// The options that count, as canonical JSON. `find` gives the JSON of an option by its name.
pub fn counted_options<'j>(find: impl Fn(&str) -> Option<&'j str>) -> Vec<(&'static str, String)> {
    let mut counted = Vec::new();
    for name in COUNTED_OPTIONS.into_iter().chain(["temperature"]) {
        let Some(doc) = find(name).and_then(|json| Doc::parse_str(json).ok()) else {
            continue;
        };
        let value = doc.root();
        let counts = name != "temperature" || value.as_f64() == Some(0.0);
        if counts && !value.is_null() {
            counted.push((name, to_python(value)));
        }
    }
    counted
}

pub fn text_hash(text: &str) -> String {
    sha256_hex(text)
}

pub fn path_hash(parent: Option<&str>, prompt_hash: &str) -> String {
    match parent {
        Some(parent) => sha256_hex(&format!("{parent}:{prompt_hash}")),
        None => prompt_hash.to_owned(),
    }
}

/// Hash of the answer's text; `None` unless the answer is whole and no error.
pub fn response_hash(response: &Response) -> Option<String> {
    if !response.complete || response.error.is_some() {
        return None;
    }
    let texts = response.blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(&**text),
        _ => None,
    });
    Some(text_hash(&texts.collect::<String>()))
}

/// The hashes that a request's body gives on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPath {
    /// Of the newest step, which is what this exchange asked.
    pub prompt_hash: String,
    /// Of the whole path. Where the parent exchange is recorded, [`path_hash`] over its path replaces it.
    pub path_hash: String,
}

pub fn request_path(request: &Request) -> RequestPath {
    StepHashes::of(request, None).request_path()
}

/// The steps of a request, hashed. The next turn repeats all but the last few of its messages, and so these.
#[derive(Debug, Clone)]
pub struct StepHashes {
    start: ChainStart,
    options: Vec<(&'static str, String)>,
    system: Vec<Arc<Block>>,
    /// Each with the messages up to its end; the last one is open.
    steps: Vec<(usize, String)>,
}

/// A turn before, and how many messages both turns begin with.
pub type Shared<'t, T> = (&'t T, usize);

impl StepHashes {
    /// Goes on behind what a turn before has of the same messages.
    pub fn of(request: &Request, before: Option<Shared<'_, StepHashes>>) -> Self {
        let options = request_options(request);
        let before = before.filter(|(before, _)| before.options == options && before.start == request.start);
        let mut steps = before.map_or_else(Vec::new, |(before, shared)| before.repeated(shared).to_vec());
        if let (Some((before, _)), Some(first)) = (before, steps.first_mut())
            && !is_very(&before.system, &request.system)
        {
            // The system prompt counts in the first step, and may change with every turn.
            walk(request, &options, 0..first.0, |_, step| first.1 = prompt_hash(&step));
        }
        let from = steps.last().map_or(0, |(end, _)| *end);
        walk(request, &options, from..request.messages.len(), |end, step| {
            steps.push((end, prompt_hash(&step)));
        });
        StepHashes {
            start: request.start.clone(),
            options,
            system: request.system.clone(),
            steps,
        }
    }

    /// Steps that end, as they did, within so many messages: one ends where an answer begins, which has to be there as well.
    fn repeated(&self, messages: usize) -> &[(usize, String)] {
        let closed = &self.steps[..self.steps.len().saturating_sub(1)];
        match &closed[..closed.partition_point(|(end, _)| *end < messages)] {
            // A request that begins with an answer: nothing was read yet.
            [(0, _)] => &[],
            repeated => repeated,
        }
    }

    pub fn request_path(&self) -> RequestPath {
        let mut path = None;
        for (_, hash) in &self.steps {
            path = Some(path_hash(path.as_deref(), hash));
        }
        RequestPath {
            prompt_hash: self.steps.last().map(|(_, hash)| hash.clone()).unwrap_or_default(),
            path_hash: path.unwrap_or_default(),
        }
    }
}

/// The same blocks, not only equal ones.
fn is_very(one: &[Arc<Block>], other: &[Arc<Block>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// A path to which messages are added: a log has each of them once, and knows no options.
#[derive(Debug, Clone, Default)]
pub struct GrowingPath {
    /// Over the steps that are answered.
    path: Option<String>,
    step: Prompt<'static>,
    texts: Vec<String>,
    in_answer: bool,
}

impl GrowingPath {
    /// Adds a message; `names` are those of the calls in all messages before it.
    pub fn push(&mut self, message: &Message, names: &mut ToolNames) {
        match message.role {
            Role::System => {}
            Role::Assistant => {
                if !self.in_answer {
                    let answered = self.open_step();
                    self.path = Some(path_hash(self.path.as_deref(), &prompt_hash(&answered)));
                    (self.step, self.texts) = (Prompt::default(), Vec::new());
                }
                self.in_answer = true;
                read_calls(message, &mut self.step, names);
            }
            Role::User => {
                self.in_answer = false;
                read_prompt(message, &mut self.step, &mut self.texts, names);
            }
        }
    }

    /// A system prompt counts in the first step only.
    pub fn push_system(&mut self, text: &str) {
        if self.path.is_none() {
            let system = self.step.system.to_mut();
            if !system.is_empty() {
                system.push('\n');
            }
            system.push_str(text);
        }
    }

    pub fn request_path(&self) -> RequestPath {
        let prompt_hash = prompt_hash(&self.open_step());
        RequestPath {
            path_hash: path_hash(self.path.as_deref(), &prompt_hash),
            prompt_hash,
        }
    }

    fn open_step(&self) -> Prompt<'static> {
        Prompt {
            prompt: Cow::Owned(self.texts.join("\n")),
            ..self.step.clone()
        }
    }
}

/// The request cut behind each run of assistant messages; always at least one step, the last one is the
/// exchange's own.
pub fn steps(request: &Request) -> Vec<Prompt<'static>> {
    let mut steps = Vec::new();
    walk(
        request,
        &request_options(request),
        0..request.messages.len(),
        |_, step| steps.push(step),
    );
    steps
}

/// Gives the steps of some messages, each with the messages up to its end. The first of them is the request's first, or begins an
/// answer.
fn walk(
    request: &Request,
    options: &[(&'static str, String)],
    messages: Range<usize>,
    mut give: impl FnMut(usize, Prompt<'static>),
) {
    let empty = || Prompt {
        options: options.to_vec(),
        ..Prompt::default()
    };
    let finish = |step: Prompt<'static>, texts: &mut Vec<String>| Prompt {
        prompt: Cow::Owned(std::mem::take(texts).join("\n")),
        ..step
    };
    let (mut names, mut texts, mut current) = (ToolNames::default(), Vec::new(), empty());
    for message in request.messages.range(..messages.start) {
        names.read(message);
    }
    if messages.start == 0 && request.start == ChainStart::Root {
        current.system = Cow::Owned(raw_text(&request.system));
    }
    let mut in_answer = messages.start > 0;
    for at in messages.clone() {
        let message = &request.messages[at];
        match message.role {
            Role::System => {}
            Role::Assistant => {
                if !in_answer {
                    give(at, finish(std::mem::replace(&mut current, empty()), &mut texts));
                }
                in_answer = true;
                read_calls(message, &mut current, &mut names);
            }
            Role::User => {
                in_answer = false;
                read_prompt(message, &mut current, &mut texts, &names);
            }
        }
    }
    give(messages.end, finish(current, &mut texts));
}

/// The options of a request that count, by their names in the seed.
pub fn request_options(request: &Request) -> Vec<(&'static str, String)> {
    if request.provider != Provider::Gemini {
        return counted_options(|name| request.option(name));
    }
    let config = request
        .option("generationConfig")
        .or_else(|| request.option("generation_config"));
    let Some(doc) = config.and_then(|json| Doc::parse_str(json).ok()) else {
        return counted_options(|name| request.option(name));
    };
    counted_options(|name| {
        let (sent, _) = GEMINI_OPTIONS.iter().find(|(_, ours)| *ours == name)?;
        doc.root().get(sent).map(|node| node.raw())
    })
}

/// The names of tools by the ids of their calls: a result says the id only.
#[derive(Debug, Clone, Default)]
pub struct ToolNames(HashMap<Box<str>, Box<str>>);

impl ToolNames {
    fn read(&mut self, message: &Message) {
        for block in &message.blocks {
            if let Block::ToolUse(call) = block
                && let Some(id) = &call.id
            {
                self.0.insert(id.clone(), call.name.clone());
            }
        }
    }
}

fn read_calls(message: &Message, step: &mut Prompt<'_>, names: &mut ToolNames) {
    names.read(message);
    for block in &message.blocks {
        let Block::ToolUse(call) = block else {
            continue;
        };
        step.tool_calls
            .push(tool_call_hash_of(&call.name, &canonical_input(&call.input)));
    }
}

fn read_prompt(message: &Message, step: &mut Prompt<'_>, texts: &mut Vec<String>, names: &ToolNames) {
    for block in &message.blocks {
        match block {
            Block::Text { text, .. } => {
                let stripped = strip_reminders(text);
                let text = js_trim(&stripped);
                if !text.is_empty() {
                    texts.push(text.to_owned());
                }
            }
            Block::Media(media) => step.attachments.push(media_hash(media)),
            Block::ToolResult(result) => step.tool_results.push(result_hash(result, names)),
            _ => {}
        }
    }
}

fn result_hash(result: &ToolResult, names: &ToolNames) -> String {
    let by_id = result.tool_use_id.as_ref().and_then(|id| names.0.get(id));
    let name = by_id.or(result.name.as_ref()).map_or("", |name| name);
    let (output, attachments) = match &result.content {
        ToolContent::Absent => (Cow::Borrowed(""), Vec::new()),
        ToolContent::Text(text) => (Cow::Borrowed(&**text), Vec::new()),
        ToolContent::Blocks { blocks, .. } => split_output(blocks),
    };
    tool_result_hash(name, &output, &attachments)
}

/// The texts of a result's blocks joined by LF, and the hashes of what is attached to it.
fn split_output(blocks: &[Block]) -> (Cow<'_, str>, Vec<String>) {
    let mut texts = Vec::new();
    let mut attachments = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text, .. } => texts.push(&**text),
            Block::Media(media) => attachments.push(media_hash(media)),
            _ => {}
        }
    }
    (Cow::Owned(texts.join("\n")), attachments)
}

fn media_hash(media: &Media) -> String {
    match &media.source {
        MediaSource::Base64(data) => match BASE64.decode(data.as_bytes()) {
            Ok(bytes) => attachment_hash(Attachment::Content(&bytes)),
            Err(_) => attachment_hash(Attachment::Content(data.as_bytes())),
        },
        MediaSource::Text(text) => attachment_hash(Attachment::Content(text.as_bytes())),
        MediaSource::Url(url) => attachment_hash(Attachment::Url(url)),
        // A file id names a place at the provider, as a path names one on a disk.
        MediaSource::FileId(id) => attachment_hash(Attachment::Path(id)),
        MediaSource::Missing => attachment_hash(Attachment::Empty),
    }
}

fn canonical_input(input: &ToolInput) -> String {
    match input {
        ToolInput::Json(json) => Doc::parse_str(json).map_or_else(|_| python_string(json), |doc| to_python(doc.root())),
        ToolInput::Text(text) => python_string(text),
    }
}

fn python_string(text: &str) -> String {
    quote(text, Style::Ascii)
}
