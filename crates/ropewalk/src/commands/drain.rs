//! The journal of a server that is not there any more: into the store, and then gone.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ropewalk_proxy::counters::Counters;
use ropewalk_proxy::journal::{Files, Folder, Journal, is_segment};
use ropewalk_proxy::recorder::{POSITION_NAME, Recording};

use serde::Serialize;

use super::serve::recorder_setup;
use crate::any_store::AnyStore;
use crate::config::Config;
use crate::failure::{Failure, Kind};

/// How long recording a journal may take: one of a gigabyte is read and linked in minutes.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// What a journal held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Drained {
    /// Exchanges that the store did not have.
    pub(crate) exchanges: u64,
    /// Records that were damaged, and segments whose end was missing.
    pub(crate) damaged: u64,
    /// Exchanges that the store would not take; they are put aside in the folder.
    pub(crate) rejected: u64,
}

/// Records everything that a journal holds, and empties it. Nothing happens where there is none.
pub(crate) async fn drain(config: &Config, folder: &Path, store: &AnyStore) -> Result<Drained, Failure> {
    match folder.is_dir() {
        true => drain_files(config, locked(folder)?, store).await,
        false => Ok(Drained::default()),
    }
}

/// A journal that no server uses, and none will until it is dropped.
pub(crate) fn locked(folder: &Path) -> Result<Folder, Failure> {
    Folder::open(folder).map_err(|error| {
        Failure::from_error(Kind::Configuration, &error).hint("the server that uses it has to be stopped first")
    })
}

pub(crate) async fn drain_files(config: &Config, files: Folder, store: &AnyStore) -> Result<Drained, Failure> {
    let files: Arc<dyn Files> = Arc::new(files);
    let internal = |error: &dyn std::error::Error| Failure::from_error(Kind::Internal, error);
    let counters = Arc::new(Counters::default());
    let opened = Journal::open(
        Arc::clone(&files),
        config.serving.journal.settings(),
        Arc::clone(&counters),
    );
    let (journal, writer) = opened.map_err(|error| internal(&error))?;
    // Nothing more will be written: what is there is all there is.
    drop(writer);
    let store = Arc::new(store.clone());
    let recording = Recording::start(journal, recorder_setup(config, None), move || {
        let store = Arc::clone(&store);
        async move { Ok(store) }
    });
    let recording = recording.map_err(|error| internal(&error))?;
    let finished = tokio::task::spawn_blocking(move || recording.finish(TIME_MAX)).await;
    if !finished.unwrap_or(false) {
        return Err(Failure::new(Kind::Internal, "the journal could not be recorded").hint("run the command again"));
    }
    for (name, _) in files.list().map_err(|error| internal(&error))? {
        if is_segment(&name) || name == POSITION_NAME {
            files.remove(&name).map_err(|error| internal(&error))?;
        }
    }
    files.sync_folder().map_err(|error| internal(&error))?;
    let counted = counters.snapshot();
    Ok(Drained {
        exchanges: counted.by_label.exchanges.values().sum(),
        damaged: counted.bad_records + counted.torn_tails,
        rejected: counted.rejected,
    })
}

/// Whether there is something in a folder that a server left.
pub(crate) fn has_journal(folder: &Path) -> bool {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| is_segment(&name))
}
