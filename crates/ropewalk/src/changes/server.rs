//! The server's end: changes for commands that may not write themselves.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::spawn::SpawnTools;
use ropewalk_engine::{Progress, RawExchange, Recorder, Settings};
use ropewalk_store::facts::Provenance;
use ropewalk_wire::exchange::ExchangeLine;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::{Answer, REQUEST_BYTES_MAX, Request, Sent, socket_path};
use crate::any_store::AnyStore;

/// Commands that change something at once; more wait.
const COMMANDS_MAX: usize = 4;

/// The store, as soon as the recorder has opened it.
pub(crate) type Opened = watch::Receiver<Option<Arc<AnyStore>>>;

/// What linking follows, for changes as for what passes.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) linking: Settings,
    pub(crate) spawn_tools: SpawnTools,
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
    pub(crate) fn listen(data_folder: &Path, store: Opened, rules: Rules) -> io::Result<Self> {
        let path = socket_path(data_folder);
        // The journal's lock says that no other server uses the folder: what is there was left by a dead one.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let listening = tokio::spawn(accept(listener, store, rules));
        Ok(Changes { path, listening })
    }
}

async fn accept(listener: UnixListener, store: Opened, rules: Rules) {
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
        let (store, rules) = (store.clone(), rules.clone());
        // Preparing and linking keep a processor busy, so it is not done on the threads that accept.
        tokio::task::spawn_blocking(move || {
            let served = tokio::runtime::Handle::current().block_on(serve(stream, store, &rules));
            if let Err(error) = served {
                tracing::debug!(%error, "a command went away");
            }
            drop(place);
        });
    }
}

async fn serve(stream: UnixStream, mut store: Opened, rules: &Rules) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let opened = store.wait_for(Option::is_some).await.map(|store| store.clone());
    let Ok(Some(store)) = opened else {
        return Ok(());
    };
    let mut recorders = Recorders {
        store: &store,
        rules,
        by_owner: BTreeMap::new(),
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let bound = REQUEST_BYTES_MAX as u64;
        if (&mut read).take(bound).read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(request) => recorders.change(request).await,
            Err(error) => Err(format!("the request cannot be read: {error}")),
        };
        let answer = answer.unwrap_or_else(|message| Answer::Failed { message });
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        write.write_all(&text).await?;
    }
}

struct Recorders<'s> {
    store: &'s AnyStore,
    rules: &'s Rules,
    by_owner: BTreeMap<String, Recorder<'s, AnyStore>>,
}

impl<'s> Recorders<'s> {
    async fn change(&mut self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Record { owner, exchanges } => {
                let batch: Result<Vec<RawExchange>, String> = exchanges.into_iter().map(read).collect();
                let recorded = self.of(&owner).await?.record(&batch?).await;
                let recorded = recorded.map_err(|error| error.to_string())?;
                Ok(Answer::Recorded(
                    recorded.iter().map(|recorded| recorded.outcome.into()).collect(),
                ))
            }
            Request::Link { owner } => {
                let progress = self.of(&owner).await?.link().await;
                Ok(linked(&progress.map_err(|error| error.to_string())?))
            }
            Request::Rebuild { owner } => {
                let progress = self.of(&owner).await?.rebuild().await;
                Ok(linked(&progress.map_err(|error| error.to_string())?))
            }
        }
    }

    async fn of(&mut self, owner: &str) -> Result<&mut Recorder<'s, AnyStore>, String> {
        if !self.by_owner.contains_key(owner) {
            let recorder = Recorder::new(self.store, owner, &BundledPrices).await;
            let recorder = recorder.map_err(|error| error.to_string())?;
            let recorder = recorder.with_settings(self.rules.linking, self.rules.spawn_tools.clone());
            self.by_owner.insert(owner.to_owned(), recorder);
        }
        self.by_owner
            .get_mut(owner)
            .ok_or_else(|| "a recorder was lost".to_owned())
    }
}

fn linked(progress: &Progress) -> Answer {
    Answer::Linked {
        linked: progress.linked as u64,
        moved: progress.moved.len() as u64,
    }
}

fn read(sent: Sent) -> Result<RawExchange, String> {
    let line = ExchangeLine::parse(sent.line.as_bytes()).map_err(|error| error.to_string())?;
    let mut raw = RawExchange::try_from(line).map_err(|error| error.to_string())?;
    raw.provenance = sent.file.map(|file| Provenance {
        file,
        line: sent.number,
        uuid: None,
        aliases: Vec::new(),
    });
    Ok(raw)
}
