//! What a collector is told, and that nobody notices whether there is one.

use std::net::TcpListener;
use std::time::Instant;

use ropewalk_testkit::collector::{Collector, Mood, Point, SeenSpan};
use ropewalk_testkit::upstream::provider::Provider;
use ropewalk_testkit::upstream::{Answer, Gate, Upstream};
use serde_json::{Value, json};

use super::client::{Client, Kind, call};
use super::server::{PATIENCE, POLL, Place, Server};

const STREAMED: Kind = Kind::Messages { streams: true };
const WHOLE: Kind = Kind::Messages { streams: false };
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const API_KEY: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4-header-AA";
const IN_BODY: &str = "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";

async fn upstream() -> Upstream {
    let upstream = Upstream::start().await;
    upstream.answer_as(Provider::new());
    upstream
}

fn sending_to(collector: &Collector, more: &str) -> String {
    format!("[otel]\nendpoint = '{}'\n{more}", collector.url())
}

fn of<'s>(spans: &'s [SeenSpan], id: &str) -> &'s SeenSpan {
    let found = spans.iter().find(|span| span.attributes["ropewalk.exchange.id"] == id);
    found.unwrap_or_else(|| panic!("no span for {id}"))
}

/// Waits until so many spans are counted.
async fn until_counted(server: &Server, outcome: &str, count: u64) {
    until_told(
        server,
        &format!("ropewalk_otel_spans_total{{outcome=\"{outcome}\"}} {count}\n"),
    )
    .await;
}

/// Waits until so many turns are recorded.
async fn until_recorded(server: &Server, count: u64) {
    let labels = r#"provider="anthropic",kind="turn",status="complete""#;
    until_told(server, &format!("ropewalk_exchanges_total{{{labels}}} {count}\n")).await;
}

