//! A journal in a folder of its own, files that misbehave on command, and exchanges in one line.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ropewalk_proxy::counters::Counters;
use ropewalk_proxy::journal::files::OpenFile;
use ropewalk_proxy::journal::payload::Payload;
use ropewalk_proxy::journal::{Entry, Files, Folder, FolderError, Journal, Position, Settings, Writer};
use ropewalk_proxy::tee::{
    Ending, Event, ExchangeKey, Head, Keep, KeepAsItIs, Released, ResponseHead, Scrub, Tee, Worker, channel,
};
use ropewalk_store::Micros;
use tokio::sync::oneshot;
use uuid::Uuid;

/// Files that fail, wait and tear when they are told to.
#[derive(Debug)]
pub(crate) struct Faulty {
    real: Folder,
    pub(crate) switches: Arc<Switches>,
}

#[derive(Debug, Default)]
pub(crate) struct Switches {
    pub(crate) appends_fail: AtomicBool,
    pub(crate) syncs_fail: AtomicBool,
    pub(crate) append_gate: Gate,
    pub(crate) sync_gate: Gate,
    pub(crate) appends: AtomicU64,
    pub(crate) syncs: AtomicU64,
    /// What happened, in order.
    pub(crate) log: Mutex<Vec<&'static str>>,
}

impl Switches {
    /// What happened, in order; how many writes it took is the worker's business.
    pub(crate) fn log_without_repeats(&self) -> Vec<&'static str> {
        let mut log = self.log.lock().unwrap().clone();
        log.dedup();
        log
    }
}

/// Holds up whoever comes to it while it is closed.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    waiting: usize,
}

impl Gate {
    pub(crate) fn close(&self) {
        self.state.lock().unwrap().is_closed = true;
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().is_closed = false;
        self.changed.notify_all();
    }

