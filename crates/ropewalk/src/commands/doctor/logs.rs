//! What other tools have recorded and `ropewalk import` could bring in.

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::{home, shown, variable};
use crate::print::number::{bytes, counted};

const CHECK: &str = "logs";

/// Entries that are looked at, and how deep they lie: Codex has year, month and day, Claude Code subagents of a session.
const ENTRIES_MAX: usize = 20_000;
const DEPTH_MAX: usize = 5;

/// What was counted below a folder.
#[derive(Default)]
struct Counted {
    files: u64,
    bytes: u64,
    entries: usize,
}

pub(super) fn look(findings: &mut Vec<Finding>) {
    let Some(home) = home() else { return };
    let folder = |name: &str, usual: &str| variable(name).map_or_else(|| home.join(usual), PathBuf::from);
    let places = [
        (
            "Claude Code",
            "claude-code",
            folder("CLAUDE_CONFIG_DIR", ".claude").join("projects"),
        ),
        ("Codex", "codex", folder("CODEX_HOME", ".codex").join("sessions")),
    ];
    for (client, format, place) in places {
        let mut counted_here = Counted::default();
        count(&place, 0, &mut counted_here);
        if counted_here.files > 0 {
            let at_least = if counted_here.entries >= ENTRIES_MAX {
                "at least "
            } else {
                ""
            };
            let files = counted(counted_here.files, "file", "files");
            let message = format!(
                "{client} has {at_least}{files} of {} in {}",
                bytes(counted_here.bytes),
                shown(&place)
            );
            findings.push(Finding::note(CHECK, message).hint(command(&place, format)));
        }
    }
    let database = folder("LLM_USER_PATH", ".config/io.datasette.llm").join("logs.db");
    if let Ok(metadata) = fs::metadata(&database) {
        let message = format!("llm has a database of {}: {}", bytes(metadata.len()), shown(&database));
        findings.push(Finding::note(CHECK, message).hint(command(&database, "llm")));
    }
}

fn command(place: &Path, format: &str) -> String {
    format!("to bring it in: ropewalk import {} --format {format}", shown(place))
}

/// Links are not followed: they could lead anywhere, and around.
fn count(folder: &Path, depth: usize, into: &mut Counted) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        into.entries += 1;
        if into.entries >= ENTRIES_MAX {
            return;
        }
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else {
            continue;
        };
        if metadata.is_dir() && depth < DEPTH_MAX {
            count(&entry.path(), depth + 1, into);
        } else if metadata.is_file() && entry.path().extension().is_some_and(|kind| kind == "jsonl") {
            into.files += 1;
            into.bytes += metadata.len();
        }
    }
}
