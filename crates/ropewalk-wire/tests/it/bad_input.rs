//! Input that nobody should send: an error or an opaque part, never a panic, never a changed byte.

use bytes::Bytes;
use ropewalk_core::json::JsonError;
use ropewalk_core::model::{Block, Provider};
use ropewalk_testkit::part_store::PartStore;
use ropewalk_wire::{RequestBody, Split, read_request, split_response};

fn read(body: &[u8]) -> Result<RequestBody, JsonError> {
    read_request(Provider::Anthropic, &Bytes::copy_from_slice(body), None)
}

fn assert_comes_back(body: &[u8]) {
    let mut store = PartStore::default();
    let split = read(body).map_or_else(|_| Split::opaque(body), |read| read.split);
    for split in [split, split_response(body)] {
        let rope = store.store(split.all_parts(), split.pieces(), split.layout()).unwrap();
        assert!(store.load(&rope).unwrap() == body);
    }
}

#[test]
fn nesting_of_ten_thousand_is_refused_and_kept() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{{\"messages\":{}1{}}}", open.repeat(10_000), close.repeat(10_000));
        assert!(matches!(read(deep.as_bytes()), Err(JsonError::TooDeep { .. })));
        assert_comes_back(deep.as_bytes());
    }
}

#[test]
fn lone_surrogates_are_read_as_replacement_and_kept_as_sent() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{} \ud83d and \udc00"}}]}}"#,
        "long ".repeat(20)
    );
    let request = read(body.as_bytes()).unwrap().request;
    let Block::Text { text, .. } = &request.messages[0].blocks[0] else {
        panic!("a text block")
    };
    assert!(text.ends_with("\u{fffd} and \u{fffd}"));
    assert_comes_back(body.as_bytes());
}

#[test]
fn of_repeated_members_the_last_counts_and_all_are_kept() {
    let body = br#"{"model":"a","messages":[{"role":"user","content":"first"}],"model":"b","messages":[{"role":"user","role":"assistant","content":"second"}]}"#;
    let read = read(body).unwrap();
    assert_eq!(read.request.model.as_deref(), Some("b"));
    assert_eq!(read.request.messages.len(), 1);
    assert_eq!(read.request.messages[0].role.name(), "assistant");
    assert_eq!(read.nodes().len(), 1);
    assert_comes_back(body);
}

#[test]
fn long_integers_keep_their_digits() {
    let body = br#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"n":12345678901234567890123}}]}],"seed":12345678901234567890123}"#;
    let read = read(body).unwrap();
    assert_eq!(read.request.option("seed"), Some("12345678901234567890123"));
    assert_comes_back(body);
}

#[test]
fn nul_and_invalid_utf8_are_kept() {
    assert_comes_back(b"{\"messages\":[{\"role\":\"user\",\"content\":\"nul \0 and \\u0000 in a text of more than sixty-four bytes, yes\"}]}");
    assert!(matches!(
        read(b"{\"messages\":\"\xff\"}"),
        Err(JsonError::NotUtf8 { at: 13 })
    ));
    assert_comes_back(b"{\"messages\":\"\xff\"}");
    assert_comes_back(b"data: {\"delta\":\"\xff\"}\n\n");
    assert_comes_back(b"");
    assert_comes_back(b"\xef\xbb\xbf{}");
}

#[test]
fn a_body_of_thirty_two_megabytes_is_read_and_kept() {
    let text = "line of a long file that somebody pasted\\n".repeat(800_000);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    assert!(body.len() > 32_000_000);
    assert_eq!(read(body.as_bytes()).unwrap().nodes().len(), 1);
    assert_comes_back(body.as_bytes());
}

#[test]
fn wrong_shapes_are_no_reason_to_fail() {
    for body in [
        "[]",
        "null",
        "1",
        "\"text\"",
        "{}",
        r#"{"messages":null}"#,
        r#"{"messages":{}}"#,
        r#"{"messages":[]}"#,
        r#"{"messages":[1,"two",null,[],{}]}"#,
        r#"{"messages":[{"role":"user"}]}"#,
        r#"{"messages":[{"role":"alien","content":"x"}]}"#,
        r#"{"messages":[{"role":"user","content":[1,null,"s",{"type":"text"}]}]}"#,
        r#"{"system":{"a":1},"tools":[1,{}]}"#,
        r#"{"a":"\q","b":"\u12"}"#,
        r#"{"messages":[}"#,
        r#"{"a" 1}"#,
        r#"{"a":1,}"#,
    ] {
        assert_comes_back(body.as_bytes());
        for provider in crate::split::PROVIDERS {
            let _ = read_request(provider, &Bytes::copy_from_slice(body.as_bytes()), None);
        }
    }
}
