//! Answers of every format, each as the body and as the stream a provider would send.

use proptest::collection::vec;
use proptest::prelude::*;
use ropewalk_core::model::Provider;
use serde_json::{Value, json};

/// One answer in its two forms.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) provider: Provider,
    pub(crate) body: String,
    /// Framed events; the terminal one is the last.
    pub(crate) events: Vec<String>,
}

impl Answer {
    pub(crate) fn stream(&self) -> String {
        self.events.concat()
    }
}

/// What an answer says, before it has a format.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Cited(String),
    Thinking(String),
    Tool(String, Value),
    /// A block of a kind that is not interpreted.
    Unknown(String),
}

pub(crate) fn answer() -> impl Strategy<Value = Answer> {
    let format = (0..5_usize, vec(piece(), 0..5), 1..7_usize, line_end());
    format.prop_map(|(format, pieces, step, end)| match format {
        0 => anthropic(&pieces, step, end),
        1 => chat(&pieces, step, end),
        2 => responses(&pieces, step, end, Detail::Deltas),
        3 => responses(&pieces, step, end, Detail::Whole),
        _ => gemini(&pieces, step, end),
    })
}

fn line_end() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("\n"), Just("\r\n"), Just("\r")]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z \n]{1,40}",
        "\\PC{1,12}",
        Just("é😀\u{2028}\"\\\r\n\t<b>".to_owned())
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        3 => text().prop_map(Piece::Text),
        1 => text().prop_map(Piece::Cited),
        1 => text().prop_map(Piece::Thinking),
        2 => ("[A-Z][a-z]{1,8}", input()).prop_map(|(name, input)| Piece::Tool(name, input)),
        1 => text().prop_map(Piece::Unknown),
    ]
}

fn input() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        text().prop_map(|t| json!({"prompt": t, "n": [1, 2.5, null]})),
        text().prop_map(|t| json!({"deep": {"er": [{"est": t}]}})),
    ]
}

/// Cuts a text into pieces of `step` characters; at least one.
fn cut(text: &str, step: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut parts: Vec<String> = chars.chunks(step).map(String::from_iter).collect();
    if parts.is_empty() {
        parts.push(String::new());
    }
    parts
}

fn named(event: &Value, end: &str) -> String {
    let name = event["type"].as_str().unwrap_or_default();
    format!("event: {name}{end}data: {event}{end}{end}")
}

fn unnamed(event: &Value, end: &str) -> String {
    format!("data: {event}{end}{end}")
}

fn anthropic(pieces: &[Piece], step: usize, end: &str) -> Answer {
    let start_usage = json!({"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 6}});
    let mut usage = start_usage.clone();
    usage["output_tokens"] = json!(42);
    let head = |content: Value, stop: Value, usage: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": stop, "stop_sequence": null, "usage": usage})
    };
    let mut events = vec![json!({"type": "message_start", "message": head(json!([]), Value::Null, start_usage)})];
    events.push(json!({"type": "ping"}));
    let mut content = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let (block, start, deltas) = anthropic_block(index, piece, step);
        content.push(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 42, "cache_read_input_tokens": null}}));
    events.push(json!({"type": "message_stop"}));
    Answer {
        provider: Provider::Anthropic,
        body: head(json!(content), json!("end_turn"), usage).to_string(),
        events: events.iter().map(|event| named(event, end)).collect(),
    }
}

/// (the block of the body, the block a stream starts with, the deltas in between)
fn anthropic_block(index: usize, piece: &Piece, step: usize) -> (Value, Value, Vec<Value>) {
    let id = format!("toolu_{index}");
    match piece {
        Piece::Text(text) => (
            json!({"type": "text", "text": text}),
            json!({"type": "text", "text": ""}),
            cut(text, step)
                .iter()
                .map(|t| json!({"type": "text_delta", "text": t}))
                .collect(),
        ),
        Piece::Cited(text) => {
            let citation = json!({"type": "char_location", "cited_text": text});
            let mut deltas = vec![json!({"type": "citations_delta", "citation": citation})];
            deltas.extend(cut(text, step).iter().map(|t| json!({"type": "text_delta", "text": t})));
            deltas.push(json!({"type": "citations_delta", "citation": {"n": 2}}));
            (
                json!({"type": "text", "text": text, "citations": [citation, {"n": 2}]}),
                json!({"type": "text", "text": "", "citations": []}),
                deltas,
            )
        }
        Piece::Thinking(text) => {
            let mut deltas: Vec<Value> = cut(text, step)
                .iter()
                .map(|t| json!({"type": "thinking_delta", "thinking": t}))
                .collect();
            deltas.push(json!({"type": "signature_delta", "signature": "c2ln"}));
            (
                json!({"type": "thinking", "thinking": text, "signature": "c2ln"}),
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                deltas,
            )
        }
        Piece::Tool(name, input) => {
            // Every second one runs on the server: a kind that is not interpreted.
            let kind = if index.is_multiple_of(2) {
                "tool_use"
            } else {
                "server_tool_use"
            };
            let parts = cut(&input.to_string(), step);
            (
                json!({"type": kind, "id": id, "name": name, "input": input}),
                json!({"type": kind, "id": id, "name": name, "input": {}}),
                parts
                    .iter()
                    .map(|t| json!({"type": "input_json_delta", "partial_json": t}))
                    .collect(),
            )
        }
        Piece::Unknown(text) => {
            let block = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [{"url": text}]});
            (block.clone(), block, Vec::new())
        }
    }
}

