//! A skeleton says what the body said about model and tokens, and nothing of its text.

use ropewalk_core::model::Provider;
use ropewalk_wire::response::decode_response;
use ropewalk_wire::skeleton;

const SECRET: &str = "the text itself";

fn check(provider: Provider, content_type: &str, body: &str) {
    let whole = decode_response(provider, 200, Some(content_type), body.as_bytes());
    let kept = skeleton::of_response(provider, 200, Some(content_type), body.as_bytes());
    let read = decode_response(provider, 200, Some(content_type), kept.as_bytes());
    assert!(whole.usage.is_some(), "{body}");
    assert_eq!(read.usage, whole.usage, "{kept}");
    assert_eq!(read.model, whole.model, "{kept}");
    assert!(read.complete && read.blocks.is_empty(), "{kept}");
    assert!(body.contains(SECRET) && !kept.contains(SECRET), "{kept}");
}

#[test]
fn keeps_model_and_tokens_of_every_provider() {
    check(
        Provider::Anthropic,
        "application/json",
        r#"{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"the text itself"}],
            "stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5,"cache_read_input_tokens":7,
            "cache_creation_input_tokens":11,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":7}}}"#,
    );
    check(
        Provider::Anthropic,
        "text/event-stream; charset=utf-8",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\
         \"usage\":{\"input_tokens\":3,\"output_tokens\":1,\"cache_read_input_tokens\":2}}}\n\n\
         event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
         event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"the text itself\"}}\n\n\
         event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
         event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n\
         event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    );
    check(
        Provider::OpenAiChat,
        "application/json",
        r#"{"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"the text itself"}}],
            "usage":{"prompt_tokens":11,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":5},
            "completion_tokens_details":{"reasoning_tokens":2}}}"#,
    );
    check(
        Provider::OpenAiResponses,
        "text/event-stream",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"model\":\"m\",\
         \"output\":[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"the text itself\"}]}],\
         \"usage\":{\"input_tokens\":11,\"output_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":5}}}}\n\n",
    );
    check(
        Provider::Gemini,
        "application/json",
        r#"{"modelVersion":"m","candidates":[{"content":{"role":"model","parts":[{"text":"the text itself"}]},"finishReason":"STOP"}],
            "usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4,"cachedContentTokenCount":3,"thoughtsTokenCount":2}}"#,
    );
}

#[test]
fn an_error_keeps_its_kind_only() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"the text itself"}}"#;
    let kept = skeleton::of_response(Provider::Anthropic, 529, Some("application/json"), body.as_bytes());
    assert!(kept.contains("overloaded_error") && !kept.contains(SECRET), "{kept}");
}

#[test]
fn a_request_keeps_its_model() {
    assert_eq!(
        skeleton::of_request(br#"{"model":"a\"b","messages":["the text itself"]}"#),
        r#"{"model":"a\"b"}"#
    );
    assert_eq!(skeleton::of_request(b"no JSON"), "{}");
}
