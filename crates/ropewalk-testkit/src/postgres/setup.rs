//! How a private server is set up: its settings, its files, and what is made hard for it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::user::User;
use super::{PrivatePostgres, said, succeed};

/// Another process may take the free port before the server does.
const START_TRIES: usize = 3;

/// The unit of `ulimit -f`.
const LIMIT_UNIT: u64 = 512;

#[derive(Debug, Clone, Default)]
pub struct Setup {
    settings: Vec<String>,
    files: Vec<(String, Vec<u8>)>,
    fsync_delay: Duration,
    file_bytes_max: Option<u64>,
}

impl Setup {
    /// A line of its configuration. Commits are durable unless one says otherwise.
    #[must_use]
    pub fn setting(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    /// A setting that names a file, which only the server can read, and what is in it.
    #[must_use]
    pub fn file_setting(mut self, name: &str, contents: &[u8]) -> Self {
        self.files.push((name.to_owned(), contents.to_owned()));
        self
    }

    /// Makes every fsync slower, by a library that is compiled with `cc` and loaded into the server.
    #[must_use]
    pub fn fsync_delay(mut self, delay: Duration) -> Self {
        self.fsync_delay = delay;
        self
    }

    /// No file of the server can grow beyond it: what a full disk looks like, for tables at least. A limit in the middle
    /// of a page leaves half a page written, which the server reports as a full disk.
    #[must_use]
    pub fn file_bytes_max(mut self, bytes: u64) -> Self {
        self.file_bytes_max = Some(bytes);
        self
    }

    pub fn start(&self) -> Result<PrivatePostgres, String> {
        let bin = find_programs().ok_or("PostgreSQL is not installed; run `make setup`, which installs it")?;
        let mut tried = Err("it was never tried".to_owned());
        for _ in 0..START_TRIES {
            tried = PrivatePostgres::try_start(&bin, self);
            if tried.is_ok() {
                break;
            }
        }
        tried.map_err(|why| format!("a private PostgreSQL could not be started: {why}"))
    }

    /// Makes the cluster and the files beside it.
    pub(super) fn prepare(&self, bin: &Path, folder: &Path, user: &User) -> Result<(), String> {
        let mut initdb = user.command(&bin.join("initdb"));
        initdb.args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]);
        if self.file_bytes_max.is_some() {
            // The log comes in files of a fixed size, which must stay below the limit.
            initdb.arg("--wal-segsize=1");
        }
        succeed(initdb.arg("-D").arg(folder.join("data")))?;
        for (name, contents) in &self.files {
            let path = folder.join(name);
            fs::write(&path, contents).map_err(said)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(said)?;
            user.give(&path)?;
        }
        Ok(())
    }

    /// All settings, as lines of a configuration.
    pub(super) fn lines(&self, folder: &Path) -> Vec<String> {
        let files = self.files.iter();
        let of_files = files.map(|(name, _)| format!("{name}={}", folder.join(name).display()));
        self.settings.iter().cloned().chain(of_files).collect()
    }

    /// What the shell beside the server gives to `ulimit -f`.
    pub(super) fn file_limit(&self) -> String {
        self.file_bytes_max
            .map_or("unlimited".to_owned(), |bytes| (bytes / LIMIT_UNIT).to_string())
    }

    pub(super) fn slow_down(&self, folder: &Path, server: &mut Command) -> Result<(), String> {
        if self.fsync_delay.is_zero() {
            return Ok(());
        }
        let library = folder.join("slow_fsync.so");
        let source = folder.join("slow_fsync.c");
        fs::write(&source, include_str!("slow_fsync.c")).map_err(said)?;
        let mut cc = Command::new("cc");
        succeed(cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source))?;
        server.env("LD_PRELOAD", &library);
        server.env("ROPEWALK_FSYNC_DELAY_US", self.fsync_delay.as_micros().to_string());
        Ok(())
    }
}

/// The folder with `initdb` and `postgres`: from PATH, else where Debian keeps them, the newest version first.
pub(super) fn find_programs() -> Option<PathBuf> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&in_path).collect::<Vec<_>>();
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .collect();
    versions.sort_unstable();
    let versions = versions.into_iter().rev().map(|(_, bin)| bin);
    let has_programs = |bin: &PathBuf| {
        ["initdb", "postgres", "psql"]
            .iter()
            .all(|name| bin.join(name).is_file())
    };
    in_path.into_iter().chain(versions).find(has_programs)
}

/// Whether the machine has a compiler, without which no fsync can be made slower.
pub fn has_compiler() -> bool {
    let cc = Command::new("cc")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    cc.is_ok_and(|status| status.success())
}
