//! Statuses, kinds, models, cost and texts of hand-made exchanges.

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::cost::BundledPrices;
use ropewalk_core::hash::sha256;
use ropewalk_core::model::ChainStart;
use ropewalk_engine::prepare::KIND_OPAQUE;
use ropewalk_engine::{RawExchange, Witness, prepare};
use ropewalk_store::facts::{Spawn, Status, TextSource};
use ropewalk_store::{Micros, NewExchange};

pub(crate) fn raw(path: &str, request: &str, response: Option<(u16, &str)>) -> RawExchange {
    RawExchange {
        id: "x-1".to_owned(),
        at: Micros(1_767_225_600_000_000),
        ended_at: response.map(|_| Micros(1_767_225_601_000_000)),
        spawned_at: Vec::new(),
        method: "POST".to_owned(),
        path: path.to_owned(),
        request_headers: Vec::new(),
        request_body: Bytes::copy_from_slice(request.as_bytes()),
        sent_body: None,
        names: Default::default(),
        status: response.map(|(status, _)| status),
        response_headers: Vec::new(),
        response_body: response.map(|(_, body)| Bytes::copy_from_slice(body.as_bytes())),
        cut_off: false,
        witness: Witness::default(),
        provenance: None,
    }
}

pub(crate) fn prepared(raw: &RawExchange) -> NewExchange {
    prepare(raw, None, &BundledPrices).exchange
}

const ASK: &str = r#"{"model":"claude-opus-4-1","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}"#;
pub(crate) const ANSWER: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-1","content":[{"type":"text","text":"Hi!"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}"#;

#[test]
fn a_status_says_how_it_ended() {
    let status = |response| prepared(&raw("/v1/messages", ASK, response)).status;
    assert_eq!(status(None), Status::Pending);
    assert_eq!(status(Some((200, ANSWER))), Status::Complete);
    assert_eq!(
        status(Some((
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#
        ))),
        Status::Error
    );
    assert_eq!(
        status(Some((
            200,
            r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#
        ))),
        Status::Error
    );
    let started =
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"content\":[]}}\n\n";
    assert_eq!(status(Some((200, started))), Status::Truncated);
    let mut cut_off = raw("/v1/messages", ASK, Some((200, ANSWER)));
    cut_off.cut_off = true;
    assert_eq!(prepared(&cut_off).status, Status::Truncated);
}

#[test]
fn an_answer_continues_the_chain_of_its_request() {
    let exchange = prepared(&raw("/v1/messages", ASK, Some((200, ANSWER))));
    let golden = "v1:94b00a5da4997b87260accfe4a61f84d8f02758a8ba21763867838adef3dbdb1";
    assert_eq!(exchange.request_chain.len(), 1);
    assert_eq!(exchange.answer_chain.last().unwrap().node.to_string(), golden);
    assert_eq!(exchange.cost_nano_usd, Some(10 * 15_000 + 5 * 75_000));
    assert_eq!(exchange.model.as_deref(), Some("claude-opus-4-1"));
    let failed = prepared(&raw("/v1/messages", ASK, Some((500, ANSWER))));
    assert!(failed.answer_chain.is_empty());
}

#[test]
fn an_answer_tells_whom_it_starts_and_when() {
    let response = r#"{"id":"msg_1","content":[{"type":"text","text":"I ask"},
        {"type":"tool_use","id":"t1","name":"Task","input":{"subagent_type":"scout","prompt":" look \n"}},
        {"type":"tool_use","id":"t2","name":"Read","input":{"path":"x"}},
        {"type":"tool_use","id":"t3","name":"Task","input":{}}],"stop_reason":"tool_use"}"#;
    let mut raw = raw("/v1/messages", ASK, Some((200, response)));
    raw.spawned_at = vec![("t1".to_owned(), Micros(raw.at.0 + 7))];
    let spawns = prepared(&raw).spawns;
    let expected = [
        Spawn {
            index: 0,
            call: Some("t1".to_owned()),
            name: Some("scout".to_owned()),
            prompt: Some(sha256(b"look")),
            at: Micros(raw.at.0 + 7),
        },
        Spawn {
            index: 1,
            call: Some("t3".to_owned()),
            name: None,
            prompt: None,
            at: raw.ended_at.unwrap(),
        },
    ];
    assert_eq!(spawns, expected);
    // Without an end it counts from the start, and an error starts nobody.
    raw.ended_at = None;
    assert_eq!(prepared(&raw).spawns[1].at, raw.at);
    raw.status = Some(500);
    assert_eq!(prepared(&raw).spawns, []);
}

