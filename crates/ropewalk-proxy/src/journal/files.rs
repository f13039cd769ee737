//! The files of a journal, behind a small trait, so that a test can fail, delay, tear and forget writes.
//!
//! [`Folder`] is the real one. It holds a lock for as long as it lives: two processes that append to one journal would write
//! over each other's numbers.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a journal is kept.
pub trait Files: fmt::Debug + Send + Sync {
    /// Names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;

    /// A file to append to, made if it is missing.
    fn append_to(&self, name: &str) -> io::Result<Arc<dyn OpenFile>>;

    /// A file that is there, to read from.
    fn open(&self, name: &str) -> io::Result<Arc<dyn OpenFile>>;

    /// Gives a file another name, at once, in the place of the one that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names of files that were made or removed durable.
    fn sync_folder(&self) -> io::Result<()>;
}

pub trait OpenFile: fmt::Debug + Send + Sync {
    /// All of it, or an error; then any part of it may be in the file.
    fn append(&self, data: &[u8]) -> io::Result<()>;

    /// Makes what was appended durable.
    fn sync(&self) -> io::Result<()>;

    /// Fills as much of the buffer as there is and says how much that was.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// The name of the file that says whose the folder is.
pub const LOCK_NAME: &str = "lock";

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("another process uses the journal in {folder}")]
    InUse { folder: PathBuf },
    #[error("cannot {what} {path}")]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A folder of the file system, ours alone.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Kept for its lock.
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is missing. What is in it can be read by its user only.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let cannot = |what, path: &Path, source| FolderError::Io {
            what,
            path: path.to_owned(),
            source,
        };
        let mut builder = fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(path);
        made.map_err(|source| cannot("make", path, source))?;
        let lock_path = path.join(LOCK_NAME);
        let opened = private().write(true).create(true).truncate(false).open(&lock_path);
        let lock = opened.map_err(|source| cannot("open", &lock_path, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(FolderError::InUse {
                folder: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(cannot("lock", &lock_path, source)),
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

impl Files for Folder {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if let Ok(name) = entry.file_name().into_string()
                && metadata.is_file()
            {
                found.push((name, metadata.len()));
            }
        }
        Ok(found)
    }

    fn append_to(&self, name: &str) -> io::Result<Arc<dyn OpenFile>> {
        let file = private()
            .append(true)
            .read(true)
            .create(true)
            .open(self.path.join(name))?;
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(File::open(self.path.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl OpenFile for File {
    fn append(&self, data: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(data)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while !buffer.is_empty() {
            match FileExt::read_at(self, buffer, offset) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    offset += count as u64;
                    buffer = &mut buffer[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}
