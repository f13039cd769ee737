//! OpenAI's Chat Completions.

use super::{Answered, Asked, Spelling, calls, input, is_assistant, joined_text, prompt_text};
use crate::conversation::Random;
use crate::traffic::history::{Block, Call, Said};
use crate::traffic::write::quoted;

pub(super) fn request(asked: &Asked<'_>, random: &mut Random) -> String {
    let mut messages = vec![format!(r#"{{"role":"system","content":{}}}"#, quoted(asked.system))];
    for (index, said) in asked.history.iter().enumerate() {
        if is_assistant(said) {
            messages.push(assistant(said, random));
        } else {
            messages.extend(said.blocks.iter().map(|block| user(asked, index, block, random)));
        }
    }
    let tool = |name: &&str| {
        format!(r#"{{"type":"function","function":{{"name":"{name}","parameters":{{"type":"object"}}}}}}"#)
    };
    let tools: Vec<String> = asked.tools.iter().map(tool).collect();
    format!(
        r#"{{"model":"gpt-5","messages":[{}],"tools":[{}]}}"#,
        messages.join(","),
        tools.join(",")
    )
}

fn user(asked: &Asked<'_>, index: usize, block: &Block, random: &mut Random) -> String {
    match block {
        Block::Result { id, text, .. } => {
            format!(r#"{{"role":"tool","tool_call_id":"{id}","content":{}}}"#, quoted(text))
        }
        Block::Text(text) | Block::Thinking(text) => {
            let text = quoted(&prompt_text(asked, index, text));
            if random.chance(0.3) {
                format!(r#"{{"role":"user","content":[{{"type":"text","text":{text}}}]}}"#)
            } else {
                format!(r#"{{"role":"user","content":{text}}}"#)
            }
        }
        Block::Call(call) => assistant_calls("null", &[call], Spelling::Compact, ""),
    }
}

/// The Python SDK replays `refusal: null`, others do not.
fn assistant(said: &Said, random: &mut Random) -> String {
    let refusal = if random.chance(0.5) { r#","refusal":null"# } else { "" };
    let found: Vec<&Call> = calls(&said.blocks).collect();
    assistant_calls(&content(said), &found, Spelling::Compact, refusal)
}

fn content(said: &Said) -> String {
    let text = joined_text(said);
    if text.is_empty() {
        "null".to_owned()
    } else {
        quoted(&text)
    }
}

fn assistant_calls(content: &str, calls: &[&Call], spelling: Spelling, rest: &str) -> String {
    if calls.is_empty() {
        return format!(r#"{{"role":"assistant","content":{content}{rest}}}"#);
    }
    let call = |call: &&Call| {
        format!(
            r#"{{"id":"{}","type":"function","function":{{"name":"{}","arguments":{}}}}}"#,
            call.id,
            call.name,
            quoted(&input(call, spelling))
        )
    };
    let calls: Vec<String> = calls.iter().map(call).collect();
    format!(
        r#"{{"role":"assistant","content":{content},"tool_calls":[{}]{rest}}}"#,
        calls.join(",")
    )
}

pub(super) fn answer(answered: &Answered<'_>) -> String {
    let said = Said::user(answered.blocks.to_vec());
    let found: Vec<&Call> = calls(answered.blocks).collect();
    let reason = if found.is_empty() { "stop" } else { "tool_calls" };
    format!(
        r#"{{"id":"chatcmpl-{}","object":"chat.completion","model":"gpt-5","choices":[{{"index":0,"message":{},"finish_reason":"{reason}"}}],"usage":{{"prompt_tokens":9,"completion_tokens":20,"total_tokens":29}}}}"#,
        answered.id,
        assistant_calls(&content(&said), &found, Spelling::Said, r#","refusal":null"#),
    )
}
