use bytes::Bytes;

use super::*;
use crate::provider::route;
use crate::read_request;

fn read(provider: Provider, body: &str) -> RequestBody {
    read_request(provider, &Bytes::copy_from_slice(body.as_bytes()), None).unwrap()
}

/// The hash of a call by path and body, without headers.
fn hash(path: &str, body: &str) -> Option<[u8; 32]> {
    let route = route(path);
    let read = read(route.endpoint.provider().unwrap(), body);
    Essence::of(&read, &route, []).map(|essence| essence.hash())
}

#[track_caller]
fn check(path: &str, body: &str, equal: &[&str], other: &[&str]) {
    let first = hash(path, body).unwrap();
    for same in equal {
        assert_eq!(hash(path, same).unwrap(), first, "{same}");
    }
    for differs in other {
        assert_ne!(hash(path, differs), Some(first), "{differs}");
    }
}

#[test]
fn what_reaches_the_model_counts_and_nothing_else() {
    check(
        "/v1/messages",
        r#"{"model":"m","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}"#,
        &[
            r#"{"model":"m","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi"}],"stream":true}"#,
            r#"{ "messages" : [ {"role":"user","content":"Hi"} ], "temperature": 0, "model":"m","max_tokens":9}"#,
            r#"{"metadata":{"user_id":"x"},"model":"m","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}"#,
        ],
        &[
            r#"{"model":"n","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}"#,
            r#"{"model":"m","max_tokens":8,"temperature":0,"messages":[{"role":"user","content":"Hi"}]}"#,
            r#"{"model":"m","max_tokens":9,"temperature":0.0,"messages":[{"role":"user","content":"Hi"}]}"#,
            r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}"#,
            r#"{"model":"m","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi "}]}"#,
            r#"{"model":"m","max_tokens":9,"temperature":0,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":""}]}"#,
            r#"{"model":"m","max_tokens":9,"temperature":0,"system":"s","messages":[{"role":"user","content":"Hi"}]}"#,
            r#"{"model":"m","max_tokens":9,"temperature":0,"tools":[],"messages":[{"role":"user","content":"Hi"}]}"#,
            r#"{"model":"m","max_tokens":9,"temperature":0,"messages":{"role":"user","content":"Hi"}}"#,
        ],
    );
}

