//! Anthropic's Messages, as Claude Code sends and replays them.

use std::fmt::Write as _;

use super::{Answered, Asked, Spelling, input, is_assistant, prompt_text};
use crate::conversation::Random;
use crate::traffic::history::{Block, Said};
use crate::traffic::mix::Mix;
use crate::traffic::texts;
use crate::traffic::write::quoted;

const MODEL: &str = "claude-opus-4-8";
const CACHE: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// Bytes of one delta; small enough that every answer has several.
const DELTA_BYTES: usize = 48;

pub(super) fn request(asked: &Asked<'_>, mix: &Mix, random: &mut Random) -> String {
    let keeps_thinking = random.chance(0.5);
    let mut messages = Vec::with_capacity(asked.history.len() + 1);
    for (index, said) in asked.history.iter().enumerate() {
        messages.push(if is_assistant(said) {
            assistant(said, keeps_thinking, random)
        } else {
            user(asked, index, said, mix, random)
        });
        if index == 0 && random.chance(mix.reminder) {
            messages.push(r#"{"role":"system","content":"context that is not conversation"}"#.to_owned());
        }
    }
    let user_id = asked
        .user_id
        .map(|id| format!(r#","metadata":{{"user_id":{}}}"#, quoted(id)));
    let stream = if asked.is_streamed { r#","stream":true"# } else { "" };
    format!(
        r#"{{"model":"{MODEL}","messages":[{}],"system":[{{"type":"text","text":{}{CACHE}}}],"tools":[{}]{},"max_tokens":32000{stream}}}"#,
        messages.join(","),
        quoted(asked.system),
        tools(asked.tools),
        user_id.unwrap_or_default(),
    )
}

fn tools(names: &[&str]) -> String {
    let tool =
        |name: &&str| format!(r#"{{"name":"{name}","description":"{name}","input_schema":{{"type":"object"}}}}"#);
    names.iter().map(tool).collect::<Vec<_>>().join(",")
}

fn assistant(said: &Said, keeps_thinking: bool, random: &mut Random) -> String {
    let spelling = if random.chance(0.3) {
        Spelling::Completed
    } else {
        Spelling::Compact
    };
    let shown = said
        .blocks
        .iter()
        .filter(|block| keeps_thinking || !matches!(block, Block::Thinking(_)));
    let blocks: Vec<String> = shown
        .map(|block| format!("{}}}", open_block(block, spelling)))
        .collect();
    format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","))
}

/// The newest message is blocks with `cache_control`; older prompts are a string or a block, as the client likes.
fn user(asked: &Asked<'_>, index: usize, said: &Said, mix: &Mix, random: &mut Random) -> String {
    let is_newest = index + 1 == asked.history.len();
    if let [Block::Text(text)] = &said.blocks[..] {
        let mut text = prompt_text(asked, index, text);
        let has_reminder = random.chance(mix.reminder);
        if !is_newest && random.chance(0.5) {
            if has_reminder {
                text = format!("{text}\n\n{}", texts::reminder(random));
            }
            return format!(r#"{{"role":"user","content":{}}}"#, quoted(&text));
        }
        let mut blocks = Vec::new();
        if has_reminder && random.chance(0.5) {
            blocks.push(format!(
                r#"{{"type":"text","text":{}}}"#,
                quoted(&texts::reminder(random))
            ));
        } else if has_reminder {
            text = format!("{}\n{text}", texts::reminder(random));
        }
        let cache = if is_newest { CACHE } else { "" };
        blocks.push(format!(r#"{{"type":"text","text":{}{cache}}}"#, quoted(&text)));
        return format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","));
    }
    let last = said.blocks.len() - 1;
    let blocks = said.blocks.iter().enumerate().map(|(position, block)| {
        let cache = if is_newest && position == last { CACHE } else { "" };
        format!("{}{cache}}}", result_or_text(block, mix, random))
    });
    format!(
        r#"{{"role":"user","content":[{}]}}"#,
        blocks.collect::<Vec<_>>().join(",")
    )
}

fn result_or_text(block: &Block, mix: &Mix, random: &mut Random) -> String {
    let Block::Result { id, text, is_error } = block else {
        return open_block(block, Spelling::Compact);
    };
    let mut text = text.clone();
    if random.chance(mix.reminder) {
        text = format!("{text}\n\n{}", texts::reminder(random));
    }
    let content = if random.chance(0.3) {
        format!(r#"[{{"type":"text","text":{}}}]"#, quoted(&text))
    } else {
        quoted(&text)
    };
    // An absent flag means the same as a false one.
    let flag = if *is_error { r#","is_error":true"# } else { "" };
    format!(r#"{{"tool_use_id":"{id}","type":"tool_result","content":{content}{flag}"#)
}

/// A block without its closing brace, so that `cache_control` can be added.
fn open_block(block: &Block, spelling: Spelling) -> String {
    match block {
        Block::Text(text) => format!(r#"{{"type":"text","text":{}"#, quoted(text)),
        Block::Thinking(text) => format!(r#"{{"type":"thinking","thinking":{},"signature":"c2ln""#, quoted(text)),
        Block::Call(call) => format!(
            r#"{{"type":"tool_use","id":"{}","name":"{}","input":{}"#,
            call.id,
            call.name,
            input(call, spelling)
        ),
        Block::Result { id, text, .. } => {
            format!(
                r#"{{"type":"tool_result","tool_use_id":"{id}","content":{}"#,
                quoted(text)
            )
        }
    }
}

fn stop_reason(blocks: &[Block]) -> &'static str {
    match blocks.last() {
        Some(Block::Call(_)) => "tool_use",
        _ => "end_turn",
    }
}

pub(super) fn answer(answered: &Answered<'_>) -> String {
    let blocks = answered
        .blocks
        .iter()
        .map(|block| format!("{}}}", open_block(block, Spelling::Said)));
    format!(
        r#"{{"id":"{}","type":"message","role":"assistant","model":"{MODEL}","content":[{}],"stop_reason":"{}","stop_sequence":null,"usage":{{"input_tokens":9,"output_tokens":20}}}}"#,
        answered.id,
        blocks.collect::<Vec<_>>().join(","),
        stop_reason(answered.blocks)
    )
}

pub(super) fn stream(answered: &Answered<'_>) -> String {
    let mut out = String::with_capacity(1_024);
    event(
        &mut out,
        "message_start",
        &format!(
            r#","message":{{"id":"{}","type":"message","role":"assistant","model":"{MODEL}","content":[],"stop_reason":null,"usage":{{"input_tokens":9,"output_tokens":1}}}}"#,
            answered.id
        ),
    );
    for (index, block) in answered.blocks.iter().enumerate() {
        let is_last = index + 1 == answered.blocks.len();
        stream_block(&mut out, index, block);
        if !(answered.is_cut_off && is_last) {
            event(&mut out, "content_block_stop", &format!(r#","index":{index}"#));
        }
    }
    if !answered.is_cut_off {
        let reason = stop_reason(answered.blocks);
        let end =
            format!(r#","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":20}}"#);
        event(&mut out, "message_delta", &end);
        event(&mut out, "message_stop", "");
    }
    out
}

fn stream_block(out: &mut String, index: usize, block: &Block) {
    let (start, kind, member, text) = match block {
        Block::Text(text) => (
            r#"{"type":"text","text":""}"#.to_owned(),
            "text_delta",
            "text",
            text.clone(),
        ),
        Block::Thinking(text) => (
            r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
            "thinking_delta",
            "thinking",
            text.clone(),
        ),
        Block::Call(call) => (
            format!(
                r#"{{"type":"tool_use","id":"{}","name":"{}","input":{{}}}}"#,
                call.id, call.name
            ),
            "input_json_delta",
            "partial_json",
            input(call, Spelling::Said),
        ),
        // Providers do not answer with results.
        Block::Result { .. } => return,
    };
    event(
        out,
        "content_block_start",
        &format!(r#","index":{index},"content_block":{start}"#),
    );
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(DELTA_BYTES));
        let delta = format!(
            r#","index":{index},"delta":{{"type":"{kind}","{member}":{}}}"#,
            quoted(piece)
        );
        event(out, "content_block_delta", &delta);
        rest = after;
    }
    if matches!(block, Block::Thinking(_)) {
        let delta = format!(r#","index":{index},"delta":{{"type":"signature_delta","signature":"c2ln"}}"#);
        event(out, "content_block_delta", &delta);
    }
}

fn event(out: &mut String, name: &str, members: &str) {
    write!(out, "event: {name}\ndata: {{\"type\":\"{name}\"{members}}}\n\n").expect("a string takes everything");
}

/// A call for a title of what the user said first.
pub(in crate::traffic) fn title(opening: &str, user_id: Option<&str>) -> String {
    let user_id = user_id.map(|id| format!(r#","metadata":{{"user_id":{}}}"#, quoted(id)));
    format!(
        r#"{{"model":"claude-haiku-4-5","messages":[{{"role":"user","content":[{{"type":"text","text":{}}}]}}],"system":[{{"type":"text","text":"Write a title of at most six words."}}],"tools":[]{},"max_tokens":512,"output_config":{{"format":{{"type":"json_schema","schema":{{"type":"object","properties":{{"title":{{"type":"string"}}}},"required":["title"]}}}}}}}}"#,
        quoted(&format!("<session>\n{opening}\n</session>")),
        user_id.unwrap_or_default()
    )
}

/// A call that only counts the tokens of a history.
pub(in crate::traffic) fn count_tokens(asked: &Asked<'_>, mix: &Mix, random: &mut Random) -> String {
    let counted = request(asked, mix, random);
    counted
        .replace(r#","max_tokens":32000"#, "")
        .replace(r#","stream":true"#, "")
}
