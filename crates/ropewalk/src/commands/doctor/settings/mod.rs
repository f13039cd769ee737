//! Settings that send clients past `ropewalk run`.
//!
//! `run` sets variables for its command. What a client has in a file of its own may win over them: [`claude`] and [`codex`] say where.
//! What is named is the file and the key; of a value at most where it points to is shown, because it may hold a key.

mod claude;
mod codex;

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use http::Uri;

use super::finding::Finding;
use super::{shown, variable};
use crate::config::DEFAULT_LISTEN;

const CHECK: &str = "settings";

/// Settings that are larger are none.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where clients take a provider's address from: what `run` sets.
const ADDRESSES: [&str; 5] = [
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "GOOGLE_GEMINI_BASE_URL",
    "GEMINI_BASE_URL",
];

/// They make Claude Code ask another company's cloud, whatever its base URL is.
const CLOUDS: [&str; 3] = [
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];

const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

pub(super) fn look(running: Option<SocketAddr>, findings: &mut Vec<Finding>) {
    let before = findings.len();
    let ours = Ours { running };
    environment(&ours, findings);
    claude::look(&ours, findings);
    codex::look(&ours, findings);
    if findings.len() == before {
        findings.push(Finding::ok(CHECK, "nothing sends clients past `ropewalk run`"));
    }
}

/// Where a server of ours is.
struct Ours {
    running: Option<SocketAddr>,
}

impl Ours {
    /// Whether an address leads to us.
    fn is_at(&self, url: &str) -> bool {
        let Ok(url) = url.parse::<Uri>() else { return false };
        let host = url
            .host()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let usual = DEFAULT_LISTEN.parse().ok();
        let port = self.running.or(usual).map(|address: SocketAddr| address.port());
        let is_same_host = self.running.is_some_and(|address| address.ip().to_string() == host);
        (is_loopback || is_same_host) && url.port_u16().is_some() && url.port_u16() == port
    }
}

fn environment(ours: &Ours, findings: &mut Vec<Finding>) {
    for name in ADDRESSES {
        if let Some(url) = variable(name).filter(|url| !ours.is_at(url)) {
            let message = format!("sends clients to {}", place_of(&url));
            findings.push(
                Finding::note(CHECK, message)
                    .of("environment", name)
                    .hint("`ropewalk run` sets another one for its command; started without it, clients go there"),
            );
        }
    }
    for name in CLOUDS {
        if variable(name).is_some_and(|value| is_true(&value)) {
            findings.push(
                Finding::error(
                    CHECK,
                    "makes Claude Code ask a cloud that its base URL does not lead to",
                )
                .of("environment", name)
                .hint(format!(
                    "nothing is recorded of it; to record: env -u {name} ropewalk run -- claude"
                )),
            );
        }
    }
    let of_either_case = |name: &str| variable(name).or_else(|| variable(&name.to_lowercase()));
    let excepted = of_either_case("NO_PROXY").unwrap_or_default();
    if let Some(name) = PROXIES.into_iter().find(|name| of_either_case(name).is_some())
        && !excepts_loopback(&excepted)
    {
        findings.push(
            Finding::warning(CHECK, "may send what is meant for ropewalk through another proxy")
                .of("environment", name)
                .hint("except this machine: export NO_PROXY=127.0.0.1,localhost"),
        );
    }
}

fn excepts_loopback(excepted: &str) -> bool {
    let mut names = excepted.split(',').map(str::trim);
    names.any(|name| matches!(name, "*" | "127.0.0.1" | "127.0.0.0/8" | "127.*"))
}

fn is_true(value: &str) -> bool {
    !matches!(
        value.trim().to_ascii_lowercase().as_str(),
        "" | "0" | "false" | "no" | "off"
    )
}

/// Where an address points to, and nothing else of it: it may have a key in it.
fn place_of(url: &str) -> String {
    let parsed = url.parse::<Uri>().ok();
    let place = parsed.as_ref().and_then(|url| {
        let port = url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{}://{}{port}", url.scheme_str()?, url.host()?))
    });
    place.unwrap_or_else(|| "an address that cannot be read".to_owned())
}

/// A file of somebody's settings. `None` where there is none; what cannot be read is a finding.
fn read(path: &Path, findings: &mut Vec<Finding>) -> Option<String> {
    let read = || -> io::Result<String> {
        // Before it is opened: a pipe would wait for somebody to write.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut text = String::new();
        let file = File::open(path)?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        match text.len() as u64 > FILE_BYTES_MAX {
            true => Err(io::Error::other("it is too large for settings")),
            false => Ok(text),
        }
    };
    match read() {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            findings.push(
                Finding::warning(CHECK, format!("{} cannot be read: {error}", shown(path)))
                    .hint("whether it sends a client past ropewalk is not known"),
            );
            None
        }
    }
}
