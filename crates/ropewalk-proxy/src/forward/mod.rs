//! The forwarding path.
//!
//! In the order of a request: `serve` (listeners and threads), `service` (one request from its head to the answer's),
//! `owner` and `headers` (whose it is, what stays on its hop), [`interpose`], `looked` and `gathered` (who sees it whole), [`flight`]
//! and `shared` (calls that several clients wait for), `upstream` (connections to providers), `request_body` and
//! `response_body` (what passes, and the piece that waits for the journal), `tap` (what is told to the tee).
//!
//! Nothing here parses a body, and nothing here touches a file. A body is changed only by who was asked to look at it whole.

mod answer;
mod counters;
pub mod flight;
mod gathered;
mod guard;
mod headers;
pub mod interpose;
mod knock;
mod local_exec;
mod looked;
mod owner;
mod request_body;
mod response_body;
mod serve;
mod service;
mod settings;
mod shared;
mod tap;
mod terminal;
pub(crate) mod tls;
mod upstream;

pub use answer::{BodyError, LocalBody};
pub use counters::{Counted, Counters};
pub use flight::{Flight, FlightAnswer, Lead, Waiter};
pub use interpose::{Asked, Interpose, Opened, Verdict, WholeRequest};
pub(crate) use interpose::{STORE_TIME, elsewhere};
pub use knock::{KnockError, Knocked, knock};
pub use owner::Fingerprint;
pub use serve::{Forwarding, ServeError};
pub use service::{Local, LocalAnswer, Routes};
pub use settings::{DEFAULT_UPSTREAMS, Limits, Owners, Settings, UpstreamSettings};
pub use tls::TlsError;
