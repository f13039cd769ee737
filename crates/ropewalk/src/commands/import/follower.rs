//! A thread that goes on reading files where it stopped.
//!
//! A log has to be understood from its beginning, so what was understood of the files that change is kept. A file that became shorter,
//! whose end is another, or that has another inode is a new one under the old name, and is read from its beginning: recording what is
//! known changes nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as std_mpsc};

use ropewalk_import::source::{self, Next};
use ropewalk_import::{Found, LineReader, Reader, Sink as _};
use tokio::sync::mpsc;

use super::files::{self, Job};
use super::summary::Summary;
use super::worker::{Chunk, Reading, Shared};
use crate::cli::ImportFormat;

/// Files whose readers are kept. Each has in memory what its file says.
const FOLLOWED_MAX: usize = 32;

/// A file that is followed.
struct Followed<'r> {
    reading: Reading<'r>,
    reader: Box<dyn LineReader>,
    inode: u64,
    offset: u64,
    number: u64,
    tail: [u8; 32],
    last_use: u64,
}

/// Reads the files that it is told of until nobody tells it any more.
pub(super) fn run(
    shared: &Arc<Shared>,
    format: ImportFormat,
    changed: &std_mpsc::Receiver<PathBuf>,
    to: &mpsc::Sender<Chunk>,
) {
    let mut followed: HashMap<PathBuf, Followed<'_>> = HashMap::new();
    let mut uses = 0;
    while let Ok(path) = changed.recv() {
        uses += 1;
        let mut summary = Summary::new();
        let job = files::job(&path, false, format, &mut summary);
        // It was there a moment ago and is gone: what was read of it stays.
        let Some(job) = job else {
            followed.remove(&path);
            continue;
        };
        let known = followed.remove(&path).filter(|known| known.goes_on(&job.path));
        let next = match known {
            Some(known) => Ok(Some(known)),
            None => begin(shared, &job, to),
        };
        let advanced = next.and_then(|next| next.map(|next| next.advance(&job)).transpose());
        match advanced {
            Ok(Some((mut next, Found::GoOn))) => {
                next.last_use = uses;
                forget_oldest(&mut followed);
                followed.insert(path, next);
            }
            Ok(Some((_, Found::Stop))) => return,
            Ok(None) => {}
            Err(error) => {
                let mut reading = Reading::new(shared, &job.name, to);
                reading.problem(0, files::cannot_read(&error));
                if reading.send(None) == Found::Stop {
                    return;
                }
            }
        }
    }
}

fn forget_oldest(followed: &mut HashMap<PathBuf, Followed<'_>>) {
    if followed.len() >= FOLLOWED_MAX {
        let oldest = followed.iter().min_by_key(|(_, followed)| followed.last_use);
        if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
            followed.remove(&oldest);
        }
    }
}

/// A reader at the beginning of a file. `None` for a file that is none of ours, or a document, which is read at once.
fn begin<'r>(shared: &'r Shared, job: &Job, to: &'r mpsc::Sender<Chunk>) -> io::Result<Option<Followed<'r>>> {
    let mut reading = Reading::new(shared, &job.name, to);
    let mut lines = source::open(&job.path, 0)?;
    let is_compressed = lines.is_compressed;
    match reading.recognise(job, &mut lines, &mut Vec::new())? {
        Some(Reader::Lines(reader)) if !is_compressed => Ok(Some(Followed {
            reading,
            reader,
            inode: fs::metadata(&job.path)?.ino(),
            offset: 0,
            number: 0,
            tail: [0; 32],
            last_use: 0,
        })),
        Some(Reader::Whole(mut whole)) => {
            let _ = reading.document(job, &mut *whole)?;
            let _ = reading.send(reading.done(job, &lines, job.size));
            Ok(None)
        }
        // Nobody appends to what is compressed, and it is read again when somebody imports it.
        _ => Ok(None),
    }
}

impl Followed<'_> {
    /// Whether the file has only grown.
    fn goes_on(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::metadata(path) else { return false };
        let has_same_end = || files::tail(path, self.offset).is_some_and(|tail| tail == self.tail);
        metadata.ino() == self.inode && metadata.len() >= self.offset && (self.offset == 0 || has_same_end())
    }

    /// Reads what has come. A line without an end is left for the next time.
    fn advance(mut self, job: &Job) -> io::Result<(Self, Found)> {
        let mut lines = source::open(&job.path, self.offset)?;
        lines.number_from(self.number);
        let mut line = Vec::new();
        loop {
            let number = lines.number() + 1;
            match lines.next(&mut line)? {
                Next::Line => {
                    if self.reading.line(number, &line, &mut *self.reader) == Found::Stop {
                        return Ok((self, Found::Stop));
                    }
                    self.number = number;
                }
                Next::TooLong => {
                    self.reading.problem(number, "the line is too long".to_owned());
                    self.number = number;
                }
                Next::Half | Next::End => break,
            }
        }
        self.offset = lines.offset();
        if self.reader.pause(&mut self.reading) == Found::Stop {
            return Ok((self, Found::Stop));
        }
        let done = self.reading.done(job, &lines, self.offset);
        self.tail = done.as_ref().map_or([0; 32], |done| done.tail);
        let found = self.reading.send(done);
        Ok((self, found))
    }
}
