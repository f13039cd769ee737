//! Changes to a store that a server is writing.
//!
//! A data folder has one writer. While a server runs, a command that changes something asks it to, over a socket in the folder
//! that only its user can open: one JSON line for each request, one for its answer. [`server`] has its end, [`client`] the
//! command's, [`imports`] how far commands that import have come. Recording the same again changes nothing, so a connection that breaks can be tried again.

pub(crate) mod client;
pub(crate) mod imports;
pub(crate) mod removal;
mod sent;
pub(crate) mod server;

use std::path::{Path, PathBuf};

use ropewalk_engine::records::Repair;
use ropewalk_engine::view::View;
use ropewalk_engine::{Progress, Recorders};
use ropewalk_store::log::{Files, ImportedFile};
use ropewalk_store::store::{Outcome, Recorded};
use ropewalk_store::{Store as _, StoreError};
use serde::{Deserialize, Serialize};

use crate::any_store::AnyStore;
use crate::failure::Failure;
use removal::{Removal, Removed, Shrunk, Went};
use sent::{SentFile, SentLogged};

/// Longest request: a batch of an import, escaped.
const REQUEST_BYTES_MAX: usize = 256 << 20;

/// Where a server of this folder listens.
pub(crate) fn socket_path(data_folder: &Path) -> PathBuf {
    data_folder.join("ropewalk.sock")
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Request {
    Record {
        owner: String,
        exchanges: Vec<Sent>,
    },
    Link {
        owner: String,
    },
    Rebuild {
        owner: String,
        /// Hashes and keys first.
        #[serde(default)]
        projections: bool,
    },
    /// A piece of a file, which may be its first. Records that are to replace others are held until [`Request::ReplaceSession`].
    Log {
        owner: String,
        file: String,
        is_first: bool,
        holds_records: bool,
        logged: Vec<SentLogged>,
    },
    /// Puts the records that were held in the place of a session's.
    ReplaceSession {
        owner: String,
        session: String,
    },
    /// Which of these files were read, and how far.
    FilesRead {
        owner: Option<String>,
        paths: Vec<String>,
    },
    SaveFiles {
        owner: String,
        files: Vec<SentFile>,
    },
    RepairSession {
        owner: String,
        session: String,
        is_from_log: bool,
    },
    Title {
        owner: String,
        reference: String,
        title: String,
    },
    Remove {
        owner: String,
        removal: Removal,
    },
    /// What nobody uses.
    CountUnused {
        owner: String,
    },
    Shrink,
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
    Rebuilt(Rebuilt),
    /// One for each turn that was sent, and lines that could not be put together.
    Taken {
        became: Vec<Became>,
        problems: Vec<(u64, String)>,
    },
    Files(Vec<SentFile>),
    Repaired(Vec<Repaired>),
    /// The conversation of this friendly id has its title.
    Titled(String),
    Removed(Removed),
    Unused(Went),
    Shrunk(Shrunk),
    Done,
    Failed {
        message: String,
    },
}

/// What was put right: the rule, the record, what was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repaired {
    pub(crate) rule: String,
    pub(crate) uuid: String,
    pub(crate) what: String,
}

impl From<Repair> for Repaired {
    fn from(repair: Repair) -> Self {
        Repaired {
            rule: repair.rule.name().to_owned(),
            uuid: repair.uuid,
            what: repair.what,
        }
    }
}

/// Puts the records of a session right.
async fn repair_session(
    store: &AnyStore,
    owner: &str,
    session: &str,
    is_from_log: bool,
) -> Result<Vec<Repaired>, Failure> {
    let Some(id) = store.find_owner(owner).await? else {
        return Ok(Vec::new());
    };
    let view = View::new(store, id, owner);
    let repairs = view.repair_records(session, is_from_log, false).await?;
    Ok(repairs.into_iter().map(Repaired::from).collect())
}

/// What nobody uses of an owner's.
async fn count_unused(store: &AnyStore, owner: &str) -> Result<Went, Failure> {
    match store.find_owner(owner).await? {
        Some(owner) => Ok(store.sweep(owner, true).await?.into()),
        None => Ok(Went::default()),
    }
}

/// Gives a conversation a title; says its friendly id.
async fn title(
    recorders: &mut Recorders<'_, AnyStore>,
    owner: &str,
    reference: &str,
    title: &str,
) -> Result<String, Failure> {
    let store = recorders.store();
    let recorder = recorders.of(owner).await?;
    // What was recorded a moment ago has its name then.
    recorder.link().await?;
    let view = View::new(store, recorder.owner(), owner);
    Ok(view.set_title(reference, title).await?)
}

/// How linking went.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Linked {
    pub(crate) linked: u64,
    pub(crate) moved: u64,
}

/// How rebuilding went.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Rebuilt {
    pub(crate) links: Linked,
    /// Exchanges whose hashes and keys an older version had made, and those of them that have others now, where that was asked for.
    pub(crate) projections: Option<(u64, u64)>,
}

/// Links an owner's exchanges again, after making their hashes and keys again if that is asked for.
pub(crate) async fn rebuild(
    recorders: &mut Recorders<'_, AnyStore>,
    owner: &str,
    projections: bool,
) -> Result<Rebuilt, Failure> {
    let recorder = recorders.of(owner).await?;
    let projections = match projections {
        true => {
            let done = recorder.project().await?;
            Some((done.old, done.changed))
        }
        false => None,
    };
    Ok(Rebuilt {
        links: recorder.rebuild().await?.into(),
        projections,
    })
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
    Replaced,
    Forgotten,
}

impl From<&Recorded> for Became {
    fn from(recorded: &Recorded) -> Self {
        match recorded.outcome {
            Outcome::New => Became::New,
            Outcome::Completed => Became::Completed,
            Outcome::Known => Became::Known,
            Outcome::Conflict => Became::Conflict,
            Outcome::Replaced => Became::Replaced,
            Outcome::Forgotten => Became::Forgotten,
        }
    }
}

/// How far files were read, for an owner or for anybody. Nobody is made by asking.
async fn files_read(
    store: &AnyStore,
    owner: Option<&str>,
    paths: Vec<String>,
) -> Result<Vec<ImportedFile>, StoreError> {
    let owners = match owner {
        Some(name) => store.find_owner(name).await?.into_iter().collect(),
        None => store
            .all_owners()
            .await?
            .into_iter()
            .map(|(owner, _)| owner)
            .collect::<Vec<_>>(),
    };
    let mut files = Vec::new();
    for owner in owners {
        files.extend(store.imported_files(owner, Files::Named(paths.clone())).await?);
    }
    Ok(files)
}
