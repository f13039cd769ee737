//! Threads that read files and prepare what is in them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use ropewalk_engine::logged::{LogPreparer, Logged, Taken};
use ropewalk_engine::redact::{Redactor, TagKey};
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_engine::{Prepared, Preparer, RawExchange};
use ropewalk_import::source::{self, LINE_BYTES_MAX, Lines, Next};
use ropewalk_import::{Format, Found, LineReader, Reader, Sink, WholeReader, beside_conversations};
use ropewalk_store::log::{ImportedFile, RecordRow};
use tokio::sync::mpsc;

use super::files::{self, Job};
use crate::cli::Import;
use crate::config::Prices;
use crate::context::Context;
use crate::failure::Failure;
use crate::secret;

/// What is sent at once: this many exchanges, or bytes of new text. Requests of one file share what they repeat.
const CHUNK_EXCHANGES: usize = 128;
const CHUNK_BYTES: usize = 2 << 20;

/// Chunks on their way from each thread.
pub(super) const CHUNKS_WAITING: usize = 1;

/// First lines among which the format of a file is looked for.
const LINES_TRIED: usize = 32;

/// Largest document that is read as a whole.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// What all threads use.
#[derive(Debug)]
pub(super) struct Shared {
    redactor: Redactor,
    secret: [u8; secret::KEY_BYTES],
    spawn_tools: SpawnTools,
    prices: Prices,
    /// Whose the logs are.
    owner: String,
    /// Whose the exchanges are, whatever they say.
    chosen_owner: Option<String>,
    /// The store is ours: exchanges are prepared here. Else the server does it.
    prepares: bool,
    pub(super) threads: usize,
}

impl Shared {
    pub(super) fn new(
        context: &Context,
        arguments: &Import,
        owner: String,
        prepares: bool,
    ) -> Result<Arc<Self>, Failure> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let reads_stdin = arguments.paths.iter().any(|path| path.as_os_str() == "-");
        Ok(Arc::new(Shared {
            redactor: context.config.serving.redactor()?,
            secret: secret::key(context.config.data_folder()?)?,
            spawn_tools: context.config.spawn_tools.clone(),
            prices: context.config.prices.clone(),
            owner,
            chosen_owner: context.config.chosen_owner.clone(),
            prepares,
            // A server takes one log after the other; what is piped comes in order.
            threads: if prepares && !reads_stdin {
                processors.min(THREADS_MAX)
            } else {
                1
            },
        }))
    }
}

/// Threads that read. One more writes, and its speed is the limit.
const THREADS_MAX: usize = 4;

/// What a thread found, in the order of its file.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) prepared: Vec<Prepared>,
    pub(super) records: Vec<RecordRow>,
    pub(super) exchanges: BTreeMap<String, Vec<RawExchange>>,
    /// For the server, in place of what is prepared: of which file, and whether it begins it.
    pub(super) logged: Vec<Logged>,
    pub(super) file: String,
    pub(super) is_first: bool,
    pub(super) read: u64,
    pub(super) problems: Vec<(String, u64, String)>,
    pub(super) passed_over: BTreeMap<String, u64>,
    /// Bytes of files that were read for it.
    pub(super) bytes: u64,
    /// The file that ends with it, and whose exchanges it has.
    pub(super) done: Option<(ImportedFile, BTreeSet<String>)>,
}

/// Reads jobs until there are none.
pub(super) fn run(shared: &Arc<Shared>, jobs: &Mutex<VecDeque<Job>>, to: &mpsc::Sender<Chunk>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(job) = job else { return };
        let mut reading = Reading::new(shared, &job.name, to);
        if reading.file(&job) == Found::Stop {
            return;
        }
    }
}

/// A file that is being read.
pub(super) struct Reading<'r> {
    shared: &'r Shared,
    log_key: TagKey,
    name: String,
    to: &'r mpsc::Sender<Chunk>,
    log: LogPreparer<'r>,
    chunk: Chunk,
    weight: usize,
    problems: u64,
    owners: BTreeSet<String>,
    /// Exchanges are read again each time: whoever hands them in is told how many of them are known.
    is_read_again: bool,
}

impl<'r> Reading<'r> {
    pub(super) fn new(shared: &'r Shared, name: &str, to: &'r mpsc::Sender<Chunk>) -> Self {
        Reading {
            log_key: TagKey::of_owner(&shared.secret, &shared.owner),
            name: name.to_owned(),
            to,
            log: LogPreparer::new(Preparer {
                prices: &*shared.prices,
                spawn_tools: &shared.spawn_tools,
            }),
            chunk: Chunk {
                file: name.to_owned(),
                is_first: true,
                ..Chunk::default()
            },
            weight: 0,
            problems: 0,
            owners: BTreeSet::new(),
            is_read_again: false,
            shared,
        }
    }

