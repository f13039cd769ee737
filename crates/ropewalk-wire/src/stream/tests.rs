//! Single claims about streams; the properties are in `tests/it`.

use ropewalk_core::model::{Block, Provider, Response, ToolInput};

use super::*;

#[track_caller]
fn streamed(provider: Provider, events: &[&str]) -> Response {
    let mut accumulator = Accumulator::new(provider);
    for event in events {
        accumulator.push(format!("data: {event}\n\n").as_bytes());
    }
    accumulator.finish().response
}

fn extra_of(block: &Block) -> &str {
    match block {
        Block::Text { extra, .. } | Block::Thinking { extra, .. } => extra.as_deref().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn anthropic_signatures_citations_and_unknown_deltas_survive() {
    let response = streamed(
        Provider::Anthropic,
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"url":"u"}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"glow_delta","glow":7}}"#,
        ],
    );
    assert_eq!(extra_of(&response.blocks[0]), r#"{"signature":"abc"}"#);
    assert_eq!(
        extra_of(&response.blocks[1]),
        r#"{"citations":[{"url":"u"}],"deltas":[{"type":"glow_delta","glow":7}]}"#
    );
    assert!(!response.complete);
}

#[test]
fn anthropic_blocks_of_unknown_kinds_keep_their_streamed_input() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#;
    let delta = |text: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{text}"}}}}"#
        )
    };
    let json_of = |events: &[&str]| match &streamed(Provider::Anthropic, events).blocks[..] {
        [Block::Other { kind, json }] => {
            assert_eq!(&**kind, "server_tool_use");
            json.to_string()
        }
        other => panic!("{other:?}"),
    };
    let (first, second) = (delta(r#"{\"q\":"#), delta("1}"));
    assert_eq!(
        json_of(&[start, &first, &second]),
        r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}}"#
    );
    assert_eq!(
        json_of(&[start, &first]),
        r#"{"type":"server_tool_use","id":"s","name":"web_search","input":"{\"q\":"}"#
    );
}

#[test]
fn a_cut_call_keeps_what_arrived_as_text() {
    let input_of = |provider, events: &[&str]| match streamed(provider, events).blocks.pop() {
        Some(Block::ToolUse(call)) => call.input,
        other => panic!("{other:?}"),
    };
    let anthropic_start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"Bash","input":{}}}"#;
    let anthropic_delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let text = |text: &str| ToolInput::Text(text.into());
    assert_eq!(
        input_of(Provider::Anthropic, &[anthropic_start, anthropic_delta]),
        text("{\"a\":")
    );
    assert_eq!(input_of(Provider::Anthropic, &[anthropic_start]), text(""));
    assert_eq!(
        input_of(Provider::Anthropic, &[anthropic_start, stop]),
        ToolInput::Json("{}".into())
    );
    let chat = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a"}}]}}]}"#;
    assert_eq!(input_of(Provider::OpenAiChat, &[chat]), text("{\"a"));
    let item = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#;
    let delta = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a"}"#;
    assert_eq!(input_of(Provider::OpenAiResponses, &[item, delta]), text("{\"a"));
}

#[test]
fn anthropic_usage_takes_the_last_value_of_each_member() {
    let response = streamed(
        Provider::Anthropic,
        &[
            r#"{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":3,"cache_read_input_tokens":9,"output_tokens":1}}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20,"cache_read_input_tokens":null}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":42,"server_tool_use":{"web_search_requests":2}}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    );
    let usage = response.usage.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens), (3, 42));
    assert_eq!((usage.cache_read_tokens, usage.web_searches), (9, 2));
    assert_eq!(response.stop_reason.as_deref(), Some("end_turn"));
    assert!(response.complete);
}

#[test]
fn an_error_event_ends_the_answer_incomplete() {
    for (provider, event) in [
        (
            Provider::Anthropic,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        ),
        (
            Provider::OpenAiChat,
            r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#,
        ),
        (
            Provider::OpenAiResponses,
            r#"{"type":"error","code":"overloaded_error","message":"Overloaded"}"#,
        ),
        (
            Provider::Gemini,
            r#"{"error":{"code":503,"message":"Overloaded","status":"overloaded_error"}}"#,
        ),
    ] {
        let response = streamed(provider, &[event]);
        let error = response.error.unwrap();
        assert_eq!(&*error.message, "Overloaded", "{provider:?}");
        assert_eq!(&*error.kind, "overloaded_error", "{provider:?}");
        assert!(!response.complete);
    }
}

