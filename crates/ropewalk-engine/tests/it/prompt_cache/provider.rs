//! Two providers with a prompt cache, as their documentation describes them: one keeps what it is asked to keep, one everything.

use std::collections::HashMap;

use ropewalk_core::hash::sha256;
use serde_json::{Value, json};

/// One thing in a prompt, with the tokens it has.
#[derive(Clone)]
pub(crate) struct Block {
    /// `tools`, `system` or a role.
    pub(crate) place: &'static str,
    pub(crate) text: String,
    /// Seconds that the prompt is to be kept for, up to here.
    pub(crate) keep: Option<i64>,
}

impl Block {
    fn tokens(&self) -> u64 {
        self.text.len() as u64 / 4 + 3
    }
}

/// What is asked.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) at_s: i64,
    pub(crate) model: &'static str,
    pub(crate) betas: &'static str,
    pub(crate) key: &'static str,
    pub(crate) tool_choice: &'static str,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) input: u64,
    pub(crate) read: u64,
    pub(crate) written_5m: u64,
    pub(crate) written_1h: u64,
}

impl Counted {
    pub(crate) fn total(&self) -> u64 {
        self.input + self.read + self.written_5m + self.written_1h
    }
}

const MINIMUM: u64 = 1_024;
const LOOKBACK: usize = 20;
const STEP: u64 = 128;

#[derive(Default)]
pub(crate) struct Keeper {
    /// When an entry ends, by the hash of everything up to its end.
    entries: HashMap<[u8; 32], i64>,
    /// Prompts that were asked, with the last time.
    prompts: Vec<(Ask, i64)>,
}

impl Keeper {
    pub(crate) fn forget(&mut self) {
        self.entries.clear();
        self.prompts.clear();
    }

    /// Keeps what it is asked to keep.
    pub(crate) fn asked(&mut self, ask: &Ask) -> Counted {
        let names: Vec<[u8; 32]> = (1..=ask.blocks.len()).map(|end| name(ask, end)).collect();
        let tokens = |end: usize| ask.blocks[..end].iter().map(Block::tokens).sum::<u64>();
        let marks: Vec<(usize, i64)> = ask
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(at, block)| Some((at + 1, block.keep?)))
            .collect();
        let mut found = 0;
        for (end, _) in marks.iter().rev() {
            let back = (1..=*end).rev().take(LOOKBACK);
            let mut alive = back.filter(|end| self.entries.get(&names[end - 1]).is_some_and(|ends| *ends >= ask.at_s));
            if let Some(end) = alive.next() {
                found = end;
                break;
            }
        }
        let mut counted = Counted {
            read: tokens(found),
            ..Counted::default()
        };
        let mut done = found;
        for (end, keep) in &marks {
            if tokens(*end) < MINIMUM {
                continue;
            }
            self.entries.insert(names[end - 1], ask.at_s + keep);
            if *end > done {
                let written = tokens(*end) - tokens(done);
                match keep {
                    3_600 => counted.written_1h += written,
                    _ => counted.written_5m += written,
                }
                done = *end;
            }
        }
        counted.input = tokens(ask.blocks.len()) - tokens(done);
        counted
    }

    /// Keeps everything for five minutes.
    pub(crate) fn automatic(&mut self, ask: &Ask) -> Counted {
        let total: u64 = ask.blocks.iter().map(Block::tokens).sum();
        let alive = self
            .prompts
            .iter()
            .filter(|(before, last)| before.model == ask.model && before.key == ask.key && ask.at_s - last <= 300);
        let common = alive.map(|(before, _)| common_tokens(before, ask)).max().unwrap_or(0);
        let read = if common >= MINIMUM { common - common % STEP } else { 0 };
        self.prompts.push((ask.clone(), ask.at_s));
        Counted {
            input: total - read,
            read,
            ..Counted::default()
        }
    }
}

fn name(ask: &Ask, end: usize) -> [u8; 32] {
    let mut text = format!("{}|{}|", ask.model, ask.betas);
    for block in &ask.blocks[..end] {
        if !matches!(block.place, "tools" | "system") {
            text.push_str(ask.tool_choice);
        }
        text.push_str(&format!("{}:{}:{}|", block.place, block.text.len(), block.text));
    }
    sha256(text.as_bytes())
}

fn common_tokens(one: &Ask, other: &Ask) -> u64 {
    let mut tokens = 0;
    for (one, other) in one.blocks.iter().zip(&other.blocks) {
        if one.place != other.place || one.text != other.text {
            let same = one.text.bytes().zip(other.text.bytes()).take_while(|(a, b)| a == b);
            return tokens + same.count() as u64 / 4;
        }
        tokens += one.tokens();
    }
    tokens
}

