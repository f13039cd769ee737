//! Files: which there are, and their lines.
//!
//! Links are not followed, so that nothing outside of what was named is read and a folder that contains itself ends.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

/// Longest line that is read. A line is in memory as a whole, and two files are read at once.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Endings of files that are looked at in a folder, without that of a compressed file.
const ENDINGS: [&str; 5] = ["jsonl", "json", "har", "db", "zip"];

/// Folders below each other. Logs lie four deep; this bounds a walk that somebody made endless.
const DEPTH_MAX: usize = 64;

/// A file that was found, or what is in the way.
#[derive(Debug)]
pub enum Entry {
    File(PathBuf),
    Problem(PathBuf, io::Error),
}

/// The files below a path, in order. A file that is named is taken whatever it is called.
pub fn walk(root: &Path) -> Vec<Entry> {
    let mut found = Vec::new();
    let is_folder = fs::metadata(root).is_ok_and(|metadata| metadata.is_dir());
    if !is_folder {
        return vec![Entry::File(root.to_owned())];
    }
    let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
    while let Some((folder, depth)) = waiting.pop_front() {
        match inside(&folder) {
            Ok((files, folders)) => {
                found.extend(files.into_iter().map(Entry::File));
                let below = folders.into_iter().map(|folder| (folder, depth + 1));
                waiting.extend(below.filter(|(_, depth)| *depth <= DEPTH_MAX));
            }
            Err(error) => found.push(Entry::Problem(folder, error)),
        }
    }
    found
}

fn inside(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            folders.push(entry.path());
        } else if kind.is_file() && is_log(&entry.path()) {
            files.push(entry.path());
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

/// By its name only: whether its content is one of ours is seen when it is read.
pub fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = ["gz", "zst"]
        .iter()
        .find_map(|ending| name.strip_suffix(&format!(".{ending}")))
        .unwrap_or(&name);
    // What lies beside a subagent's log is read with it.
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| ENDINGS.contains(&ending)) && !name.ends_with(".meta.json")
}

/// A file, decompressed, from its beginning or from a place in it.
pub fn open(path: &Path, offset: u64) -> io::Result<Lines> {
    let mut file = File::open(path)?;
    let mut start = [0; 4];
    let length = read_start(&mut file, &mut start)?;
    file.seek(SeekFrom::Start(offset))?;
    let file = BufReader::with_capacity(256 << 10, file);
    let (reader, is_compressed): (Box<dyn BufRead + Send>, bool) = match &start[..length] {
        [0x1f, 0x8b, ..] => (
            Box::new(BufReader::with_capacity(256 << 10, MultiGzDecoder::new(file))),
            true,
        ),
        [0x28, 0xb5, 0x2f, 0xfd] => (
            Box::new(BufReader::with_capacity(256 << 10, zstd::Decoder::with_buffer(file)?)),
            true,
        ),
        _ => (Box::new(file), false),
    };
    Ok(Lines {
        reader,
        is_compressed,
        number: 0,
        offset,
    })
}

/// Standard input, or anything else that is no file.
pub fn from_reader(reader: impl Read + Send + 'static) -> Lines {
    Lines {
        reader: Box::new(BufReader::with_capacity(256 << 10, reader)),
        is_compressed: false,
        number: 0,
        offset: 0,
    }
}

fn read_start(file: &mut File, start: &mut [u8; 4]) -> io::Result<usize> {
    let mut length = 0;
    while length < start.len() {
        match file.read(&mut start[length..])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

/// The lines of a file.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    pub is_compressed: bool,
    number: u64,
    /// Behind the last line that has an end.
    offset: u64,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// What came next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Line,
    /// The file ends in the middle of it; it may be written right now.
    Half,
    /// It is passed over.
    TooLong,
    End,
}

impl Lines {
    /// Puts the next line into `line`, without its end.
    pub fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Next> {
        line.clear();
        let read = (&mut self.reader).take(LINE_BYTES_MAX as u64).read_until(b'\n', line)?;
        if read == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        if line.last() == Some(&b'\n') {
            self.offset += read as u64;
            line.pop();
            return Ok(Next::Line);
        }
        if read < LINE_BYTES_MAX {
            return Ok(Next::Half);
        }
        line.clear();
        self.offset += read as u64 + self.skip_line()?;
        Ok(Next::TooLong)
    }

    /// Everything that is left; whether there was more than `most` bytes.
    pub fn read_all(&mut self, most: u64, into: &mut Vec<u8>) -> io::Result<bool> {
        (&mut self.reader).take(most + 1).read_to_end(into)?;
        Ok(into.len() as u64 > most)
    }

    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = self.reader.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let length = end.unwrap_or(buffer.len());
            self.reader.consume(length);
            skipped += length as u64;
            if end.is_some() || length == 0 {
                return Ok(skipped);
            }
        }
    }

    /// Of the line that came last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on counting where another reading stopped.
    pub fn number_from(&mut self, number: u64) {
        self.number = number;
    }
}
