//! The server's end: changes for commands that may not write themselves.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ropewalk_engine::logged::{LogPreparer, Taken};
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_engine::{Preparer, RawExchange, Recorders, Settings};
use ropewalk_proxy::journal::Journal;
use ropewalk_proxy::tee::{Event, Tee};
use ropewalk_store::facts::Provenance;
use ropewalk_store::log::{LogChanges, RecordRow};
use ropewalk_wire::exchange::ExchangeLine;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::imports::Imports;
use super::removal::{Shrunk, remove, shrink};
use super::sent::{SentFile, SentLogged};
use super::{
    Answer, Became, REQUEST_BYTES_MAX, Request, Sent, count_unused, files_read, rebuild, repair_session, socket_path,
    title,
};
use crate::any_store::AnyStore;
use crate::config::Prices;
use crate::failure::{Failure, Kind};

/// Commands that change something at once; more wait.
const COMMANDS_MAX: usize = 4;

/// The store, as soon as the recorder has opened it.
pub(crate) type Opened = watch::Receiver<Option<Arc<AnyStore>>>;

/// What linking follows, for changes as for what passes.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) linking: Settings,
    pub(crate) spawn_tools: SpawnTools,
    pub(crate) prices: Prices,
}

impl Rules {
    fn preparer(&self) -> Preparer<'_> {
        Preparer {
            prices: &*self.prices,
            spawn_tools: &self.spawn_tools,
        }
    }
}

/// The journal of a server, as far as those who forget something need it.
#[derive(Debug, Clone)]
pub(crate) struct Sealing {
    pub(crate) tee: Tee,
    pub(crate) journal: Journal,
}

/// How long a closed segment may take to be recorded and to go.
const SEALED_TIME_MAX: Duration = Duration::from_secs(30);

impl Sealing {
    /// Closes the segment at hand and waits until all before it are gone; `false` if some stay, because a stream that has not ended
    /// is in them.
    async fn empty(&self) -> bool {
        let (newest, _) = self.journal.ends();
        self.tee.send(Event::Seal);
        let gone = async {
            loop {
                let (now, oldest) = self.journal.ends();
                // Nothing was in it, or it was closed and went.
                if oldest > newest || (now == oldest && self.journal.bytes() == 0) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SEALED_TIME_MAX, gone).await.is_ok()
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Changes {
    path: PathBuf,
    listening: JoinHandle<()>,
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.listening.abort();
        drop(fs::remove_file(&self.path));
    }
}

impl Changes {
    pub(crate) fn listen(
        data_folder: &Path,
        store: Opened,
        rules: Rules,
        sealing: Sealing,
        imports: Arc<Imports>,
    ) -> io::Result<Self> {
        let path = socket_path(data_folder);
        // The journal's lock says that no other server uses the folder: what is there was left by a dead one.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let listening = tokio::spawn(accept(listener, store, rules, sealing, imports));
        Ok(Changes { path, listening })
    }
}

async fn accept(listener: UnixListener, store: Opened, rules: Rules, sealing: Sealing, imports: Arc<Imports>) {
    let places = Arc::new(Semaphore::new(COMMANDS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a command cannot be heard");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let (store, rules, sealing) = (store.clone(), rules.clone(), sealing.clone());
        let imports = Arc::clone(&imports);
        // Preparing and linking keep a processor busy, so it is not done on the threads that accept.
        tokio::task::spawn_blocking(move || {
            let serving = serve(stream, store, &rules, &sealing, &imports);
            let served = tokio::runtime::Handle::current().block_on(serving);
            if let Err(error) = served {
                tracing::debug!(%error, "a command went away");
            }
            drop(place);
        });
    }
}

async fn serve(
    stream: UnixStream,
    mut store: Opened,
    rules: &Rules,
    sealing: &Sealing,
    imports: &Imports,
) -> io::Result<()> {
    let import = imports.begin();
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let opened = store.wait_for(Option::is_some).await.map(|store| store.clone());
    let Ok(Some(store)) = opened else {
        return Ok(());
    };
    let mut recorders = Recorders::new(&*store, &*rules.prices, rules.linking, rules.spawn_tools.clone());
    let mut logs = Logs::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let bound = REQUEST_BYTES_MAX as u64;
        if (&mut read).take(bound).read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(Request::Shrink) => match shrink(&store).await {
                Ok(shrunk) => Ok(Answer::Shrunk(Shrunk {
                    leaves_copies: shrunk.leaves_copies || !sealing.empty().await,
                    ..shrunk
                })),
                Err(failure) => Err(failure),
            },
            Ok(request) => {
                import.count(&request);
                change(&mut recorders, &mut logs, rules, request).await
            }
            Err(error) => Err(Failure::new(
                Kind::Internal,
                format!("the request cannot be read: {error}"),
            )),
        };
        let answer = answer.unwrap_or_else(|failure| Answer::Failed {
            message: failure.message().to_owned(),
        });
        import.became(&answer);
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        write.write_all(&text).await?;
    }
}

async fn change<'r>(
    recorders: &mut Recorders<'_, AnyStore>,
    logs: &mut Logs<'r>,
    rules: &'r Rules,
    request: Request,
) -> Result<Answer, Failure> {
    Ok(match request {
        Request::Log {
            owner,
            file,
            is_first,
            holds_records,
            logged,
        } => {
            let mut taken = logs.take(&file, is_first, rules, logged)?;
            let recorder = recorders.of(&owner).await?;
            let recorded = recorder.record_prepared(taken.prepared).await?;
            match holds_records {
                true => logs.held.append(&mut taken.records),
                false => {
                    let records = taken.records;
                    let changes = LogChanges {
                        records,
                        ..LogChanges::default()
                    };
                    recorder.save_log(changes).await?;
                }
            }
            let problems = taken.problems.into_iter();
            Answer::Taken {
                became: recorded.iter().map(Became::from).collect(),
                problems: problems.map(|(line, error)| (line, error.to_string())).collect(),
            }
        }
        Request::ReplaceSession { owner, session } => {
            let changes = LogChanges {
                replaced: vec![session],
                records: std::mem::take(&mut logs.held),
                ..LogChanges::default()
            };
            recorders.of(&owner).await?.save_log(changes).await?;
            Answer::Done
        }
        Request::FilesRead { owner, paths } => {
            let files = files_read(recorders.store(), owner.as_deref(), paths).await?;
            Answer::Files(files.iter().map(SentFile::from).collect())
        }
        Request::SaveFiles { owner, files } => {
            let changes = LogChanges {
                files: files.into_iter().filter_map(SentFile::read).collect(),
                ..LogChanges::default()
            };
            recorders.of(&owner).await?.save_log(changes).await?;
            Answer::Done
        }
        Request::RepairSession {
            owner,
            session,
            is_from_log,
        } => Answer::Repaired(repair_session(recorders.store(), &owner, &session, is_from_log).await?),
        Request::Record { owner, exchanges } => {
            let batch: Result<Vec<RawExchange>, Failure> = exchanges.into_iter().map(read).collect();
            let recorded = recorders.of(&owner).await?.record(&batch?).await?;
            Answer::Recorded(recorded.iter().map(Became::from).collect())
        }
        Request::Link { owner } => Answer::Linked(recorders.of(&owner).await?.link().await?.into()),
        Request::Title {
            owner,
            reference,
            title: text,
        } => Answer::Titled(title(recorders, &owner, &reference, &text).await?),
        Request::Remove { owner, removal } => Answer::Removed(remove(recorders, &owner, &removal).await?),
        Request::CountUnused { owner } => Answer::Unused(count_unused(recorders.store(), &owner).await?),
        // It needs the journal as well.
        Request::Shrink => Answer::Done,
        Request::Rebuild { owner, projections } => Answer::Rebuilt(rebuild(recorders, &owner, projections).await?),
    })
}

