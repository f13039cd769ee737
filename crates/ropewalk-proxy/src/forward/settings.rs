//! What forwarding is told by the configuration.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::owner::Fingerprint;
use crate::tee::Keep;

/// The names of the upstreams that are there without configuration, and where they are.
pub const DEFAULT_UPSTREAMS: [(&str, &str); 3] = [
    ("anthropic", "https://api.anthropic.com"),
    ("openai", "https://api.openai.com"),
    ("gemini", "https://generativelanguage.googleapis.com"),
];

#[derive(Debug, Clone)]
pub struct Settings {
    pub upstreams: Vec<UpstreamSettings>,
    pub owners: Owners,
    pub limits: Limits,
    /// What is kept where the client does not say.
    pub keep: Option<Keep>,
    /// Names, beside loopback ones, under which browsers may reach the routes that are not forwarded.
    pub hosts: Vec<String>,
}

/// A provider, or something that speaks like one.
#[derive(Debug, Clone)]
pub struct UpstreamSettings {
    pub name: String,
    /// `http` or `https`, a host, and maybe a path that goes in front of every target.
    pub url: Uri,
    /// Certificates that are trusted beside the system's, as PEM.
    pub ca_file: Option<PathBuf>,
}

/// How a request tells whose it is.
#[derive(Debug, Clone)]
pub enum Owners {
    /// All are the same one's.
    Local(Arc<str>),
    /// By token, in `x-ropewalk-token` or `/t/<token>`.
    Tokens(HashMap<String, Arc<str>>),
    /// By the provider's API key.
    Credential(Fingerprint),
}

/// Bounds, each with the reason it is there.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open client connections; more wait in the listener's backlog.
    pub connections: usize,
    /// Exchanges at once; more are refused with 503, because a client can retry and memory cannot.
    pub exchanges: usize,
    /// Request head, in bytes. Hyper needs at least 8 KB.
    pub header_bytes: usize,
    /// Request head, from its first byte (or the connection's start) to its last.
    pub header_time: Duration,
    /// Request body; larger ones are refused with 413.
    pub body_bytes: u64,
    /// A stream without a byte for so long is given up. `None`: models may think for as long as they like.
    pub idle: Option<Duration>,
    /// Until a provider's socket answers.
    pub connect_time: Duration,
    /// Between the order to stop and the end of streams that have not ended.
    pub drain_time: Duration,
    /// Threads that forward.
    pub threads: usize,
    /// Of one body, while somebody wants to see it whole; a larger one passes unseen.
    pub interpose_bytes: usize,
    /// The same of all bodies at a time: what is gathered is memory that clients choose.
    pub interpose_bytes_sum: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 8_192,
            exchanges: 4_096,
            header_bytes: 64 << 10,
            header_time: Duration::from_secs(30),
            body_bytes: 32 << 20,
            idle: None,
            connect_time: Duration::from_secs(30),
            drain_time: Duration::from_secs(30),
            threads: std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, THREADS_MAX)),
            interpose_bytes: 32 << 20,
            interpose_bytes_sum: 64 << 20,
        }
    }
}

/// More threads than this forward faster than any network brings requests.
const THREADS_MAX: usize = 8;

impl Default for Settings {
    fn default() -> Self {
        let upstreams = DEFAULT_UPSTREAMS.iter().map(|(name, url)| UpstreamSettings {
            name: (*name).to_owned(),
            url: Uri::from_static(url),
            ca_file: None,
        });
        Settings {
            upstreams: upstreams.collect(),
            owners: Owners::Local(Arc::from("local")),
            limits: Limits::default(),
            keep: Some(Keep::Everything),
            hosts: Vec::new(),
        }
    }
}
