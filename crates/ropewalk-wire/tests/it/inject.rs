//! What is appended to a user's texts, byte for byte, in every provider's format.

use ropewalk_core::model::Provider;
use ropewalk_wire::inject::{UserText, append, user_texts};

const ADDED: &str = "\n\n<pkb_item ref=\"@conv_x_msg_1\">from x #1 (user):\né \"quoted\" <\\/pkb_item</pkb_item>";
const WRITTEN: &str = r#"\n\n<pkb_item ref=\"@conv_x_msg_1\">from x #1 (user):\né \"quoted\" <\\/pkb_item</pkb_item>"#;
const WRITTEN_ASCII: &str =
    r#"\n\n<pkb_item ref=\"@conv_x_msg_1\">from x #1 (user):\n\u00e9 \"quoted\" <\\/pkb_item</pkb_item>"#;
const WRITTEN_HTML: &str = r#"\n\n\u003cpkb_item ref=\"@conv_x_msg_1\"\u003efrom x #1 (user):\né \"quoted\" \u003c\\/pkb_item\u003c/pkb_item\u003e"#;

fn texts(provider: Provider, body: &str) -> Vec<UserText<'_>> {
    let has_reference = |literal: &[u8]| memchr::memmem::find(literal, b"@conv").is_some();
    user_texts(provider, body.as_bytes(), has_reference).unwrap()
}

/// The body with the text behind every text that has a reference.
fn injected(provider: Provider, body: &str) -> String {
    let texts = texts(provider, body);
    let additions: Vec<_> = texts.iter().map(|text| (text, ADDED)).collect();
    String::from_utf8(append(body.as_bytes(), &additions)).unwrap()
}

/// `HERE` is where the addition is expected.
fn check(provider: Provider, body: &str) {
    check_as(provider, body, WRITTEN);
}

fn check_as(provider: Provider, body: &str, written: &str) {
    let sent = body.replace("HERE", "");
    assert_eq!(injected(provider, &sent), body.replace("HERE", written));
}

#[test]
fn anthropic_strings_and_blocks_with_and_without_cache_control() {
    for body in [
        r#"{"model":"m","messages":[{"role":"user","content":"see @conv_x_msg_1HERE"}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"see @conv_x_msg_1HERE"}]}],"model":"m"}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"see @conv_x_msg_1HERE","cache_control":{"type":"ephemeral"}}]}]}"#,
        r#"{ "messages" : [ {"content": [ {"cache_control":{"type":"ephemeral","ttl":"1h"}, "text" : "@conv_x_msg_1HERE" , "type":"text"} ] , "role" : "user"} ] }"#,
        // Several, in order, with everything between them untouched.
        r#"{"messages":[{"role":"user","content":"a @conv_x_msg_1HERE"},{"role":"assistant","content":"@conv_x_msg_1"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"@conv_x_msg_1 \\ \u00e9HERE"}]}],"temperature":1.0}"#,
    ] {
        // The last body's own literal escapes what it could have written, so its addition does as well.
        match body.contains("u00e9") {
            true => assert_eq!(
                injected(Provider::Anthropic, &body.replace("HERE", "")),
                body.replacen("HERE", WRITTEN_ASCII, 1)
                    .replacen("HERE", WRITTEN_ASCII, 1)
            ),
            false => check(Provider::Anthropic, body),
        }
    }
}

#[test]
fn chat_completions_strings_and_parts_with_and_without_cache_control() {
    for body in [
        r#"{"model":"m","messages":[{"role":"system","content":"@conv_x_msg_1"},{"role":"user","content":"@conv_x_msg_1HERE"}]}"#,
        r#"{"messages":[{"role":"developer","content":"@conv_x_msg_1"},{"role":"user","name":"ann","content":[{"type":"text","text":"@conv_x_msg_1HERE"}]}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"@conv_x_msg_1HERE","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"@conv_x_msg_1"}}]}]}"#,
        r#"{"messages":[{"role":"tool","tool_call_id":"t","content":"@conv_x_msg_1"},{"role":"user","content":"@conv_x_msg_1HERE"}]}"#,
    ] {
        check(Provider::OpenAiChat, body);
    }
}

