//! Recording what the threads found.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use ropewalk_engine::Prepared;
use ropewalk_engine::link::RECORDED_BYTES_MAX;
use ropewalk_store::Store as _;
use ropewalk_store::log::{ImportedFile, LogChanges};
use tokio::sync::mpsc;

use super::files::{self, Job};
use super::summary::{Progress, Summary};
use super::worker::{self, CHUNKS_WAITING, Chunk, Shared};
use crate::changes::Became;
use crate::changes::client::Changer;
use crate::cli::Import;
use crate::context::Context;
use crate::failure::{Failure, Kind};

/// Exchanges that are recorded at once.
const BATCH: usize = 512;

/// Linked after this many new exchanges, so that an interrupted import leaves something to look at. Linking counts two kilobytes for each
/// beside its texts: together with those of [`LINK_BYTES`] they have to be less than it keeps.
const LINK_EVERY: u64 = 4_096;

/// Linked as well when the outlines of new exchanges take this much, half of what linking keeps: what it still has in memory need not be
/// read again, which for a long session is its whole history with every turn.
const LINK_BYTES: u64 = RECORDED_BYTES_MAX / 2;

/// Texts that search indexes at once.
const INDEX_BATCH: usize = 1_000;

/// Files that are asked about at once.
const FILES_ASKED: usize = 500;

pub(super) struct Intake<'s> {
    context: &'s Context,
    changer: Changer<'s>,
    owner: String,
    /// Whose records are held until they can be replaced at once.
    replaces: Option<String>,
    owners: BTreeSet<String>,
    prepared: Vec<Prepared>,
    log: LogChanges,
    /// Files that were read, each for everybody who has exchanges in it.
    files: Vec<(String, ImportedFile)>,
    unlinked: u64,
    unlinked_bytes: u64,
    pub(super) summary: Summary,
}

impl<'s> Intake<'s> {
    pub(super) fn new(context: &'s Context, changer: Changer<'s>, arguments: &Import, owner: String) -> Self {
        Intake {
            context,
            changer,
            owner,
            replaces: arguments.replace.clone(),
            owners: BTreeSet::new(),
            prepared: Vec::new(),
            log: LogChanges::default(),
            files: Vec::new(),
            unlinked: 0,
            unlinked_bytes: 0,
            summary: Summary::new(),
        }
    }

    /// Leaves out files to which nothing happened since they were read, and says where to go on in those that grew.
    pub(super) async fn changed(&mut self, jobs: Vec<Job>) -> Result<Vec<Job>, Failure> {
        if self.replaces.is_some() {
            return Ok(jobs);
        }
        let mut changed = Vec::with_capacity(jobs.len());
        for page in jobs.chunks(FILES_ASKED) {
            let paths = page.iter().map(|job| job.name.clone()).collect();
            let known = self
                .changer
                .files_read(self.context.config.asked_owner(), paths)
                .await?;
            let known: HashMap<&str, &ImportedFile> = known.iter().map(|file| (&*file.path, file)).collect();
            for job in page {
                match known.get(&*job.name) {
                    Some(read) if files::is_unchanged(job, read) => self.summary.unchanged += 1,
                    _ => changed.push(job.clone()),
                }
            }
        }
        Ok(changed)
    }

    /// Reads files on several threads and records what is in them.
    pub(super) async fn read(
        &mut self,
        shared: &Arc<Shared>,
        jobs: Vec<Job>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let threads = shared.threads.min(jobs.len().max(1));
        let jobs = Arc::new(Mutex::new(VecDeque::from(jobs)));
        let (to, mut chunks) = mpsc::channel(CHUNKS_WAITING * threads);
        for _ in 0..threads {
            let (shared, jobs, to) = (Arc::clone(shared), Arc::clone(&jobs), to.clone());
            let thread = std::thread::Builder::new().name("import".to_owned());
            let started = thread.spawn(move || worker::run(&shared, &jobs, &to));
            started.map_err(|error| Failure::new(Kind::Internal, format!("no thread can be started: {error}")))?;
        }
        drop(to);
        while let Some(chunk) = chunks.recv().await {
            progress.advance(chunk.bytes);
            self.chunk(chunk).await?;
        }
        Ok(())
    }

