//! Changes to a store that a server is writing.
//!
//! A data folder has one writer. While a server runs, a command that changes something asks it to, over a socket in the folder
//! that only its user can open: one JSON line for each request, one for its answer. [`server`] has its end, [`client`] the
//! command's. Recording the same again changes nothing, so a connection that breaks can be tried again.

pub(crate) mod client;
pub(crate) mod server;

use std::path::{Path, PathBuf};

use ropewalk_engine::Progress;
use ropewalk_store::store::{Outcome, Recorded};
use serde::{Deserialize, Serialize};

/// Longest request: a batch of an import, escaped.
const REQUEST_BYTES_MAX: usize = 256 << 20;

/// Where a server of this folder listens.
pub(crate) fn socket_path(data_folder: &Path) -> PathBuf {
    data_folder.join("ropewalk.sock")
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Request {
    Record { owner: String, exchanges: Vec<Sent> },
    Link { owner: String },
    Rebuild { owner: String },
}

/// An exchange and where it was found.
#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    /// A line of the exchange format.
    line: String,
    file: Option<String>,
    number: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// One for each exchange that was sent.
    Recorded(Vec<Became>),
    Linked(Linked),
    Failed {
        message: String,
    },
}

/// How linking went.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Linked {
    pub(crate) linked: u64,
    pub(crate) moved: u64,
}

impl From<Progress> for Linked {
    fn from(progress: Progress) -> Self {
        Linked {
            linked: progress.linked as u64,
            moved: progress.moved.len() as u64,
        }
    }
}

/// What became of an exchange, as `ropewalk_store` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Became {
    New,
    Completed,
    Known,
    Conflict,
}

impl From<&Recorded> for Became {
    fn from(recorded: &Recorded) -> Self {
        match recorded.outcome {
            Outcome::New => Became::New,
            Outcome::Completed => Became::Completed,
            Outcome::Known => Became::Known,
            Outcome::Conflict => Became::Conflict,
        }
    }
}