#[test]
fn responses_strings_items_and_parts() {
    for body in [
        r#"{"model":"m","input":"@conv_x_msg_1HERE","instructions":"@conv_x_msg_1"}"#,
        r#"{"input":[{"role":"user","content":"@conv_x_msg_1HERE"}]}"#,
        r#"{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"@conv_x_msg_1HERE"}]}],"previous_response_id":"r"}"#,
        r#"{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"@conv_x_msg_1HERE","cache_control":{"type":"ephemeral"}}]},{"type":"function_call_output","call_id":"c","output":"@conv_x_msg_1"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"@conv_x_msg_1"}]},{"type":"message","role":"developer","content":"@conv_x_msg_1"}]}"#,
    ] {
        check(Provider::OpenAiResponses, body);
    }
}

#[test]
fn gemini_parts_with_and_without_a_role() {
    for body in [
        r#"{"contents":[{"role":"user","parts":[{"text":"@conv_x_msg_1HERE"}]}],"systemInstruction":{"parts":[{"text":"@conv_x_msg_1"}]}}"#,
        r#"{"contents":[{"parts":[{"text":"@conv_x_msg_1HERE"},{"inlineData":{"mimeType":"t","data":"@conv_x_msg_1"}}]}]}"#,
        r#"{"cachedContent":"c","contents":[{"role":"model","parts":[{"text":"@conv_x_msg_1"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"text":"@conv_x_msg_1"}}},{"text":"@conv_x_msg_1HERE"}]}]}"#,
    ] {
        check(Provider::Gemini, body);
    }
}

#[test]
fn never_into_tool_results_system_prompts_documents_or_answers() {
    for (provider, body) in [
        (
            Provider::Anthropic,
            r#"{"system":"@conv_x_msg_1","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"@conv_x_msg_1"},{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"@conv_x_msg_1"}]},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"@conv_x_msg_1"},"title":"@conv_x_msg_1"}]},{"role":"assistant","content":"@conv_x_msg_1"},{"role":"system","content":"@conv_x_msg_1"}],"metadata":{"user_id":"@conv_x_msg_1"}}"#,
        ),
        (
            Provider::Anthropic,
            r#"{"system":[{"type":"text","text":"@conv_x_msg_1"}],"tools":[{"name":"t","description":"@conv_x_msg_1"}],"messages":"@conv_x_msg_1"}"#,
        ),
        (
            Provider::OpenAiResponses,
            r#"{"input":{"role":"user","content":"@conv_x_msg_1"}}"#,
        ),
        (
            Provider::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"text":1,"x":"@conv_x_msg_1"}]}]}"#,
        ),
        (Provider::OpenAiChat, r#"["@conv_x_msg_1"]"#),
    ] {
        assert_eq!(injected(provider, body), body);
    }
}

#[test]
fn escapes_like_the_rest_of_the_body() {
    // As Python does, shown elsewhere in the body.
    check_as(
        Provider::Anthropic,
        r#"{"system":"caf\u00e9","messages":[{"role":"user","content":"@conv_x_msg_1HERE"}]}"#,
        WRITTEN_ASCII,
    );
    // As Go does, shown in the text itself.
    check_as(
        Provider::Anthropic,
        r#"{"messages":[{"role":"user","content":"a \u003c b @conv_x_msg_1HERE"}]}"#,
        WRITTEN_HTML,
    );
    // As JavaScript does, shown by a letter that is not escaped.
    check(
        Provider::Anthropic,
        r#"{"system":"caf\u00e9","messages":[{"role":"user","content":"é @conv_x_msg_1HERE"}]}"#,
    );
}

#[test]
fn a_text_comes_back_with_what_was_added() {
    let body = r#"{"messages":[{"role":"user","content":"l\u00efne\n@conv_x_msg_1 \ud83d\ude00"}]}"#;
    let sent = injected(Provider::Anthropic, body);
    let value: serde_json::Value = serde_json::from_str(&sent).unwrap();
    let text = value["messages"][0]["content"].as_str().unwrap();
    assert_eq!(text, format!("lïne\n@conv_x_msg_1 😀{ADDED}"));
}

#[test]
fn what_is_no_json_is_an_error_and_no_panic() {
    for body in [
        &b"{"[..],
        b"",
        b"\xff",
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"@conv",
    ] {
        assert!(user_texts(Provider::Anthropic, body, |_| true).is_err());
    }
}