    fn file(&mut self, job: &Job) -> Found {
        let opened = match job.is_standard_input() {
            true => Ok(source::from_reader(io::stdin())),
            false => source::open(&job.path, 0),
        };
        let mut lines = match opened {
            Ok(lines) => lines,
            Err(error) => {
                self.problem(0, files::cannot_read(&error));
                return self.send(None);
            }
        };
        let ended = self.lines(job, &mut lines);
        let offset = match ended {
            Ok(Found::Stop) => return Found::Stop,
            Ok(Found::GoOn) => lines.offset(),
            Err(error) => {
                self.problem(lines.number() + 1, broken(&error, lines.is_compressed));
                lines.offset()
            }
        };
        self.send(self.done(job, &lines, offset))
    }

    /// How far the file was read. What is compressed is read as a whole or not at all.
    pub(super) fn done(&self, job: &Job, lines: &Lines, offset: u64) -> Option<ImportedFile> {
        if job.is_standard_input() {
            return None;
        }
        let offset = if lines.is_compressed { job.size } else { offset };
        Some(ImportedFile {
            path: job.name.clone(),
            size: job.size,
            modified: job.modified,
            tail: files::tail(&job.path, offset)?,
            offset,
            problems: self.problems,
        })
    }

    fn lines(&mut self, job: &Job, lines: &mut Lines) -> io::Result<Found> {
        let mut first = Vec::new();
        let mut reader = match self.recognise(job, lines, &mut first)? {
            Some(Reader::Lines(reader)) => reader,
            Some(Reader::Whole(mut whole)) => return self.document(job, &mut *whole),
            None => return Ok(Found::GoOn),
        };
        for (number, line) in first {
            if self.line(number, &line, &mut *reader) == Found::Stop {
                return Ok(Found::Stop);
            }
        }
        let mut line = Vec::new();
        loop {
            let next = match lines.next(&mut line) {
                Ok(next) => next,
                // What came before it stays.
                Err(error) => {
                    self.problem(lines.number() + 1, broken(&error, lines.is_compressed));
                    break;
                }
            };
            match next {
                Next::Line => {
                    if self.line(lines.number(), &line, &mut *reader) == Found::Stop {
                        return Ok(Found::Stop);
                    }
                }
                Next::Half if is_whole(&line) => drop(self.line(lines.number(), &line, &mut *reader)),
                Next::Half => self.problem(
                    lines.number(),
                    "the last line has no end; it is read when it has one".to_owned(),
                ),
                Next::TooLong => {
                    let most = LINE_BYTES_MAX >> 20;
                    self.problem(lines.number(), format!("the line is longer than {most} MB"));
                }
                Next::End => break,
            }
        }
        Ok(reader.pause(self))
    }

