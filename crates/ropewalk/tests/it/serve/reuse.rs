//! Calls that are answered from the store: when, with what, and what they cost.

use std::net::SocketAddr;

use http::StatusCode;
use ropewalk_testkit::postgres::PrivatePostgres;
use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Encoding, Framing, Gate, How, Upstream};
use serde_json::{Value, json};

use super::client::{Client, Seen};
use super::server::{Place, Server, wait_until};
use crate::store::TestStore;

const EXACT: (&str, &str) = ("x-ropewalk-reuse", "exact");
const REFRESH: (&str, &str) = ("x-ropewalk-reuse", "refresh");

/// Lets everything be reused, also what a model might answer otherwise.
const EVERYTHING: &str = "[[reuse.rules]]\nany_temperature = true\n";

async fn provider() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    upstream
}

/// A request to the Messages API, with members over the usual ones.
fn messages(text: &str, members: &Value) -> Value {
    let mut body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 64, "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &Value) -> Seen {
    let mut client = Client::connect(address).await.unwrap();
    client.post(path, headers, body.to_string()).await.unwrap()
}

async fn ask(server: &Server, body: &Value) -> Seen {
    post(server.address, "/v1/messages", &[EXACT], body).await
}

fn is_hit(seen: &Seen) -> bool {
    seen.headers.get("x-ropewalk-reuse").is_some_and(|value| value == "hit")
}

/// A server whose store can be asked.
async fn serve(place: &Place) -> Server {
    let server = place.serve();
    let deadline = std::time::Instant::now() + super::server::PATIENCE;
    loop {
        let ready = Client::connect(server.address)
            .await
            .unwrap()
            .get("/readyz")
            .await
            .unwrap();
        if ready.status == StatusCode::OK {
            return server;
        }
        assert!(std::time::Instant::now() < deadline, "{}", ready.text());
        tokio::time::sleep(super::server::POLL).await;
    }
}

