//! Answers that look like a provider's, for tests that need a conversation and for demonstrations.
//!
//! [`Provider::answer`] reads the last thing that was said, obeys its cues and answers in the format of the path: Anthropic's
//! Messages, OpenAI's Chat Completions and Responses, Gemini; whole, or streamed where the request asks for it. A count in each
//! answer makes every turn different.
//!
//! A cue is a line of the newest text: `!think`, `!tool <name> <input as JSON>` (may be repeated), `!long <words>`,
//! `!error <status>`, `!cut` (the stream ends too early), `!say <text>` (that text, in place of the usual one).

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::Answer;

/// Characters of one delta; small enough that every answer has several.
const DELTA_CHARS: usize = 12;
/// Characters of what was said that an answer repeats.
const QUOTED_CHARS: usize = 60;
/// Longest answer that a cue may ask for; about 1 MB.
const LONG_WORDS_MAX: usize = 100_000;

/// Makes up answers. One for each upstream, so that its count is the upstream's.
#[derive(Debug, Default)]
pub struct Provider {
    answered: AtomicU64,
    /// Between two events of a stream.
    pause: Duration,
}

/// Which API a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Messages,
    CountTokens,
    Chat,
    Responses,
    Gemini { streams: bool },
    Other,
}

/// One thing that an answer says.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    Thinking(String),
    Text(String),
    Call { id: String, name: String, input: Value },
}

/// An answer before it has a format.
#[derive(Debug)]
struct Turn {
    number: u64,
    model: String,
    said: Vec<Said>,
    input_tokens: u64,
}

impl Provider {
    pub fn new() -> Provider {
        Provider::default()
    }

    /// Streams with this pause between two events.
    pub fn paced(pause: Duration) -> Provider {
        Provider {
            pause,
            ..Provider::default()
        }
    }

    pub fn answer(&self, target: &str, body: &[u8]) -> Answer {
        let api = api_of(target);
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            return error(api, 400, "the body is no JSON");
        };
        let number = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
        let newest = newest_text(api, &request);
        let cues = Cues::read(&newest);
        if let Some(status) = cues.error {
            return error(api, status, "as the cue says");
        }
        let turn = Turn {
            number,
            model: model_of(target, &request),
            said: cues.said(number, &newest),
            input_tokens: body.len() as u64 / 4,
        };
        let streams = match api {
            Api::Gemini { streams } => streams,
            _ => request["stream"] == Value::Bool(true),
        };
        if !streams {
            return whole(api, &turn);
        }
        let mut events = match api {
            Api::Messages | Api::CountTokens | Api::Other => anthropic::stream(&turn),
            Api::Chat => chat::stream(&turn),
            Api::Responses => responses::stream(&turn),
            Api::Gemini { .. } => gemini::stream(&turn),
        };
        if cues.cut {
            events.truncate(events.len() / 2);
        }
        let answer = Answer::events(events).header("request-id", format!("req_{number:08}"));
        let answer = if self.pause.is_zero() {
            answer
        } else {
            answer.pause_between(self.pause)
        };
        if cues.cut { answer.then_close() } else { answer }
    }
}

fn whole(api: Api, turn: &Turn) -> Answer {
    let body = match api {
        Api::Messages => anthropic::whole(turn),
        Api::CountTokens => json!({"input_tokens": turn.input_tokens}),
        Api::Chat => chat::whole(turn),
        Api::Responses => responses::whole(turn),
        Api::Gemini { .. } => gemini::whole(turn),
        Api::Other => return error(api, 404, "no such path"),
    };
    Answer::json(body.to_string()).header("request-id", format!("req_{:08}", turn.number))
}

fn api_of(target: &str) -> Api {
    let path = target.split('?').next().unwrap_or_default();
    if path.ends_with("/messages/count_tokens") {
        Api::CountTokens
    } else if path.ends_with("/messages") {
        Api::Messages
    } else if path.ends_with("/chat/completions") {
        Api::Chat
    } else if path.ends_with("/responses") {
        Api::Responses
    } else if path.ends_with(":streamGenerateContent") {
        Api::Gemini { streams: true }
    } else if path.ends_with(":generateContent") {
        Api::Gemini { streams: false }
    } else {
        Api::Other
    }
}

