//! Which clients are here, in which versions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::finding::Finding;
use super::shown;
use crate::print::text::cut;

const CHECK: &str = "client";

/// Clients that `ropewalk run` records, by the names of their programs.
const CLIENTS: [&str; 6] = ["claude", "codex", "gemini", "opencode", "aider", "llm"];

/// A program that takes longer to say its version is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A version is short.
const ANSWER_BYTES_MAX: u64 = 4 << 10;
const VERSION_COLUMNS: usize = 60;

pub(super) async fn look(findings: &mut Vec<Finding>) {
    let found = CLIENTS.iter().filter_map(|name| Some((*name, find(name)?)));
    // All at once: each takes a second or so to start.
    let asked: Vec<_> = found
        .map(|(name, path)| (name, path.clone(), tokio::spawn(async move { version(&path).await })))
        .collect();
    if asked.is_empty() {
        findings.push(
            Finding::note(CHECK, format!("none on the PATH of {}", CLIENTS.join(", ")))
                .hint("any client that takes a base URL will do: see `ropewalk serve --help`"),
        );
    }
    for (name, path, version) in asked {
        let place = shown(&path);
        findings.push(match version.await.ok().flatten() {
            Some(version) => Finding::ok(CHECK, format!("{name}: {version} ({place})")),
            None => Finding::note(CHECK, format!("{name}: does not say its version ({place})")),
        });
    }
}

/// The first program of that name on the PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |path: &Path| {
        let metadata = std::fs::metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let mut places = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    places.find_map(|folder| Some(folder.join(name)).filter(|path| is_program(path)))
}

async fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().ok()?;
    let mut said = Vec::new();
    let mut stdout = child.stdout.take()?.take(ANSWER_BYTES_MAX);
    tokio::time::timeout(PATIENCE, stdout.read_to_end(&mut said))
        .await
        .ok()?
        .ok()?;
    let said = String::from_utf8_lossy(&said);
    let first = said.lines().find(|line| !line.trim().is_empty())?;
    Some(cut(first, VERSION_COLUMNS))
}