#[test]
fn what_cannot_be_read_is_kept_as_it_came() {
    for (path, request) in [
        ("/v1/messages", "no json"),
        ("/v1/messages", ""),
        ("/v1/messages", "[1]"),
        ("/v1/embeddings", r#"{"input":"x"}"#),
        ("/", ""),
    ] {
        let exchange = prepared(&raw(path, request, Some((404, "not found"))));
        assert_eq!(
            (&*exchange.kind, exchange.status),
            (KIND_OPAQUE, Status::Error),
            "{path}"
        );
        assert_eq!(exchange.start, chain::root(&ChainStart::Root));
        assert_eq!(exchange.request.length, request.len() as u64);
        assert!(exchange.request_chain.is_empty() && exchange.hashes.is_empty());
    }
    assert_eq!(prepared(&raw("/v1/embeddings", "{}", None)).provider, "openai");
    assert_eq!(prepared(&raw("/", "", None)).provider, "unknown");
}

#[test]
fn a_token_count_is_no_answer() {
    let exchange = prepared(&raw(
        "/v1/messages/count_tokens",
        ASK,
        Some((200, r#"{"input_tokens":7}"#)),
    ));
    assert_eq!((&*exchange.kind, exchange.status), ("count_tokens", Status::Complete));
    assert!(exchange.answer_chain.is_empty() && exchange.usage.is_none());
}

#[test]
fn only_what_is_new_is_searched() {
    let request = r#"{"model":"m","messages":[
        {"role":"user","content":"old question"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"path":"old"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"new result"},
            {"type":"text","text":"<system-reminder>always</system-reminder>new question"}]},
        {"role":"system","content":"context"}]}"#;
    let response = r#"{"id":"msg_1","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"new answer"},
        {"type":"tool_use","id":"t2","name":"Write","input":{"content":"line\nline"}}],"stop_reason":"tool_use"}"#;
    let exchange = prepared(&raw("/v1/messages", request, Some((200, response))));
    let texts: Vec<_> = exchange.texts.iter().map(|text| (text.source, text.text())).collect();
    assert_eq!(
        texts,
        [
            (TextSource::ToolResult, "new result".to_owned()),
            (TextSource::User, "new question".to_owned()),
            (TextSource::Assistant, "new answer".to_owned()),
            (TextSource::ToolInput, "line\nline".to_owned()),
        ]
    );
}

#[test]
fn the_detail_is_json_with_the_reason_and_the_hints() {
    let mut raw = raw("/t/secret/p/site/v1/messages?beta=true", ASK, Some((200, ANSWER)));
    raw.request_headers = vec![("X-Claude-Code-Session-Id".to_owned(), "s-1".to_owned())];
    raw.spawned_at = vec![("toolu_1".to_owned(), Micros(7))];
    let exchange = prepared(&raw);
    let detail: serde_json::Value = serde_json::from_str(&exchange.detail).unwrap();
    assert_eq!(detail["path"], "/v1/messages?beta=true");
    assert_eq!(detail["method"], "POST");
    assert_eq!(detail["hints"]["session"], "s-1");
    assert_eq!(detail["spawned_at"]["toolu_1"], 7);
    assert_eq!(detail["kind_reason"], "no rule for helper calls applies");
    assert_eq!(detail["stop_reason"], "end_turn");
    assert_eq!(exchange.project.as_deref(), Some("site"));
    assert_eq!(exchange.session.as_deref(), Some("s-1"));
}

#[test]
fn hostile_words_are_bounded_and_clean() {
    let request = format!(r#"{{"model":"a\u0000{}","messages":[]}}"#, "m".repeat(10_000));
    let exchange = prepared(&raw("/v1/messages", &request, None));
    let model = exchange.model.unwrap();
    assert!(model.starts_with("a\u{fffd}m") && model.len() < 300, "{}", model.len());
    let gemini = prepared(&raw(
        "/v1beta/models/gemini-pro:generateContent",
        r#"{"contents":[]}"#,
        None,
    ));
    assert_eq!(
        (gemini.model.as_deref(), &*gemini.provider),
        (Some("gemini-pro"), "gemini")
    );
}
