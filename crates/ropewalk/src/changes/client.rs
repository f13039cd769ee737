//! A command's end: either it writes itself, or it asks the server to.

use std::collections::BTreeMap;
use std::path::Path;

use ropewalk_core::cost::BundledPrices;
use ropewalk_engine::{RawExchange, Recorder};
use ropewalk_store::StoreError;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::{Answer, Became, Request, Sent, socket_path};
use crate::any_store::AnyStore;
use crate::context::Context;
use crate::failure::{Failure, Kind};

/// What a store that may be changed is reached by.
#[derive(Debug)]
pub(crate) enum Way {
    /// Nobody else writes.
    Own(AnyStore),
    /// The server of the data folder does.
    Server(BufReader<UnixStream>),
}

impl Way {
    pub(crate) async fn open(context: &Context) -> Result<Self, Failure> {
        match context.open_to_write().await {
            Ok(store) => Ok(Way::Own(store)),
            Err(StoreError::Locked) => match connect(context.config.data_folder()?).await {
                Some(server) => Ok(Way::Server(server)),
                None => Err(StoreError::Locked.into()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

async fn connect(data_folder: &Path) -> Option<BufReader<UnixStream>> {
    let stream = UnixStream::connect(socket_path(data_folder)).await.ok()?;
    Some(BufReader::new(stream))
}

/// How linking went.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Linked {
    pub(crate) linked: u64,
    pub(crate) moved: u64,
}

/// Records and links on either way.
pub(crate) struct Changer<'w> {
    context: &'w Context,
    way: Reached<'w>,
}

enum Reached<'w> {
    Own {
        store: &'w AnyStore,
        recorders: BTreeMap<String, Recorder<'w, AnyStore>>,
    },
    Server(&'w mut BufReader<UnixStream>),
}

impl<'w> Changer<'w> {
    pub(crate) fn new(context: &'w Context, way: &'w mut Way) -> Self {
        let way = match way {
            Way::Own(store) => Reached::Own {
                store,
                recorders: BTreeMap::new(),
            },
            Way::Server(server) => Reached::Server(server),
        };
        Changer { context, way }
    }

    pub(crate) async fn record(&mut self, owner: &str, batch: &[RawExchange]) -> Result<Vec<Became>, Failure> {
        match &mut self.way {
            Reached::Own { store, recorders } => {
                let recorder = recorder(self.context, store, recorders, owner).await?;
                let recorded = recorder.record(batch).await?;
                Ok(recorded.iter().map(|recorded| recorded.outcome.into()).collect())
            }
            Reached::Server(server) => {
                let exchanges = batch.iter().map(|raw| Sent {
                    line: raw.to_line(owner).write(),
                    file: raw.provenance.as_ref().map(|found| found.file.clone()),
                    number: raw.provenance.as_ref().map_or(0, |found| found.line),
                });
                let request = Request::Record {
                    owner: owner.to_owned(),
                    exchanges: exchanges.collect(),
                };
                match ask(server, &request).await? {
                    Answer::Recorded(became) if became.len() == batch.len() => Ok(became),
                    _ => Err(misunderstood()),
                }
            }
        }
    }

    pub(crate) async fn link(&mut self, owner: &str) -> Result<Linked, Failure> {
        match &mut self.way {
            Reached::Own { store, recorders } => {
                let progress = recorder(self.context, store, recorders, owner).await?.link().await?;
                Ok(Linked {
                    linked: progress.linked as u64,
                    moved: progress.moved.len() as u64,
                })
            }
            Reached::Server(server) => {
                let owner = owner.to_owned();
                linked(&ask(server, &Request::Link { owner }).await?)
            }
        }
    }
}

async fn recorder<'m, 'w>(
    context: &Context,
    store: &'w AnyStore,
    recorders: &'m mut BTreeMap<String, Recorder<'w, AnyStore>>,
    owner: &str,
) -> Result<&'m mut Recorder<'w, AnyStore>, Failure> {
    if !recorders.contains_key(owner) {
        let config = &context.config;
        let recorder = Recorder::new(store, owner, &BundledPrices).await?;
        let recorder = recorder.with_settings(config.linking, config.spawn_tools.clone());
        recorders.insert(owner.to_owned(), recorder);
    }
    let missing = || Failure::new(Kind::Internal, "a recorder was lost");
    recorders.get_mut(owner).ok_or_else(missing)
}

/// Everything of an owner linked again, by the server.
pub(crate) async fn rebuild(server: &mut BufReader<UnixStream>, owner: &str) -> Result<Linked, Failure> {
    let owner = owner.to_owned();
    linked(&ask(server, &Request::Rebuild { owner }).await?)
}

fn linked(answer: &Answer) -> Result<Linked, Failure> {
    match *answer {
        Answer::Linked { linked, moved } => Ok(Linked { linked, moved }),
        _ => Err(misunderstood()),
    }
}

async fn ask(server: &mut BufReader<UnixStream>, request: &Request) -> Result<Answer, Failure> {
    let broke = |error: std::io::Error| {
        Failure::new(Kind::Internal, format!("the server went away: {error}"))
            .hint("run the command again; what was recorded stays, and recording it again changes nothing")
    };
    let mut text = serde_json::to_vec(request).map_err(|error| Failure::from_error(Kind::Internal, &error))?;
    text.push(b'\n');
    server.write_all(&text).await.map_err(broke)?;
    let mut line = String::new();
    if server.read_line(&mut line).await.map_err(broke)? == 0 {
        return Err(broke(std::io::ErrorKind::UnexpectedEof.into()));
    }
    match serde_json::from_str(&line) {
        Ok(Answer::Failed { message }) => Err(Failure::new(Kind::Internal, message)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(misunderstood()),
    }
}

fn misunderstood() -> Failure {
    Failure::new(Kind::Internal, "the server answered something else")
        .hint("it may be another version of ropewalk; start it again")
}