    pub(super) fn line(&mut self, number: u64, line: &[u8], reader: &mut dyn LineReader) -> Found {
        self.chunk.bytes += line.len() as u64 + 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Found::GoOn;
        }
        reader.line(number, line, self)
    }

    /// A reader for the file, by its name in the arguments or by its first lines, which are kept.
    pub(super) fn recognise(
        &mut self,
        job: &Job,
        lines: &mut Lines,
        first: &mut Vec<(u64, Vec<u8>)>,
    ) -> io::Result<Option<Reader>> {
        let is_file = !job.is_standard_input();
        let mut format = job
            .format
            .or_else(|| is_file.then(|| Format::of_document(&job.path)).flatten());
        let mut line = Vec::new();
        while format.is_none() && first.len() < LINES_TRIED {
            let next = lines.next(&mut line)?;
            if next == Next::End {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            format = Format::of_line(&line);
            first.push((lines.number(), std::mem::take(&mut line)));
            if next == Next::Half {
                break;
            }
        }
        self.is_read_again = format == Some(Format::Exchanges);
        let reader = format.map(|format| format.reader(&job.path, &job.name));
        let beside = job
            .path
            .file_name()
            .and_then(|name| beside_conversations(name.to_str()?));
        match (format, beside) {
            (None, Some(what)) => self.skipped(what),
            (None, _) if first.is_empty() => self.skipped("an empty file"),
            (None, _) if job.is_named || job.path.extension().is_some_and(|ending| ending != "json") => {
                self.problem(first[0].0, "no format that is known; the file is left out".to_owned());
            }
            (None, _) => self.skipped("a file of another kind"),
            _ => {}
        }
        Ok(reader)
    }

    pub(super) fn document(&mut self, job: &Job, reader: &mut dyn WholeReader) -> io::Result<Found> {
        self.chunk.bytes += job.size;
        let mut bytes = Vec::new();
        if reader.needs_bytes() {
            let mut lines = source::open(&job.path, 0)?;
            if lines.read_all(DOCUMENT_BYTES_MAX, &mut bytes)? {
                self.problem(0, format!("the file is longer than {} MB", DOCUMENT_BYTES_MAX >> 20));
                return Ok(Found::GoOn);
            }
        }
        Ok(reader.read(&job.path, &bytes, self))
    }

    /// Sends what has come together.
    pub(super) fn send(&mut self, done: Option<ImportedFile>) -> Found {
        self.weight = 0;
        let next = Chunk {
            file: self.name.clone(),
            is_first: self.chunk.is_first && self.chunk.logged.is_empty(),
            ..Chunk::default()
        };
        let chunk = std::mem::replace(&mut self.chunk, next);
        let done = done.map(|file| {
            let owners = std::mem::take(&mut self.owners);
            let nobody = BTreeSet::new();
            (file, if self.is_read_again { nobody } else { owners })
        });
        match self.to.blocking_send(Chunk { done, ..chunk }) {
            Ok(()) => Found::GoOn,
            Err(_) => Found::Stop,
        }
    }

    fn take(&mut self, logged: Logged) {
        self.weight += match &logged {
            Logged::Message(message) => message.json.len(),
            Logged::Turn(turn) => turn.answer.len(),
            Logged::Record(..) => 0,
            Logged::Exchange { raw, .. } => {
                raw.request_body.len() + raw.response_body.as_ref().map_or(0, |body| body.len())
            }
        };
        if let Logged::Exchange { owner, raw } = logged {
            let owner = self.owner_of(owner);
            self.owners.insert(owner.clone());
            self.chunk.exchanges.entry(owner).or_default().push(*raw);
            self.chunk.read += 1;
            return;
        }
        self.chunk.read += u64::from(matches!(logged, Logged::Turn(_)));
        if !self.owners.contains(&self.shared.owner) {
            self.owners.insert(self.shared.owner.clone());
        }
        if !self.shared.prepares {
            self.chunk.logged.push(logged);
            return;
        }
        let mut taken = Taken::default();
        self.log.take(logged, &mut taken);
        for (line, error) in taken.problems {
            self.problem(line, error.to_string());
        }
        self.chunk.prepared.extend(taken.prepared);
        self.chunk.records.extend(taken.records);
    }

    fn owner_of(&self, said: Option<String>) -> String {
        let chosen = self.shared.chosen_owner.clone().or(said);
        chosen.unwrap_or_else(|| self.shared.owner.clone())
    }

    fn is_full(&self) -> bool {
        let chunk = &self.chunk;
        let exchanges = chunk.prepared.len() + chunk.exchanges.values().map(Vec::len).sum::<usize>();
        exchanges >= CHUNK_EXCHANGES || self.weight >= CHUNK_BYTES
    }
}

impl Sink for Reading<'_> {
    fn found(&mut self, mut found: Logged) -> Found {
        match &found {
            Logged::Exchange { owner, .. } => {
                let key = TagKey::of_owner(&self.shared.secret, &self.owner_of(owner.clone()));
                self.shared.redactor.logged(&mut found, &key);
            }
            _ => self.shared.redactor.logged(&mut found, &self.log_key),
        }
        self.take(found);
        match self.is_full() {
            true => self.send(None),
            false => Found::GoOn,
        }
    }

    fn problem(&mut self, line: u64, message: String) {
        self.problems += 1;
        self.chunk.read += u64::from(line > 0);
        self.chunk.problems.push((self.name.clone(), line, message));
    }

    fn skipped(&mut self, what: &str) {
        *self.chunk.passed_over.entry(what.to_owned()).or_default() += 1;
    }

    fn forget_messages(&mut self) {
        self.log.forget_messages();
    }
}

/// A last line may lack its end and be whole all the same.
fn is_whole(line: &[u8]) -> bool {
    ropewalk_core::json::Doc::parse(line.trim_ascii()).is_ok()
}

fn broken(error: &io::Error, is_compressed: bool) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof if is_compressed => "the compressed file ends too early".to_owned(),
        _ => files::cannot_read(error),
    }
}
