//! A generated conversation in Claude Code's shape, of any length.
//!
//! What makes real traffic hard to store is all here: the newest prompt is a block array with `cache_control` and
//! becomes a bare string next turn, `cache_control` moves, a context message comes and goes, answers are streamed in
//! small deltas, tool inputs are streamed with other white space than they are replayed with. What is said is source code
//! and prose about it ([`SourceText`]). Everything else follows from the seed.

use std::fmt::Write as _;

use ropewalk_core::json::{Style, encode_into};

use crate::source_text::SourceText;

/// One request with its answer, as bytes.
#[derive(Debug, Clone)]
pub struct Turn {
    pub request: Vec<u8>,
    pub response: Vec<u8>,
}

/// Writes one turn after the other.
#[derive(Debug, Clone)]
pub struct Conversation {
    random: Random,
    source: SourceText,
    /// Bytes that each turn adds to the history, on average.
    turn_bytes: usize,
    /// One answer in so many is a plain JSON body; 0 streams them all.
    plain_every: usize,
    system: String,
    tools: String,
    history: Vec<Said>,
    turn: usize,
    unique_bytes: usize,
}

/// A message as it is replayed.
#[derive(Debug, Clone)]
enum Said {
    /// Text that is a block when new and a string afterwards.
    Prompt(String),
    /// Blocks without the closing brace of the last one, so that `cache_control` can be added.
    Blocks { role: &'static str, blocks: String },
}

impl Conversation {
    pub fn new(seed: u64, turn_bytes: usize) -> Self {
        let mut random = Random(seed);
        let mut source = SourceText::new(seed);
        let system = source.prose(6_000);
        let tools: Vec<String> = (0..24).map(|number| tool(number, &mut random, &mut source)).collect();
        let tools = tools.join(",");
        let mut conversation = Conversation {
            random,
            source,
            turn_bytes,
            plain_every: 0,
            system,
            tools,
            history: Vec::new(),
            turn: 0,
            unique_bytes: 0,
        };
        conversation.unique_bytes = conversation.request().len();
        conversation
    }

    #[must_use]
    pub fn plain_every(mut self, turns: usize) -> Self {
        self.plain_every = turns;
        self
    }

    /// Bytes said so far, each once: the envelope with system prompt and tools, every block of every message without
    /// `cache_control`, and what only an answer says (its id and usage). No framing of deltas, no second form of
    /// a prompt, no repetition.
    pub fn unique_bytes(&self) -> usize {
        self.unique_bytes
    }

    pub fn next_turn(&mut self) -> Turn {
        self.user();
        let request = self.request();
        let response = self.answer();
        self.turn += 1;
        Turn {
            request: request.into(),
            response: response.into(),
        }
    }

    /// Turns until the request has at least so many bytes; returns the last two.
    pub fn grow_to(&mut self, request_bytes: usize) -> (Turn, Turn) {
        let mut before = self.next_turn();
        loop {
            let turn = self.next_turn();
            if turn.request.len() >= request_bytes {
                return (before, turn);
            }
            before = turn;
        }
    }

    fn user(&mut self) {
        let said = if self.turn == 0 {
            let reminder = format!("<system-reminder>\n{}\n</system-reminder>", self.source.prose(300));
            let prompt = self.source.prose(120);
            Said::Blocks {
                role: "user",
                blocks: format!("{}}},{}", text_block(&reminder), text_block(&prompt)),
            }
        } else if self.turn.is_multiple_of(6) {
            let length = 80 + self.random.below(200);
            Said::Prompt(self.source.prose(length))
        } else {
            let length = self.turn_bytes * 6 / 10;
            let output = self.source.code(length / 2 + self.random.0 as usize % length);
            Said::Blocks {
                role: "user",
                blocks: format!(
                    r#"{{"tool_use_id":"{}","type":"tool_result","content":"{}""#,
                    self.tool_use_id(self.turn - 1),
                    escape(&output)
                ),
            }
        };
        self.unique_bytes += said.replayed().len();
        self.history.push(said);
    }

