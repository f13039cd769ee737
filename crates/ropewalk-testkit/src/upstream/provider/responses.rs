//! OpenAI's Responses.

use serde_json::{Value, json};

use super::{Said, Turn, deltas, named_event};

pub(super) fn whole(turn: &Turn) -> Value {
    let output = (0..).zip(&turn.said).map(|(index, said)| item(turn, index, said, true));
    response(turn, "completed", &output.collect::<Vec<_>>())
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let mut events = Events::default();
    let begun = response(turn, "in_progress", &[]);
    events.push(json!({"type": "response.created", "response": begun}));
    events.push(json!({"type": "response.in_progress", "response": begun}));
    for (index, said) in (0..).zip(&turn.said) {
        let empty = item(turn, index, said, false);
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": empty}));
        said_events(&mut events, &item_id(turn, index, said), index, said);
        let whole = item(turn, index, said, true);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": whole}));
    }
    events.push(json!({"type": "response.completed", "response": whole(turn)}));
    events.written
}

/// Events with their running number.
#[derive(Default)]
struct Events {
    written: Vec<String>,
}

impl Events {
    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = json!(self.written.len());
        self.written.push(named_event(&event));
    }
}

fn said_events(events: &mut Events, id: &str, index: u64, said: &Said) {
    match said {
        Said::Thinking(text) => {
            for delta in deltas(text) {
                events.push(json!({"type": "response.reasoning_summary_text.delta", "item_id": id, "output_index": index, "summary_index": 0, "delta": delta}));
            }
            events.push(json!({"type": "response.reasoning_summary_text.done", "item_id": id, "output_index": index, "summary_index": 0, "text": text}));
        }
        Said::Text(text) => {
            let empty = json!({"type": "output_text", "text": "", "annotations": []});
            events.push(json!({"type": "response.content_part.added", "item_id": id, "output_index": index, "content_index": 0, "part": empty}));
            for delta in deltas(text) {
                events.push(json!({"type": "response.output_text.delta", "item_id": id, "output_index": index, "content_index": 0, "delta": delta}));
            }
            events.push(json!({"type": "response.output_text.done", "item_id": id, "output_index": index, "content_index": 0, "text": text}));
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            events.push(json!({"type": "response.content_part.done", "item_id": id, "output_index": index, "content_index": 0, "part": part}));
        }
        Said::Call { input, .. } => {
            let arguments = input.to_string();
            for delta in deltas(&arguments) {
                events.push(json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": delta}));
            }
            events.push(json!({"type": "response.function_call_arguments.done", "item_id": id, "output_index": index, "arguments": arguments}));
        }
    }
}

fn item_id(turn: &Turn, index: u64, said: &Said) -> String {
    let kind = match said {
        Said::Thinking(_) => "rs",
        Said::Text(_) => "msg",
        Said::Call { .. } => "fc",
    };
    format!("{kind}_{:08}{index:02}", turn.number)
}

fn item(turn: &Turn, index: u64, said: &Said, is_whole: bool) -> Value {
    let id = item_id(turn, index, said);
    let status = if is_whole { "completed" } else { "in_progress" };
    match said {
        Said::Thinking(text) => {
            let summary = if is_whole {
                json!([{"type": "summary_text", "text": text}])
            } else {
                json!([])
            };
            json!({"id": id, "type": "reasoning", "summary": summary})
        }
        Said::Text(text) => {
            let content = if is_whole {
                json!([{"type": "output_text", "text": text, "annotations": []}])
            } else {
                json!([])
            };
            json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
        }
        Said::Call { id: call, name, input } => {
            let arguments = if is_whole { input.to_string() } else { String::new() };
            json!({"id": id, "type": "function_call", "status": status, "call_id": format!("call_{call}"), "name": name, "arguments": arguments})
        }
    }
}

fn response(turn: &Turn, status: &str, output: &[Value]) -> Value {
    let tokens = turn.output_tokens();
    let usage =
        json!({"input_tokens": turn.input_tokens, "output_tokens": tokens, "total_tokens": turn.input_tokens + tokens});
    json!({
        "id": format!("resp_{:08}", turn.number),
        "object": "response",
        "created_at": 1_763_000_000 + turn.number,
        "status": status,
        "error": null,
        "model": turn.model,
        "output": output,
        "usage": if status == "completed" { usage } else { Value::Null },
    })
}
