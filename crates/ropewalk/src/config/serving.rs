//! What `serve` is told: where to listen, where requests go, whose they are, what is kept, and the bounds.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Uri};
use ropewalk_engine::decode::DecodeLimits;
use ropewalk_engine::redact::{RedactRules, Redactor};
use ropewalk_proxy::forward::{DEFAULT_UPSTREAMS, Fingerprint, Limits, Owners, Settings, UpstreamSettings};
use ropewalk_proxy::tee::Keep;
use ropewalk_proxy::{journal, references, reuse};
use ropewalk_wire::provider::is_upstream_name;
use serde::Deserialize;

use super::DEFAULT_OWNER;
use super::retention::Retention;
use crate::failure::{Failure, Kind};

/// Where a server listens if nobody says.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:8742";

/// As it stands in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Serving {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) admin_listen: Option<SocketAddr>,
    hosts: Vec<String>,
    upstreams: BTreeMap<String, WrittenUpstream>,
    owners: WrittenOwners,
    record: Record,
    pub(crate) journal: WrittenJournal,
    limits: WrittenLimits,
    references: WrittenReferences,
    reuse: WrittenReuse,
    pub(crate) retain: Retention,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WrittenReuse {
    rules: Vec<WrittenRule>,
}

/// Calls that are answered from the store.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenRule {
    provider: Option<String>,
    model: Option<String>,
    project: Option<String>,
    path: Option<String>,
    any_temperature: bool,
    volatile: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WrittenJournal {
    level: WrittenLevel,
    dir: Option<PathBuf>,
    max_bytes: Option<u64>,
    when_full: WrittenWhenFull,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenLevel {
    #[default]
    Os,
    Disk,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenWhenFull {
    #[default]
    Open,
    Strict,
}

impl WrittenJournal {
    /// Where it is, given the data folder.
    pub(crate) fn folder(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("journal"))
    }

    pub(crate) fn settings(&self) -> journal::Settings {
        let usual = journal::Settings::default();
        journal::Settings {
            level: match self.level {
                WrittenLevel::Os => journal::Level::Os,
                WrittenLevel::Disk => journal::Level::Disk,
            },
            when_full: match self.when_full {
                WrittenWhenFull::Open => journal::WhenFull::Open,
                WrittenWhenFull::Strict => journal::WhenFull::Strict,
            },
            bytes_max: self.max_bytes.unwrap_or(usual.bytes_max),
            ..usual
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
struct WrittenUpstream {
    url: String,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WrittenOwners {
    mode: OwnersMode,
    /// Token to owner.
    tokens: HashMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OwnersMode {
    #[default]
    Local,
    Tokens,
    Credential,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
struct Record {
    bodies: bool,
    redact: RedactRules,
    headers: Vec<String>,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            bodies: true,
            redact: RedactRules::default(),
            headers: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WrittenReferences {
    enabled: Option<bool>,
    max: Option<usize>,
    max_bytes: Option<usize>,
    /// Owners for whom it is said apart.
    owners: BTreeMap<String, bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WrittenLimits {
    connections: Option<usize>,
    exchanges: Option<usize>,
    header_bytes: Option<usize>,
    header_s: Option<u32>,
    body_bytes: Option<u64>,
    idle_s: Option<u32>,
    connect_s: Option<u32>,
    drain_s: Option<u32>,
    threads: Option<usize>,
    queue_bytes: Option<usize>,
    decoded_bytes: Option<usize>,
}

/// What waits between forwarding and the journal. A second of heavy traffic; all of the server is to stay below 256 MB.
const QUEUE_BYTES: usize = 32 << 20;

impl Serving {
    /// Which calls are answered from the store without being asked to.
    pub(crate) fn reuse_rules(&self) -> Vec<reuse::Rule> {
        let rules = self.reuse.rules.iter().cloned();
        let rule = |rule: WrittenRule| reuse::Rule {
            provider: rule.provider,
            model: rule.model,
            project: rule.project,
            path: rule.path,
            any_temperature: rule.any_temperature,
            volatile: rule.volatile,
        };
        rules.map(rule).collect()
    }

    /// The rules of redaction, for what passes and for what is imported.
    pub(crate) fn redactor(&self) -> Result<Redactor, Failure> {
        Redactor::new(&self.record.redact).map_err(|error| {
            Failure::from_error(Kind::Configuration, &error).hint("see record.redact in the configuration")
        })
    }

    /// Headers that are kept beside the usual ones, in lower case.
    pub(crate) fn kept_headers(&self) -> Result<Vec<String>, Failure> {
        let headers = &self.record.headers;
        if headers.len() > KEPT_HEADERS_MAX {
            let message = format!("record.headers names more than {KEPT_HEADERS_MAX} headers");
            return Err(Failure::new(Kind::Configuration, message));
        }
        headers.iter().map(|name| kept_header(name)).collect()
    }

    pub(crate) fn decode_limits(&self) -> DecodeLimits {
        let usual = DecodeLimits::default();
        DecodeLimits {
            decoded_bytes_max: self.limits.decoded_bytes.unwrap_or(usual.decoded_bytes_max),
            ..usual
        }
    }

    /// What becomes of references in requests.
    pub(crate) fn references(&self) -> references::Settings {
        let written = &self.references;
        let usual = references::Settings::default();
        let enabled = written.enabled.unwrap_or(usual.enabled);
        let except = written.owners.iter().filter(|(_, is_on)| **is_on != enabled);
        references::Settings {
            enabled,
            bounds: references::Bounds {
                references: written.max.unwrap_or(usual.bounds.references),
                bytes: written.max_bytes.unwrap_or(usual.bounds.bytes),
            },
            except: except.map(|(owner, _)| owner.clone()).collect(),
        }
    }

    pub(crate) fn queue_bytes(&self) -> usize {
        self.limits.queue_bytes.unwrap_or(QUEUE_BYTES)
    }

    /// What the proxy takes. `upstreams` are those of the command line, which win; `owner` is whose everything is where all is
    /// one owner's; `fingerprint` makes the key of this installation.
    pub(crate) fn settings(
        &self,
        upstreams: &[(String, String)],
        owner: Option<&str>,
        fingerprint: impl FnOnce() -> Result<Fingerprint, Failure>,
    ) -> Result<Settings, Failure> {
        let owners = match self.owners.mode {
            OwnersMode::Local => Owners::Local(Arc::from(owner.unwrap_or(DEFAULT_OWNER))),
            OwnersMode::Tokens if self.owners.tokens.is_empty() => {
                return Err(
                    Failure::new(Kind::Configuration, "owners.mode is `tokens` and there is none")
                        .hint("[owners.tokens] maps each token to the name of its owner"),
                );
            }
            OwnersMode::Tokens => {
                let tokens = self.owners.tokens.iter();
                Owners::Tokens(
                    tokens
                        .map(|(token, owner)| (token.clone(), Arc::from(&**owner)))
                        .collect(),
                )
            }
            OwnersMode::Credential => Owners::Credential(fingerprint()?),
        };
        Ok(Settings {
            upstreams: self.upstreams(upstreams)?,
            owners,
            limits: self.limits.over(&Limits::default()),
            keep: Some(match self.record.bodies {
                true => Keep::Everything,
                false => Keep::Metadata,
            }),
            hosts: self.hosts.clone(),
        })
    }

    /// The command line over the file over the usual ones.
    pub(super) fn upstreams(&self, said: &[(String, String)]) -> Result<Vec<UpstreamSettings>, Failure> {
        let usual = DEFAULT_UPSTREAMS
            .iter()
            .map(|(name, url)| ((*name).to_owned(), ((*url).to_owned(), None)));
        let mut all: BTreeMap<String, (String, Option<PathBuf>)> = usual.collect();
        for (name, written) in &self.upstreams {
            all.insert(name.clone(), (written.url.clone(), written.ca_file.clone()));
        }
        for (name, url) in said {
            let ca_file = all.get(name).and_then(|(_, ca_file)| ca_file.clone());
            all.insert(name.clone(), (url.clone(), ca_file));
        }
        let settings = all.into_iter().map(|(name, (url, ca_file))| {
            if !is_upstream_name(&name) {
                return Err(
                    Failure::new(Kind::Configuration, format!("no upstream can be called `{name}`"))
                        .hint("a name has lower-case letters, digits, `-` and `_`, begins with a letter, and is short"),
                );
            }
            let url = upstream_url(&url).ok_or_else(|| {
                Failure::new(Kind::Configuration, format!("the address of upstream `{name}` is none"))
                    .hint("https://host or http://host:port, maybe with a path")
            })?;
            Ok(UpstreamSettings { name, url, ca_file })
        });
        settings.collect()
    }
}

/// Each is compared with every header that passes.
const KEPT_HEADERS_MAX: usize = 32;

/// What names of headers have in them whose values let somebody in. One of those is never kept, whoever asks for it.
const CREDENTIAL_WORDS: [&str; 11] = [
    "auth",
    "assertion",
    "bearer",
    "cert",
    "cookie",
    "credential",
    "jwt",
    "key",
    "password",
    "secret",
    "token",
];

fn kept_header(name: &str) -> Result<String, Failure> {
    let refused = |why: &str| {
        Failure::new(Kind::Configuration, format!("record.headers: `{name}` {why}"))
            .hint("names of headers that say something about a call, such as x-tenant or x-run-id")
    };
    let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused("is no name of a header"))?;
    let is_credential = CREDENTIAL_WORDS.iter().any(|word| known.as_str().contains(word));
    match is_credential {
        true => Err(refused("may be a credential, and those are not kept")),
        false => Ok(known.as_str().to_owned()),
    }
}

fn upstream_url(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let scheme_fits = matches!(url.scheme_str(), Some("http" | "https"));
    (scheme_fits && url.authority().is_some() && url.query().is_none()).then_some(url)
}

impl WrittenLimits {
    fn over(&self, usual: &Limits) -> Limits {
        let seconds = |written: Option<u32>, usual| written.map_or(usual, |s| Duration::from_secs(u64::from(s)));
        Limits {
            connections: self.connections.unwrap_or(usual.connections),
            exchanges: self.exchanges.unwrap_or(usual.exchanges),
            header_bytes: self.header_bytes.unwrap_or(usual.header_bytes),
            header_time: seconds(self.header_s, usual.header_time),
            body_bytes: self.body_bytes.unwrap_or(usual.body_bytes),
            // 0 is how a file says none.
            idle: self
                .idle_s
                .filter(|s| *s > 0)
                .map(|s| Duration::from_secs(u64::from(s))),
            connect_time: seconds(self.connect_s, usual.connect_time),
            drain_time: seconds(self.drain_s, usual.drain_time),
            threads: self.threads.unwrap_or(usual.threads),
            interpose_bytes: usual.interpose_bytes,
            interpose_bytes_sum: usual.interpose_bytes_sum,
        }
    }
}