/// How something is asked and answered on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Messages,
    Chat,
    Responses,
}

impl Format {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Format::Messages => "/v1/messages",
            Format::Chat => "/v1/chat/completions",
            Format::Responses => "/v1/responses",
        }
    }

    pub(crate) fn request(self, ask: &Ask) -> Value {
        let of = |place: &str| -> Vec<&Block> { ask.blocks.iter().filter(|block| block.place == place).collect() };
        let said = || {
            ask.blocks
                .iter()
                .filter(|block| matches!(block.place, "user" | "assistant"))
        };
        let named = |(block, at): (&Block, usize)| (format!("tool_{at}"), block.text.clone());
        let tools: Vec<(String, String)> = of("tools").into_iter().zip(1..).map(named).collect();
        match self {
            Format::Messages => {
                let marked = |mut value: Value, block: &Block| {
                    match block.keep {
                        Some(3_600) => value["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"}),
                        Some(_) => value["cache_control"] = json!({"type": "ephemeral"}),
                        None => {}
                    }
                    value
                };
                let text = |block: &Block| marked(json!({"type": "text", "text": block.text}), block);
                let mut body = json!({
                    "model": ask.model, "max_tokens": 64,
                    "tools": tools.iter().map(|(name, text)| json!({"name": name, "description": text, "input_schema": {}})).collect::<Vec<_>>(),
                    "system": of("system").into_iter().map(text).collect::<Vec<_>>(),
                    "messages": said().map(|block| match block.keep {
                        // As clients do it: what is not marked any more is a bare string again.
                        None => json!({"role": block.place, "content": block.text}),
                        Some(_) => json!({"role": block.place, "content": [text(block)]}),
                    }).collect::<Vec<_>>(),
                });
                if !ask.tool_choice.is_empty() {
                    body["tool_choice"] = json!({"type": ask.tool_choice});
                }
                body
            }
            Format::Chat => {
                let system = of("system")
                    .into_iter()
                    .map(|block| json!({"role": "system", "content": block.text}));
                let said = said().map(|block| json!({"role": block.place, "content": block.text}));
                json!({
                    "model": ask.model, "prompt_cache_key": ask.key,
                    "tools": tools.iter().map(|(name, text)| json!({"type": "function", "function": {"name": name, "description": text}})).collect::<Vec<_>>(),
                    "messages": system.chain(said).collect::<Vec<_>>(),
                })
            }
            Format::Responses => {
                let kind = |place: &str| if place == "user" { "input_text" } else { "output_text" };
                let said = said().map(|block| {
                    json!({"type": "message", "role": block.place, "content": [{"type": kind(block.place), "text": block.text}]})
                });
                json!({
                    "model": ask.model, "prompt_cache_key": ask.key,
                    "tools": tools.iter().map(|(name, text)| json!({"type": "function", "name": name, "description": text})).collect::<Vec<_>>(),
                    "instructions": of("system").into_iter().map(|block| block.text.clone()).collect::<Vec<_>>().join("\n"),
                    "input": said.collect::<Vec<_>>(),
                })
            }
        }
    }

    pub(crate) fn response(self, id: &str, model: &str, answer: &str, counted: &Counted) -> Value {
        match self {
            Format::Messages => json!({
                "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model,
                "content": [{"type": "text", "text": answer}], "stop_reason": "end_turn",
                "usage": {
                    "input_tokens": counted.input, "output_tokens": 20, "cache_read_input_tokens": counted.read,
                    "cache_creation_input_tokens": counted.written_5m + counted.written_1h,
                    "cache_creation": {
                        "ephemeral_5m_input_tokens": counted.written_5m, "ephemeral_1h_input_tokens": counted.written_1h,
                    },
                },
            }),
            Format::Chat => json!({
                "id": format!("chatcmpl-{id}"), "object": "chat.completion", "model": model,
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}],
                "usage": {
                    "prompt_tokens": counted.total(), "completion_tokens": 20, "total_tokens": counted.total() + 20,
                    "prompt_tokens_details": {"cached_tokens": counted.read},
                },
            }),
            Format::Responses => json!({
                "id": format!("resp_{id}"), "object": "response", "status": "completed", "model": model,
                "output": [{"type": "message", "id": format!("m_{id}"), "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": answer, "annotations": []}]}],
                "usage": {
                    "input_tokens": counted.total(), "output_tokens": 20, "total_tokens": counted.total() + 20,
                    "input_tokens_details": {"cached_tokens": counted.read},
                },
            }),
        }
    }
}
