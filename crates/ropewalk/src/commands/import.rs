//! `ropewalk import`: exchanges from files, line by line.
//!
//! Exchanges are recorded first, in batches, and linked whenever many have come together: linking looks at facts in their own
//! order, so the result is that of one long import. Memory is bounded by a batch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ropewalk_engine::RawExchange;
use ropewalk_engine::redact::{Redactor, TagKey};
use ropewalk_store::Store as _;
use ropewalk_store::facts::Provenance;
use ropewalk_store::store::ID_MAX;
use ropewalk_wire::exchange::ExchangeLine;
use serde::Serialize;

use crate::any_store::AnyStore;
use crate::changes::Became;
use crate::changes::client::{Changer, Way};
use crate::cli::{Import, ImportFormat};
use crate::config::DEFAULT_OWNER;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};
use crate::secret;

/// Exchanges that are recorded at once, and the bytes of their lines at most.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 32 << 20;

/// Linked after this many new exchanges, so that an interrupted import leaves something to look at.
const LINK_EVERY: u64 = 8_192;

/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Texts that search indexes at once.
const INDEX_BATCH: usize = 1_000;

/// Lines that could not be read and are told one by one.
const PROBLEMS_TOLD: usize = 20;

pub(crate) async fn run(context: &Context, arguments: &Import) -> Result<(), Failure> {
    match arguments.format {
        ImportFormat::Auto | ImportFormat::Exchanges => {}
        _ => return Err(Failure::not_yet("importing this format").hint("`--format exchanges` is there")),
    }
    let files = files(&arguments.paths)?;
    let mut way = Way::open(context).await?;
    let mut import = Importer::new(context, Changer::new(context, &mut way), arguments.format)?;
    let bar = progress_bar(&files);
    for file in &files {
        import.file(file, &bar).await?;
    }
    import.link().await?;
    let summary = import.summary;
    // A server indexes by itself.
    if let Way::Own(store) = &way {
        bar.set_message("indexing for search");
        index(store).await?;
    }
    bar.finish_and_clear();
    report(context, &summary)
}

/// What became of the lines.
#[derive(Debug, Default, Serialize)]
struct Summary {
    v: u32,
    files: u64,
    read: u64,
    new: u64,
    completed: u64,
    known: u64,
    conflicts: u64,
    skipped: u64,
    linked: u64,
    moved: u64,
    problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
struct Problem {
    file: String,
    line: u64,
    message: String,
}

struct Importer<'s> {
    context: &'s Context,
    changer: Changer<'s>,
    redactor: Redactor,
    secret: [u8; secret::KEY_BYTES],
    format: ImportFormat,
    owners: BTreeSet<String>,
    batches: BTreeMap<String, Vec<RawExchange>>,
    waiting: usize,
    waiting_bytes: usize,
    unlinked: u64,
    summary: Summary,
}

impl<'s> Importer<'s> {
    fn new(context: &'s Context, changer: Changer<'s>, format: ImportFormat) -> Result<Self, Failure> {
        Ok(Importer {
            context,
            changer,
            redactor: context.config.serving.redactor()?,
            secret: secret::key(context.config.data_folder()?)?,
            format,
            owners: BTreeSet::new(),
            batches: BTreeMap::new(),
            waiting: 0,
            waiting_bytes: 0,
            unlinked: 0,
            summary: Summary {
                v: 1,
                ..Summary::default()
            },
        })
    }

