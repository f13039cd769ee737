//! OpenAI's Responses, with the history spelled out, named by the previous response, or named item by item.

use super::{Answered, Asked, Replay, Spelling, calls, input, is_assistant, joined_text, prompt_text};
use crate::traffic::history::{Block, Call, Said};
use crate::traffic::write::quoted;

pub(super) fn request(asked: &Asked<'_>, replay: Replay) -> String {
    let latest = asked.history.iter().rposition(is_assistant);
    let (previous, first_sent) = match (replay, latest) {
        (Replay::Previous, Some(latest)) => {
            let id = &asked.history[latest].answer_id;
            (format!(r#","previous_response_id":"resp_{id}""#), latest + 1)
        }
        _ => (String::new(), 0),
    };
    let mut items = Vec::new();
    for (index, said) in asked.history.iter().enumerate().skip(first_sent) {
        if is_assistant(said) {
            items.extend(assistant(said, replay));
        } else {
            items.extend(said.blocks.iter().map(|block| user(asked, index, block)));
        }
    }
    let tool = |name: &&str| format!(r#"{{"type":"function","name":"{name}","parameters":{{"type":"object"}}}}"#);
    let tools: Vec<String> = asked.tools.iter().map(tool).collect();
    format!(
        r#"{{"model":"gpt-5","instructions":{},"input":[{}],"tools":[{}]{previous}}}"#,
        quoted(asked.system),
        items.join(","),
        tools.join(",")
    )
}

fn user(asked: &Asked<'_>, index: usize, block: &Block) -> String {
    match block {
        Block::Result { id, text, .. } => format!(
            r#"{{"type":"function_call_output","call_id":"{id}","output":{}}}"#,
            quoted(text)
        ),
        Block::Text(text) | Block::Thinking(text) => format!(
            r#"{{"role":"user","content":[{{"type":"input_text","text":{}}}]}}"#,
            quoted(&prompt_text(asked, index, text))
        ),
        Block::Call(call) => function_call(call, Spelling::Compact),
    }
}

/// Calls are replayed as they are; only texts are named by reference.
fn assistant(said: &Said, replay: Replay) -> Vec<String> {
    let text = joined_text(said);
    let mut items = Vec::new();
    if replay == Replay::References && !text.is_empty() {
        items.push(format!(r#"{{"type":"item_reference","id":"msg_{}"}}"#, said.answer_id));
    } else if !text.is_empty() {
        items.push(message(&said.answer_id, &text));
    }
    items.extend(calls(&said.blocks).map(|call| function_call(call, Spelling::Compact)));
    items
}

fn message(answer_id: &str, text: &str) -> String {
    format!(
        r#"{{"id":"msg_{answer_id}","type":"message","role":"assistant","status":"completed","content":[{{"type":"output_text","text":{},"annotations":[]}}]}}"#,
        quoted(text)
    )
}

fn function_call(call: &Call, spelling: Spelling) -> String {
    format!(
        r#"{{"type":"function_call","call_id":"{}","name":"{}","arguments":{}}}"#,
        call.id,
        call.name,
        quoted(&input(call, spelling))
    )
}

pub(super) fn answer(answered: &Answered<'_>) -> String {
    let said = Said::user(answered.blocks.to_vec());
    let text = joined_text(&said);
    let mut items = Vec::new();
    if !text.is_empty() {
        items.push(message(answered.id, &text));
    }
    items.extend(calls(answered.blocks).map(|call| function_call(call, Spelling::Said)));
    format!(
        r#"{{"id":"resp_{}","object":"response","status":"completed","model":"gpt-5","output":[{}],"usage":{{"input_tokens":9,"output_tokens":20,"total_tokens":29}}}}"#,
        answered.id,
        items.join(",")
    )
}
