//! Single claims about whole bodies.

use ropewalk_core::model::{Block, MediaKind, Provider, ToolInput};

use super::*;

const JSON: Option<&str> = Some("application/json");

#[track_caller]
fn blocks(provider: Provider, body: &str) -> Vec<Block> {
    let response = decode_response(provider, 200, JSON, body.as_bytes());
    assert!(response.complete, "{response:?}");
    response.blocks
}

#[test]
fn error_bodies_of_every_provider_are_errors() {
    for (provider, body, kind, message) in [
        (
            Provider::Anthropic,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#,
            "rate_limit_error",
            "slow",
        ),
        (
            Provider::OpenAiChat,
            r#"{"error":{"message":"slow","type":"requests","code":"rate"}}"#,
            "requests",
            "slow",
        ),
        (Provider::OpenAiChat, r#"{"error":"slow"}"#, "error", "slow"),
        (
            Provider::OpenAiResponses,
            r#"{"error":{"message":"slow","type":null,"code":"rate"}}"#,
            "rate",
            "slow",
        ),
        (Provider::OpenAiResponses, r#"{"detail":"slow"}"#, "http_429", "slow"),
        (
            Provider::Gemini,
            r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}"#,
            "RESOURCE_EXHAUSTED",
            "slow",
        ),
        (
            Provider::Gemini,
            r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]"#,
            "RESOURCE_EXHAUSTED",
            "slow",
        ),
        (
            Provider::Anthropic,
            "<html>busy</html>",
            "http_429",
            "<html>busy</html>",
        ),
    ] {
        let response = decode_response(provider, 429, JSON, body.as_bytes());
        let error = response.error.unwrap();
        assert_eq!((&*error.kind, &*error.message), (kind, message), "{body}");
        assert!(!response.complete && response.blocks.is_empty());
    }
}

#[test]
fn bodies_that_are_no_json_are_described_in_short() {
    let page = format!("<html>{}", "é".repeat(10_000));
    let response = decode_response(Provider::Anthropic, 200, JSON, page.as_bytes());
    let error = response.error.unwrap();
    assert_eq!(&*error.kind, "unreadable_body");
    assert!(error.message.chars().count() < 2 * EXCERPT_CHARS);
    let events = Some("text/event-stream");
    let mislabelled = decode_response(Provider::Anthropic, 200, events, page.as_bytes());
    assert_eq!(
        mislabelled.error.map(|error| error.kind),
        Some("unreadable_body".into())
    );
    let cut = decode_response(Provider::Anthropic, 200, events, b"event: message_st");
    assert_eq!(cut, Response::default());
    let empty = decode_response(Provider::Gemini, 200, None, b" \n");
    assert_eq!(empty.error.map(|error| error.kind), Some("empty_body".into()));
    assert!(!empty.complete);
}

#[test]
fn a_failed_call_is_never_complete() {
    let body = br#"{"content":[{"type":"text","text":"hi"}]}"#;
    assert!(decode_response(Provider::Anthropic, 200, JSON, body).complete);
    assert!(!decode_response(Provider::Anthropic, 500, JSON, body).complete);
}

#[test]
fn a_count_of_tokens_is_complete_and_costs_nothing() {
    let response = decode_response(Provider::Anthropic, 200, JSON, br#"{"input_tokens": 20}"#);
    assert!(response.complete && response.usage.is_none() && response.error.is_none());
}

#[test]
fn streams_are_found_without_their_content_type() {
    let stream = b": hello\n\ndata: {\"type\":\"message_stop\"}\n\n";
    assert!(decode_response(Provider::Anthropic, 200, None, stream).complete);
    let array = br#"[{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}]"#;
    assert!(decode_response(Provider::Gemini, 200, JSON, array).complete);
}

#[test]
fn chat_calls_of_every_kind_are_calls() {
    let body = r#"{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[
        {"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
        {"id":"2","type":"function","function":{"name":"g","arguments":"no json"}},
        {"id":"3","type":"custom","custom":{"name":"h","input":"text"}}],
        "function_call":{"name":"old","arguments":"{}"}}}]}"#;
    let found = blocks(Provider::OpenAiChat, body);
    let inputs: Vec<_> = found
        .into_iter()
        .map(|block| match block {
            Block::ToolUse(call) => (call.name.into_string(), call.input),
            other => panic!("{other:?}"),
        })
        .collect();
    let json = |text: &str| ToolInput::Json(text.into());
    let text = |text: &str| ToolInput::Text(text.into());
    let expected = [
        ("f", json("{\"a\": 1}")),
        ("g", text("no json")),
        ("h", text("text")),
        ("old", json("{}")),
    ];
    assert_eq!(inputs, expected.map(|(name, input)| (name.to_owned(), input)));
}

#[test]
fn responses_items_become_blocks_with_their_ids() {
    let body = r#"{"id":"r","status":"completed","usage":{"input_tokens":1},"output":[
        {"id":"a","type":"reasoning","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"e"},
        {"id":"b","type":"web_search_call","status":"completed"},
        {"id":"c","type":"message","phase":"final","content":[{"type":"output_text","text":"hi","annotations":[{"n":1}]}]}]}"#;
    let response = decode_response(Provider::OpenAiResponses, 200, JSON, body.as_bytes());
    assert_eq!(response.item_ids, [("a".into(), 0), ("b".into(), 1), ("c".into(), 2)]);
    assert_eq!(response.usage.map(|usage| usage.web_searches), Some(1));
    assert_eq!(
        response.blocks,
        [
            Block::Thinking {
                text: "one\ntwo".into(),
                kind: "reasoning".into(),
                extra: Some(r#"{"encrypted_content":"e"}"#.into()),
            },
            Block::Other {
                kind: "web_search_call".into(),
                json: r#"{"type":"web_search_call"}"#.into(),
            },
            Block::Text {
                text: "hi".into(),
                extra: Some(r#"{"annotations":[{"n":1}],"phase":"final"}"#.into()),
            },
        ]
    );
    let queued = br#"{"id":"r","status":"queued","output":[]}"#;
    assert!(!decode_response(Provider::OpenAiResponses, 200, JSON, queued).complete);
}

#[test]
fn gemini_parts_become_blocks() {
    let body = r#"{"candidates":[{"finishReason":"STOP","content":{"parts":[
        {"text":"a","thought":true},{"text":"b"},{"text":"c","thoughtSignature":"s"},{"text":"d"},
        {"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"functionCall":{"name":"f"}}]}}]}"#;
    let found = blocks(Provider::Gemini, body);
    let text = |text: &str, extra: Option<&str>| Block::Text {
        text: text.into(),
        extra: extra.map(Box::from),
    };
    assert_eq!(
        found[1..3],
        [text("bc", Some(r#"{"thoughtSignature":"s"}"#)), text("d", None)]
    );
    assert!(matches!(&found[0], Block::Thinking { text, .. } if &**text == "a"));
    assert!(matches!(&found[3], Block::Media(media) if media.kind == MediaKind::Image));
    assert!(matches!(&found[4], Block::ToolUse(call) if call.input == ToolInput::Json("{}".into())));
}
