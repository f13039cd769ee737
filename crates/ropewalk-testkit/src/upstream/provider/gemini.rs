//! Gemini's generateContent.

use serde_json::{Value, json};

use super::{Said, Turn, data_event, deltas};

pub(super) fn whole(turn: &Turn) -> Value {
    let parts = turn.said.iter().map(|said| match said {
        Said::Thinking(text) => json!({"text": text, "thought": true}),
        Said::Text(text) => json!({"text": text}),
        Said::Call { .. } => call(said),
    });
    chunk(turn, &parts.collect::<Vec<_>>(), true)
}

pub(super) fn stream(turn: &Turn) -> Vec<String> {
    let mut all = Vec::new();
    for said in &turn.said {
        match said {
            Said::Thinking(text) => {
                all.extend(deltas(text).iter().map(|piece| json!({"text": piece, "thought": true})));
            }
            Said::Text(text) => all.extend(deltas(text).iter().map(|piece| json!({"text": piece}))),
            Said::Call { .. } => all.push(call(said)),
        }
    }
    let last = all.len().saturating_sub(1);
    let parts = all.into_iter().enumerate();
    parts
        .map(|(index, part)| data_event(&chunk(turn, &[part], index == last)))
        .collect()
}

fn call(said: &Said) -> Value {
    match said {
        Said::Call { name, input, .. } => json!({"functionCall": {"name": name, "args": input}}),
        Said::Thinking(_) | Said::Text(_) => Value::Null,
    }
}

fn chunk(turn: &Turn, parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    let output = turn.output_tokens();
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": turn.input_tokens,
            "candidatesTokenCount": output,
            "totalTokenCount": turn.input_tokens + output,
        },
        "modelVersion": turn.model,
        "responseId": format!("resp{:08}", turn.number),
    })
}
