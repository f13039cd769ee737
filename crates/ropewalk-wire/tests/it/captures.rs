//! The same properties over captured traffic, where the folder with the captures is there.

use std::path::PathBuf;
use std::sync::Arc;

use ropewalk_core::model::{Block, ChainStart, Message, Provider, Request, Role, Tool};
use ropewalk_wire::auxiliary::classify;
use ropewalk_wire::hints::{ClientKind, Hints};
use ropewalk_wire::provider::{Endpoint, route};
use ropewalk_wire::response::decode;
use ropewalk_wire::stream::Accumulator;
use serde_json::Value;

use crate::streams::accumulate;

struct Exchange {
    id: String,
    path: String,
    request: Value,
    headers: Vec<(String, String)>,
    status: u16,
    content_type: String,
    body: String,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/captures"))
}

/// Every captured exchange; nothing, and a line that says so, without the folder.
fn exchanges() -> Vec<Exchange> {
    let Ok(files) = std::fs::read_dir(folder()) else {
        println!("skipped: no captures beside the repository");
        return Vec::new();
    };
    let mut found = Vec::new();
    for file in files {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(text.lines().map(|line| exchange(&serde_json::from_str(line).unwrap())));
        }
    }
    found
}

fn exchange(line: &Value) -> Exchange {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let headers = line["request"]["headers"].as_object().unwrap();
    Exchange {
        id: text(&line["id"]),
        path: text(&line["path"]),
        request: line["request"]["body"].clone(),
        headers: headers
            .iter()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect(),
        status: u16::try_from(line["response"]["status"].as_u64().unwrap()).unwrap(),
        content_type: text(&line["response"]["headers"]["content-type"]),
        body: text(&line["response"]["body"]),
    }
}

fn provider_of(exchange: &Exchange) -> Provider {
    route(&exchange.path)
        .endpoint
        .provider()
        .unwrap_or_else(|| panic!("{}", exchange.path))
}

fn terminal_marker(provider: Provider) -> &'static str {
    match provider {
        Provider::Anthropic => "data: {\"type\":\"message_stop\"",
        Provider::OpenAiChat => "data: [DONE]",
        Provider::OpenAiResponses => "data: {\"type\":\"response.completed\"",
        Provider::Gemini => "\"finishReason\"",
    }
}

#[test]
fn captured_answers_decode_and_their_end_is_known() {
    for exchange in exchanges() {
        let provider = provider_of(&exchange);
        let bytes = exchange.body.as_bytes();
        let decoded = decode(provider, exchange.status, Some(&exchange.content_type), bytes).response;
        let guessed = decode(provider, exchange.status, None, bytes).response;
        assert_eq!(decoded, guessed, "{}", exchange.id);
        let is_stream = exchange.content_type.starts_with("text/event-stream");
        let has_end = !is_stream || exchange.body.contains(terminal_marker(provider));
        assert_eq!(decoded.complete, exchange.status == 200 && has_end, "{}", exchange.id);
        assert_eq!(decoded.error.is_some(), exchange.status != 200, "{}", exchange.id);
        let is_count = matches!(route(&exchange.path).endpoint, Endpoint::CountTokens(_));
        if decoded.complete && !is_count {
            assert!(
                !decoded.blocks.is_empty() && decoded.stop_reason.is_some(),
                "{}",
                exchange.id
            );
            let wants_usage = provider != Provider::OpenAiChat || !is_stream;
            assert!(decoded.usage.is_some() || !wants_usage, "{}", exchange.id);
            let other = decoded.blocks.iter().find(|block| matches!(block, Block::Other { .. }));
            assert_eq!(other, None, "{}", exchange.id);
        }
    }
}

#[test]
fn captured_streams_do_not_depend_on_the_chunking() {
    for exchange in exchanges() {
        let provider = provider_of(&exchange);
        let bytes = exchange.body.as_bytes();
        let whole = accumulate(provider, [bytes]);
        for width in [1, 2, 3, 7, 64, 1021] {
            assert_eq!(
                accumulate(provider, bytes.chunks(width)),
                whole,
                "{} by {width}",
                exchange.id
            );
        }
    }
}

