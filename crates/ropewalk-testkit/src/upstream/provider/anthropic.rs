//! Anthropic's Messages.

use serde_json::{Value, json};

use super::{Said, Turn, deltas, named_event};

pub(super) fn whole(turn: &Turn) -> Value {
    let content: Vec<Value> = turn.said.iter().map(block).collect();
    message(turn, &content, Some(stop_reason(turn)), turn.output_tokens())
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let start = message(turn, &[], None, 1);
    let mut events = vec![named_event(&json!({"type": "message_start", "message": start}))];
    events.push(named_event(&json!({"type": "ping"})));
    for (index, said) in turn.said.iter().enumerate() {
        let empty = match said {
            Said::Thinking(_) => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Said::Text(_) => json!({"type": "text", "text": ""}),
            Said::Call { id, name, .. } => {
                json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": {}})
            }
        };
        events.push(named_event(
            &json!({"type": "content_block_start", "index": index, "content_block": empty}),
        ));
        let deltas = block_deltas(said).into_iter();
        events.extend(
            deltas.map(|delta| named_event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))),
        );
        events.push(named_event(&json!({"type": "content_block_stop", "index": index})));
    }
    events.push(named_event(&json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(turn), "stop_sequence": null},
        "usage": {"output_tokens": turn.output_tokens()},
    })));
    events.push(named_event(&json!({"type": "message_stop"})));
    events
}

fn block(said: &Said) -> Value {
    match said {
        Said::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl"}),
        Said::Text(text) => json!({"type": "text", "text": text}),
        Said::Call { id, name, input } => {
            json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": input})
        }
    }
}

fn block_deltas(said: &Said) -> Vec<Value> {
    match said {
        Said::Thinking(text) => {
            let pieces = deltas(text).into_iter();
            let mut all: Vec<Value> = pieces
                .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                .collect();
            all.push(json!({"type": "signature_delta", "signature": "c2lnbmF0dXJl"}));
            all
        }
        Said::Text(text) => {
            let pieces = deltas(text).into_iter();
            pieces
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect()
        }
        Said::Call { input, .. } => {
            let pieces = deltas(&input.to_string()).into_iter();
            pieces
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect()
        }
    }
}

fn stop_reason(turn: &Turn) -> &'static str {
    if turn.calls_tools() { "tool_use" } else { "end_turn" }
}

fn message(turn: &Turn, content: &[Value], stop_reason: Option<&str>, output_tokens: u64) -> Value {
    json!({
        "id": format!("msg_{:08}", turn.number),
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {
            "input_tokens": turn.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
        },
    })
}