    /// Returns when somebody stands before it.
    pub(crate) fn wait_for_somebody(&self) {
        wait_for(|| self.state.lock().unwrap().waiting > 0);
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        while state.is_closed {
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
    }
}

/// How long a test waits for what a busy machine does late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that happens soon, but on a busy machine not at once.
pub(crate) fn wait_for(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < PATIENCE, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[derive(Debug)]
struct FaultyFile {
    real: Arc<dyn OpenFile>,
    switches: Arc<Switches>,
}

impl Faulty {
    pub(crate) fn open(folder: &Path) -> Arc<Self> {
        Arc::new(Faulty {
            real: folder_of(folder),
            switches: Arc::default(),
        })
    }

    fn wrap(&self, real: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
        let switches = Arc::clone(&self.switches);
        Arc::new(FaultyFile { real, switches })
    }
}

impl Files for Faulty {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.real.list()
    }
    fn append_to(&self, name: &str) -> io::Result<Arc<dyn OpenFile>> {
        Ok(self.wrap(self.real.append_to(name)?))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn OpenFile>> {
        Ok(self.wrap(self.real.open(name)?))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.real.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.real.remove(name)
    }
    fn sync_folder(&self) -> io::Result<()> {
        self.switches.log.lock().unwrap().push("folder");
        self.real.sync_folder()
    }
}

impl OpenFile for FaultyFile {
    fn append(&self, data: &[u8]) -> io::Result<()> {
        self.switches.appends.fetch_add(1, Ordering::SeqCst);
        self.switches.append_gate.pass();
        if self.switches.appends_fail.load(Ordering::SeqCst) {
            // Torn in the middle, as a full disk does.
            self.real.append(&data[..data.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.real.append(data)?;
        self.switches.log.lock().unwrap().push("append");
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.switches.sync_gate.pass();
        if self.switches.syncs_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("told to fail"));
        }
        self.real.sync()?;
        self.switches.syncs.fetch_add(1, Ordering::SeqCst);
        self.switches.log.lock().unwrap().push("sync");
        Ok(())
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.real.read_at(buffer, offset)
    }
}

/// A bound that a busy machine does not reach.
pub(crate) fn patient() -> Settings {
    Settings {
        hold_max: PATIENCE,
        ..Settings::default()
    }
}

/// The folder of a journal that was just let go of. A process that another test starts at this moment holds a copy of its lock until
/// it runs its own program.
pub(crate) fn folder_of(path: &Path) -> Folder {
    for _ in 0..200 {
        match Folder::open(path) {
            Err(FolderError::InUse { .. }) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened.unwrap(),
        }
    }
    panic!("somebody else uses {}", path.display());
}

pub(crate) fn open(folder: &Path, settings: Settings) -> (Journal, Writer) {
    Journal::open(Arc::new(folder_of(folder)), settings, Arc::default()).unwrap()
}

/// What is in a folder that nobody has open, as a process that finds it reads it.
pub(crate) fn read_folder(folder: &Path) -> (Vec<Entry>, Arc<Counters>) {
    let (journal, _writer) = open(folder, Settings::default());
    (read_all(&journal), Arc::clone(journal.counters()))
}

/// What a process would find that began when the last one died at this moment.
pub(crate) fn copy_of(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

pub(crate) fn read_all(journal: &Journal) -> Vec<Entry> {
    let mut reader = journal.reader(Position::default());
    std::iter::from_fn(|| reader.find_next().unwrap()).collect()
}

/// The worker and everything around it, but for the recorder.
pub(crate) struct Running {
    pub(crate) tee: Tee,
    pub(crate) journal: Journal,
    worker: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(files: Arc<dyn Files>, settings: Settings) -> Self {
        Self::with_scrub(files, settings, Box::new(KeepAsItIs))
    }

    pub(crate) fn with_scrub(files: Arc<dyn Files>, settings: Settings, scrub: Box<dyn Scrub>) -> Self {
        let (tee, inbox) = channel(8 << 20);
        let (journal, writer) = Journal::open(files, settings, Arc::default()).unwrap();
        let worker = Worker::start(inbox, writer, scrub, &[], Arc::clone(journal.counters())).unwrap();
        Running { tee, journal, worker }
    }

    /// Ends it as a shutdown does.
    pub(crate) fn close(self) -> Journal {
        self.tee.close();
        self.worker.join().unwrap();
        self.journal
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.journal.counters()
    }

    /// Sends a whole exchange; the receiver learns when it is released.
    pub(crate) fn exchange(&self, key: u64, request: &str, answer: &str) -> oneshot::Receiver<Released> {
        self.begin(key, request);
        self.answer(key, answer);
        self.end(key, Ending::Complete)
    }

    pub(crate) fn begin(&self, key: u64, request: &str) {
        let data = Bytes::copy_from_slice(request.as_bytes());
        self.tee.send(Event::Begin(ExchangeKey(key), head(key)));
        self.tee.send(Event::RequestData(ExchangeKey(key), data));
        self.tee.send(Event::RequestEnd(ExchangeKey(key)));
    }

    pub(crate) fn answer(&self, key: u64, answer: &str) {
        self.tee.send(Event::ResponseHead(ExchangeKey(key), answer_head()));
        self.data(key, answer.as_bytes(), 2_000);
    }

    pub(crate) fn data(&self, key: u64, data: &[u8], at: i64) {
        let data = Bytes::copy_from_slice(data);
        self.tee.send(Event::ResponseData(ExchangeKey(key), data, Micros(at)));
    }

    pub(crate) fn end(&self, key: u64, ending: Ending) -> oneshot::Receiver<Released> {
        let (release, released) = oneshot::channel();
        self.tee.send(Event::End {
            exchange: ExchangeKey(key),
            ending,
            at: Micros(3_000),
            release: Some(release),
        });
        released
    }
}

pub(crate) fn head(key: u64) -> Box<Head> {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer sk-secret".parse().unwrap());
    headers.insert("cookie", "session=sk-secret".parse().unwrap());
    headers.insert("user-agent", "test/1".parse().unwrap());
    Box::new(Head {
        id: Uuid::from_u128(u128::from(key)),
        at: Micros(1_000),
        owner: Arc::from("ann"),
        keep: Keep::Everything,
        method: Method::POST,
        target: "/v1/messages?beta=true&key=sk-secret".to_owned(),
        headers,
    })
}

pub(crate) fn answer_head() -> Box<ResponseHead> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().unwrap());
    headers.insert("set-cookie", "sk-secret".parse().unwrap());
    Box::new(ResponseHead {
        at: Micros(1_500),
        status: StatusCode::OK,
        headers,
    })
}

/// The bodies of the exchanges in a journal, and whether each has an end.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Bodies {
    pub(crate) request: Vec<u8>,
    pub(crate) sent: Vec<u8>,
    pub(crate) answer: Vec<u8>,
    pub(crate) is_whole: bool,
    pub(crate) ended: bool,
}

pub(crate) fn bodies(entries: &[Entry]) -> std::collections::BTreeMap<u128, Bodies> {
    let mut ids = std::collections::HashMap::new();
    let mut all = std::collections::BTreeMap::<u128, Bodies>::new();
    for entry in entries {
        if let Payload::Begin(begin) = &entry.payload {
            ids.insert(entry.header.exchange, begin.id.as_u128());
        }
        let Some(id) = ids.get(&entry.header.exchange) else {
            continue;
        };
        let bodies = all.entry(*id).or_default();
        match &entry.payload {
            Payload::Begin(begin) => {
                bodies.request.extend_from_slice(&begin.body);
                bodies.is_whole = begin.is_whole;
            }
            Payload::RequestChunk(chunk) => {
                bodies.request.extend_from_slice(&chunk.body);
                bodies.is_whole = chunk.is_last;
            }
            Payload::SentChunk(chunk) => bodies.sent.extend_from_slice(&chunk.body),
            Payload::ResponseChunk(chunk) => bodies.answer.extend_from_slice(&chunk.body),
            Payload::End(end) => {
                bodies.answer.extend_from_slice(&end.body);
                bodies.ended = true;
            }
            Payload::Gap(_) => {}
        }
    }
    all
}