fn model_of(target: &str, request: &Value) -> String {
    let in_path = target.split("/models/").nth(1).and_then(|rest| rest.split(':').next());
    let model = request["model"].as_str().or(in_path);
    model.unwrap_or("scripted-1").to_owned()
}

fn error(api: Api, status: u16, message: &str) -> Answer {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let body = match api {
        Api::Messages | Api::CountTokens | Api::Other => {
            json!({"type": "error", "error": {"type": kind, "message": message}})
        }
        Api::Chat | Api::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
        Api::Gemini { .. } => json!({"error": {"code": status, "message": message, "status": kind.to_uppercase()}}),
    };
    let answer = Answer::json(body.to_string());
    let answer = Answer { status, ..answer };
    if status == 429 {
        answer.header("retry-after", "1")
    } else {
        answer
    }
}

/// The text of the last message: a string, or the texts of its blocks. Empty for the result of a tool.
fn newest_text(api: Api, request: &Value) -> String {
    let messages = match api {
        Api::Responses => &request["input"],
        Api::Gemini { .. } => &request["contents"],
        _ => &request["messages"],
    };
    let newest = match messages {
        Value::Array(messages) => messages.last().unwrap_or(&Value::Null),
        other => other,
    };
    if newest["role"] == "tool" {
        return String::new();
    }
    let content = match newest {
        Value::Object(members) => members
            .get("content")
            .or_else(|| members.get("parts"))
            .unwrap_or(&Value::Null),
        other => other,
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[derive(Debug, Default)]
struct Cues {
    error: Option<u16>,
    cut: bool,
    thinks: bool,
    words: usize,
    says: Option<String>,
    tools: Vec<(String, Value)>,
}

impl Cues {
    fn read(text: &str) -> Cues {
        let mut cues = Cues::default();
        for line in text.lines() {
            let (cue, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            match cue {
                "!think" => cues.thinks = true,
                "!cut" => cues.cut = true,
                "!error" => cues.error = rest.trim().parse().ok().or(Some(500)),
                "!long" => cues.words = rest.trim().parse().unwrap_or(0).min(LONG_WORDS_MAX),
                "!say" => cues.says = Some(rest.to_owned()),
                "!tool" => {
                    let (name, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
                    let input = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
                    cues.tools.push((name.to_owned(), input));
                }
                _ => {}
            }
        }
        cues
    }

    fn said(&self, number: u64, newest: &str) -> Vec<Said> {
        let mut said = Vec::new();
        if self.thinks {
            said.push(Said::Thinking(format!("This is turn {number}. What is wanted?")));
        }
        let text = match &self.says {
            Some(text) => text.clone(),
            None => usual_text(number, newest, self.words),
        };
        said.push(Said::Text(text));
        let calls = self.tools.iter().enumerate().map(|(index, (name, input))| Said::Call {
            id: format!("{number:06}{index:02}"),
            name: name.clone(),
            input: input.clone(),
        });
        said.extend(calls);
        said
    }
}

fn usual_text(number: u64, newest: &str, words: usize) -> String {
    let first = newest
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('!'));
    let mut text = match first {
        Some(line) => {
            let quoted: String = line.trim().chars().take(QUOTED_CHARS).collect();
            format!("Answer {number}: you said “{quoted}”.")
        }
        None => format!("Answer {number}: understood."),
    };
    for word in 0..words {
        text.push_str(&format!(" word{word}"));
    }
    text
}

impl Turn {
    fn output_tokens(&self) -> u64 {
        let chars = self.said.iter().map(|said| match said {
            Said::Thinking(text) | Said::Text(text) => text.len(),
            Said::Call { input, .. } => input.to_string().len(),
        });
        chars.sum::<usize>() as u64 / 4 + 1
    }

    fn calls_tools(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Said::Call { .. }))
    }

    fn text(&self) -> String {
        let texts = self.said.iter().filter_map(|said| match said {
            Said::Text(text) => Some(text.as_str()),
            Said::Thinking(_) | Said::Call { .. } => None,
        });
        texts.collect()
    }
}

/// A text as deltas.
fn deltas(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(DELTA_CHARS).map(|chunk| chunk.iter().collect()).collect()
}

fn named_event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

fn data_event(data: &Value) -> String {
    format!("data: {data}\n\n")
}