    fn answer(&mut self) -> String {
        let thinking = self.source.prose(self.turn_bytes / 12);
        let signature = self.random.base64(320);
        let text = self.source.prose(self.turn_bytes / 7);
        let path = self.random.path();
        let content = self.source.code(self.turn_bytes / 6);
        let id = self.tool_use_id(self.turn);
        let message_id = format!("msg_{}", self.random.letters(24));
        let blocks = format!(
            r#"{{"type":"thinking","thinking":"{}","signature":"{signature}"}},{}}},{{"type":"tool_use","id":"{id}","name":"Write","input":{{"file_path":"{path}","content":"{}"}}"#,
            escape(&thinking),
            text_block(&text),
            escape(&content),
        );
        let is_plain = self.plain_every > 0 && self.turn.is_multiple_of(self.plain_every);
        let answer = if is_plain {
            let usage = self.usage(" ");
            let answer = format!(
                r#"{{"id":"{message_id}","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{blocks}}}],"stop_reason":"tool_use","usage":{usage}}}"#
            );
            self.unique_bytes += answer.len() - blocks.len();
            answer
        } else {
            let input = format!(r#"{{"file_path": "{path}", "content": "{}"}}"#, escape(&content));
            self.stream(&message_id, &id, [&thinking, &signature, &text, &input])
        };
        let said = Said::Blocks {
            role: "assistant",
            blocks,
        };
        self.unique_bytes += said.replayed().len();
        self.history.push(said);
        answer
    }

    fn usage(&mut self, space: &str) -> String {
        format!(
            r#"{{"input_tokens":{space}{},"cache_creation_input_tokens":{space}{},"cache_read_input_tokens":{space}{},"output_tokens":{space}1}}"#,
            self.random.below(20),
            self.random.below(2_000),
            self.random.below(200_000)
        )
    }

    fn stream(&mut self, message_id: &str, tool_use_id: &str, spelled: [&str; 4]) -> String {
        let [thinking, signature, text, input] = spelled;
        let usage = self.usage("");
        let start = event(
            "message_start",
            &format!(
                r#""message":{{"id":"{message_id}","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"stop_reason":null,"stop_sequence":null,"usage":{usage}}}"#
            ),
        );
        let end = event(
            "message_delta",
            &format!(
                r#""delta":{{"stop_reason":"tool_use","stop_sequence":null}},"usage":{{"output_tokens":{}}}"#,
                self.random.below(900)
            ),
        );
        self.unique_bytes += start.len() + end.len();
        let mut out = start + &event("ping", "").replace(",}", "}");
        let block = |index: usize, block: &str| {
            event(
                "content_block_start",
                &format!(r#""index":{index},"content_block":{block}"#),
            )
        };
        let stop = |index: usize| event("content_block_stop", &format!(r#""index":{index}"#));
        out += &block(0, r#"{"type":"thinking","thinking":"","signature":""}"#);
        self.deltas(0, "thinking_delta", "thinking", thinking, &mut out);
        out += &event(
            "content_block_delta",
            &delta(0, "signature_delta", "signature", signature),
        );
        out += &stop(0);
        out += &block(1, r#"{"type":"text","text":""}"#);
        self.deltas(1, "text_delta", "text", text, &mut out);
        out += &stop(1);
        out += &block(
            2,
            &format!(r#"{{"type":"tool_use","id":"{tool_use_id}","name":"Write","input":{{}}}}"#),
        );
        self.deltas(2, "input_json_delta", "partial_json", input, &mut out);
        out += &stop(2);
        out += &end;
        out + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
    }

    fn deltas(&mut self, index: usize, kind: &str, member: &str, text: &str, out: &mut String) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut length = (8 + self.random.below(40)).min(rest.len());
            while !rest.is_char_boundary(length) {
                length += 1;
            }
            let (piece, after) = rest.split_at(length);
            *out += &event("content_block_delta", &delta(index, kind, member, piece));
            rest = after;
        }
    }

    fn tool_use_id(&self, turn: usize) -> String {
        format!("toolu_{}", Random(turn as u64 + 77).letters(24))
    }

    fn request(&self) -> String {
        let mut messages = Vec::with_capacity(self.history.len() + 1);
        let newest = self.history.len().saturating_sub(1);
        for (index, said) in self.history.iter().enumerate() {
            messages.push(if index == newest {
                said.newest()
            } else {
                said.replayed()
            });
            // Context comes and goes: after the first prompt in every third turn.
            if index == 0 && self.turn.is_multiple_of(3) {
                messages.push(r#"{"role":"system","content":"context that is not conversation"}"#.to_owned());
            }
        }
        format!(
            concat!(
                r#"{{"model":"claude-opus-4-8","messages":[{}],"system":[{{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.197.e92; cc_entrypoint=sdk-cli;"}},"#,
                r#"{{"type":"text","text":"{}","cache_control":{{"type":"ephemeral"}}}}],"tools":[{}],"metadata":{{"user_id":"{{\"device_id\":\"a1ef37fb81266194f05ccfcf804bcda746f67311a1a5a57f06393b63211c0f4d\",\"session_id\":\"00000000-0000-4000-8000-000000000000\"}}"}},"#,
                r#""max_tokens":64000,"thinking":{{"type":"adaptive"}},"stream":true}}"#
            ),
            messages.join(","),
            escape(&self.system),
            self.tools
        )
    }
}

impl Said {
    fn replayed(&self) -> String {
        match self {
            Said::Prompt(text) => format!(r#"{{"role":"user","content":"{}"}}"#, escape(text)),
            Said::Blocks { role, blocks } => format!(r#"{{"role":"{role}","content":[{blocks}}}]}}"#),
        }
    }

    fn newest(&self) -> String {
        let (role, blocks) = match self {
            Said::Prompt(text) => ("user", text_block(text)),
            Said::Blocks { role, blocks } => (*role, blocks.clone()),
        };
        format!(r#"{{"role":"{role}","content":[{blocks},"cache_control":{{"type":"ephemeral"}}}}]}}"#)
    }
}

/// A text block without its closing brace.
fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{}""#, escape(text))
}

fn event(name: &str, members: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\",{members}}}\n\n")
}

fn delta(index: usize, kind: &str, member: &str, text: &str) -> String {
    format!(
        r#""index":{index},"delta":{{"type":"{kind}","{member}":"{}"}}"#,
        escape(text)
    )
}

fn escape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + text.len() / 8);
    encode_into(text, Style::Plain, &mut out);
    String::from_utf8(out).expect("escaping keeps UTF-8 whole")
}

/// SplitMix64: small, seeded, good enough to make texts.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

const WORDS: [&str; 48] = [
    "the",
    "request",
    "store",
    "a",
    "chain",
    "of",
    "parts",
    "is",
    "read",
    "from",
    "branch",
    "and",
    "cache",
    "turn",
    "index",
    "to",
    "value",
    "node",
    "hash",
    "in",
    "conversation",
    "writer",
    "batch",
    "with",
    "lock",
    "stream",
    "event",
    "that",
    "error",
    "path",
    "token",
    "model",
    "client",
    "for",
    "when",
    "agent",
    "history",
    "prefix",
    "we",
    "should",
    "result",
    "tool",
    "not",
    "test",
    "file",
    "change",
    "first",
    "then",
];

impl Random {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound.max(1) as u64) as usize
    }

    /// True at the given rate, between 0 and 1.
    pub fn chance(&mut self, rate: f64) -> bool {
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < rate
    }

    pub fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }

    pub fn letters(&mut self, length: usize) -> String {
        const ALPHABET: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        (0..length)
            .map(|_| char::from(ALPHABET[self.below(ALPHABET.len())]))
            .collect()
    }

    pub fn base64(&mut self, length: usize) -> String {
        self.letters(length - 1) + "="
    }

    pub fn path(&mut self) -> String {
        format!("/src/{}/{}_{}.rs", self.word(), self.word(), self.word())
    }

    /// Sentences, some of them with characters outside ASCII.
    pub fn prose(&mut self, length: usize) -> String {
        let mut out = String::with_capacity(length + 16);
        while out.len() < length {
            let word = self.word();
            out.push_str(word);
            match self.below(24) {
                0 => out.push_str(". "),
                1 => out.push_str(", "),
                2 => out.push_str(".\n\n"),
                3 => out.push_str(" – café "),
                4 => write!(out, " `{}_{}` ", self.word(), self.word()).expect("a string takes everything"),
                _ => out.push(' '),
            }
        }
        out.truncate(out.floor_char_boundary(length));
        out.trim_end().to_owned()
    }
}

fn tool(number: usize, random: &mut Random, source: &mut SourceText) -> String {
    let length = 400 + random.below(1_800);
    format!(
        r#"{{"name":"Tool{number}","description":"{}","input_schema":{{"type":"object","properties":{{"{}":{{"type":"string","description":"{}"}}}},"required":[],"additionalProperties":false}}}}"#,
        escape(&source.prose(length)),
        random.word(),
        escape(&source.prose(60))
    )
}
