//! Following files that grow.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;

use notify::{EventKind, RecursiveMode, Watcher as _};
use ropewalk_import::source;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::intake::Intake;
use super::summary::Summary;
use super::worker::{CHUNKS_WAITING, Shared};
use super::{Job, files, follower};
use crate::cli::Import;
use crate::failure::{Failure, Kind};
use crate::print::out::say;

/// Files that changed and wait for being read. A watcher that finds this full waits.
const CHANGES_WAITING: usize = 1_024;

/// After a change, others are waited for this long: a client writes a turn in several lines.
const GATHER: Duration = Duration::from_millis(100);

/// How often all files are looked at beside that. Nothing tells of what is put into a new folder before it is watched, of a queue that was
/// full, or of a file system without notifications.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What is to be followed, from before the files are read for the first time, so that nothing between is missed.
pub(super) struct Watch {
    changes: mpsc::Receiver<PathBuf>,
    _watcher: notify::RecommendedWatcher,
}

impl Watch {
    pub(super) fn start(roots: &[PathBuf]) -> Result<Self, Failure> {
        let (to, changes) = mpsc::channel(CHANGES_WAITING);
        let followed = roots.to_vec();
        let told = move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matches!(event.kind, EventKind::Access(_) | EventKind::Remove(_)) {
                return;
            }
            for path in event.paths.into_iter().filter(|path| is_followed(path, &followed)) {
                if to.blocking_send(path).is_err() {
                    return;
                }
            }
        };
        let mut watcher = notify::recommended_watcher(told).map_err(|error| cannot_watch(&error))?;
        for root in roots {
            // A file that is replaced is another one under its name, so its folder is watched.
            let (path, mode) = match root.is_dir() {
                true => (root.as_path(), RecursiveMode::Recursive),
                false => (folder_of(root), RecursiveMode::NonRecursive),
            };
            watcher.watch(path, mode).map_err(|error| cannot_watch(&error))?;
        }
        Ok(Watch {
            changes,
            _watcher: watcher,
        })
    }
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// A file of a log in a folder that was named, or a file that was named itself. Links are not followed.
fn is_followed(path: &Path, roots: &[PathBuf]) -> bool {
    let is_link = path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file());
    let is_asked = |root: &PathBuf| match root.is_dir() {
        true => path.starts_with(root) && source::is_log(path),
        false => path.file_name() == root.file_name(),
    };
    !is_link && roots.iter().any(is_asked)
}

fn cannot_watch(error: &notify::Error) -> Failure {
    Failure::new(Kind::Configuration, format!("the files cannot be followed: {error}"))
        .hint("fs.inotify.max_user_watches may be too low for so many folders")
}

/// Records what is added to files until it is told to stop.
pub(super) async fn follow(
    mut watch: Watch,
    intake: &mut Intake<'_>,
    shared: &Arc<Shared>,
    arguments: &Import,
) -> Result<(), Failure> {
    let stop = |kind| signal(kind).map_err(|error| Failure::new(Kind::Internal, error.to_string()));
    let (mut terminated, mut interrupted) = (stop(SignalKind::terminate())?, stop(SignalKind::interrupt())?);
    let (changed, changes) = std_mpsc::sync_channel(CHANGES_WAITING);
    let (to, mut chunks) = mpsc::channel(CHUNKS_WAITING);
    let follower = {
        let (shared, format) = (Arc::clone(shared), arguments.format);
        std::thread::spawn(move || follower::run(&shared, format, &changes, &to))
    };
    // What was added while the rest was still being read.
    let mut seen = Seen::default();
    let found = seen.look(arguments);
    for job in intake.changed(found).await? {
        tell(&changed, job.path);
    }
    let mut look_again = tokio::time::interval(LOOK_AGAIN);
    look_again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    say("following; end with Ctrl-C");
    loop {
        tokio::select! {
            _ = look_again.tick() => {
                for job in seen.look(arguments) {
                    tell(&changed, job.path);
                }
            }
            Some(path) = watch.changes.recv() => {
                tokio::time::sleep(GATHER).await;
                let mut paths = vec![path];
                while let Ok(path) = watch.changes.try_recv() {
                    if !paths.contains(&path) {
                        paths.push(path);
                    }
                }
                for path in paths {
                    tell(&changed, path);
                }
            }
            Some(chunk) = chunks.recv() => {
                let is_done = chunk.done.is_some();
                intake.chunk(chunk).await?;
                if is_done {
                    intake.settle().await?;
                }
            }
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        }
    }
    drop(changed);
    // What is being read is taken to its end; then the thread has nothing left to do.
    while let Some(chunk) = chunks.recv().await {
        intake.chunk(chunk).await?;
    }
    drop(follower.join());
    intake.settle().await
}

/// Files as they were last looked at.
#[derive(Debug, Default)]
struct Seen(HashMap<PathBuf, (u64, i64)>);

impl Seen {
    /// Those that are new or other than before.
    fn look(&mut self, arguments: &Import) -> Vec<Job> {
        // What cannot be read was told when the files were read first.
        let found = files::find(arguments, &mut Summary::new()).unwrap_or_default();
        let mut is_other =
            |job: &Job| self.0.insert(job.path.clone(), (job.size, job.modified)) != Some((job.size, job.modified));
        found.into_iter().filter(|job| is_other(job)).collect()
    }
}

/// Where the follower is behind by so many files, this one is found by the next change, or by the next import.
fn tell(changed: &std_mpsc::SyncSender<PathBuf>, path: PathBuf) {
    drop(changed.try_send(path));
}
