//! What exporting is told by the configuration.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri};

#[derive(Clone)]
pub struct Settings {
    /// Where spans are posted to, and where measurements are: whole URLs.
    pub traces: Uri,
    pub metrics: Uri,
    /// Sent with every request. They may hold a key.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Certificates that are trusted beside the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take.
    pub timeout: Duration,
    /// How often measurements are sent.
    pub metrics_every: Duration,
    /// Which part of the traces that nobody else decided about is kept, from 0 to 1.
    pub sampling: f64,
    /// Put what was said on the spans, redacted as it is stored.
    pub content: bool,
    /// What this process is: `service.name` and others.
    pub resource: Vec<(String, String)>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("traces", &self.traces)
            .field("metrics", &self.metrics)
            .field("sampling", &self.sampling)
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}

/// Where an upstream is, as spans say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The upstream's name.
    pub upstream: String,
    pub host: String,
    pub port: u16,
}
