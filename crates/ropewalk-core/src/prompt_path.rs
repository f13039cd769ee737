//! Hashes of prompts, answers and paths (seed 002).
//!
//! First the functions of the seed, over given parts; then how a request on the wire is cut into the
//! steps that they hash. `path_hash` leaves answers out: it finds candidates for reuse, it identifies nothing.

use std::borrow::Cow;
use std::collections::HashMap;

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
    let mut path = None;
    let mut newest = String::new();
    for step in steps(request) {
        newest = prompt_hash(&step);
        path = Some(path_hash(path.as_deref(), &newest));
    }
    RequestPath {
        prompt_hash: newest,
        path_hash: path.unwrap_or_default(),
    }
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
    let options = request_options(request);
    let (mut names, mut texts) = (ToolNames::default(), Vec::new());
    let finish = |step: Prompt<'static>, texts: &mut Vec<String>| Prompt {
        prompt: Cow::Owned(std::mem::take(texts).join("\n")),
        ..step
    };
    let mut current = Prompt {
        options: options.clone(),
        ..Prompt::default()
    };
    if request.start == ChainStart::Root {
        current.system = Cow::Owned(raw_text(&request.system));
    }
    let mut steps = Vec::new();
    let mut in_answer = false;
    for message in &request.messages {
        match message.role {
            Role::System => {}
            Role::Assistant => {
                if !in_answer {
                    let next = Prompt {
                        options: options.clone(),
                        ..Prompt::default()
                    };
                    steps.push(finish(std::mem::replace(&mut current, next), &mut texts));
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
    steps.push(finish(current, &mut texts));
    steps
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

fn read_calls(message: &Message, step: &mut Prompt<'_>, names: &mut ToolNames) {
    for block in &message.blocks {
        let Block::ToolUse(call) = block else {
            continue;
        };
        if let Some(id) = &call.id {
            names.0.insert(id.clone(), call.name.clone());
        }
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
