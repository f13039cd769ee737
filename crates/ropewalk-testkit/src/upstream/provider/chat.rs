//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::{Said, Turn, data_event, deltas};

pub(super) fn whole(turn: &Turn) -> Value {
    let calls: Vec<Value> = turn.said.iter().filter_map(|said| call(said, true)).collect();
    let mut message = json!({"role": "assistant", "content": turn.text(), "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(turn)});
    let mut completion = envelope(turn, "chat.completion", &[choice]);
    completion["usage"] = usage(turn);
    completion
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let mut events = vec![chunk(
        turn,
        &json!({"role": "assistant", "content": "", "refusal": null}),
        None,
    )];
    let mut call_index = 0;
    for said in &turn.said {
        match said {
            Said::Thinking(text) => events.extend(
                deltas(text)
                    .iter()
                    .map(|piece| chunk(turn, &json!({"reasoning_content": piece}), None)),
            ),
            Said::Text(text) => {
                events.extend(
                    deltas(text)
                        .iter()
                        .map(|piece| chunk(turn, &json!({"content": piece}), None)),
                );
            }
            Said::Call { input, .. } => {
                let mut begun = call(said, false).unwrap_or_default();
                begun["index"] = json!(call_index);
                events.push(chunk(turn, &json!({"tool_calls": [begun]}), None));
                events.extend(deltas(&input.to_string()).iter().map(|piece| {
                    let more = json!({"index": call_index, "function": {"arguments": piece}});
                    chunk(turn, &json!({"tool_calls": [more]}), None)
                }));
                call_index += 1;
            }
        }
    }
    events.push(chunk(turn, &json!({}), Some(finish_reason(turn))));
    let mut last = envelope(turn, "chat.completion.chunk", &[]);
    last["usage"] = usage(turn);
    events.push(data_event(&last));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn call(said: &Said, with_arguments: bool) -> Option<Value> {
    let Said::Call { id, name, input } = said else {
        return None;
    };
    let arguments = if with_arguments {
        input.to_string()
    } else {
        String::new()
    };
    Some(json!({
        "id": format!("call_{id}"),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }))
}

fn chunk(turn: &Turn, delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
    data_event(&envelope(turn, "chat.completion.chunk", &[choice]))
}

fn finish_reason(turn: &Turn) -> &'static str {
    if turn.calls_tools() { "tool_calls" } else { "stop" }
}

fn envelope(turn: &Turn, object: &str, choices: &[Value]) -> Value {
    json!({
        "id": format!("chatcmpl-{:08}", turn.number),
        "object": object,
        "created": 1_763_000_000 + turn.number,
        "model": turn.model,
        "choices": choices,
    })
}

fn usage(turn: &Turn) -> Value {
    let output = turn.output_tokens();
    json!({"prompt_tokens": turn.input_tokens, "completion_tokens": output, "total_tokens": turn.input_tokens + output})
}