fn chat(pieces: &[Piece], step: usize, end: &str) -> Answer {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null, "annotations": []});
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    let mut calls: Vec<Value> = Vec::new();
    for piece in pieces {
        let (member, text) = match piece {
            Piece::Text(text) | Piece::Cited(text) => ("content", text),
            Piece::Thinking(text) => ("reasoning_content", text),
            Piece::Unknown(text) => ("refusal", text),
            Piece::Tool(name, input) => {
                chat_call(name, input, step, &mut calls, &mut deltas);
                continue;
            }
        };
        let before = message[member].as_str().unwrap_or_default().to_owned();
        message[member] = json!(before + text);
        deltas.extend(cut(text, step).iter().map(|t| json!({member: t})));
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}});
    let chunk = |choices: Value, usage: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices, "usage": usage});
    let other = json!({"index": 1, "delta": {"content": "another"}, "finish_reason": null});
    let mut events = vec![chunk(json!([other]), Value::Null)];
    for delta in deltas {
        events.push(chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            Value::Null,
        ));
    }
    let last = |index: usize| json!({"index": index, "delta": {}, "finish_reason": "stop"});
    events.push(chunk(json!([last(0), last(1)]), Value::Null));
    events.push(chunk(json!([]), usage.clone()));
    let mut events: Vec<String> = events.iter().map(|event| unnamed(event, end)).collect();
    events.push(format!("data: [DONE]{end}{end}"));
    let other = json!({"role": "assistant", "content": "another"});
    let body = json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "usage": usage, "choices": [
        {"index": 0, "message": message, "finish_reason": "stop", "logprobs": null},
        {"index": 1, "message": other, "finish_reason": "stop"}]});
    Answer {
        provider: Provider::OpenAiChat,
        body: body.to_string(),
        events,
    }
}

fn chat_call(name: &str, input: &Value, step: usize, calls: &mut Vec<Value>, deltas: &mut Vec<Value>) {
    let (index, arguments) = (calls.len(), input.to_string());
    let id = format!("call_{index}");
    let function = json!({"name": name, "arguments": arguments});
    calls.push(json!({"id": id, "type": "function", "function": function}));
    let first = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
    deltas.push(json!({"tool_calls": [first]}));
    for part in cut(&arguments, step) {
        deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]}));
    }
}

/// How much the events at the end of an item say.
#[derive(Clone, Copy, PartialEq)]
enum Detail {
    /// Only deltas, and a terminal event without output: what some servers send.
    Deltas,
    /// Every `done` event, and the whole output at the end.
    Whole,
}

fn responses(pieces: &[Piece], step: usize, end: &str, detail: Detail) -> Answer {
    let usage = json!({"input_tokens": 21, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 2}});
    let body = |status: &str, output: Value, usage: Value| {
        json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output,
            "error": null, "incomplete_details": null, "usage": usage})
    };
    let mut events = vec![json!({"type": "response.created", "response": body("in_progress", json!([]), Value::Null)})];
    let mut items = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let (item, added, deltas) = responses_item(index, piece, step);
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": added}));
        for mut delta in deltas {
            delta["output_index"] = json!(index);
            events.push(delta);
        }
        if detail == Detail::Whole {
            events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        }
        items.push(item);
    }
    let output = if detail == Detail::Whole {
        json!(items)
    } else {
        json!([])
    };
    events.push(json!({"type": "response.completed", "response": body("completed", output, usage.clone())}));
    Answer {
        provider: Provider::OpenAiResponses,
        body: body("completed", json!(items), usage).to_string(),
        events: events.iter().map(|event| named(event, end)).collect(),
    }
}