#[test]
fn captured_streams_are_incomplete_before_their_end() {
    for exchange in exchanges() {
        if !exchange.content_type.starts_with("text/event-stream") {
            continue;
        }
        let provider = provider_of(&exchange);
        let end = exchange
            .body
            .find(terminal_marker(provider))
            .unwrap_or(exchange.body.len());
        let mut accumulator = Accumulator::new(provider);
        for byte in &exchange.body.as_bytes()[..end] {
            accumulator.push(std::slice::from_ref(byte));
            assert!(!accumulator.is_complete(), "{}", exchange.id);
        }
        assert!(!accumulator.message().complete);
    }
}

#[test]
fn captured_clients_are_recognised() {
    for exchange in exchanges() {
        let headers = exchange
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let hints = Hints::read(headers, None);
        let client = hints.client.map(|client| client.kind);
        let expected = match exchange.id.split('-').next() {
            Some("cc") => Some(ClientKind::ClaudeCode),
            Some("codex") => Some(ClientKind::Codex),
            Some("opencode") => Some(ClientKind::Opencode),
            _ => None,
        };
        if let Some(expected) = expected {
            assert_eq!(client, Some(expected), "{}", exchange.id);
            assert!(
                hints.session.is_some_and(|session| !session.source.is_weak()),
                "{}",
                exchange.id
            );
        } else {
            assert!(client.is_some() && hints.session.is_none(), "{}", exchange.id);
        }
        assert!(exchange.request.is_object(), "{}", exchange.id);
    }
}

#[test]
fn captured_helper_calls_are_told_from_turns_with_and_without_hints() {
    let exchanges = exchanges();
    let Ok(truth) = std::fs::read_to_string(folder().join("truth.json")) else {
        return;
    };
    let truth: Value = serde_json::from_str(&truth).unwrap();
    for exchange in exchanges {
        let endpoint = route(&exchange.path).endpoint;
        if endpoint.provider() != Some(Provider::Anthropic) {
            continue;
        }
        let request = anthropic_request(&exchange.request);
        let headers = exchange
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let hints = Hints::read(headers, Some(&request));
        let expected = truth[&exchange.id]["kind"] == "auxiliary";
        for hints in [hints, Hints::none()] {
            let found = classify(&endpoint, &request, &hints);
            let is_auxiliary = found.kind.is_auxiliary();
            assert_eq!(is_auxiliary, expected, "{}: {found:?}", exchange.id);
        }
    }
}

/// As much of a request as the rules look at.
fn anthropic_request(body: &Value) -> Request {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let members = body.as_object().unwrap().iter();
    let interpreted = ["model", "stream", "system", "tools", "messages"];
    Request {
        provider: Provider::Anthropic,
        model: body["model"].as_str().map(Box::from),
        stream: body["stream"] == true,
        start: ChainStart::Root,
        system: Vec::new(),
        tools: list(&body["tools"]).iter().map(tool).collect(),
        messages: list(&body["messages"]).iter().map(message).collect(),
        options: members
            .filter(|(name, _)| !interpreted.contains(&name.as_str()))
            .map(|(name, value)| (name.as_str().into(), value.to_string().into()))
            .collect(),
    }
}

fn tool(tool: &Value) -> Arc<Tool> {
    Arc::new(Tool {
        name: tool["name"].as_str().unwrap_or_default().into(),
        json: tool.to_string().into(),
    })
}

fn message(message: &Value) -> Arc<Message> {
    let text = |text: &str| Block::Text {
        text: text.into(),
        extra: None,
    };
    let block = |block: &Value| match block["text"].as_str() {
        Some(words) => text(words),
        None => Block::Other {
            kind: "other".into(),
            json: block.to_string().into(),
        },
    };
    Arc::new(Message {
        role: match message["role"].as_str() {
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => Role::User,
        },
        is_string: message["content"].is_string(),
        blocks: match &message["content"] {
            Value::String(words) => vec![text(words)],
            Value::Array(blocks) => blocks.iter().map(block).collect(),
            _ => Vec::new(),
        },
        extra: None,
    })
}
