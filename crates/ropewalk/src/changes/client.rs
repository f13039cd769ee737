//! A command's end: either it writes itself, or it asks the server to.

use std::path::Path;

use ropewalk_engine::logged::Logged;
use ropewalk_engine::{Prepared, RawExchange, Recorders};
use ropewalk_store::StoreError;
use ropewalk_store::log::{ImportedFile, LogChanges};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::removal::{Removal, Removed, Shrunk, Went, remove, shrink};
use super::sent::{SentFile, SentLogged};
use super::{
    Answer, Became, Linked, Rebuilt, Repaired, Request, Sent, count_unused, files_read, repair_session, socket_path,
    title,
};
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

/// Records and links on either way.
pub(crate) enum Changer<'w> {
    Own(Recorders<'w, AnyStore>),
    Server(&'w mut BufReader<UnixStream>),
}

impl<'w> Changer<'w> {
    pub(crate) fn new(context: &'w Context, way: &'w mut Way) -> Self {
        match way {
            Way::Own(store) => Changer::Own(context.recorders(store)),
            Way::Server(server) => Changer::Server(server),
        }
    }

    pub(crate) async fn record(&mut self, owner: &str, batch: &[RawExchange]) -> Result<Vec<Became>, Failure> {
        match self {
            Changer::Own(recorders) => {
                let recorded = recorders.of(owner).await?.record(batch).await?;
                Ok(recorded.iter().map(Became::from).collect())
            }
            Changer::Server(server) => {
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

    /// Records what was prepared from a log. Only where the store is ours.
    pub(crate) async fn record_prepared(&mut self, owner: &str, batch: Vec<Prepared>) -> Result<Vec<Became>, Failure> {
        match self {
            Changer::Own(recorders) => {
                let recorded = recorders.of(owner).await?.record_prepared(batch).await?;
                Ok(recorded.iter().map(Became::from).collect())
            }
            Changer::Server(_) => Err(misunderstood()),
        }
    }

    /// Has the server prepare and record a piece of a log.
    pub(crate) async fn log(
        &mut self,
        owner: &str,
        file: &str,
        is_first: bool,
        holds_records: bool,
        logged: &[Logged],
    ) -> Result<LogTaken, Failure> {
        let Changer::Server(server) = self else {
            return Err(misunderstood());
        };
        let request = Request::Log {
            owner: owner.to_owned(),
            file: file.to_owned(),
            is_first,
            holds_records,
            logged: logged.iter().filter_map(SentLogged::of).collect(),
        };
        match ask(server, &request).await? {
            Answer::Taken { became, problems } => Ok(LogTaken { became, problems }),
            _ => Err(misunderstood()),
        }
    }

    pub(crate) async fn save_log(&mut self, owner: &str, changes: LogChanges) -> Result<(), Failure> {
        match self {
            Changer::Own(recorders) => Ok(recorders.of(owner).await?.save_log(changes).await?),
            Changer::Server(server) => {
                // Records went with the log.
                for session in changes.replaced {
                    let owner = owner.to_owned();
                    done(&ask(server, &Request::ReplaceSession { owner, session }).await?)?;
                }
                let files: Vec<SentFile> = changes.files.iter().map(SentFile::from).collect();
                let owner = owner.to_owned();
                done(&ask(server, &Request::SaveFiles { owner, files }).await?)
            }
        }
    }

    /// How far each of these files was read, for an owner or for anybody.
    pub(crate) async fn files_read(
        &mut self,
        owner: Option<&str>,
        paths: Vec<String>,
    ) -> Result<Vec<ImportedFile>, Failure> {
        match self {
            Changer::Own(recorders) => Ok(files_read(recorders.store(), owner, paths).await?),
            Changer::Server(server) => {
                let owner = owner.map(str::to_owned);
                match ask(server, &Request::FilesRead { owner, paths }).await? {
                    Answer::Files(files) => Ok(files.into_iter().filter_map(SentFile::read).collect()),
                    _ => Err(misunderstood()),
                }
            }
        }
    }

    /// Puts the records of a session right, as far as they and the recorded answers tell how.
    pub(crate) async fn repair_session(
        &mut self,
        owner: &str,
        session: &str,
        is_from_log: bool,
    ) -> Result<Vec<Repaired>, Failure> {
        match self {
            Changer::Own(recorders) => repair_session(recorders.store(), owner, session, is_from_log).await,
            Changer::Server(server) => {
                let request = Request::RepairSession {
                    owner: owner.to_owned(),
                    session: session.to_owned(),
                    is_from_log,
                };
                match ask(server, &request).await? {
                    Answer::Repaired(repaired) => Ok(repaired),
                    _ => Err(misunderstood()),
                }
            }
        }
    }

    /// Gives a conversation a title; says its friendly id.
    pub(crate) async fn title(&mut self, owner: &str, reference: &str, text: &str) -> Result<String, Failure> {
        match self {
            Changer::Own(recorders) => title(recorders, owner, reference, text).await,
            Changer::Server(server) => {
                let request = Request::Title {
                    owner: owner.to_owned(),
                    reference: reference.to_owned(),
                    title: text.to_owned(),
                };
                match ask(server, &request).await? {
                    Answer::Titled(friendly_id) => Ok(friendly_id),
                    _ => Err(misunderstood()),
                }
            }
        }
    }

    /// Removes something of an owner's.
    pub(crate) async fn remove(&mut self, owner: &str, removal: Removal) -> Result<Removed, Failure> {
        match self {
            Changer::Own(recorders) => remove(recorders, owner, &removal).await,
            Changer::Server(server) => {
                let owner = owner.to_owned();
                match ask(server, &Request::Remove { owner, removal }).await? {
                    Answer::Removed(removed) => Ok(removed),
                    _ => Err(misunderstood()),
                }
            }
        }
    }

    /// What nobody uses of an owner's.
    pub(crate) async fn count_unused(&mut self, owner: &str) -> Result<Went, Failure> {
        match self {
            Changer::Own(recorders) => count_unused(recorders.store(), owner).await,
            Changer::Server(server) => {
                let owner = owner.to_owned();
                match ask(server, &Request::CountUnused { owner }).await? {
                    Answer::Unused(went) => Ok(went),
                    _ => Err(misunderstood()),
                }
            }
        }
    }

    /// Leaves no copy of what was removed, and gives back its room.
    pub(crate) async fn shrink(&mut self) -> Result<Shrunk, Failure> {
        match self {
            Changer::Own(recorders) => shrink(recorders.store()).await,
            Changer::Server(server) => match ask(server, &Request::Shrink).await? {
                Answer::Shrunk(shrunk) => Ok(shrunk),
                _ => Err(misunderstood()),
            },
        }
    }

    pub(crate) async fn link(&mut self, owner: &str) -> Result<Linked, Failure> {
        match self {
            Changer::Own(recorders) => Ok(recorders.of(owner).await?.link().await?.into()),
            Changer::Server(server) => {
                let owner = owner.to_owned();
                linked(&ask(server, &Request::Link { owner }).await?)
            }
        }
    }
}

/// What became of a piece of a log.
#[derive(Debug)]
pub(crate) struct LogTaken {
    pub(crate) became: Vec<Became>,
    pub(crate) problems: Vec<(u64, String)>,
}

fn done(answer: &Answer) -> Result<(), Failure> {
    match answer {
        Answer::Done => Ok(()),
        _ => Err(misunderstood()),
    }
}

/// Everything of an owner linked again, by the server.
pub(crate) async fn rebuild(
    server: &mut BufReader<UnixStream>,
    owner: &str,
    projections: bool,
) -> Result<Rebuilt, Failure> {
    let owner = owner.to_owned();
    match ask(server, &Request::Rebuild { owner, projections }).await? {
        Answer::Rebuilt(rebuilt) => Ok(rebuilt),
        _ => Err(misunderstood()),
    }
}

fn linked(answer: &Answer) -> Result<Linked, Failure> {
    match *answer {
        Answer::Linked(linked) => Ok(linked),
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
