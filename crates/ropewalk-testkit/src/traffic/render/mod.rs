//! Histories and answers as the bodies that clients and providers send.
//!
//! A request replays its whole history, but never as it was first sent: each format does it in its own way.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use super::history::{Block, Call, Said, Speaker};
use super::mix::Mix;
use super::write::quoted;
use crate::conversation::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Anthropic,
    Chat,
    Responses(Replay),
    Gemini,
}

/// How a request to OpenAI's Responses names what was said before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    Full,
    /// `previous_response_id`, and only what is new.
    Previous,
    /// `item_reference` in the place of each answer.
    References,
}

/// What a request consists of.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) history: &'a [Said],
    pub(super) system: &'a str,
    pub(super) tools: &'a [&'static str],
    /// Appended to the newest prompt, and gone next turn.
    pub(super) decoration: Option<&'a str>,
    pub(super) is_streamed: bool,
    /// `metadata.user_id`, where the client gives hints in the body.
    pub(super) user_id: Option<&'a str>,
}

/// What an answer consists of.
#[derive(Debug)]
pub(super) struct Answered<'a> {
    pub(super) id: &'a str,
    pub(super) blocks: &'a [Block],
    pub(super) is_streamed: bool,
    /// The stream ended without its terminal event.
    pub(super) is_cut_off: bool,
}

impl Format {
    pub(super) fn path(self) -> &'static str {
        match self {
            Format::Anthropic => "/v1/messages?beta=true",
            Format::Chat => "/v1/chat/completions",
            Format::Responses(_) => "/v1/responses",
            Format::Gemini => "/v1beta/models/gemini-2.5-pro:generateContent",
        }
    }

    pub(super) fn request(self, asked: &Asked<'_>, mix: &Mix, random: &mut Random) -> String {
        match self {
            Format::Anthropic => anthropic::request(asked, mix, random),
            Format::Chat => chat::request(asked, random),
            Format::Responses(replay) => responses::request(asked, replay),
            Format::Gemini => gemini::request(asked),
        }
    }

    pub(super) fn answer(self, answered: &Answered<'_>) -> String {
        match self {
            Format::Anthropic if answered.is_streamed => anthropic::stream(answered),
            Format::Anthropic => anthropic::answer(answered),
            Format::Chat => chat::answer(answered),
            Format::Responses(_) => responses::answer(answered),
            Format::Gemini => gemini::answer(answered),
        }
    }
}

pub(super) use anthropic::{count_tokens, title};

/// How the input of a tool call is spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As models write it.
    Said,
    /// As clients write it again: no spaces, nothing escaped that need not be.
    Compact,
    /// With a member that the client added.
    Completed,
}

fn input(call: &Call, spelling: Spelling) -> String {
    let (colon, comma) = match spelling {
        Spelling::Said => (": ", ", "),
        Spelling::Compact | Spelling::Completed => (":", ","),
    };
    let mut members: Vec<String> = call
        .input
        .iter()
        .map(|(name, value)| {
            let value = quoted(value);
            let value = if spelling == Spelling::Said {
                value.replace('é', "\\u00e9")
            } else {
                value
            };
            format!("\"{name}\"{colon}{value}")
        })
        .collect();
    if spelling == Spelling::Completed {
        members.push("\"timeout\":120000".to_owned());
    }
    format!("{{{}}}", members.join(comma))
}

/// The texts of a message as one, for formats where that is usual.
fn joined_text(said: &Said) -> String {
    let texts = said.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The user's text at this place of the history, with the decoration if it is the newest.
fn prompt_text(asked: &Asked<'_>, index: usize, text: &str) -> String {
    let is_newest = index + 1 == asked.history.len() && asked.history[index].is_prompt();
    match asked.decoration {
        Some(rules) if is_newest => format!("{text}{rules}"),
        _ => text.to_owned(),
    }
}

fn calls(said: &[Block]) -> impl Iterator<Item = &Call> {
    said.iter().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        _ => None,
    })
}

fn is_assistant(said: &Said) -> bool {
    said.by == Speaker::Assistant
}
