//! The forwarding path.
//!
//! In the order of a request: `serve` (listeners and threads), `service` (one request from its head to the answer's),
//! `owner` and `headers` (whose it is, what stays on its hop), `upstream` (connections to providers), `request_body` and
//! `response_body` (what passes, and the piece that waits for the journal), `tap` (what is told to the tee).
//!
//! Nothing here parses a body, and nothing here touches a file.

mod answer;
mod counters;
mod guard;
mod headers;
mod local_exec;
mod owner;
mod request_body;
mod response_body;
mod serve;
mod service;
mod settings;
mod tap;
mod terminal;
pub(crate) mod tls;
mod upstream;

pub use answer::{BodyError, LocalBody};
pub use counters::{Counted, Counters};
pub use owner::Fingerprint;
pub use serve::{Forwarding, ServeError};
pub use service::{Local, LocalAnswer, Routes};
pub use settings::{DEFAULT_UPSTREAMS, Limits, Owners, Settings, UpstreamSettings};
pub use tls::TlsError;