    async fn file(&mut self, path: &Path, bar: &ProgressBar) -> Result<(), Failure> {
        let mut lines = open(path)?;
        self.summary.files += 1;
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let length = read.map_err(|error| cannot_read(path, &error))?;
            if length == 0 {
                break;
            }
            bar.inc(length as u64);
            if length as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
                self.problem(path, number, "the line is too long".to_owned());
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            if number == 1 && self.format == ImportFormat::Auto && !ExchangeLine::is_exchange(&line) {
                self.problem(
                    path,
                    number,
                    "no format that can be imported yet; the file is left out".to_owned(),
                );
                break;
            }
            self.line(path, number, &line).await?;
        }
        self.flush().await
    }

    async fn line(&mut self, path: &Path, number: u64, line: &[u8]) -> Result<(), Failure> {
        self.summary.read += 1;
        let parsed = ExchangeLine::parse(line).map_err(|error| with_source(&error));
        let owner = parsed.as_ref().ok().and_then(|line| line.owner.clone());
        let raw = parsed.and_then(|line| RawExchange::try_from(line).map_err(|error| error.to_string()));
        let raw = raw.and_then(|raw| match raw.id.len() {
            0 => Err("the id is empty".to_owned()),
            length if length > ID_MAX => Err(format!("the id has {length} bytes; {ID_MAX} is the most")),
            _ => Ok(raw),
        });
        let mut raw = match raw {
            Ok(raw) => raw,
            Err(message) => {
                self.problem(path, number, message);
                return Ok(());
            }
        };
        raw.provenance = Some(Provenance {
            file: path.display().to_string(),
            line: number,
            uuid: None,
            aliases: Vec::new(),
        });
        let config = &self.context.config;
        let chosen = config.chosen_owner.clone().or(owner);
        let owner = chosen.unwrap_or_else(|| config.asked_owner().unwrap_or(DEFAULT_OWNER).to_owned());
        self.redactor
            .exchange(&mut raw, &TagKey::of_owner(&self.secret, &owner));
        self.batches.entry(owner).or_default().push(raw);
        self.waiting += 1;
        self.waiting_bytes += line.len();
        if self.waiting >= BATCH || self.waiting_bytes >= BATCH_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Records what has come together.
    async fn flush(&mut self) -> Result<(), Failure> {
        for (owner, batch) in std::mem::take(&mut self.batches) {
            for became in self.changer.record(&owner, &batch).await? {
                let summary = &mut self.summary;
                match became {
                    Became::New => summary.new += 1,
                    Became::Completed => summary.completed += 1,
                    Became::Known => summary.known += 1,
                    Became::Conflict => summary.conflicts += 1,
                }
                self.unlinked += u64::from(matches!(became, Became::New | Became::Completed));
            }
            self.owners.insert(owner);
        }
        (self.waiting, self.waiting_bytes) = (0, 0);
        if self.unlinked >= LINK_EVERY {
            self.link().await?;
        }
        Ok(())
    }

    async fn link(&mut self) -> Result<(), Failure> {
        self.unlinked = 0;
        for owner in &self.owners {
            let linked = self.changer.link(owner).await?;
            self.summary.linked += linked.linked;
            self.summary.moved += linked.moved;
        }
        Ok(())
    }

    fn problem(&mut self, path: &Path, line: u64, message: String) {
        self.summary.skipped += 1;
        if self.summary.problems.len() < PROBLEMS_TOLD {
            self.summary.problems.push(Problem {
                file: path.display().to_string(),
                line,
                message,
            });
        }
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

async fn index(store: &AnyStore) -> Result<(), Failure> {
    let mut before = u64::MAX;
    loop {
        let waiting = store.index_texts(INDEX_BATCH).await?.waiting;
        // Somebody else may index or record meanwhile; whatever is left then is theirs.
        if waiting == 0 || waiting >= before {
            return Ok(());
        }
        before = waiting;
    }
}

fn report(context: &Context, summary: &Summary) -> Result<(), Failure> {
    let found_nothing = summary.skipped > 0 && summary.read <= summary.skipped && summary.new + summary.known == 0;
    let first_problem = summary.problems.first().map(|problem| problem.message.clone());
    let mut out = Out::new();
    if context.json {
        out.json(summary)?;
    } else {
        for problem in &summary.problems {
            say(&format!(
                "skipped {}:{}: {}",
                problem.file, problem.line, problem.message
            ));
        }
        let untold = summary.skipped.saturating_sub(summary.problems.len() as u64);
        if untold > 0 {
            say(&format!("skipped {untold} more"));
        }
        out.line(&format!(
            "{} read, {} new, {} completed, {} known, {} conflicts, {} skipped",
            summary.read, summary.new, summary.completed, summary.known, summary.conflicts, summary.skipped
        ))?;
    }
    out.finish()?;
    match first_problem.filter(|_| found_nothing) {
        Some(problem) => Err(
            Failure::new(Kind::NotFound, format!("nothing could be imported: {problem}"))
                .hint("a line of the exchange format begins with {\"v\":1,\"id\":…}"),
        ),
        None => Ok(()),
    }
}

/// The files to read: those named, and the *.jsonl in the folders named, in order.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut waiting: Vec<PathBuf> = paths.iter().rev().cloned().collect();
    while let Some(path) = waiting.pop() {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        let entries = std::fs::read_dir(&path).map_err(|error| cannot_read(&path, &error))?;
        let mut inside = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| cannot_read(&path, &error))?;
            // Links are not followed, so that a folder that contains itself ends.
            let kind = entry.file_type().map_err(|error| cannot_read(&path, &error))?;
            let is_log = entry.path().extension().is_some_and(|extension| extension == "jsonl");
            if kind.is_dir() || (kind.is_file() && is_log) {
                inside.push(entry.path());
            }
        }
        inside.sort();
        waiting.extend(inside.into_iter().rev());
    }
    match files.is_empty() {
        true => Err(Failure::new(Kind::NotFound, "no *.jsonl file is there")),
        false => Ok(files),
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Kind::NotFound, format!("cannot read {}: {error}", path.display()))
}

fn progress_bar(files: &[PathBuf]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let bytes = files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let bar = ProgressBar::new(bytes);
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {eta} {msg}");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
