//! Answers in another framing than they came in.

use std::collections::BTreeMap;

use bytes::Bytes;
use ropewalk_core::json::Doc;
use ropewalk_core::model::Provider;
use ropewalk_testkit::captures::{CapturedExchange, captures, fixtures};
use ropewalk_wire::provider::route;
use ropewalk_wire::replay::{Framing, Reframed, reframe};
use ropewalk_wire::response::decode;
use serde_json::{Value, json};

const PLAIN: Framing = Framing::Plain;
const EVENTS: Framing = Framing::Events { counts_tokens: true };

fn reframed(provider: Provider, body: &str, asked: Framing) -> Option<Reframed> {
    reframe(provider, None, &Bytes::copy_from_slice(body.as_bytes()), asked)
}

/// What is asked for, and what of it is said, as JSON.
#[track_caller]
fn plain_of(provider: Provider, events: &str) -> Value {
    let plain = reframed(provider, events, PLAIN).unwrap();
    assert_eq!(plain.content_type, "application/json");
    serde_json::from_slice(&plain.body).unwrap()
}

/// There and back again: the same JSON.
#[track_caller]
fn check_round(provider: Provider, whole: &Value) {
    let body = whole.to_string();
    let events = reframed(provider, &body, EVENTS).unwrap();
    assert!(events.content_type.starts_with("text/event-stream"));
    let text = String::from_utf8(events.body.to_vec()).unwrap();
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        assert!(
            data == "[DONE]" || serde_json::from_str::<Value>(data).is_ok(),
            "{data}"
        );
    }
    assert_eq!(&plain_of(provider, &text), whole);
}

#[test]
fn messages_go_there_and_back() {
    check_round(
        Provider::Anthropic,
        &json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": null,
            "content": [
                {"type": "thinking", "thinking": "hm\n\"so\"", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xx"},
                {"type": "text", "text": "Grüße \u{1f680} \\ \"quoted\"\nnext", "citations": [{"type": "char_location", "cited_text": "a"}]},
                {"type": "text", "text": ""},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/a b", "n": [1, 2.50]}},
                {"type": "tool_use", "id": "t2", "name": "Now", "input": {}},
            ],
            "stop_reason": "tool_use", "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 9},
        }),
    );
}

#[test]
fn completions_go_there_and_back() {
    check_round(
        Provider::OpenAiChat,
        &json!({
            "id": "c1", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": "fp",
            "choices": [
                {"index": 0, "logprobs": null, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "refusal": null,
                    "tool_calls": [
                        {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
                        {"id": "t2", "type": "function", "function": {"name": "g", "arguments": ""}},
                    ]}},
                {"index": 1, "finish_reason": "stop", "logprobs": {"content": [{"token": "a", "logprob": -0.5}], "refusal": null},
                    "message": {"role": "assistant", "content": "other"}},
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        }),
    );
}

#[test]
fn responses_go_there_and_back() {
    check_round(
        Provider::OpenAiResponses,
        &json!({
            "id": "resp_1", "object": "response", "status": "completed", "model": "m", "incomplete_details": null,
            "output": [
                {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "think"}], "encrypted_content": "e"},
                {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hi", "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []}]},
                {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "t1", "name": "f", "arguments": "{}"},
                {"id": "ct_1", "type": "custom_tool_call", "status": "completed", "call_id": "t2", "name": "patch", "input": "*** Begin"},
            ],
            "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        }),
    );
}

#[test]
fn gemini_goes_there_and_back_in_both_streams() {
    let whole = json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "why", "thought": true}, {"text": "Hi"},
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "s"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}, "modelVersion": "g", "responseId": "r",
    });
    check_round(Provider::Gemini, &whole);
    let array = reframed(
        Provider::Gemini,
        &serde_json::to_string_pretty(&whole).unwrap(),
        Framing::Array,
    )
    .unwrap();
    let text = String::from_utf8(array.body.to_vec()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!([whole]));
    let events = reframed(Provider::Gemini, &text, EVENTS).unwrap();
    let again = reframed(
        Provider::Gemini,
        std::str::from_utf8(&events.body).unwrap(),
        Framing::Array,
    )
    .unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&again.body).unwrap(), json!([whole]));
}

