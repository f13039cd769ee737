//! Who changed what, and when.
//!
//! One JSON line for each change in `audit.jsonl` of the data folder, which only its user can read: appended, never changed. It names
//! exchanges and conversations by their ids and counts; nothing of it was said by anybody, so that what is forgotten stays
//! forgotten. A file that has grown large is put aside under the time of its last line and still read.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ropewalk_engine::view::utc;
use ropewalk_server::read::audit::{Noted, Period};
use ropewalk_store::Micros;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Config;
use crate::print::out::say;

const FILE_NAME: &str = "audit.jsonl";

/// A larger file is put aside.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Longest line: a change is named, not described.
const LINE_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) v: u32,
    pub(crate) at: Timestamp,
    /// Who did it: a number of the system's, and what the environment calls it.
    pub(crate) uid: u32,
    pub(crate) user: Option<String>,
    /// Whose data was changed, if it was one owner's.
    pub(crate) owner: Option<String>,
    /// What was done, by the name of the command.
    pub(crate) verb: String,
    /// What it was done to, by its id.
    pub(crate) about: Option<String>,
    /// Counts, and the like.
    pub(crate) detail: Value,
}

/// Notes a change. A line that cannot be written is told, and holds nothing up: what was done is done.
pub(crate) fn note(config: &Config, verb: &str, owner: Option<&str>, about: Option<&str>, detail: Value) {
    let entry = Entry {
        v: 1,
        at: Timestamp::now(),
        uid: rustix::process::getuid().as_raw(),
        user: std::env::var("USER").ok().filter(|user| !user.is_empty()),
        owner: owner.map(str::to_owned),
        verb: verb.to_owned(),
        about: about.map(str::to_owned),
        detail,
    };
    let written = match config.data_folder() {
        Ok(folder) => append(folder, &entry).map_err(|error| error.to_string()),
        Err(failure) => Err(failure.message().to_owned()),
    };
    if let Err(why) = written {
        say(&format!("the audit log cannot be written: {why}"));
    }
}

fn append(folder: &Path, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    if line.len() > LINE_BYTES_MAX {
        let short = Entry {
            about: entry.about.as_ref().map(|about| about.chars().take(256).collect()),
            detail: Value::from("too long"),
            ..entry.clone()
        };
        line = serde_json::to_vec(&short)?;
    }
    line.push(b'\n');
    fs::create_dir_all(folder)?;
    let path = folder.join(FILE_NAME);
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > FILE_BYTES_MAX) {
        fs::rename(&path, folder.join(format!("audit.{}.jsonl", entry.at.as_microsecond())))?;
    }
    // One write at the end of the file: lines of commands that end together do not mix.
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(&line)
}

/// The files, oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_aside = |name: &str| name.starts_with("audit.") && name.ends_with(".jsonl") && name != FILE_NAME;
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut aside: Vec<String> = names.filter(|name| is_aside(name)).collect();
    aside.sort();
    aside.push(FILE_NAME.to_owned());
    aside.into_iter().map(|name| folder.join(name)).collect()
}

/// Hands over everything that was noted since a time, oldest first. A line that is none is skipped: a full disk may have cut it off.
pub(crate) fn read<E>(
    folder: &Path,
    since: Option<Timestamp>,
    mut found: impl FnMut(Entry) -> Result<(), E>,
) -> Result<(), E> {
    for path in files(folder) {
        let Ok(file) = File::open(path) else { continue };
        let mut lines = BufReader::new(file);
        loop {
            let mut line = Vec::new();
            let bound = LINE_BYTES_MAX as u64 * 2;
            match lines.by_ref().take(bound).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let Ok(entry) = serde_json::from_slice::<Entry>(&line) else {
                continue;
            };
            if since.is_none_or(|since| since <= entry.at) {
                found(entry)?;
            }
        }
    }
    Ok(())
}

/// The newest changes of one owner's data, the newest first.
pub(crate) fn newest(folder: &Path, owner: &str, period: Period) -> Vec<Noted> {
    let time = |at: Micros| Timestamp::from_microsecond(at.0).ok();
    let before = period.before.and_then(time);
    let mut kept = VecDeque::new();
    let _: Result<(), Infallible> = read(folder, period.since.and_then(time), |entry| {
        // A cursor has microseconds, as every time that is shown.
        let is_before = before.is_none_or(|before| entry.at.as_microsecond() < before.as_microsecond());
        if is_before && entry.owner.as_deref() == Some(owner) {
            kept.push_front(Noted {
                at: utc(Micros(entry.at.as_microsecond())),
                user: entry.user,
                verb: entry.verb,
                about: entry.about,
                detail: entry.detail,
            });
            kept.truncate(period.most);
        }
        Ok(())
    });
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(about: &str, at: i64) -> Entry {
        Entry {
            v: 1,
            at: Timestamp::from_second(at).unwrap(),
            uid: 1,
            user: None,
            owner: Some("ann".to_owned()),
            verb: "title".to_owned(),
            about: Some(about.to_owned()),
            detail: Value::Null,
        }
    }

    fn all(folder: &Path, since: Option<i64>) -> Vec<String> {
        let mut met = Vec::new();
        let since = since.map(|second| Timestamp::from_second(second).unwrap());
        let push = |entry: Entry| {
            met.push(entry.about.unwrap());
            Ok::<(), ()>(())
        };
        read(folder, since, push).unwrap();
        met
    }

    #[test]
    fn what_was_noted_comes_back_in_its_order_also_from_files_put_aside_and_around_damage() {
        let folder = tempfile::tempdir().unwrap();
        append(folder.path(), &entry("a", 1)).unwrap();
        fs::rename(folder.path().join(FILE_NAME), folder.path().join("audit.1000000.jsonl")).unwrap();
        append(folder.path(), &entry("b", 2)).unwrap();
        let mut file = OpenOptions::new()
            .append(true)
            .open(folder.path().join(FILE_NAME))
            .unwrap();
        file.write_all(b"{\"v\":1,\"at\n\xff\xfe\n").unwrap();
        append(folder.path(), &entry("c", 3)).unwrap();
        assert_eq!(all(folder.path(), None), ["a", "b", "c"]);
        assert_eq!(all(folder.path(), Some(2)), ["b", "c"]);
    }

    #[test]
    fn the_newest_of_an_owner_come_first_and_page_by_page() {
        let folder = tempfile::tempdir().unwrap();
        for (about, at) in [("a", 1), ("b", 2), ("c", 3)] {
            append(folder.path(), &entry(about, at)).unwrap();
        }
        let of_bob = Entry {
            owner: Some("bob".to_owned()),
            ..entry("bobs", 4)
        };
        append(folder.path(), &of_bob).unwrap();
        let page = |since: Option<i64>, before: Option<i64>| {
            let micros = |second: i64| Micros(second * 1_000_000);
            let period = Period {
                since: since.map(micros),
                before: before.map(micros),
                most: 2,
            };
            let found = newest(folder.path(), "ann", period);
            found.into_iter().map(|noted| noted.about.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(page(None, None), ["c", "b"]);
        assert_eq!(page(None, Some(2)), ["a"]);
        assert_eq!(page(Some(3), None), ["c"]);
    }

    #[test]
    fn a_line_has_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        append(folder.path(), &entry(&"x".repeat(100_000), 1)).unwrap();
        assert_eq!(all(folder.path(), None)[0].len(), 256);
    }
}
