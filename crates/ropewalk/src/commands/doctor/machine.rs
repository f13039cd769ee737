//! What the machine has to offer.

use std::path::Path;

use jiff::Timestamp;
use ropewalk_store::derived::Conversations;
use ropewalk_store::{Micros, Store as _};
use rustix::process::Resource;

use super::finding::Finding;
use super::shown;
use crate::context::Context;
use crate::print::number::bytes;

/// Less than this is soon nothing.
const FREE_BYTES_LOW: u64 = 1 << 30;
const FREE_BYTES_MIN: u64 = 128 << 20;

/// Every client has a socket, and every call one to a provider.
const DESCRIPTORS_LOW: u64 = 1_024;
const DESCRIPTORS_MIN: u64 = 128;

/// How far a clock may be behind what it said before.
const CLOCK_BACK_MAX_US: i64 = 5_000_000;

/// Owners whose newest exchange is compared with the clock.
const OWNERS_MAX: usize = 16;

pub(super) async fn look(context: &Context, findings: &mut Vec<Finding>) {
    if let Ok(folder) = context.config.data_folder() {
        findings.extend(disk(folder));
    }
    findings.push(descriptors());
    findings.push(clock(context).await);
}

fn disk(folder: &Path) -> Option<Finding> {
    const CHECK: &str = "disk";
    // The folder may not be there yet; what it will be made in is.
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let system = rustix::fs::statvfs(there).ok()?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let text = format!("{} free for {}", bytes(free), shown(folder));
    let hint = "make room, or choose another folder with --data; a full journal passes exchanges on unrecorded";
    Some(match free {
        0..FREE_BYTES_MIN => Finding::error(CHECK, text).hint(hint),
        FREE_BYTES_MIN..FREE_BYTES_LOW => Finding::warning(CHECK, text).hint(hint),
        _ => Finding::ok(CHECK, text),
    })
}

fn descriptors() -> Finding {
    const CHECK: &str = "files";
    let Some(limit) = rustix::process::getrlimit(Resource::Nofile).current else {
        return Finding::ok(CHECK, "no limit of open files");
    };
    let text = format!("{limit} files may be open at once");
    let hint = "each client and each call to a provider takes one: `ulimit -n 8192` before `ropewalk serve`";
    match limit {
        0..DESCRIPTORS_MIN => Finding::error(CHECK, text).hint(hint),
        DESCRIPTORS_MIN..DESCRIPTORS_LOW => Finding::warning(CHECK, text).hint(hint),
        _ => Finding::ok(CHECK, text),
    }
}

/// Exchanges are put in order by their times.
async fn clock(context: &Context) -> Finding {
    const CHECK: &str = "clock";
    let now = Timestamp::now();
    let ahead = match newest(context).await {
        Some(newest) => newest.0 - now.as_microsecond(),
        None => 0,
    };
    match ahead > CLOCK_BACK_MAX_US {
        true => Finding::warning(
            CHECK,
            format!(
                "it is {now:.0}, and something was recorded {} s later",
                ahead / 1_000_000
            ),
        )
        .hint("the clock was set back, or that was recorded elsewhere; what is recorded now is sorted before it"),
        false => Finding::ok(CHECK, format!("{now:.0}")),
    }
}

/// When the newest exchange of anybody was.
async fn newest(context: &Context) -> Option<Micros> {
    let store = context.read_now().await.ok()??;
    let mut newest = None;
    for (owner, _) in store.owners(None).await.ok()?.into_iter().take(OWNERS_MAX) {
        let last = Conversations::Newest { before: None, limit: 1 };
        let rows = store.conversations(owner, last).await.ok()?;
        newest = newest.max(rows.first().map(|row| row.last_at));
    }
    newest
}