/// Files of which more may come.
const FILES_MAX: usize = 64;

/// The logs that a command is reading.
#[derive(Debug, Default)]
struct Logs<'r> {
    by_file: HashMap<String, (LogPreparer<'r>, u64)>,
    uses: u64,
    held: Vec<RecordRow>,
}

impl<'r> Logs<'r> {
    /// Prepares a piece of a file.
    fn take(
        &mut self,
        file: &str,
        is_first: bool,
        rules: &'r Rules,
        logged: Vec<SentLogged>,
    ) -> Result<Taken, Failure> {
        self.uses += 1;
        if is_first {
            if self.by_file.len() >= FILES_MAX {
                let oldest = self.by_file.iter().min_by_key(|(_, (_, last))| *last);
                let oldest = oldest.map(|(file, _)| file.clone());
                self.by_file.remove(&oldest.unwrap_or_default());
            }
            let fresh = LogPreparer::new(rules.preparer());
            self.by_file.insert(file.to_owned(), (fresh, 0));
        }
        let unknown = || Failure::new(Kind::Internal, "the beginning of the log is missing");
        let (log, last) = self.by_file.get_mut(file).ok_or_else(unknown)?;
        *last = self.uses;
        let mut taken = Taken::default();
        for sent in logged {
            let unreadable = || Failure::new(Kind::Internal, "the log cannot be read");
            log.take(sent.read().ok_or_else(unreadable)?, &mut taken);
        }
        Ok(taken)
    }
}

fn read(sent: Sent) -> Result<RawExchange, Failure> {
    let unreadable = |error: &dyn std::error::Error| Failure::from_error(Kind::Internal, error);
    let line = ExchangeLine::parse(sent.line.as_bytes()).map_err(|error| unreadable(&error))?;
    let mut raw = RawExchange::try_from(line).map_err(|error| unreadable(&error))?;
    raw.provenance = sent.file.map(|file| Provenance {
        file,
        line: sent.number,
        uuid: None,
        aliases: Vec::new(),
        log_begun: None,
    });
    Ok(raw)
}
