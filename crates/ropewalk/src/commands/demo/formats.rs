//! What the provider says, as three APIs write it: Anthropic's Messages, OpenAI's Responses and Chat Completions.

use serde_json::{Value, json};

use super::answers::Said;

/// Characters of one event: small enough that every answer has several.
const DELTA_CHARS: usize = 24;

/// Bytes that about make a token.
const TOKEN_BYTES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Messages,
    Responses,
    Chat,
}

#[derive(Debug)]
pub(super) enum Rendered {
    Whole(String),
    Streamed(Vec<String>),
}

/// An answer with everything that an API adds to it.
struct Turn<'t> {
    /// The same for the same question asked as often: names come from it.
    name: String,
    model: &'t str,
    said: &'static Said,
    input_tokens: usize,
}

impl Api {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Api::Messages),
            "/v1/responses" => Some(Api::Responses),
            "/v1/chat/completions" => Some(Api::Chat),
            _ => None,
        }
    }

    pub(super) fn render(
        self,
        asks: &Value,
        line: usize,
        nth: usize,
        said: &'static Said,
        request_bytes: usize,
    ) -> Rendered {
        let turn = Turn {
            name: format!("demo{line:02}{nth:02}"),
            model: asks["model"].as_str().unwrap_or("scripted"),
            said,
            input_tokens: request_bytes / TOKEN_BYTES,
        };
        let streams = asks["stream"] == true;
        match (self, streams) {
            (Api::Messages, true) => Rendered::Streamed(messages_events(&turn)),
            (Api::Messages, false) => Rendered::Whole(message(&turn, &turn.blocks()).to_string()),
            // Only Codex speaks it here, and it always streams.
            (Api::Responses, _) => Rendered::Streamed(responses_events(&turn)),
            (Api::Chat, _) => Rendered::Whole(completion(&turn).to_string()),
        }
    }
}

pub(super) fn overloaded() -> String {
    json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).to_string()
}

/// What was said last: every text and every result of the last message, or of the items after the model's last.
pub(super) fn newest_text(asks: &Value) -> String {
    let said = asks["messages"].as_array().or_else(|| asks["input"].as_array());
    let Some(newest) = said.and_then(|said| said.iter().rev().find(|message| message["role"] != "system")) else {
        return String::new();
    };
    let mut text = String::new();
    for member in ["content", "output"] {
        match &newest[member] {
            Value::String(whole) => text.push_str(whole),
            Value::Array(blocks) => blocks.iter().for_each(|block| {
                let inner = block["text"].as_str().or_else(|| block["content"].as_str());
                let inner = inner.unwrap_or_default();
                if !inner.starts_with("<system-reminder>") {
                    text.push_str(inner);
                    text.push('\n');
                }
            }),
            _ => {}
        }
    }
    text
}

impl Turn<'_> {
    fn output_tokens(&self) -> usize {
        let inputs: usize = self.said.calls.iter().map(|(_, input)| input.len()).sum();
        (self.said.text.len() + inputs) / TOKEN_BYTES + 1
    }

    fn calls(&self) -> impl Iterator<Item = (String, &'static str, &'static str)> {
        let name = self.name.clone();
        let calls = self.said.calls.iter().enumerate();
        calls.map(move |(at, (tool, input))| (format!("{name}{at:02}"), *tool, *input))
    }

    fn blocks(&self) -> Vec<Value> {
        let mut blocks = vec![json!({"type": "text", "text": self.said.text})];
        blocks.extend(self.calls().map(|(id, tool, input)| {
            json!({"type": "tool_use", "id": format!("toolu_{id}"), "name": tool, "input": parsed(input)})
        }));
        blocks
    }

    fn stop_reason(&self) -> &'static str {
        match self.said.calls {
            [] => "end_turn",
            _ => "tool_use",
        }
    }
}

fn parsed(input: &str) -> Value {
    serde_json::from_str(input).unwrap_or_default()
}

