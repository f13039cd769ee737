//! HAR 1.2: what a browser or a debugging proxy recorded.
//!
//! Calls of models become whole exchanges, everything else is counted. A HAR has bodies as text after decoding, whatever the headers say,
//! and every header that there was: only those on the lists of what is kept come in, so no key, cookie or token does.
//!
//! Whoever wrote it saw calls pass, but knows less of them than a recorder: of two tellings of one call the recorder's stays.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ropewalk_core::hash::sha256;
use ropewalk_core::json::Node;
use ropewalk_engine::logged::Logged;
use ropewalk_engine::{QUERY_PARAMETERS, REQUEST_HEADERS, RESPONSE_HEADERS, RawExchange, Witness};
use ropewalk_store::Micros;
use ropewalk_store::facts::Provenance;
use ropewalk_wire::detect::detect;
use ropewalk_wire::hints::is_hint_header;
use ropewalk_wire::provider::route;

use crate::exported::{each_element, text, time};
use crate::reader::{Found, Sink, WholeReader};

/// Longest call that is believed, in milliseconds. Some tools write nonsense for a connection that stayed open.
const DURATION_MS_MAX: f64 = 7.0 * 24.0 * 3_600_000.0;

/// Paths of calls behind whatever a gateway puts in front, and where a provider has them itself.
const CALLS: [(&str, &str); 5] = [
    ("/messages", "/v1/messages"),
    ("/messages/count_tokens", "/v1/messages/count_tokens"),
    ("/chat/completions", "/v1/chat/completions"),
    ("/responses", "/v1/responses"),
    ("/responses/compact", "/v1/responses/compact"),
];

/// Reads one file.
#[derive(Debug)]
pub struct Har {
    name: String,
    begun: Option<Micros>,
}

/// Why an entry is no call.
enum Not {
    /// It is something else.
    Call(&'static str),
    /// It is one, and cannot be read.
    Readable(String),
}

impl Har {
    /// The members that lead to the entries.
    pub const WAY: &'static [&'static str] = &["log", "entries"];

    pub fn new(name: &str) -> Self {
        Har {
            name: name.to_owned(),
            begun: None,
        }
    }

    fn entry(&mut self, number: u64, entry: Node<'_>, sink: &mut dyn Sink) -> Found {
        match self.read_entry(number, entry) {
            Ok(raw) => sink.found(Logged::Exchange {
                owner: None,
                raw: Box::new(raw),
            }),
            Err(Not::Call(reason)) => {
                sink.skipped(reason);
                Found::GoOn
            }
            Err(Not::Readable(problem)) => {
                sink.problem(number, format!("entry {number}: {problem}"));
                Found::GoOn
            }
        }
    }

    fn read_entry(&mut self, number: u64, entry: Node<'_>) -> Result<RawExchange, Not> {
        let missing = |name: &str| Not::Readable(format!("`{name}` is missing"));
        let request = entry.get("request").ok_or_else(|| missing("request"))?;
        let url = text(request, "url").ok_or_else(|| missing("request.url"))?;
        let method = text(request, "method").unwrap_or_default();
        if method != "POST" {
            return Err(Not::Call("requests that post nothing"));
        }
        let path = call_path(&url).ok_or(Not::Call("requests that call no model"))?;
        let request_body = posted(request)?;
        let answer = Answer::read(entry.get("response"))?;
        let answered = answer.body.as_deref().filter(|body| !body.is_empty());
        if detect(&request_body, answered).is_none() {
            return Err(Not::Call("requests that call no model"));
        }
        let started = text(entry, "startedDateTime").ok_or_else(|| missing("startedDateTime"))?;
        let at = time(&started).ok_or_else(|| Not::Readable("`startedDateTime` is no time".to_owned()))?;
        self.begun = Some(self.begun.map_or(at, |begun| begun.min(at)));
        let id = id(&started, &url, &request_body, answer.body.as_deref());
        Ok(RawExchange {
            id,
            at,
            ended_at: Some(later(at, entry.get("time").and_then(|time| time.as_f64()))),
            spawned_at: Vec::new(),
            method,
            path,
            request_headers: headers(request, |name| REQUEST_HEADERS.contains(&name) || is_hint_header(name)),
            request_body,
            sent_body: None,
            names: Default::default(),
            status: answer.status,
            response_headers: answer.headers,
            cut_off: answer.body.is_none(),
            response_body: Some(answer.body.unwrap_or_default()),
            witness: Witness {
                first_byte_at: first_byte(at, entry.get("timings")),
                ..Witness::default()
            },
            provenance: Some(Provenance {
                file: self.name.clone(),
                line: number,
                uuid: None,
                aliases: Vec::new(),
                log_begun: self.begun,
            }),
        })
    }
}

impl WholeReader for Har {
    fn read(&mut self, path: &Path, _: &[u8], sink: &mut dyn Sink) -> Found {
        each_element(path, Har::WAY, sink, |number, entry, sink| {
            self.entry(number, entry, sink)
        })
    }