#[test]
fn a_list_is_told_from_its_only_element_and_from_none() {
    let of = |system: &str| format!(r#"{{"model":"m",{system}"messages":[{{"role":"user","content":"Hi"}}]}}"#);
    let all = [
        of(""),
        of(r#""system":[],"#),
        of(r#""system":"s","#),
        of(r#""system":["s"],"#),
        of(r#""system":["s",""],"#),
        of(r#""system":[["s"]],"#),
    ];
    for (at, one) in all.iter().enumerate() {
        let others: Vec<&str> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != at)
            .map(|(_, b)| &**b)
            .collect();
        check("/v1/messages", one, &[one], &others);
    }
}

#[test]
fn each_provider_has_members_that_its_models_do_not_see() {
    check(
        "/v1/chat/completions",
        r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#,
        &[
            r#"{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{"include_usage":true},"user":"u","safety_identifier":"s","prompt_cache_key":"k","metadata":{}}"#,
        ],
        &[r#"{"model":"m","messages":[{"role":"user","content":"Hi"}],"seed":1}"#],
    );
    check(
        "/v1/responses",
        r#"{"model":"m","input":"Hi"}"#,
        &[r#"{"model":"m","input":"Hi","stream":false,"prompt_cache_retention":"24h"}"#],
        &[
            r#"{"model":"m","input":"Hi","store":false}"#,
            r#"{"model":"m","input":"Hi","previous_response_id":"resp_1"}"#,
            r#"{"model":"m","input":["Hi"]}"#,
        ],
    );
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#;
    let generate = hash("/v1beta/models/g:generateContent?key=a", body);
    assert!(generate.is_some());
    assert_eq!(
        hash("/v1beta/models/g:streamGenerateContent?alt=sse&key=b", body),
        generate
    );
    assert_ne!(hash("/v1beta/models/h:generateContent", body), generate);
}

#[test]
fn the_place_and_the_features_count() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#;
    let first = hash("/v1/messages", body);
    assert_eq!(hash("/p/site/v1/messages", body), first);
    assert_ne!(hash("/v1/messages?beta=true", body), first);
    assert_ne!(hash("/u/gate/v1/messages", body), first);
    assert_eq!(hash("/v1/messages?api-version=3", body), None, "it is not recorded");
    assert_eq!(hash("/v1/messages/count_tokens", body), None);
    let (route, read) = (route("/v1/messages"), read(Provider::Anthropic, body));
    let with = |headers: &[(&'static str, &'static str)]| Essence::of(&read, &route, headers.iter().copied());
    assert_ne!(with(&[("Anthropic-Beta", "a")]), with(&[("anthropic-beta", "b")]));
    assert_eq!(
        with(&[("anthropic-beta", "a"), ("user-agent", "x")]),
        with(&[("Anthropic-Beta", "a")])
    );
    assert_eq!(with(&[("anthropic-beta", "a"), ("anthropic-beta", "a")]), None);
}

#[test]
fn what_is_no_whole_request_has_no_essence() {
    for body in [
        r#"{"model":"m"}"#,
        r#"{"model":"m","messages":[]}"#,
        r#"{"model":"m","model":"n","messages":[{"role":"user","content":"Hi"}]}"#,
    ] {
        assert_eq!(hash("/v1/messages", body), None, "{body}");
    }
}

#[test]
fn bytes_are_equal_where_hashes_are() {
    let essence = |body: &str| {
        let route = route("/v1/messages");
        let read = read(Provider::Anthropic, body);
        let essence = Essence::of(&read, &route, []).unwrap();
        let bytes = essence.to_bytes();
        assert_eq!(essence.hash(), ropewalk_core::hash::sha256(&bytes));
        assert!(essence.is(&bytes) && !essence.is(&bytes[1..]) && !essence.is(&bytes[..bytes.len() - 1]));
        assert!(!essence.is(&[&bytes[..], b"x"].concat()));
        (essence.hash(), bytes)
    };
    let one = essence(r#"{"model":"m","messages":[{"role":"user","content":"ab"},"c"]}"#);
    let same = essence(r#"{"stream":true,"model":"m","messages":[{"role":"user","content":"ab"},"c"]}"#);
    let other = essence(r#"{"model":"m","messages":[{"role":"user","content":"a"},"bc"]}"#);
    assert_eq!(one, same);
    assert!(one.0 != other.0 && one.1 != other.1);
}

#[test]
fn temperature_is_found_in_every_format() {
    let of = |provider, body: &str| temperature(&read(provider, body).request);
    assert_eq!(
        of(Provider::Anthropic, r#"{"temperature":0,"messages":["a"]}"#),
        Some(0.0)
    );
    assert_eq!(
        of(Provider::OpenAiChat, r#"{"temperature":0.7,"messages":["a"]}"#),
        Some(0.7)
    );
    assert_eq!(of(Provider::OpenAiResponses, r#"{"input":"a"}"#), None);
    for name in ["generationConfig", "generation_config"] {
        let body = format!(r#"{{"contents":[],"{name}":{{"temperature":0.0}}}}"#);
        assert_eq!(of(Provider::Gemini, &body), Some(0.0));
    }
}

#[test]
fn what_lies_elsewhere_is_volatile() {
    let anthropic = |content: &str| format!(r#"{{"messages":[{{"role":"user","content":[{content}]}}]}}"#);
    let image = |source: &str| anthropic(&format!(r#"{{"type":"image","source":{source}}}"#));
    for (provider, body, expected) in [
        (Provider::Anthropic, anthropic(r#"{"type":"text","text":"https://x"}"#), false),
        (Provider::Anthropic, image(r#"{"type":"base64","media_type":"image/png","data":"AA=="}"#), false),
        (Provider::Anthropic, image(r#"{"type":"url","url":"https://x/y.png"}"#), true),
        (Provider::Anthropic, image(r#"{"type":"file","file_id":"file_1"}"#), true),
        (
            Provider::Anthropic,
            anthropic(r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"url","url":"u"}}]}"#),
            true,
        ),
        (Provider::Anthropic, anthropic(r#"{"type":"container_upload","file_id":"f"}"#), true),
        (Provider::Anthropic, r#"{"messages":["a"],"tools":[{"type":"web_search_20250305","name":"web_search"}]}"#.into(), true),
        (Provider::Anthropic, r#"{"messages":["a"],"tools":[{"name":"web_search","input_schema":{}}]}"#.into(), false),
        (Provider::Anthropic, r#"{"messages":["a"],"tools":[{"type":"bash_20250124","name":"bash"}]}"#.into(), false),
        (Provider::OpenAiResponses, r#"{"input":"a","tools":[{"type":"file_search"}]}"#.into(), true),
        (Provider::OpenAiResponses, r#"{"input":"a","conversation":"conv_1"}"#.into(), true),
        (Provider::OpenAiResponses, r#"{"input":"a","previous_response_id":"resp_1"}"#.into(), false),
        (
            Provider::OpenAiChat,
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]}"#.into(),
            true,
        ),
        (
            Provider::OpenAiChat,
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}"#.into(),
            false,
        ),
        (
            Provider::Gemini,
            r#"{"contents":[{"role":"user","parts":[{"fileData":{"fileUri":"gs://x"}}]}]}"#.into(),
            true,
        ),
        (Provider::Gemini, r#"{"contents":[],"tools":[{"functionDeclarations":[],"googleSearch":{}}]}"#.into(), true),
        (Provider::Gemini, r#"{"contents":[],"tools":[{"functionDeclarations":[{"name":"f"}]}]}"#.into(), false),
    ] {
        assert_eq!(is_volatile(&read(provider, &body)), expected, "{body}");
    }
}