#[test]
fn pieces_of_a_gemini_text_are_one_text() {
    let chunk = |part: &str, end: &str| {
        format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}],\"role\":\"model\"}}{end}}}]}}\n\n")
    };
    let events = [
        chunk(r#"{"text":"so","thought":true}"#, ""),
        chunk(r#"{"text":"Hel"}"#, ""),
        chunk(r#"{"text":"lo"}"#, r#","finishReason":"STOP""#),
    ]
    .concat();
    let parts = plain_of(Provider::Gemini, &events)["candidates"][0]["content"]["parts"].clone();
    assert_eq!(parts, json!([{"text": "so", "thought": true}, {"text": "Hello"}]));
}

#[test]
fn tokens_are_counted_in_a_chat_stream_for_who_asks() {
    let chunk = r#"data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}"#;
    let usage = r#"data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#;
    let (without, with) = (
        format!("{chunk}\n\ndata: [DONE]\n\n"),
        format!("{chunk}\n\n{usage}\n\ndata: [DONE]\n\n"),
    );
    let unasked = Framing::Events { counts_tokens: false };
    let provider = Provider::OpenAiChat;
    assert_eq!(reframed(provider, &with, unasked).unwrap().body, without);
    assert_eq!(reframed(provider, &with, EVENTS).unwrap().body, with);
    assert_eq!(reframed(provider, &without, unasked).unwrap().body, without);
    assert_eq!(
        reframed(provider, &without, EVENTS),
        None,
        "nobody knows how many there were"
    );
    assert_eq!(plain_of(provider, &with)["usage"]["total_tokens"], 2);
}

#[test]
fn what_is_not_complete_has_no_framing() {
    let started =
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n";
    let failed = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
    for framing in [PLAIN, EVENTS] {
        assert_eq!(reframed(Provider::Anthropic, started, framing), None);
        assert_eq!(reframed(Provider::Anthropic, failed, framing), None);
    }
}

fn complete_answers() -> Vec<(Provider, CapturedExchange)> {
    let mut files = fixtures().unwrap();
    files.extend(captures().unwrap().unwrap_or_default());
    let exchanges = files.into_iter().flat_map(|file| file.exchanges);
    let known = exchanges.filter_map(|exchange| {
        let endpoint = route(&exchange.path).endpoint;
        let counts = matches!(endpoint, ropewalk_wire::provider::Endpoint::CountTokens(_));
        let provider = endpoint.provider().filter(|_| !counts && !exchange.cut_off)?;
        Some((provider, exchange))
    });
    known
        .filter(|(provider, exchange)| {
            let status = exchange.status.unwrap_or(200);
            let content_type = exchange.response_headers.get("content-type").map(|kind| &**kind);
            let answer = decode(*provider, status, content_type, &exchange.response_body).response;
            answer.complete && answer.error.is_none()
        })
        .collect()
}

#[test]
fn every_recorded_answer_says_the_same_in_every_framing() {
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut done, mut verbatim) = (0, 0);
    for (provider, exchange) in complete_answers() {
        let content_type = exchange.response_headers.get("content-type").map(|kind| &**kind);
        let body = Bytes::from(exchange.response_body.clone());
        for framing in [PLAIN, EVENTS] {
            match reframe(provider, content_type, &body, framing) {
                Some(reframed) => {
                    done += 1;
                    verbatim += usize::from(reframed.body == body);
                    if framing == PLAIN {
                        assert!(Doc::parse(&reframed.body).is_ok(), "{}", exchange.id);
                    }
                }
                None => refused
                    .entry(format!("{provider:?} {framing:?}"))
                    .or_default()
                    .push(exchange.id.clone()),
            }
        }
    }
    assert!(
        verbatim > 0 && done > 2 * verbatim - 1,
        "{done} done, {verbatim} verbatim"
    );
    assert!(refused.is_empty(), "{refused:?}");
}