    fn needs_bytes(&self) -> bool {
        false
    }
}

/// The path of a call, as its provider has it, with the parameters that are kept. `None` for any other URL.
fn call_path(url: &str) -> Option<String> {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let target = behind.find('/').map_or("/", |at| &behind[at..]);
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // An owner's token is part of the path of our own proxy.
    let route = route(path);
    let own = match route.endpoint.provider() {
        Some(_) => route.rest.to_owned(),
        None => {
            let path = path.strip_suffix('/').unwrap_or(path);
            let known = CALLS.iter().find(|(ending, _)| path.ends_with(ending));
            known.map(|(_, own)| (*own).to_owned())?
        }
    };
    let is_kept = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        QUERY_PARAMETERS.contains(&name)
    };
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    Some(match kept.is_empty() {
        true => own,
        false => format!("{own}?{}", kept.join("&")),
    })
}

fn posted(request: Node<'_>) -> Result<Bytes, Not> {
    let data = request
        .get("postData")
        .ok_or(Not::Call("calls whose request was not recorded"))?;
    let body = data.get("text").and_then(|text| text.to_text());
    let body = body
        .filter(|body| !body.is_empty())
        .ok_or(Not::Call("calls whose request was not recorded"))?;
    let encoding = text(data, "encoding").or_else(|| text(data, "_encoding"));
    decoded(body, encoding.as_deref(), "postData")
}

/// Bytes that are no text are in base64.
fn decoded(body: String, encoding: Option<&str>, member: &str) -> Result<Bytes, Not> {
    match encoding {
        Some("base64") => {
            let decoded = STANDARD.decode(body.trim());
            decoded
                .map(Bytes::from)
                .map_err(|_| Not::Readable(format!("`{member}.text` is no base64")))
        }
        _ => Ok(Bytes::from(body)),
    }
}

#[derive(Default)]
struct Answer {
    status: Option<u16>,
    headers: Vec<(String, String)>,
    /// `None` where it was not recorded, or broke off.
    body: Option<Bytes>,
}

impl Answer {
    fn read(response: Option<Node<'_>>) -> Result<Self, Not> {
        let Some(response) = response else {
            return Ok(Answer::default());
        };
        let status = response.get("status").and_then(|status| status.as_u64());
        let content = response.get("content");
        let body = content
            .and_then(|content| content.get("text"))
            .and_then(|text| text.to_text());
        let encoding = content.and_then(|content| text(content, "encoding"));
        let body = body
            .map(|body| decoded(body, encoding.as_deref(), "content"))
            .transpose()?;
        // A browser that was closed, or told to keep no bodies, leaves them out.
        let is_empty = content.and_then(|content| content.get("size")?.as_u64()) == Some(0);
        let body = body.or_else(|| is_empty.then(Bytes::new));
        let mut headers = headers(response, |name| RESPONSE_HEADERS.contains(&name));
        let media_type = content.and_then(|content| text(content, "mimeType"));
        if !headers.iter().any(|(name, _)| name == "content-type") {
            headers.extend(media_type.map(|media_type| ("content-type".to_owned(), media_type)));
        }
        Ok(Answer {
            // Zero is a request that got no answer.
            status: status
                .and_then(|status| status.try_into().ok())
                .filter(|status| *status > 0),
            headers,
            body,
        })
    }
}

/// Headers that are kept, in lower case. Bodies are decoded already.
fn headers(half: Node<'_>, is_kept: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let headers = half.get("headers").into_iter().flat_map(|headers| headers.items());
    let headers =
        headers.filter_map(|header| Some((text(header, "name")?.to_ascii_lowercase(), text(header, "value")?)));
    headers
        .filter(|(name, _)| name != "content-encoding" && is_kept(name))
        .collect()
}

/// The same for every copy of the file: a HAR has no ids.
fn id(started: &str, url: &str, request: &[u8], response: Option<&[u8]>) -> String {
    let mut all = Vec::new();
    for piece in [
        started.as_bytes(),
        url.as_bytes(),
        &sha256(request),
        &sha256(response.unwrap_or_default()),
    ] {
        all.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        all.extend_from_slice(piece);
    }
    let hash = sha256(&all);
    let digits: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("har-{digits}")
}

fn later(at: Micros, milliseconds: Option<f64>) -> Micros {
    let milliseconds = milliseconds
        .filter(|time| (0.0..=DURATION_MS_MAX).contains(time))
        .unwrap_or(0.0);
    Micros(at.0.saturating_add((milliseconds * 1_000.0) as i64))
}

/// Everything up to the first byte; what did not happen is -1.
fn first_byte(at: Micros, timings: Option<Node<'_>>) -> Option<Micros> {
    let timing = |name: &str| {
        timings?
            .get(name)?
            .as_f64()
            .filter(|time| (0.0..=DURATION_MS_MAX).contains(time))
    };
    timing("wait")?;
    let before = ["blocked", "dns", "connect", "send", "wait"]
        .iter()
        .filter_map(|name| timing(name));
    Some(later(at, Some(before.sum())))
}
