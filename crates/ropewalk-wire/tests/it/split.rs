//! Splitting loses nothing, whatever the body, and a memo changes nothing but the time.

use bytes::Bytes;
use proptest::prelude::*;
use ropewalk_core::model::Provider;
use ropewalk_testkit::captures::{CaptureFile, captures, fixtures};
use ropewalk_testkit::conversation::Conversation;
use ropewalk_testkit::part_store::PartStore;
use ropewalk_wire::{Memo, RequestBody, Split, read_request, split_response};

pub(crate) const PROVIDERS: [Provider; 4] = [
    Provider::Anthropic,
    Provider::OpenAiChat,
    Provider::OpenAiResponses,
    Provider::Gemini,
];

pub(crate) fn provider_of(path: &str) -> Provider {
    if path.contains("/chat/completions") {
        Provider::OpenAiChat
    } else if path.contains("/responses") {
        Provider::OpenAiResponses
    } else if path.contains("/v1beta/") {
        Provider::Gemini
    } else {
        Provider::Anthropic
    }
}

/// Every exchange file there is: our own, and the recorded ones where they are at hand.
pub(crate) fn all_files() -> Vec<CaptureFile> {
    let mut files = fixtures().unwrap();
    files.extend(captures().unwrap().unwrap_or_default());
    files
}

/// Stores a split and checks that it gives the body back, through the rope as well.
fn assert_lossless(split: &Split, body: &[u8], store: &mut PartStore) {
    let rope = store.store(split.all_parts(), split.pieces(), split.layout()).unwrap();
    let joined = store.load(&rope).unwrap();
    assert!(
        joined == body,
        "{}\n{}",
        String::from_utf8_lossy(&joined),
        String::from_utf8_lossy(body)
    );
}

fn split_request(provider: Provider, body: &[u8]) -> Split {
    match read_request(provider, &Bytes::copy_from_slice(body), None) {
        Ok(read) => read.split,
        Err(_) => Split::opaque(body),
    }
}

fn check_request(body: &[u8]) {
    for provider in PROVIDERS {
        assert_lossless(&split_request(provider, body), body, &mut PartStore::default());
    }
}

fn check_response(body: &[u8]) {
    assert_lossless(&split_response(body), body, &mut PartStore::default());
}

#[test]
fn real_and_made_bodies_come_back_byte_for_byte() {
    let mut bodies = 0;
    for file in all_files() {
        let mut store = PartStore::default();
        for exchange in &file.exchanges {
            let provider = provider_of(&exchange.path);
            let split = split_request(provider, &exchange.request_body);
            assert_lossless(&split, &exchange.request_body, &mut store);
            assert_lossless(
                &split_response(&exchange.response_body),
                &exchange.response_body,
                &mut store,
            );
            bodies += 2;
        }
    }
    assert!(bodies > 40);
}

#[test]
fn a_memo_changes_nothing_but_the_time() {
    for file in all_files() {
        let mut memos: Vec<Memo> = Vec::new();
        for exchange in &file.exchanges {
            let body = Bytes::from(exchange.request_body.clone());
            let provider = provider_of(&exchange.path);
            let Ok(cold) = read_request(provider, &body, None) else {
                continue;
            };
            for memo in &memos {
                assert_same(&read_request(provider, &body, Some(memo)).unwrap(), &cold, &body);
            }
            memos.push(cold.into_memo());
        }
    }
}

#[test]
fn a_memo_carried_through_a_whole_conversation_stays_exact() {
    let mut conversation = Conversation::new(3, 2_000);
    let mut memo: Option<Memo> = None;
    for _ in 0..60 {
        let body = Bytes::from(conversation.next_turn().request);
        let cold = read_request(Provider::Anthropic, &body, None).unwrap();
        let warm = read_request(Provider::Anthropic, &body, memo.as_ref()).unwrap();
        assert_same(&warm, &cold, &body);
        memo = Some(warm.into_memo());
    }
}

fn assert_same(warm: &RequestBody, cold: &RequestBody, body: &[u8]) {
    assert_eq!(warm.request, cold.request);
    assert_eq!(warm.nodes(), cold.nodes());
    assert!(warm.split.pieces().eq(cold.split.pieces()));
    assert_lossless(&warm.split, body, &mut PartStore::default());
}