    pub(super) async fn chunk(&mut self, chunk: Chunk) -> Result<(), Failure> {
        self.summary.read += chunk.read;
        if !chunk.logged.is_empty() {
            self.send_log(&chunk).await?;
        }
        for (file, line, message) in chunk.problems {
            self.summary.problem(&file, line, message);
        }
        self.summary.pass_over(chunk.passed_over);
        for (owner, batch) in chunk.exchanges {
            let became = self.changer.record(&owner, &batch).await?;
            self.owners.insert(owner);
            self.count(&became);
        }
        self.unlinked_bytes += chunk
            .prepared
            .iter()
            .map(|prepared| prepared.outline_bytes)
            .sum::<u64>();
        self.prepared.extend(chunk.prepared);
        self.log.records.extend(chunk.records);
        self.summary.files += u64::from(chunk.done.is_some());
        if let Some((file, owners)) = chunk.done {
            for owner in owners {
                self.files.push((owner, file.clone()));
            }
        }
        if self.prepared.len() >= BATCH || self.log.records.len() >= BATCH * 8 {
            self.flush().await?;
        }
        if self.unlinked_bytes >= LINK_BYTES {
            self.flush().await?;
        }
        if self.unlinked >= LINK_EVERY || self.unlinked_bytes >= LINK_BYTES {
            self.link().await?;
        }
        Ok(())
    }

    async fn send_log(&mut self, chunk: &Chunk) -> Result<(), Failure> {
        let Changer::Server(_) = self.changer else {
            return Ok(());
        };
        let holds = self.replaces.is_some();
        let taken = self
            .changer
            .log(&self.owner, &chunk.file, chunk.is_first, holds, &chunk.logged)
            .await?;
        self.owners.insert(self.owner.clone());
        self.count(&taken.became);
        for (line, message) in taken.problems {
            self.summary.problem(&chunk.file, line, message);
        }
        Ok(())
    }

    /// Records what has come together, then what is beside it: a file counts as read when everything in it is recorded.
    async fn flush(&mut self) -> Result<(), Failure> {
        let prepared = std::mem::take(&mut self.prepared);
        if !prepared.is_empty() {
            let became = self.changer.record_prepared(&self.owner, prepared).await?;
            self.owners.insert(self.owner.clone());
            self.count(&became);
            // Their texts are still in memory. Later they would have to be unpacked.
            self.index().await?;
        }
        // Records that replace others wait until all of them are there.
        if self.replaces.is_none() && !self.log.records.is_empty() {
            let log = std::mem::take(&mut self.log);
            self.changer.save_log(&self.owner, log).await?;
        }
        let mut by_owner: BTreeMap<String, Vec<ImportedFile>> = BTreeMap::new();
        for (owner, file) in std::mem::take(&mut self.files) {
            by_owner.entry(owner).or_default().push(file);
        }
        for (owner, files) in by_owner {
            let log = LogChanges {
                files,
                ..LogChanges::default()
            };
            self.changer.save_log(&owner, log).await?;
        }
        Ok(())
    }

    /// Makes what came visible: recorded, linked, found by search.
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        self.finish().await?;
        self.index().await
    }

    /// A server indexes by itself.
    pub(super) async fn index(&self) -> Result<(), Failure> {
        let Changer::Own(recorders) = &self.changer else {
            return Ok(());
        };
        let mut before = u64::MAX;
        loop {
            let waiting = recorders.store().index_texts(INDEX_BATCH).await?.waiting;
            // Somebody else may index or record meanwhile; whatever is left then is theirs.
            if waiting == 0 || waiting >= before {
                return Ok(());
            }
            before = waiting;
        }
    }

    fn count(&mut self, became: &[Became]) {
        for became in became {
            self.summary.count(*became);
            let is_changed = matches!(became, Became::New | Became::Completed | Became::Replaced);
            self.unlinked += u64::from(is_changed);
        }
    }

    pub(super) async fn link(&mut self) -> Result<(), Failure> {
        (self.unlinked, self.unlinked_bytes) = (0, 0);
        for owner in &self.owners {
            let linked = self.changer.link(owner).await?;
            self.summary.linked += linked.linked;
            self.summary.moved += linked.moved;
        }
        Ok(())
    }

    /// Records and links the rest.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        self.flush().await?;
        if let Some(session) = self.replaces.clone() {
            let mut log = std::mem::take(&mut self.log);
            log.replaced.push(session);
            self.changer.save_log(&self.owner, log).await?;
        }
        self.link().await
    }
}