async fn metric(address: SocketAddr, name: &str) -> u64 {
    let text = Client::connect(address)
        .await
        .unwrap()
        .get("/metrics")
        .await
        .unwrap()
        .text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

async fn wait_for_metric(address: SocketAddr, name: &str, expected: u64) {
    let deadline = std::time::Instant::now() + super::server::PATIENCE;
    while metric(address, name).await != expected {
        assert!(std::time::Instant::now() < deadline, "{name} never is {expected}");
        tokio::time::sleep(super::server::POLL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_reused_unless_somebody_asks_for_it() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({}));
    for headers in [
        &[][..],
        &[],
        &[("x-ropewalk-reuse", "off")],
        &[("x-ropewalk-reuse", "what")],
    ] {
        let seen = post(server.address, "/v1/messages", headers, &body).await;
        assert!(!is_hit(&seen) && seen.status == StatusCode::OK);
    }
    assert_eq!(upstream.request_count(), 4);
    // A client can say no where a rule says yes.
    drop(server);
    place.configure(EVERYTHING);
    let server = serve(&place).await;
    let off = post(server.address, "/v1/messages", &[("x-ropewalk-reuse", "off")], &body).await;
    assert!(!is_hit(&off));
    assert_eq!(upstream.request_count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_is_an_exchange_of_its_own_that_costs_nothing() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Capital of France?", &json!({}));
    let first = ask(&server, &body).await;
    let soon = ask(&server, &body).await;
    assert!(!is_hit(&first) && is_hit(&soon));
    assert!(server.stop().is_recorded());
    // From the store, by a process that has never seen the answer.
    let server = serve(&place).await;
    let later = ask(&server, &body).await;
    assert!(is_hit(&later));
    assert_eq!((&soon.body, &later.body), (&first.body, &first.body));
    assert_eq!(later.headers["content-type"], first.headers["content-type"]);
    assert!(later.headers.get("x-ropewalk-reused-from").is_none());
    assert_eq!(upstream.request_count(), 1);
    let outcome = |name: &str| format!("ropewalk_reuse_total{{outcome=\"{name}\"}}");
    assert_eq!(metric(server.address, &outcome("hit")).await, 1);
    assert_eq!(metric(server.address, &outcome("miss")).await, 0);
    assert!(server.stop().is_recorded());

    let exchanges = place.exchanges();
    let ids: Vec<&str> = exchanges.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [first.id(), soon.id(), later.id()]);
    let reuse: Vec<&str> = exchanges.iter().map(|row| row["reuse"].as_str().unwrap()).collect();
    assert_eq!(reuse, ["stored", "hit", "hit"]);
    let cost = exchanges[0]["cost_usd"].as_f64().unwrap();
    assert!(cost > 0.0);
    for hit in &exchanges[1..] {
        assert_eq!(hit["cost_usd"], 0.0);
        assert_eq!(hit["usage"]["input_tokens"], Value::Null);
        assert_eq!(hit["status"], "complete");
        assert_eq!(hit["output_node"], exchanges[0]["output_node"]);
    }
    let stats = &place.store.json(&["stats"])[0];
    let of_model = &stats["models"]["claude-sonnet-4-5"];
    assert!((of_model["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12);
    assert_eq!(of_model["output_tokens"], exchanges[0]["usage"]["output_tokens"]);
    let reuse = &stats["reuse"];
    assert_eq!((&reuse["hits"], &reuse["misses"]), (&json!(2), &json!(1)));
    assert!((reuse["saved_usd"].as_f64().unwrap() - 2.0 * cost).abs() < 1e-12);
    assert_eq!(
        reuse["saved_output_tokens"].as_u64().unwrap(),
        2 * of_model["output_tokens"].as_u64().unwrap()
    );
    let said = place.store.ok(&["stats"]);
    assert!(said.contains("2 answers reused of 3 (67 %)"), "{said}");
    let shown = place.store.ok(&["show", &later.id()]);
    assert!(shown.contains("reused from") && shown.contains(&first.id()), "{shown}");
    check_the_same_after_export(&place, cost);
}

/// What was saved is not spent by whoever imports it.
fn check_the_same_after_export(place: &Place, cost: f64) {
    let lines = place.store.ok(&["export"]);
    let copy = TestStore::new();
    let file = copy.file("copy.exchanges.jsonl", &lines);
    copy.import(&file);
    let rows = copy.json(&["log", "--exchanges"]);
    let reuse: Vec<&str> = rows.iter().map(|row| row["reuse"].as_str().unwrap()).collect();
    assert_eq!(reuse, ["stored", "hit", "hit"]);
    let spent: f64 = rows.iter().map(|row| row["cost_usd"].as_f64().unwrap()).sum();
    assert!((spent - cost).abs() < 1e-12);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_reaches_the_model_has_to_be_equal() {
    let upstream = provider().await;
    let config = "[owners]\nmode = \"tokens\"\n[owners.tokens]\n\"ann-token\" = \"ann\"\n\"bob-token\" = \"bob\"\n";
    let place = Place::with(&upstream, config);
    let server = serve(&place).await;
    let ann = [EXACT, ("x-ropewalk-token", "ann-token")];
    let known = messages(
        "Hello",
        &json!({"system": "Be kind", "tools": [{"name": "Read", "input_schema": {}}]}),
    );
    assert!(!is_hit(&post(server.address, "/v1/messages", &ann, &known).await));
    assert!(is_hit(&post(server.address, "/v1/messages", &ann, &known).await));
    assert!(server.stop().is_recorded());
    let server = serve(&place).await;
    assert!(is_hit(&post(server.address, "/v1/messages", &ann, &known).await));
    let mut asked = upstream.request_count();
    let bob = [EXACT, ("x-ropewalk-token", "bob-token")];
    assert!(
        !is_hit(&post(server.address, "/v1/messages", &bob, &known).await),
        "another owner"
    );
    let with_beta = [ann[0], ann[1], ("anthropic-beta", "context-1m")];
    assert!(
        !is_hit(&post(server.address, "/v1/messages", &with_beta, &known).await),
        "a feature"
    );
    asked += 2;
    for (name, value) in [
        ("model", json!("claude-sonnet-4-6")),
        ("system", json!("Be rude")),
        ("tools", json!([])),
        (
            "tools",
            json!([{"name": "Read", "description": "files", "input_schema": {}}]),
        ),
        ("max_tokens", json!(65)),
        ("top_k", json!(3)),
        ("stop_sequences", json!(["x"])),
        ("thinking", json!({"type": "disabled"})),
        ("messages", json!([{"role": "user", "content": "Hello!"}])),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]),
        ),
    ] {
        let mut other = known.clone();
        other[name] = value.clone();
        assert!(
            !is_hit(&post(server.address, "/v1/messages", &ann, &other).await),
            "{name}: {value}"
        );
        asked += 1;
    }
    let mut same = known.clone();
    same["metadata"] = json!({"user_id": "somebody else"});
    assert!(is_hit(&post(server.address, "/v1/messages", &ann, &same).await));
    assert_eq!(upstream.request_count(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_or_broke_off_is_asked_again() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let (cut, failed) = (
        messages("!cut", &json!({"stream": true})),
        messages("!error 529", &json!({})),
    );
    for _ in 0..2 {
        assert!(!ask(&server, &cut).await.ended);
        assert_eq!(ask(&server, &failed).await.status.as_u16(), 529);
    }
    assert!(server.stop().is_recorded());
    let server = serve(&place).await;
    assert!(!is_hit(&ask(&server, &cut).await));
    assert!(!is_hit(&ask(&server, &failed).await));
    assert_eq!(upstream.request_count(), 6);
    assert!(server.stop().is_recorded());
    assert!(place.exchanges().iter().all(|row| row["reuse"] == "none"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_answered_otherwise_needs_a_rule() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let image = json!([{"role": "user", "content": [
        {"type": "image", "source": {"type": "url", "url": "https://pictures.example/today.png"}}]}]);
    let free = messages("Hello", &json!({"temperature": 0.7}));
    let unsaid = messages("Hello", &json!({"temperature": null}));
    let volatile = messages("", &json!({"messages": image}));
    let server = serve(&place).await;
    for body in [&free, &unsaid, &volatile] {
        assert!(!is_hit(&ask(&server, body).await) && !is_hit(&ask(&server, body).await));
    }
    assert_eq!(
        metric(server.address, "ropewalk_reuse_total{outcome=\"temperature\"}").await,
        4
    );
    assert_eq!(
        metric(server.address, "ropewalk_reuse_total{outcome=\"volatile\"}").await,
        2
    );
    let rules = |more: &str| format!("[[reuse.rules]]\nmodel = \"claude-*\"\nprovider = \"anthropic\"\n{more}\n");
    place.configure(&rules("any_temperature = true"));
    server.signal("HUP");
    wait_until(|| server.said().contains("reloaded").then_some(()));
    // What was asked before is there; no header is needed where a rule fits.
    let by_rule = async |body: &Value| post(server.address, "/v1/messages", &[], body).await;
    wait_for_metric(server.address, "ropewalk_open_exchanges", 0).await;
    for body in [&free, &unsaid] {
        let deadline = std::time::Instant::now() + super::server::PATIENCE;
        // The store has it a moment later.
        while !is_hit(&by_rule(body).await) {
            assert!(std::time::Instant::now() < deadline);
        }
    }
    assert!(!is_hit(&by_rule(&volatile).await));
    drop(server);
    place.configure(&rules("volatile = true"));
    let server = serve(&place).await;
    let by_rule = async |body: &Value| post(server.address, "/v1/messages", &[], body).await;
    let first = is_hit(&by_rule(&volatile).await);
    assert!(is_hit(&by_rule(&volatile).await) || first);
    assert!(!is_hit(&by_rule(&messages("Hello", &json!({"model": "gpt-5"}))).await));
    assert!(!is_hit(&by_rule(&messages("Hello", &json!({"model": "gpt-5"}))).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_asks_again_and_the_newest_is_replayed() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({}));
    let first = ask(&server, &body).await;
    let second = post(server.address, "/v1/messages", &[REFRESH], &body).await;
    assert!(!is_hit(&second) && second.body != first.body);
    assert_eq!(ask(&server, &body).await.body, second.body);
    assert!(server.stop().is_recorded());
    let server = serve(&place).await;
    let later = ask(&server, &body).await;
    assert!(is_hit(&later) && later.body == second.body);
    assert_eq!(upstream.request_count(), 2);
    assert!(server.stop().is_recorded());
    let answers = place.store.json(&["show", &first.id(), "--answers"]);
    let from: Vec<&str> = answers.iter().map(|answer| answer["reuse"].as_str().unwrap()).collect();
    assert_eq!(from, ["hit", "hit", "stored", "stored"]);
}

/// A path and a body in each of four formats, plain and streamed.
fn formats(text: &str, streams: bool) -> [(&'static str, Value); 4] {
    let said = json!([{"role": "user", "content": text}]);
    let mut chat = json!({"model": "gpt-5", "temperature": 0, "messages": said});
    let mut responses = json!({"model": "gpt-5", "temperature": 0, "input": text});
    if streams {
        chat["stream"] = json!(true);
        chat["stream_options"] = json!({"include_usage": true});
        responses["stream"] = json!(true);
    }
    let gemini = match streams {
        true => "/v1beta/models/gemini-3:streamGenerateContent?alt=sse",
        false => "/v1beta/models/gemini-3:generateContent",
    };
    let contents =
        json!({"contents": [{"role": "user", "parts": [{"text": text}]}], "generationConfig": {"temperature": 0}});
    [
        ("/v1/messages", messages(text, &json!({"stream": streams}))),
        ("/v1/chat/completions", chat),
        ("/v1/responses", responses),
        (gemini, contents),
    ]
}

/// What an answer says, by the provider's decoder.
fn said(path: &str, seen: &Seen) -> (String, usize) {
    let provider = ropewalk_wire::provider::route(path).endpoint.provider().unwrap();
    let kind = seen.headers["content-type"].to_str().unwrap();
    let answer = ropewalk_wire::response::decode_response(provider, 200, Some(kind), &seen.body);
    assert!(answer.complete, "{}", seen.text());
    (
        format!("{:?}", answer.blocks),
        answer.usage.map_or(0, |usage| usage.output_tokens as usize),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_answers_a_plain_request_and_the_other_way_round() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let texts = ["Hello", "!think\n!tool Read {\"path\": \"/a b\", \"n\": 1}\n!say done"];
    let mut first = Vec::new();
    let server = serve(&place).await;
    for text in texts {
        for streams in [false, true] {
            // Another text for each direction, so that neither is the other's answer already.
            let text = format!("{text}\n{streams}");
            for (path, body) in formats(&text, streams) {
                let seen = post(server.address, path, &[EXACT], &body).await;
                first.push(said(path, &seen));
            }
        }
    }
    let asked = upstream.request_count();
    assert!(server.stop().is_recorded());
    let server = serve(&place).await;
    let mut again = Vec::new();
    for text in texts {
        for streams in [false, true] {
            let text = format!("{text}\n{streams}");
            for (path, body) in formats(&text, !streams) {
                let seen = post(server.address, path, &[EXACT], &body).await;
                assert!(is_hit(&seen), "{path}: {}", seen.text());
                let is_stream = seen.headers["content-type"]
                    .to_str()
                    .unwrap()
                    .starts_with("text/event-stream");
                assert_eq!(is_stream, !streams, "{path}");
                again.push(said(path, &seen));
            }
        }
    }
    assert_eq!(first, again);
    assert_eq!(upstream.request_count(), asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_equal_requests_ask_once() {
    const CROWD: usize = 1_000;
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    let text = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"once"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    upstream.answer_next(Answer::json(text).wait_for(&gate).chunk("\n"));
    upstream.answer_always(Answer::status(500));
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({}));
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let (address, body) = (server.address, body.clone());
            tokio::spawn(async move { post(address, "/v1/messages", &[EXACT], &body).await })
        })
        .collect();
    wait_for_metric(server.address, "ropewalk_in_flight", CROWD as u64).await;
    gate.open();
    let mut hits = 0;
    for seen in crowd {
        let seen = seen.await.unwrap();
        assert_eq!((seen.status, seen.text().trim()), (StatusCode::OK, text));
        hits += usize::from(is_hit(&seen));
    }
    assert_eq!((hits, upstream.request_count()), (CROWD - 1, 1));
    let shared = metric(server.address, "ropewalk_reuse_total{outcome=\"shared\"}").await;
    assert_eq!(shared, CROWD as u64 - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_for_those_who_wait_when_the_first_leaves() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1}}}\n\n";
    let end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    // More than lies between the provider and a client, so that it is seen that the client has gone.
    let much = vec![format!(":{}\n\n", "-".repeat(64 << 10)); 128];
    let answer = Answer::events([start]).wait_for(&gate).chunks(much.clone());
    upstream.answer_next(answer.chunk(end));
    upstream.answer_always(Answer::status(500));
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({"stream": true}));
    let ask = || {
        let (address, body) = (server.address, body.clone());
        tokio::spawn(async move { post(address, "/v1/messages", &[EXACT], &body).await })
    };
    let first = ask();
    let asked = upstream.next_request().await;
    let second = ask();
    wait_for_metric(server.address, "ropewalk_reuse_waiting", 1).await;
    first.abort();
    assert!(first.await.is_err());
    gate.open();
    let seen = second.await.unwrap();
    assert!(
        is_hit(&seen) && seen.text() == format!("{start}{}{end}", much.concat()),
        "{}",
        seen.text()
    );
    assert_eq!((asked.ended().await.how, upstream.request_count()), (How::Done, 1));
    assert!(server.stop().is_recorded());
    let exchanges = place.exchanges();
    let shown: Vec<_> = exchanges.iter().map(|row| (&row["status"], &row["reuse"])).collect();
    assert_eq!(
        shown,
        [
            (&json!("complete"), &json!("stored")),
            (&json!("complete"), &json!("hit"))
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_nobody_waits_for_is_given_up() {
    let upstream = Upstream::start().await;
    upstream.answer_always(Answer::never());
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({}));
    let ask = || {
        let (address, body) = (server.address, body.clone());
        tokio::spawn(async move { post(address, "/v1/messages", &[EXACT], &body).await })
    };
    let (first, second) = (ask(), ask());
    let asked = upstream.next_request().await;
    wait_for_metric(server.address, "ropewalk_reuse_waiting", 1).await;
    first.abort();
    second.abort();
    assert_eq!(asked.ended().await.how, How::ClientClosed);
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_lets_all_ask_themselves() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    let broken = Answer::json("{").framing(Framing::LengthOf(100));
    upstream.answer_next(broken.wait_for(&gate).then_reset());
    upstream.answer_as(Provider::new());
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({}));
    let ask = || {
        let (address, body) = (server.address, body.clone());
        tokio::spawn(async move {
            let mut client = Client::connect(address).await.unwrap();
            client.post("/v1/messages", &[EXACT], body.to_string()).await
        })
    };
    let first = ask();
    let _asked = upstream.next_request().await;
    let others = [ask(), ask()];
    wait_for_metric(server.address, "ropewalk_reuse_waiting", 2).await;
    gate.open();
    for other in others {
        let seen = other.await.unwrap().unwrap();
        assert!(seen.ended && seen.status == StatusCode::OK, "{seen:?}");
    }
    // The first got what the provider gave.
    drop(first.await.unwrap());
    assert!(upstream.request_count() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_came_compressed_is_given_plainly() {
    let upstream = Upstream::start().await;
    let text = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"small"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    upstream.answer_always(Answer::json(text).encoded(Encoding::Gzip));
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let body = messages("Hello", &json!({}));
    let first = ask(&server, &body).await;
    assert_eq!(first.headers["content-encoding"], "gzip");
    let soon = ask(&server, &body).await;
    assert!(server.stop().is_recorded());
    let server = serve(&place).await;
    let later = ask(&server, &body).await;
    for hit in [soon, later] {
        assert!(is_hit(&hit) && hit.headers.get("content-encoding").is_none());
        assert_eq!(hit.text(), text);
    }
    assert_eq!(upstream.request_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_recorded_as_it_was_is_never_given_again() {
    let upstream = provider().await;
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let secret = messages(
        "my key is sk-ant-api03-0123456789abcdefghijABCDEFGHIJ0123456789abcdefghijABCDEFGHIJ0123456789abcdefg-AA",
        &json!({}),
    );
    let leaked = messages(
        "!say sk-ant-api03-9876543210abcdefghijABCDEFGHIJ0123456789abcdefghijABCDEFGHIJ0123456789abcdefg-AA",
        &json!({}),
    );
    for body in [&secret, &leaked] {
        assert!(!is_hit(&ask(&server, body).await));
    }
    let body = messages("Hello", &json!({}));
    for record in ["off", "metadata"] {
        let headers = [EXACT, ("x-ropewalk-record", record)];
        for _ in 0..2 {
            assert!(
                !is_hit(&post(server.address, "/v1/messages", &headers, &body).await),
                "{record}"
            );
        }
    }
    assert_eq!(
        metric(server.address, "ropewalk_reuse_total{outcome=\"unfit\"}").await,
        4
    );
    assert!(server.stop().is_recorded());
    let redactions: u64 = place
        .exchanges()
        .iter()
        .map(|row| row["redactions"].as_u64().unwrap())
        .sum();
    assert!(redactions >= 2, "{redactions}");
    let server = serve(&place).await;
    for body in [&secret, &leaked, &body] {
        assert!(!is_hit(&ask(&server, body).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_we_say_that_an_answer_was_reused() {
    let upstream = Upstream::start().await;
    let text = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"free"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":9}}"#;
    upstream.answer_always(Answer::json(text).header("x-ropewalk-reuse", "hit"));
    let place = Place::before(&upstream);
    let server = serve(&place).await;
    let seen = post(server.address, "/v1/messages", &[], &messages("Hello", &json!({}))).await;
    assert!(!is_hit(&seen));
    assert!(server.stop().is_recorded());
    let row = &place.exchanges()[0];
    assert_eq!(row["reuse"], "none");
    assert!(row["cost_usd"].as_f64().unwrap() > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_found_in_postgresql() {
    let postgres = PrivatePostgres::shared().unwrap();
    let upstream = provider().await;
    let place = Place::before(&upstream).recording_to(&postgres.fresh_database().unwrap());
    let body = messages("Hello", &json!({}));
    let server = serve(&place).await;
    let first = ask(&server, &body).await;
    assert!(server.stop().is_recorded());
    let server = serve(&place).await;
    let later = ask(&server, &body).await;
    assert!(is_hit(&later) && later.body == first.body);
    assert!(!is_hit(&ask(&server, &messages("Hello!", &json!({}))).await));
    assert_eq!(upstream.request_count(), 2);
}

/// The three use cases at the end of seed 002, as a client meets them: the same messages are found, longer ones go on from the
/// answer, and other models and options stand beside each other.
#[tokio::test(flavor = "multi_thread")]
async fn the_use_cases_of_the_seed() {
    let upstream = provider().await;
    let place = Place::with(&upstream, EVERYTHING);
    let server = serve(&place).await;
    let with = |messages: Value, members: &Value| {
        let mut body = messages_of(&messages);
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let question = json!([{"role": "user", "content": "!say Paris\nCapital of France?"}]);
    let asks = async |body: Value| post(server.address, "/v1/messages", &[], &body).await;
    // 1. and 2.: efficient handling of message arrays, caching of conversations.
    let root = asks(with(question.clone(), &json!({}))).await;
    let found = asks(with(question.clone(), &json!({}))).await;
    assert!(!is_hit(&root) && is_hit(&found));
    let longer = json!([question[0], {"role": "assistant", "content": "Paris"}, {"role": "user", "content": "!say Berlin\nGermany?"}]);
    let child = asks(with(longer.clone(), &json!({}))).await;
    let child_again = asks(with(longer.clone(), &json!({}))).await;
    assert!(!is_hit(&child) && is_hit(&child_again));
    // 3.: the same prompt to another model and at another temperature.
    let other_model = asks(with(question.clone(), &json!({"model": "claude-opus-4-1"}))).await;
    let other_temperature = asks(with(question.clone(), &json!({"temperature": 0.9}))).await;
    assert!(!is_hit(&other_model) && !is_hit(&other_temperature));
    assert_eq!(upstream.request_count(), 4);
    assert!(server.stop().is_recorded());

    let stats = &place.store.json(&["stats"])[0]["reuse"];
    assert_eq!((&stats["hits"], &stats["misses"]), (&json!(2), &json!(4)));
    let exchanges = place.exchanges();
    let row = |seen: &Seen| exchanges.iter().find(|row| row["id"] == seen.id()).unwrap();
    // It goes on from one that said `Paris`, whether a provider or the store did.
    let parent = exchanges
        .iter()
        .find(|other| other["id"] == row(&child)["parent_exchange_id"]);
    assert_eq!(parent.unwrap()["output_node"], row(&root)["output_node"]);
    assert_eq!(row(&found)["output_node"], row(&root)["output_node"]);
    let file = place.store.file("request.json", &with(longer, &json!({})).to_string());
    let matched = &place.store.json(&["match", file.to_str().unwrap()])[0];
    assert_eq!((&matched["outcome"], &matched["depth"]), (&json!("exact"), &json!(3)));
    let answers = place.store.json(&["show", &root.id(), "--answers"]);
    let models: Vec<_> = answers
        .iter()
        .map(|answer| (&answer["model"], &answer["options"]["temperature"]))
        .collect();
    assert_eq!(models.len(), 4);
    assert!(models.contains(&(&json!("claude-opus-4-1"), &Value::Null)));
    assert!(models.contains(&(&json!("claude-sonnet-4-5"), &json!(0.9))));
}

fn messages_of(messages: &Value) -> Value {
    json!({"model": "claude-sonnet-4-5", "max_tokens": 64, "system": "You are helpful", "messages": messages})
}
