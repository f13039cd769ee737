//! The journal of a server that is not there any more: into the store, and then gone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ropewalk_proxy::counters::Counters;
use ropewalk_proxy::journal::{Files, Folder, Journal, is_segment};
use ropewalk_proxy::recorder::{POSITION_NAME, Recording};

use super::serve::recorder_setup;
use crate::any_store::AnyStore;
use crate::config::Config;
use crate::failure::{Failure, Kind};

/// How long recording a journal may take: one of a gigabyte is read and linked in minutes.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// Records everything that a journal holds, and empties it. Nothing happens where there is none.
pub(crate) async fn drain(config: &Config, folder: &Path, store: &AnyStore) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Ok(());
    }
    let files = Folder::open(folder).map_err(|error| {
        Failure::from_error(Kind::Configuration, &error).hint("the server that uses it has to be stopped first")
    })?;
    let files: Arc<dyn Files> = Arc::new(files);
    let internal = |error: &dyn std::error::Error| Failure::from_error(Kind::Internal, error);
    let counters = Arc::new(Counters::default());
    let opened = Journal::open(Arc::clone(&files), config.serving.journal.settings(), counters);
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
    files.sync_folder().map_err(|error| internal(&error))
}
