//! Which files to read, and which of them changed since.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ropewalk_core::hash::sha256;
use ropewalk_import::Format;
use ropewalk_import::source::{self, Entry};
use ropewalk_store::log::ImportedFile;

use super::summary::Summary;
use crate::cli::{Import, ImportFormat};
use crate::failure::{Failure, Kind};

/// Bytes at the end of what was read that must not have changed.
const TAIL_BYTES: u64 = 4 << 10;

/// A file to be read.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) path: PathBuf,
    /// As it is called in what is kept: absolute, so that it is one file from wherever it is named.
    pub(super) name: String,
    /// It was named rather than found, so it is a problem if it cannot be read.
    pub(super) is_named: bool,
    pub(super) format: Option<Format>,
    pub(super) size: u64,
    pub(super) modified: i64,
}

impl Job {
    pub(super) fn is_standard_input(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// Whether it is a log of a session, by its name, which ends with it, or by the folder of the session's agents.
    pub(super) fn is_of_session(&self, session: &str) -> bool {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let stem = name.as_deref().and_then(|name| name.split('.').next());
        let is_own = stem.is_some_and(|stem| {
            let before = stem.strip_suffix(session);
            before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
        });
        is_own || self.path.iter().any(|folder| folder == session)
    }
}

/// The files that are named, and those in the folders that are named. What is in the way of one is told and the rest goes on.
pub(super) fn find(arguments: &Import, summary: &mut Summary) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    for root in &arguments.paths {
        let is_folder = fs::metadata(root).is_ok_and(|metadata| metadata.is_dir());
        for entry in source::walk(root) {
            match entry {
                Entry::File(path) => jobs.extend(job(&path, !is_folder, arguments.format, summary)),
                Entry::Problem(path, error) => summary.problem(&path.display().to_string(), 0, cannot_read(&error)),
            }
        }
    }
    if let Some(session) = &arguments.replace {
        jobs.retain(|job| job.is_of_session(session));
        if jobs.is_empty() {
            return Err(
                Failure::new(Kind::NotFound, format!("no file here is of session `{session}`"))
                    .hint("a log is named after its session; name the folder that it lies in"),
            );
        }
    }
    // What was written first is read first: linking then seldom meets what is earlier than what it knows.
    jobs.sort_by_key(|job| job.modified);
    match jobs.is_empty() && summary.skipped == 0 {
        true => Err(Failure::new(Kind::NotFound, "no log is there").hint(
            "in a folder, files are looked at that end in .jsonl, .json, .har, .zip or .db, or in these and .gz or .zst",
        )),
        false => Ok(jobs),
    }
}

/// `None` where the file cannot be looked at, which is told.
pub(super) fn job(path: &Path, is_named: bool, format: ImportFormat, summary: &mut Summary) -> Option<Job> {
    let format = format_of(format);
    if path.as_os_str() == "-" {
        return Some(Job {
            path: path.to_owned(),
            name: "-".to_owned(),
            is_named,
            format,
            size: 0,
            modified: 0,
        });
    }
    let looked_at = fs::canonicalize(path).and_then(|absolute| Ok((fs::metadata(path)?, absolute)));
    match looked_at {
        Ok((metadata, absolute)) => Some(Job {
            path: path.to_owned(),
            name: absolute.display().to_string(),
            is_named,
            format,
            size: metadata.len(),
            modified: modified(&metadata).max(log_modified(path)),
        }),
        Err(error) => {
            summary.problem(&path.display().to_string(), 0, cannot_read(&error));
            None
        }
    }
}

fn format_of(format: ImportFormat) -> Option<Format> {
    Some(match format {
        ImportFormat::Auto => return None,
        ImportFormat::Exchanges => Format::Exchanges,
        ImportFormat::ClaudeCode => Format::ClaudeCode,
        ImportFormat::Codex => Format::Codex,
        ImportFormat::Llm => Format::Llm,
        ImportFormat::Chatgpt => Format::ChatGpt,
        ImportFormat::ClaudeAi => Format::ClaudeAi,
        ImportFormat::Har => Format::Har,
    })
}

pub(super) fn modified(metadata: &fs::Metadata) -> i64 {
    metadata
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.mtime_nsec())
}

/// When the log beside a database was changed: what it has is not in the database yet.
fn log_modified(path: &Path) -> i64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).map_or(i64::MIN, |metadata| modified(&metadata))
}

pub(super) fn cannot_read(error: &std::io::Error) -> String {
    format!("cannot be read: {error}")
}

/// Whether nothing happened to a file since it was read, without looking into it.
pub(super) fn is_unchanged(job: &Job, read: &ImportedFile) -> bool {
    (read.size, read.modified) == (job.size, job.modified) && read.problems == 0
}

/// The hash over the end of a file's first `offset` bytes.
pub(super) fn tail(path: &Path, offset: u64) -> Option<[u8; 32]> {
    let length = offset.min(TAIL_BYTES);
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(offset - length)).ok()?;
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes).ok()?;
    Some(sha256(&bytes))
}