#[test]
fn a_text_is_one_part_as_block_as_string_and_as_stream() {
    let text = "A text that is long enough to be a part of its own, with a \"quote\",\nlines and café.";
    let plain = text.replace('"', "\\\"").replace('\n', "\\n");
    let ascii = plain.replace('é', "\\u00e9");
    let block = format!(
        r#"{{"messages":[{{"role":"user","content":[{{"type":"text","text":"{plain}","cache_control":{{"type":"ephemeral"}}}}]}}]}}"#
    );
    let string = format!(r#"{{"messages":[{{"role":"user","content":"{ascii}"}}]}}"#);
    let (first, second) = plain.split_at(40);
    let stream: String = [first, second]
        .map(|delta| format!("data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{delta}\"}}}}\n\n"))
        .concat();
    let splits = [
        split_request(Provider::Anthropic, block.as_bytes()),
        split_request(Provider::Anthropic, string.as_bytes()),
        split_response(stream.as_bytes()),
    ];
    for split in &splits {
        assert_eq!(
            split
                .all_parts()
                .filter(|part| part.as_bytes() == text.as_bytes())
                .count(),
            1
        );
    }
}

/// JSON with the names and values that the splitters look for.
fn json_value() -> impl Strategy<Value = String> {
    let string = prop_oneof![
        "[a-z ]{0,8}",
        "\\PC{0,90}",
        Just("cache_control".to_owned()),
        "[ -~é–😀\n\t]{60,140}",
    ]
    .prop_map(|text| serde_json::to_string(&text).unwrap());
    let odd_string = prop_oneof![
        Just(r#""\ud800 lone, long enough to be a part if only it were a whole character""#.to_owned()),
        Just(r#""\/\u003c\u00e9 escapes that no encoder mixes, and long enough to be cut out of it""#.to_owned()),
        Just(r#""\u003cgo\u003e writes angle brackets like this, also in long texts that are cut""#.to_owned()),
        Just(r#""caf\u00e9 as Python writes it, in a text that is long enough to become a part""#.to_owned()),
    ];
    let number = prop_oneof![
        Just("0".to_owned()),
        Just("-1.50e+3".to_owned()),
        Just("12345678901234567890123".to_owned()),
    ];
    let leaf = prop_oneof![
        string,
        odd_string,
        number,
        Just("true".to_owned()),
        Just("null".to_owned())
    ];
    let space = prop_oneof![Just(""), Just(" "), Just("\n  ")];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        let key = prop_oneof![
            Just("role"),
            Just("content"),
            Just("type"),
            Just("text"),
            Just("messages"),
            Just("cache_control"),
            Just("system"),
            Just("tools"),
            Just("input"),
            Just("contents"),
            Just("parts"),
            Just("delta"),
            Just("id"),
            Just("name"),
            Just("tool_use_id"),
            Just("source"),
            Just("choices"),
            Just("sequence_number"),
        ];
        let kind = prop_oneof![
            Just("\"text\""),
            Just("\"tool_result\""),
            Just("\"tool_use\""),
            Just("\"image\""),
            Just("\"user\""),
            Just("\"assistant\""),
            Just("\"message\""),
            Just("\"function_call\""),
        ];
        let value = prop_oneof![3 => inner.clone(), 1 => kind.prop_map(str::to_owned)];
        let member = (key, value).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        prop_oneof![
            (proptest::collection::vec(inner, 0..6), space.clone())
                .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!(",{space}")))),
            (proptest::collection::vec(member, 0..6), space.clone())
                .prop_map(|(members, space)| format!("{{{space}{}{space}}}", members.join(&format!("{space},")))),
        ]
    })
}

fn event() -> impl Strategy<Value = String> {
    let end = prop_oneof![4 => Just("\n\n"), 1 => Just("\r\n\r\n"), 1 => Just("\n")];
    let text = prop_oneof!["[a-zé\"\\\\ ]{0,30}", Just("\u{2028}<&>".to_owned())];
    let delta = (text, 0..3_u32, 0..5_u32, any::<bool>()).prop_map(|(text, index, number, ascii)| {
        let mut text = serde_json::to_string(&text).unwrap();
        if ascii {
            text = text.replace('é', "\\u00e9");
        }
        format!("data: {{\"type\":\"d\",\"sequence_number\":{number},\"index\":{index},\"delta\":{{\"text\":{text}}}}}")
    });
    let line = prop_oneof![
        6 => delta,
        1 => json_value().prop_map(|value| format!("data: {}", value.replace('\n', " "))),
        1 => Just(": comment".to_owned()),
        1 => Just("data: [DONE]".to_owned()),
        1 => "\\PC{0,20}",
    ];
    (line, end).prop_map(|(line, end)| line + end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn split_and_join_is_the_identity_on_any_bytes(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        check_request(&body);
        check_response(&body);
    }

    #[test]
    fn split_and_join_is_the_identity_on_any_json(value in json_value(), broken_at in any::<prop::sample::Index>()) {
        let body = format!("{{\"model\":\"m\",\"messages\":[{value}],\"system\":{value},\"input\":[{value}]}}");
        check_request(body.as_bytes());
        check_request(value.as_bytes());
        check_response(value.as_bytes());
        let at = broken_at.index(body.len());
        check_request(&body.as_bytes()[..at]);
    }

    #[test]
    fn split_and_join_is_the_identity_on_any_stream(events in proptest::collection::vec(event(), 0..20)) {
        let body = events.concat();
        check_response(body.as_bytes());
        check_response(format!("data: {body}").as_bytes());
    }

    #[test]
    fn a_memo_of_any_other_body_changes_nothing(first in json_value(), second in json_value()) {
        let body = |values: &[&str]| Bytes::from(format!("{{\"messages\":[{}],\"tools\":[{}]}}", values.join(","), values.join(",")));
        let before = body(&[&first, &second, &first]);
        let after = body(&[&first, &first, &second, &second]);
        for provider in PROVIDERS {
            let memo = read_request(provider, &before, None).unwrap().into_memo();
            let warm = read_request(provider, &after, Some(&memo)).unwrap();
            assert_same(&warm, &read_request(provider, &after, None).unwrap(), &after);
        }
    }
}