fn deltas(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(DELTA_CHARS).map(|chunk| chunk.iter().collect()).collect()
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

fn message(turn: &Turn<'_>, content: &[Value]) -> Value {
    json!({
        "id": format!("msg_{}", turn.name), "type": "message", "role": "assistant", "model": turn.model,
        "content": content,
        "stop_reason": if content.is_empty() { Value::Null } else { turn.stop_reason().into() },
        "stop_sequence": null,
        "usage": {
            "input_tokens": turn.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": if content.is_empty() { 1 } else { turn.output_tokens() },
        },
    })
}

fn messages_events(turn: &Turn<'_>) -> Vec<String> {
    let mut events = vec![event(&json!({"type": "message_start", "message": message(turn, &[])}))];
    for (index, mut block) in turn.blocks().into_iter().enumerate() {
        let (member, empty) = match block["type"] == "text" {
            true => ("text", json!("")),
            false => ("input", json!({})),
        };
        let whole = std::mem::replace(&mut block[member], empty);
        events.push(event(
            &json!({"type": "content_block_start", "index": index, "content_block": block}),
        ));
        let pieces = match &whole {
            Value::String(text) => deltas(text),
            input => deltas(&input.to_string()),
        };
        events.extend(pieces.into_iter().map(|piece| {
            let delta = match member {
                "text" => json!({"type": "text_delta", "text": piece}),
                _ => json!({"type": "input_json_delta", "partial_json": piece}),
            };
            event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
        }));
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
    }
    events.push(event(&json!({
        "type": "message_delta", "delta": {"stop_reason": turn.stop_reason(), "stop_sequence": null},
        "usage": {"output_tokens": turn.output_tokens()},
    })));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

fn responses_events(turn: &Turn<'_>) -> Vec<String> {
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({
            "id": format!("resp_{}", turn.name), "object": "response", "created_at": 1_763_000_000, "status": status,
            "error": null, "model": turn.model, "output": output, "usage": usage,
        })
    };
    let mut events = vec![json!({"type": "response.created", "response": response("in_progress", &[], Value::Null)})];
    let text = json!([{"type": "output_text", "text": turn.said.text, "annotations": []}]);
    let id = format!("msg_{}", turn.name);
    let mut output = vec![json!({
        "id": id, "type": "message", "status": "completed", "role": "assistant", "content": text,
    })];
    output.extend(turn.calls().map(|(call, tool, input)| {
        json!({
            "id": format!("fc_{call}"), "type": "function_call", "status": "completed", "call_id": format!("call_{call}"),
            "name": tool, "arguments": input,
        })
    }));
    for (index, item) in output.iter().enumerate() {
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item}));
        if item["type"] == "message" {
            events.extend(deltas(turn.said.text).into_iter().map(|delta| {
                json!({
                    "type": "response.output_text.delta", "item_id": id, "output_index": index, "content_index": 0,
                    "delta": delta,
                })
            }));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let (sent, said) = (turn.input_tokens, turn.output_tokens());
    let usage = json!({"input_tokens": sent, "output_tokens": said, "total_tokens": sent + said});
    events.push(json!({"type": "response.completed", "response": response("completed", &output, usage)}));
    let numbered = events.into_iter().enumerate().map(|(number, mut data)| {
        data["sequence_number"] = json!(number);
        event(&data)
    });
    numbered.collect()
}

fn completion(turn: &Turn<'_>) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.said.text, "refusal": null});
    let calls = turn.calls().map(|(id, tool, input)| {
        json!({"id": format!("call_{id}"), "type": "function", "function": {"name": tool, "arguments": input}})
    });
    let calls: Vec<Value> = calls.collect();
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let (sent, said) = (turn.input_tokens, turn.output_tokens());
    json!({
        "id": format!("chatcmpl-{}", turn.name), "object": "chat.completion", "created": 1_763_000_000,
        "model": turn.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
        "usage": {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said},
    })
}