/// Waits for a line of `/metrics`.
async fn until_told(server: &Server, line: &str) {
    let deadline = Instant::now() + PATIENCE;
    let mut client = Client::connect(server.address).await.unwrap();
    loop {
        let text = client.get("/metrics").await.unwrap().text();
        if text.contains(line) {
            return;
        }
        assert!(Instant::now() < deadline, "{text}");
        tokio::time::sleep(POLL).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_says_what_the_conventions_name_and_where_the_exchange_stands() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    let place = Place::with(&upstream, &sending_to(&collector, ""));
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let headers = [
        ("traceparent", &*parent),
        ("x-claude-code-session-id", "5f6c2f8e-session"),
        ("x-api-key", API_KEY),
    ];
    let first = client
        .post(STREAMED.path(), &headers, STREAMED.body("a long rope"))
        .await
        .unwrap();
    let other = call(server.address, Kind::Chat { streams: false }, "somebody else").await;
    let spans = collector.spans_when(2).await;
    let received = upstream.next_request().await;
    assert_eq!(
        received.header("traceparent"),
        Some(&*parent),
        "it goes on to the provider"
    );
    assert!(server.stop().is_recorded());

    let exchanges = place.exchanges();
    let exchange = exchanges.iter().find(|exchange| exchange["id"] == first.id()).unwrap();
    let span = of(&spans, &first.id());
    assert_eq!(span.span.name, "chat claude-sonnet-4-5");
    assert_eq!(
        (hex::encode(&span.span.trace_id), hex::encode(&span.span.parent_span_id)),
        (TRACE.to_owned(), SPAN.to_owned())
    );
    let took_ms = (span.span.end_time_unix_nano - span.span.start_time_unix_nano) / 1_000_000;
    assert_eq!(exchange["latency_ms"], took_ms);
    let at: jiff::Timestamp = exchange["at"].as_str().unwrap().parse().unwrap();
    assert_eq!(u128::from(span.span.start_time_unix_nano), at.as_nanosecond() as u128);
    let usage = &exchange["usage"];
    for (name, value) in [
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("anthropic")),
        ("gen_ai.request.model", json!("claude-sonnet-4-5")),
        ("gen_ai.request.stream", json!(true)),
        ("gen_ai.response.model", json!("claude-sonnet-4-5")),
        ("gen_ai.response.finish_reasons", json!(["end_turn"])),
        ("gen_ai.conversation.id", json!("5f6c2f8e-session")),
        ("gen_ai.usage.input_tokens", usage["input_tokens"].clone()),
        ("gen_ai.usage.output_tokens", usage["output_tokens"].clone()),
        ("gen_ai.usage.cache_read.input_tokens", json!(0)),
        ("server.address", json!("127.0.0.1")),
        ("server.port", json!(upstream.address().port())),
        ("http.response.status_code", json!(200)),
        ("ropewalk.owner", json!("local")),
        ("ropewalk.kind", exchange["kind"].clone()),
        ("ropewalk.status", json!("complete")),
        ("ropewalk.conversation.id", exchange["conversation_id"].clone()),
        ("ropewalk.branch.id", exchange["branch_id"].clone()),
        ("ropewalk.branch.key", exchange["branch_key"].clone()),
        ("ropewalk.agent.id", exchange["agent"]["id"].clone()),
        ("ropewalk.link.method", exchange["link"]["method"].clone()),
    ] {
        assert_eq!(span.attributes.get(name), Some(&value), "{name}");
    }
    assert!(
        span.attributes["gen_ai.response.id"]
            .as_str()
            .unwrap()
            .starts_with("msg_")
    );
    assert!(span.attributes["gen_ai.response.time_to_first_chunk"].is_f64());
    assert_eq!(span.resource["service.name"], "ropewalk");

    let alone = of(&spans, &other.id());
    assert_eq!(
        hex::encode(&alone.span.trace_id),
        other.id().replace('-', ""),
        "its own trace"
    );
    assert!(alone.span.parent_span_id.is_empty());
    assert_eq!(alone.attributes["gen_ai.provider.name"], "openai");
    assert_eq!(
        alone.attributes.get("gen_ai.conversation.id"),
        None,
        "only clients name conversations"
    );
    for text in ["a long rope", "somebody else", API_KEY] {
        assert!(!collector.has_seen(text), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_goes_along_only_if_asked_for_and_redacted() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    let place = Place::with(&upstream, &sending_to(&collector, "content = true\n"));
    let server = place.serve();
    let seen = call(server.address, WHOLE, &format!("keep {IN_BODY} to yourself")).await;
    let spans = collector.spans_when(1).await;
    server.stop();
    let span = of(&spans, &seen.id());
    let said = |name: &str| -> Value { serde_json::from_str(span.attributes[name].as_str().unwrap()).unwrap() };
    let (input, output) = (said("gen_ai.input.messages"), said("gen_ai.output.messages"));
    assert_eq!(
        (&input[0]["role"], &input[0]["parts"][0]["type"]),
        (&json!("user"), &json!("text"))
    );
    let asked = input[0]["parts"][0]["content"].as_str().unwrap();
    assert!(asked.starts_with("keep ") && asked.ends_with(" to yourself"), "{asked}");
    assert_eq!(output[0]["role"], "assistant");
    assert!(!output[0]["parts"][0]["content"].as_str().unwrap().is_empty());
    assert!(!collector.has_seen(IN_BODY));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_words_are_plain_and_bounded_in_a_span() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    let place = Place::with(&upstream, &sending_to(&collector, ""));
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    let model = format!("\u{1b}[2J\n{}", "m".repeat(9_000));
    let body = json!({"model": model, "messages": [{"role": "user", "content": "x"}]}).to_string();
    let seen = client.post(WHOLE.path(), &[], body.clone()).await.unwrap();
    let garbage = client
        .post(WHOLE.path(), &[("traceparent", "00-zz-..-01")], body)
        .await
        .unwrap();
    let spans = collector.spans_when(2).await;
    server.stop();
    for id in [seen.id(), garbage.id()] {
        let span = of(&spans, &id);
        assert_eq!(hex::encode(&span.span.trace_id), id.replace('-', ""));
        let texts = span
            .attributes
            .values()
            .filter_map(Value::as_str)
            .chain([&*span.span.name]);
        for text in texts {
            assert!(text.len() <= 2_048 && !text.chars().any(char::is_control), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_have_a_type_and_no_words() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    let place = Place::with(&upstream, &sending_to(&collector, ""));
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    let failed = client.post(WHOLE.path(), &[], WHOLE.body("!error 529")).await.unwrap();
    upstream.answer_next(Answer::status(502).chunk("<html>who asked for the moon</html>"));
    let odd = client.post(WHOLE.path(), &[], WHOLE.body("the moon")).await.unwrap();
    let spans = collector.spans_when(2).await;
    server.stop();
    let (failed, odd) = (of(&spans, &failed.id()), of(&spans, &odd.id()));
    assert_eq!(failed.attributes["http.response.status_code"], 529);
    assert!(
        failed.attributes["error.type"].as_str().unwrap().ends_with("_error"),
        "{:?}",
        failed.attributes
    );
    assert_eq!(odd.attributes["error.type"].as_str().map(str::is_empty), Some(false));
    for span in [failed, odd] {
        let status = span.span.status.as_ref().unwrap();
        assert_eq!((status.code, &*status.message), (2, ""));
    }
    assert!(!collector.has_seen("the moon"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_times_are_measured() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    let place = Place::with(&upstream, &sending_to(&collector, ""));
    let server = place.serve();
    for kind in [STREAMED, WHOLE, STREAMED] {
        call(server.address, kind, "hello").await;
    }
    // What was measured to the end goes out before the server does.
    assert!(server.stop().is_recorded());
    let points = collector.points();
    let of = |metric: &str| -> Vec<Point> { points.iter().filter(|point| point.metric == metric).cloned().collect() };
    let duration = of("gen_ai.client.operation.duration");
    assert_eq!((duration.len(), duration[0].count, &*duration[0].unit), (1, 3, "s"));
    assert_eq!(duration[0].attributes["gen_ai.provider.name"], "anthropic");
    assert_eq!(duration[0].bounds[0], 0.01);
    assert_eq!(
        of("gen_ai.client.operation.time_to_first_chunk")[0].count,
        2,
        "streams only"
    );
    let exchanges = place.exchanges();
    for (kind, member) in [("input", "input_tokens"), ("output", "output_tokens")] {
        let sum: f64 = exchanges
            .iter()
            .map(|exchange| exchange["usage"][member].as_f64().unwrap())
            .sum();
        let tokens = of("gen_ai.client.token.usage");
        let point = tokens
            .iter()
            .find(|point| point.attributes["gen_ai.token.type"] == kind)
            .unwrap();
        assert_eq!((point.count, point.sum), (3, sum), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_costs_spans_and_nothing_else() {
    let upstream = upstream().await;
    let nobody = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let place = Place::with(&upstream, &format!("[otel]\nendpoint = 'http://{nobody}'\n"));
    let server = place.serve();
    for number in 0..5 {
        call(server.address, WHOLE, &format!("number {number}")).await;
    }
    until_recorded(&server, 5).await;
    let stopped = server.stop();
    assert!(stopped.is_recorded());
    assert_eq!(place.exchanges().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_is_counted() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    collector.mood(Mood::Refuses(400));
    let place = Place::with(&upstream, &sending_to(&collector, ""));
    let server = place.serve();
    call(server.address, WHOLE, "one").await;
    until_counted(&server, "lost", 1).await;
    collector.mood(Mood::Drops(1));
    call(server.address, WHOLE, "two").await;
    until_counted(&server, "lost", 2).await;
    collector.mood(Mood::Takes);
    call(server.address, WHOLE, "three").await;
    until_counted(&server, "sent", 1).await;
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_takes_its_time_or_comes_back_gets_everything() {
    let (upstream, collector) = (upstream().await, Collector::start().await);
    collector.mood(Mood::Refuses(503));
    let place = Place::with(&upstream, &sending_to(&collector, ""));
    let server = place.serve();
    let first = call(server.address, WHOLE, "away").await;
    collector.requests_when(1).await;
    let gate = Gate::closed();
    collector.mood(Mood::TakesItsTime(gate.clone()));
    // It is tried again by itself.
    let spans = collector.spans_when(1).await;
    of(&spans, &first.id());
    for number in 0..20 {
        call(server.address, WHOLE, &format!("number {number}")).await;
    }
    until_recorded(&server, 21).await;
    gate.open();
    collector.spans_when(21).await;
    assert!(server.stop().is_recorded());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_usual_variables_are_followed_with_their_keys() {
    let (upstream, collector) = (upstream().await, Collector::start_tls().await);
    let place = Place::before(&upstream);
    let ca_file = place.store.file("ca.pem", collector.ca_pem().unwrap());
    let place = place
        .knowing("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .knowing("OTEL_EXPORTER_OTLP_HEADERS", "api-key=collector-key")
        .knowing("OTEL_EXPORTER_OTLP_CERTIFICATE", ca_file.to_str().unwrap())
        .knowing("OTEL_SERVICE_NAME", "rope")
        .knowing("ROPEWALK_LOG", "trace");
    let server = place.serve();
    call(server.address, WHOLE, "hello").await;
    let spans = collector.spans_when(1).await;
    let said = server.stop().said;
    assert_eq!(spans[0].resource["service.name"], "rope");
    assert_eq!(collector.headers()[0]["api-key"], "collector-key");
    assert_eq!(collector.headers()[0]["content-type"], "application/x-protobuf");
    assert!(!said.contains("collector-key"), "a key is not logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protocol_that_is_not_spoken_stops_nobody() {
    let upstream = upstream().await;
    let place = Place::before(&upstream)
        .knowing("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .knowing("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let server = place.serve();
    call(server.address, WHOLE, "hello").await;
    let stopped = server.stop();
    assert!(
        stopped.is_recorded() && stopped.said.contains("not sent over `grpc`"),
        "{}",
        stopped.said
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_prompts_are_counted_by_what_the_cache_did_with_them() {
    let upstream = upstream().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    call(server.address, STREAMED, "a long rope").await;
    until_recorded(&server, 1).await;
    let mut client = Client::connect(server.address).await.unwrap();
    let told = client.get("/metrics").await.unwrap().text();
    assert!(server.stop().is_recorded());
    let usage = &place.exchanges()[0]["usage"];
    for (cache, member) in [
        ("none", "input_tokens"),
        ("read", "cache_read_tokens"),
        ("written", "cache_write_tokens"),
    ] {
        let line = format!(
            "ropewalk_prompt_tokens_total{{provider=\"anthropic\",cache=\"{cache}\"}} {}\n",
            usage[member]
        );
        assert!(told.contains(&line), "{line}{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_and_what_is_stored_are_told() {
    let upstream = upstream().await;
    let place = Place::before(&upstream);
    let server = place.serve();
    let mut client = Client::connect(server.address).await.unwrap();
    let headers = [
        ("x-claude-code-session-id", "5f6c2f8e-session"),
        ("x-claude-code-agent-id", "a1"),
        ("x-claude-code-parent-agent-id", "gone"),
    ];
    let body = serde_json::json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "look"}]});
    client.post("/v1/messages", &headers, body.to_string()).await.unwrap();
    until_told(&server, "ropewalk_orphans 1\n").await;
    assert!(server.stop().is_recorded());
    let server = place.serve();
    let totals = &place.store.json(&["stats"])[0];
    for (state, member) in [("raw", "part_bytes"), ("stored", "stored_bytes")] {
        let bytes = totals[member].as_u64().unwrap();
        assert!(bytes > 0);
        until_told(&server, &format!("ropewalk_parts_bytes{{state=\"{state}\"}} {bytes}\n")).await;
    }
    until_told(&server, "ropewalk_tool_messages{missing=\"parent\"} 0\n").await;
    until_told(&server, "ropewalk_cycles 0\n").await;
}
