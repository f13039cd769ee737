//! `ropewalk hash`: every hash of an exchange, without a store.

use std::io::Read as _;
use std::path::Path;

use ropewalk_engine::hashed::Hashed;
use ropewalk_wire::detect::detect;
use ropewalk_wire::exchange::ExchangeLine;
use ropewalk_wire::provider::{Endpoint, route};

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
        let hashes = exchange.hashes(arguments.chain).map_err(|error| {
            Failure::from_error(Kind::Usage, &error)
                .hint("such a body is kept as it is and has no hashes but its SHA-256")
        })?;
        out.json(&hashes)?;
    }
    out.finish()
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

fn exchange_lines(input: &[u8]) -> Result<Vec<Hashed>, Failure> {
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
        exchanges.push(Hashed {
            id: Some(line.id),
            provider,
            request: line.request.body.into(),
            response,
            counts_tokens,
        });
    }
    Ok(exchanges)
}

fn lone_exchange(request: Vec<u8>, arguments: &Hash) -> Result<Hashed, Failure> {
    let response = arguments.response.as_deref().map(read).transpose()?;
    let provider = arguments.format.provider();
    let provider = provider.or_else(|| detect(&request, response.as_deref()));
    let file = arguments.file.display();
    let provider = provider.ok_or_else(|| {
        Failure::new(Kind::Usage, format!("{file} is no request we know"))
            .hint("a request has `messages`, `input` or `contents`; `--format` says which kind it is")
    })?;
    Ok(Hashed {
        id: None,
        provider,
        request: request.into(),
        response: response.map(|body| (200, None, body)),
        counts_tokens: false,
    })
}
