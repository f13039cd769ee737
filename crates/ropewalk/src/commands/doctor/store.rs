//! Where things are kept: the store, the journal, and who may read them.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ropewalk_proxy::recorder::REJECTED_NAME;
use ropewalk_store::sqlite;

use super::finding::Finding;
use super::shown;
use crate::any_store::AnyStore;
use crate::config::Place;
use crate::context::Context;
use crate::print::number::{bytes, counted};

/// Files that are looked at.
const FILES_MAX: usize = 4_096;

/// A journal that is fuller than this part of its bound is behind.
const JOURNAL_PART_MAX: u64 = 2;

pub(super) async fn look(context: &Context, is_running: bool, findings: &mut Vec<Finding>) {
    look_at_the_store(context, findings).await;
    let Ok(folder) = context.config.data_folder() else {
        return;
    };
    look_at_permissions(folder, findings);
    look_at_the_journal(context, folder, is_running, findings);
}

async fn look_at_the_store(context: &Context, findings: &mut Vec<Finding>) {
    const CHECK: &str = "store";
    let place = match &context.config.place {
        Place::Folder(folder) => shown(folder),
        Place::Postgres(_) => "PostgreSQL".to_owned(),
    };
    let store = match context.read_now().await {
        Ok(Some(store)) => store,
        Ok(None) => {
            findings.push(Finding::ok(CHECK, format!("{place}: nothing recorded yet")));
            return;
        }
        Err(failure) => {
            let hint = match &context.config.place {
                Place::Folder(_) => "`ropewalk fsck --read-data` says more; a newer ropewalk may have written it",
                Place::Postgres(_) => "`ropewalk serve` makes the tables; is the address right, and may you connect?",
            };
            findings.push(Finding::error(CHECK, format!("{place}: {}", failure.message())).hint(hint));
            return;
        }
    };
    let (version, engine) = match &store {
        AnyStore::Sqlite(store) => (
            store.schema_version().await,
            format!("SQLite {}", sqlite::engine_version()),
        ),
        AnyStore::Postgres(store) => (store.schema_version().await, "PostgreSQL".to_owned()),
        AnyStore::SqliteThen(_) | AnyStore::PostgresThen(_) => return,
    };
    findings.push(match version {
        Ok(version) if matches!(store, AnyStore::Sqlite(_)) && version < sqlite::SCHEMA_VERSION => Finding::note(
            CHECK,
            format!("{place}: {engine}, schema version {version}, brought up to date at the next write"),
        ),
        Ok(version) => Finding::ok(CHECK, format!("{place}: {engine}, schema version {version}")),
        Err(error) => Finding::error(CHECK, format!("{place}: {error}")).hint("`ropewalk fsck` says what is damaged"),
    });
}

fn look_at_permissions(folder: &Path, findings: &mut Vec<Finding>) {
    const CHECK: &str = "access";
    let Ok(metadata) = fs::metadata(folder) else {
        // Nothing was recorded yet; what makes it makes it private.
        return;
    };
    if metadata.uid() != rustix::process::getuid().as_raw() {
        findings.push(
            Finding::error(CHECK, format!("{} belongs to somebody else", shown(folder)))
                .hint("run ropewalk as the user that the folder belongs to, or choose another with --data"),
        );
    } else if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        findings.push(
            Finding::error(CHECK, format!("{} cannot be written", shown(folder)))
                .hint(format!("chmod u+rwx {}", shown(folder))),
        );
    }
    let is_open = |metadata: &Metadata| metadata.permissions().mode() & 0o077 != 0;
    let open: Vec<PathBuf> = files_below(folder)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|metadata| is_open(&metadata)))
        .collect();
    if is_open(&metadata) {
        findings.push(
            Finding::error(CHECK, format!("others may look into {}", shown(folder)))
                .hint(format!("it holds what you said to models: chmod 700 {}", shown(folder))),
        );
    } else if let Some(first) = open.first() {
        let count = open.len() as u64;
        findings.push(
            Finding::warning(
                CHECK,
                format!(
                    "{} readable for others, such as {}",
                    counted(count, "file is", "files are"),
                    shown(first)
                ),
            )
            .hint(format!("chmod -R go= {}", shown(folder))),
        );
    } else {
        findings.push(Finding::ok(CHECK, "only you can read what is recorded"));
    }
}

/// Of the folder and of those in it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).take(FILES_MAX).collect()
    };
    let mut files = Vec::new();
    for path in list(folder) {
        match fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            true => files.extend(list(&path)),
            false => files.push(path),
        }
    }
    files.truncate(FILES_MAX);
    files
}

fn look_at_the_journal(context: &Context, data: &Path, is_running: bool, findings: &mut Vec<Finding>) {
    const CHECK: &str = "journal";
    let journal = &context.config.serving.journal;
    let (folder, bytes_max) = (journal.folder(data), journal.settings().bytes_max);
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().take(FILES_MAX);
    let files: Vec<(PathBuf, u64)> = entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
        .collect();
    if files.is_empty() {
        return;
    }
    let is_segment = |path: &Path| path.extension().is_some_and(|kind| kind == "journal" || kind == "kept");
    let held: u64 = files
        .iter()
        .filter(|(path, _)| is_segment(path))
        .map(|(_, bytes)| bytes)
        .sum();
    findings.push(match held > bytes_max / JOURNAL_PART_MAX {
        true if is_running => Finding::warning(CHECK, format!("holds {} of {}", bytes(held), bytes(bytes_max)))
            .hint("the store does not keep up; `/healthz` of the server says whether it is down"),
        true => Finding::warning(
            CHECK,
            format!(
                "holds {} of {} that may not be recorded yet",
                bytes(held),
                bytes(bytes_max)
            ),
        )
        .hint("`ropewalk serve` records what it holds"),
        false => Finding::ok(CHECK, format!("holds {} of {}", bytes(held), bytes(bytes_max))),
    });
    if let Some((path, size)) = files.iter().find(|(path, _)| path.ends_with(REJECTED_NAME)) {
        findings.push(
            Finding::warning(
                CHECK,
                format!("the store refused exchanges for good: {} of them", bytes(*size)),
            )
            .hint(format!(
                "when the reason is gone: ropewalk import {}, then remove the file",
                shown(path)
            )),
        );
    }
}