#[test]
fn chat_needs_its_done_and_keeps_other_choices_apart() {
    let mut accumulator = Accumulator::new(Provider::OpenAiChat);
    accumulator.push(
        b"data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"},\
        {\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\n\n",
    );
    assert!(!accumulator.is_complete());
    accumulator.push(b"data: [DONE]\n\n");
    let decoded = accumulator.finish();
    assert!(decoded.response.complete);
    assert_eq!(decoded.response.stop_reason.as_deref(), Some("length"));
    assert_eq!(decoded.response.blocks.len(), 1);
    assert_eq!(decoded.alternatives.len(), 1);
    assert_eq!(decoded.alternatives[0].index, 1);
}

#[test]
fn responses_end_in_three_ways() {
    let end = |kind: &str, rest: &str| {
        let event =
            format!(r#"{{"type":"response.{kind}","response":{{"id":"r","status":"{kind}","output":[]{rest}}}}}"#);
        streamed(Provider::OpenAiResponses, &[&event])
    };
    assert!(end("completed", "").complete);
    let incomplete = end("incomplete", r#","incomplete_details":{"reason":"max_output_tokens"}"#);
    assert!(incomplete.complete);
    assert_eq!(incomplete.stop_reason.as_deref(), Some("max_output_tokens"));
    let failed = end("failed", r#","error":{"code":"server_error","message":"no"}"#);
    assert!(failed.complete);
    assert_eq!(failed.error.map(|error| error.kind), Some("server_error".into()));
}

#[test]
fn responses_done_bodies_win_over_deltas() {
    let response = streamed(
        Provider::OpenAiResponses,
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"i","type":"message","content":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"draft"}"#,
            r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"final"}"#,
        ],
    );
    assert_eq!(
        response.blocks,
        [Block::Text {
            text: "final".into(),
            extra: None
        }]
    );
    assert_eq!(response.item_ids, [("i".into(), 0)]);
}

#[test]
fn gemini_refused_prompts_are_whole_answers() {
    let response = streamed(Provider::Gemini, &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]);
    assert!(response.complete && response.blocks.is_empty());
    assert_eq!(response.stop_reason.as_deref(), Some("SAFETY"));
}

#[test]
fn a_plain_object_in_place_of_a_stream_is_read_as_a_body() {
    let mut accumulator = Accumulator::new(Provider::Anthropic);
    let body = br#"{"type":"error","error":{"type":"api_error","message":"no"}}"#;
    for byte in body.chunks(1) {
        accumulator.push(byte);
    }
    let response = accumulator.finish().response;
    assert_eq!(response.error.map(|error| error.kind), Some("api_error".into()));

    let mut accumulator = Accumulator::new(Provider::Anthropic);
    accumulator.push(br#"{"content":[{"type":"tool_use","id":"t","name":"Task","input":{}}]}"#);
    assert_eq!(accumulator.finished_tool_uses()[0].id.as_deref(), Some("t"));
    assert!(accumulator.is_complete());
}

#[test]
fn deep_and_wide_deltas_stay_within_their_bounds() {
    let depth = ropewalk_core::json::MAX_DEPTH - 8;
    let deep = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let delta = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a","x":{deep}}}}}]}}"#);
    let response = streamed(Provider::OpenAiChat, &[&delta, &delta, "[DONE]"]);
    assert!(response.complete);
    let wide: Vec<String> = (0..2_000)
        .map(|i| format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a","k{i}":1}}}}]}}"#))
        .collect();
    let events: Vec<&str> = wide.iter().map(String::as_str).collect();
    let response = streamed(Provider::OpenAiChat, &events);
    assert!(matches!(&response.blocks[..], [Block::Text { text, .. }] if text.len() == 2_000));
}