/// (the finished item, the item as it is added, the deltas in between)
fn responses_item(index: usize, piece: &Piece, step: usize) -> (Value, Value, Vec<Value>) {
    let id = format!("item_{index}");
    let delta = |kind: &str, text: &String| {
        json!({"type": format!("response.{kind}.delta"), "delta": text,
        "content_index": 0, "summary_index": 0})
    };
    let deltas = |kind: &str, text: &str| -> Vec<Value> { cut(text, step).iter().map(|t| delta(kind, t)).collect() };
    let message = |content: Value, status: &str| json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content});
    match piece {
        Piece::Text(text) | Piece::Cited(text) => {
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            let mut events = vec![json!({"type": "response.content_part.added", "content_index": 0, "part": part("")})];
            events.extend(deltas("output_text", text));
            (
                message(json!([part(text)]), "completed"),
                message(json!([]), "in_progress"),
                events,
            )
        }
        Piece::Thinking(text) => {
            let item = |summary: Value| json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": "ZW5j"});
            let summary = json!([{"type": "summary_text", "text": text}]);
            (item(summary), item(json!([])), deltas("reasoning_summary_text", text))
        }
        Piece::Tool(name, input) if index.is_multiple_of(2) => {
            let item = |arguments: &str| {
                json!({"id": id, "type": "function_call", "call_id": format!("call_{index}"), "name": name,
                    "arguments": arguments, "namespace": "ns"})
            };
            let arguments = input.to_string();
            (
                item(&arguments),
                item(""),
                deltas("function_call_arguments", &arguments),
            )
        }
        Piece::Tool(name, input) => {
            let item = |text: &str| json!({"id": id, "type": "custom_tool_call", "call_id": format!("call_{index}"), "name": name, "input": text});
            let text = format!("run({input})");
            (item(&text), item(""), deltas("custom_tool_call_input", &text))
        }
        Piece::Unknown(text) => {
            let part = |text: &str| json!({"type": "refusal", "refusal": text});
            let mut events = vec![json!({"type": "response.content_part.added", "content_index": 0, "part": part("")})];
            events.extend(deltas("refusal", text));
            (
                message(json!([part(text)]), "completed"),
                message(json!([]), "in_progress"),
                events,
            )
        }
    }
}

fn gemini(pieces: &[Piece], step: usize, end: &str) -> Answer {
    let mut parts = Vec::new();
    let mut chunks = Vec::new();
    for piece in pieces {
        let (part, streamed) = gemini_part(piece, step);
        parts.push(part);
        chunks.extend(streamed);
    }
    let usage = json!({"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2});
    let chunk = |parts: Value, finish: Value, usage: Value| {
        json!({"responseId": "r1", "modelVersion": "m", "usageMetadata": usage, "candidates": [
            {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": finish}]})
    };
    let early_usage = json!({"promptTokenCount": 9});
    let mut events: Vec<Value> = chunks
        .into_iter()
        .map(|part| chunk(json!([part]), Value::Null, early_usage.clone()))
        .collect();
    events.push(chunk(json!([]), json!("STOP"), usage.clone()));
    let body = chunk(json!(parts), json!("STOP"), usage).to_string();
    let events = if end == "\r" {
        // The form without `alt=sse`.
        let last = events.len() - 1;
        let framed = |(i, e): (usize, &Value)| {
            format!(
                "{}{e}{}",
                if i == 0 { "[" } else { "\n," },
                if i == last { "]" } else { "\n" }
            )
        };
        events.iter().enumerate().map(framed).collect()
    } else {
        events.iter().map(|event| unnamed(event, end)).collect()
    };
    Answer {
        provider: Provider::Gemini,
        body,
        events,
    }
}

fn gemini_part(piece: &Piece, step: usize) -> (Value, Vec<Value>) {
    match piece {
        Piece::Text(text) => (
            json!({"text": text}),
            cut(text, step).iter().map(|t| json!({"text": t})).collect(),
        ),
        Piece::Thinking(text) => {
            let part = |t: &String| json!({"text": t, "thought": true});
            (part(text), cut(text, step).iter().map(part).collect())
        }
        Piece::Cited(text) => {
            let mut streamed: Vec<Value> = cut(text, step).iter().map(|t| json!({"text": t})).collect();
            streamed.push(json!({"text": "", "thoughtSignature": "c2ln"}));
            (json!({"text": text, "thoughtSignature": "c2ln"}), streamed)
        }
        Piece::Tool(name, input) => {
            let part = json!({"functionCall": {"name": name, "args": input}, "thoughtSignature": "c2ln"});
            (part.clone(), vec![part])
        }
        Piece::Unknown(text) => {
            let part = json!({"executableCode": {"language": "PYTHON", "code": text}});
            (part.clone(), vec![part])
        }
    }
}
