//! `ropewalk hash`: every hash of an exchange, without a store.

use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use ropewalk_core::chain;
use ropewalk_core::hash::{NodeHash, RULES_VERSION, ValueHash, sha256};
use ropewalk_core::model::{Block, Message, Provider, Response, Role};
use ropewalk_core::projections::Projections;
use ropewalk_wire::detect::detect;
use ropewalk_wire::exchange::ExchangeLine;
use ropewalk_wire::provider::{Endpoint, route};
use ropewalk_wire::response::decode_response;
use ropewalk_wire::{RequestBody, read_request};
use serde::Serialize;

use crate::cli::Hash;
use crate::failure::{Failure, Kind};
use crate::print::out::Out;

pub(crate) fn run(arguments: &Hash) -> Result<(), Failure> {
    let input = read(&arguments.file)?;
    let exchanges = if is_exchange_file(&input) {
        exchange_lines(&input)?
    } else {
        vec![lone_exchange(input, arguments)?]
    };
    let mut out = Out::new();
    for exchange in &exchanges {
        out.json(&hashes(exchange, arguments.chain)?)?;
    }
    out.finish()
}

/// What is hashed: one request, and its response if there is one.
struct Exchange {
    id: Option<String>,
    provider: Provider,
    request: Bytes,
    /// Status, content type, body.
    response: Option<(u16, Option<String>, Vec<u8>)>,
    counts_tokens: bool,
}

/// A file, or standard input for `-`.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let outcome = if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::File::open(path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map(|_| ())
    };
    outcome.map_err(|error| {
        Failure::new(Kind::NotFound, format!("cannot read {}: {error}", path.display()))
            .hint("a file with a request or with exchanges; `-` is standard input")
    })?;
    Ok(bytes)
}

fn is_exchange_file(input: &[u8]) -> bool {
    let first = input
        .split(|byte| *byte == b'\n')
        .find(|line| !line.trim_ascii().is_empty());
    first.is_some_and(ExchangeLine::is_exchange)
}

fn exchange_lines(input: &[u8]) -> Result<Vec<Exchange>, Failure> {
    let mut exchanges = Vec::new();
    for (index, line) in input.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let problem = |what: String| {
            Failure::new(Kind::Usage, format!("line {}: {what}", index + 1))
                .hint("exchanges have one JSON object a line")
        };
        let line = ExchangeLine::parse(line).map_err(|error| problem(error.to_string()))?;
        let endpoint = route(&line.path).endpoint;
        let provider = endpoint
            .provider()
            .ok_or_else(|| problem(format!("`{}` is no endpoint we read", line.path)))?;
        let counts_tokens = matches!(endpoint, Endpoint::CountTokens(_));
        let response = line.response.map(|half| {
            let content_type = half.header("content-type").map(str::to_owned);
            (line.status.unwrap_or(200), content_type, half.body)
        });
        exchanges.push(Exchange {
            id: Some(line.id),
            provider,
            request: line.request.body.into(),
            response,
            counts_tokens,
        });
    }
    Ok(exchanges)
}

fn lone_exchange(request: Vec<u8>, arguments: &Hash) -> Result<Exchange, Failure> {
    let response = arguments.response.as_deref().map(read).transpose()?;
    let provider = arguments.format.provider();
    let provider = provider.or_else(|| detect(&request, response.as_deref()));
    let file = arguments.file.display();
    let provider = provider.ok_or_else(|| {
        Failure::new(Kind::Usage, format!("{file} is no request we know"))
            .hint("a request has `messages`, `input` or `contents`; `--format` says which kind it is")
    })?;
    Ok(Exchange {
        id: None,
        provider,
        request: request.into(),
        response: response.map(|body| (200, None, body)),
        counts_tokens: false,
    })
}

#[derive(Serialize)]
struct Hashes {
    v: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    provider: &'static str,
    model: Option<String>,
    rules_version: u32,
    input_node: NodeHash,
    output_node: Option<NodeHash>,
    #[serde(flatten)]
    projections: Projections,
    request_sha256: String,
    response_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<Vec<Link>>,
}

/// One block of the chain.
#[derive(Serialize)]
struct Link {
    role: &'static str,
    kind: &'static str,
    value: ValueHash,
    node: NodeHash,
}

fn hashes(exchange: &Exchange, with_chain: bool) -> Result<Hashes, Failure> {
    let body = read_request(exchange.provider, &exchange.request, None).map_err(|error| {
        Failure::new(Kind::Usage, format!("the request is no JSON object: {error}"))
            .hint("such a body is kept as it is and has no hashes but its SHA-256")
    })?;
    let response = exchange.response.as_ref().map(|(status, content_type, bytes)| {
        decode_response(exchange.provider, *status, content_type.as_deref(), bytes)
    });
    // A token count is no answer.
    let answer = response.filter(|_| !exchange.counts_tokens);
    let complete = answer
        .as_ref()
        .filter(|answer| answer.complete && answer.error.is_none());
    let projections = Projections::of(&body.request, answer.as_ref());
    let output_node = complete.map(|answer| extend(&body, answer));
    Ok(Hashes {
        v: 1,
        id: exchange.id.clone(),
        provider: exchange.provider.name(),
        model: body.request.model.as_deref().map(str::to_owned),
        rules_version: RULES_VERSION,
        input_node: body.input_node(),
        output_node,
        projections,
        request_sha256: hex::encode(sha256(&exchange.request)),
        response_sha256: exchange
            .response
            .as_ref()
            .map(|(_, _, bytes)| hex::encode(sha256(bytes))),
        chain: with_chain.then(|| links(&body, complete)),
    })
}

fn answer_message(answer: &Response) -> Message {
    Message {
        role: Role::Assistant,
        is_string: false,
        blocks: answer.blocks.clone(),
        extra: None,
    }
}

fn extend(body: &RequestBody, answer: &Response) -> NodeHash {
    chain::extend(body.input_node(), &answer_message(answer), &mut Vec::new())
}

fn links(body: &RequestBody, answer: Option<&Response>) -> Vec<Link> {
    let mut messages: Vec<Message> = body
        .request
        .messages
        .iter()
        .map(|message| (**message).clone())
        .collect();
    messages.extend(answer.map(answer_message));
    let mut last = body.start;
    let mut links = Vec::new();
    for message in &messages {
        for block in &message.blocks {
            let Some(value) = chain::value(message.role, block, &|_| None) else {
                continue;
            };
            last = chain::node(last, value);
            links.push(Link {
                role: message.role.name(),
                kind: kind(block),
                value,
                node: last,
            });
        }
    }
    links
}

fn kind(block: &Block) -> &'static str {
    match block {
        Block::Text { .. } => "text",
        Block::Thinking { .. } => "thinking",
        Block::ToolUse(_) => "tool_use",
        Block::ToolResult(_) => "tool_result",
        Block::Media(_) => "media",
        Block::Reference { .. } => "reference",
        Block::Other { .. } => "other",
    }
}
