//! `ropewalk serve`: the proxy, its journal, the recorder behind it, and the pages about them.
//!
//! [`Server`] is everything that runs; [`run`] starts one and waits for a signal. `local` has the routes that are not forwarded,
//! `api` those among them that ask the store, `metrics` what they tell, `telemetry` what others are told, [`found`] how others find a server
//! that runs, `reload` what it is told by signals, `retention` what it drops by itself.

mod api;
pub(crate) mod found;
mod local;
mod metrics;
mod reload;
mod retention;
mod survey;
mod telemetry;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ropewalk_proxy::counters::Counters;
use ropewalk_proxy::forward::{Forwarding, Interpose, Owners, Routes, Settings};
use ropewalk_proxy::journal::{Folder, Journal};
use ropewalk_proxy::recorder::{REJECTED_BYTES_MAX, Recording, Setup};
use ropewalk_proxy::references::References;
use ropewalk_proxy::reuse::Reuse;
use ropewalk_proxy::tee::{self, Redacting, Tee, Worker};
use ropewalk_proxy::telemetry::Telemetry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::any_store::AnyStore;
use crate::changes::imports::Imports;
use crate::changes::server::{Changes, Opened, Rules, Sealing};
use crate::cli::Serve;
use crate::config::{Config, DEFAULT_LISTEN, Place};
use crate::context::{Context, open_to_write};
use crate::failure::{Failure, Kind};
use crate::print::out::say;
use crate::secret;
use api::{Recorded, ServedApi};
use found::Announcement;
use metrics::Sources;
use reload::{Signals, wait_for_the_end};
use retention::Retaining;
use survey::Survey;
use telemetry::Exporter;

/// How long recording may go on after the last stream has ended. What is left then is in the journal.
const RECORDING_TIME_MAX: Duration = Duration::from_secs(10);

pub(crate) async fn run(context: &Context, arguments: &Serve) -> Result<(), Failure> {
    let server = Server::start(context, arguments).await?;
    // Before the greeting: who has read it may send one.
    let signals = Signals::listen()?;
    server.greet();
    wait_for_the_end(&server, context, arguments, signals).await;
    say("stopping: streams that are under way may end");
    server.stop().await;
    Ok(())
}

/// A running server.
pub(crate) struct Server {
    forwarding: Arc<Forwarding>,
    references: Arc<References<AnyStore>>,
    accepting: Vec<tokio::task::JoinHandle<()>>,
    tee: Tee,
    worker: JoinHandle<()>,
    recording: Recording,
    exporter: Exporter,
    address: SocketAddr,
    place: String,
    announcement: Announcement,
    changes: Option<Changes>,
    retaining: Retaining,
    reuse: Arc<Reuse<AnyStore>>,
    api: Arc<ServedApi>,
    api_greeting: String,
}

impl Server {
    /// The address is taken, the journal is open, and what a dead process left in it is being recorded.
    pub(crate) async fn start(context: &Context, arguments: &Serve) -> Result<Self, Failure> {
        let config = &context.config;
        let settings = settings(config, arguments)?;
        let listeners = listeners(config, arguments).await?;
        let counters = Arc::new(Counters::default());
        let internal = |error: &dyn std::error::Error| Failure::from_error(Kind::Internal, error);
        let (journal, writer) = open_journal(config, &counters)?;
        let (tee, inbox) = tee::channel(config.serving.queue_bytes());
        let scrub = Box::new(redacting(config)?);
        let headers = config.serving.kept_headers()?;
        let worker = Worker::start(inbox, writer, scrub, &headers, Arc::clone(&counters));
        let worker = worker.map_err(|error| internal(&error))?;
        let (opened, store) = watch::channel(None);
        let (exporter, telemetry) = Exporter::start(config, &counters, store.clone())?;
        exporter.upstreams_are(&settings.upstreams);
        let recording = start_recording(config, &journal, telemetry, opened)?;
        let runtime = tokio::runtime::Handle::current();
        let references = References::new(store.clone(), runtime.clone(), config.serving.references());
        let references = Arc::new(references);
        let reuse = Arc::new(Reuse::new(store.clone(), config.serving.reuse_rules(), runtime.clone()));
        let access = api::access(config, &settings.owners)?;
        let sources = Arc::new(Sources::new(
            journal.clone(),
            Arc::clone(references.counters()),
            Arc::clone(reuse.counters()),
            store.clone(),
            Survey::start(store.clone()),
        ));
        let imports = Arc::new(Imports::default());
        let recorded = Recorded {
            opened: store.clone(),
            linking: config.linking,
            prices: config.prices.clone(),
            sources: Arc::clone(&sources),
            imports: Arc::clone(&imports),
            audit: config.data_folder().ok().map(Path::to_path_buf),
        };
        let api = Arc::new(ServedApi::new(Arc::new(recorded), access));
        let local_owner = match &settings.owners {
            Owners::Local(owner) => Some(owner.to_string()),
            Owners::Tokens(_) | Owners::Credential(_) => None,
        };
        let api_greeting = api::greeting(config, &settings.owners, &format!("http://{}", listeners.admin))?;
        let sealing = Sealing {
            tee: tee.clone(),
            journal: journal.clone(),
        };
        let rules = Rules {
            linking: config.linking,
            spawn_tools: config.spawn_tools.clone(),
            prices: config.prices.clone(),
        };
        let retaining = Retaining::start(config, store.clone(), rules.clone());
        let changes = listen_for_changes(config, store, rules, sealing, imports)?;
        let local = local::routes(Arc::clone(&sources), Arc::clone(&api), runtime);
        // What is answered from the store is what would have been sent.
        let interposed: Vec<Arc<dyn Interpose>> = vec![references.clone(), reuse.clone()];
        let forwarding = Forwarding::start(settings, tee.clone(), Some(journal), local, interposed)
            .map_err(|error| Failure::from_error(Kind::Configuration, &error))?;
        let forwarding = Arc::new(forwarding);
        sources.know(Arc::clone(forwarding.counters()));
        let address = listeners.address;
        let accepting = listeners.bound.into_iter().map(|(listener, routes)| {
            let forwarding = Arc::clone(&forwarding);
            tokio::spawn(async move { forwarding.listen(listener, routes).await })
        });
        Ok(Server {
            accepting: accepting.collect(),
            forwarding,
            references,
            tee,
            worker,
            recording,
            exporter,
            address,
            place: place_name(&config.place),
            announcement: Announcement::make(config.data_folder()?, address, local_owner)?,
            changes,
            retaining,
            reuse,
            api,
            api_greeting,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where clients come.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn greet(&self) {
        let url = self.url();
        say(&format!("ropewalk listens on {url} and records to {}", self.place));
        say(&format!("for Claude Code: ANTHROPIC_BASE_URL={url} claude"));
        say(&format!("for OpenAI's SDKs and Codex: OPENAI_BASE_URL={url}/v1"));
        say("for any command: ropewalk run -- COMMAND");
        say(&self.api_greeting);
        if let Some(collector) = &self.exporter.place {
            say(&format!("spans and measurements go to {collector}"));
        }
    }

    /// Accepts no more, lets streams end within their limit, and records what passed.
    pub(crate) async fn stop(self) {
        self.announcement.withdraw();
        drop(self.changes);
        drop(self.retaining);
        self.api.close();
        self.forwarding.begin_to_stop();
        for accepting in self.accepting {
            drop(accepting.await);
        }
        let (forwarding, tee, worker, recording) = (self.forwarding, self.tee, self.worker, self.recording);
        let exporter = self.exporter;
        let stopped = tokio::task::spawn_blocking(move || {
            if let Some(forwarding) = Arc::into_inner(forwarding) {
                forwarding.stop();
            }
            tee.close();
            let worked = worker.join().is_ok();
            let recorded = recording.finish(RECORDING_TIME_MAX);
            exporter.finish();
            (worked, recorded)
        });
        match stopped.await {
            Ok((true, true)) => {}
            Ok((true, false)) => {
                say("not everything is in the store yet; the rest is in the journal for the next start");
            }
            _ => say("the journal's worker ended early; what it had is in the journal"),
        }
    }
}

/// What the configuration and the command line say about forwarding.
fn settings(config: &Config, arguments: &Serve) -> Result<Settings, Failure> {
    config.settings(&arguments.upstreams)
}

struct Listeners {
    /// Where clients come.
    address: SocketAddr,
    /// Where pages and the API are.
    admin: SocketAddr,
    bound: Vec<(TcpListener, Routes)>,
}

async fn listeners(config: &Config, arguments: &Serve) -> Result<Listeners, Failure> {
    let usual = DEFAULT_LISTEN.parse().ok();
    let address = arguments.listen.or(config.serving.listen).or(usual);
    let admin = arguments.admin_listen.or(config.serving.admin_listen);
    let address = address.ok_or_else(|| Failure::new(Kind::Internal, "the default address is none"))?;
    let place = |listener: &TcpListener| {
        let place = listener.local_addr();
        place.map_err(|error| Failure::from_error(Kind::Internal, &error))
    };
    let first = bind(address).await?;
    let address = place(&first)?;
    let Some(admin) = admin else {
        return Ok(Listeners {
            address,
            admin: address,
            bound: vec![(first, Routes::All)],
        });
    };
    let second = bind(admin).await?;
    Ok(Listeners {
        address,
        admin: place(&second)?,
        bound: vec![(first, Routes::Forwarded), (second, Routes::Local)],
    })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Kind::Configuration, format!("cannot listen on {address}: {error}"))
            .hint("another server may be there; choose another address with --listen")
    })
}

fn open_journal(
    config: &Config,
    counters: &Arc<Counters>,
) -> Result<(Journal, ropewalk_proxy::journal::Writer), Failure> {
    let written = &config.serving.journal;
    let files = Folder::open(&written.folder(config.data_folder()?)).map_err(|error| {
        Failure::from_error(Kind::Configuration, &error).hint("each server needs a data folder of its own: --data DIR")
    })?;
    Journal::open(Arc::new(files), written.settings(), Arc::clone(counters))
        .map_err(|error| Failure::from_error(Kind::Internal, &error))
}

fn redacting(config: &Config) -> Result<Redacting, Failure> {
    let redactor = config.serving.redactor()?;
    let secret = secret::key(config.data_folder()?)?;
    Ok(Redacting::new(
        Arc::new(redactor),
        secret,
        config.serving.decode_limits(),
    ))
}

/// Only a folder has one writer; a database server takes changes from anybody.
fn listen_for_changes(
    config: &Config,
    store: Opened,
    rules: Rules,
    sealing: Sealing,
    imports: Arc<Imports>,
) -> Result<Option<Changes>, Failure> {
    let Place::Folder(folder) = &config.place else {
        return Ok(None);
    };
    let listening = Changes::listen(folder, store, rules, sealing, imports).map_err(|error| {
        Failure::new(
            Kind::Configuration,
            format!("no socket in {}: {error}", folder.display()),
        )
        .hint("the path of a socket has 107 bytes at most; choose a shorter --data")
    })?;
    Ok(Some(listening))
}

/// How this configuration has exchanges recorded.
pub(crate) fn recorder_setup(config: &Config, telemetry: Option<Telemetry>) -> Setup {
    Setup {
        prices: config.prices.clone(),
        settings: config.linking,
        spawn_tools: config.spawn_tools.clone(),
        rejected_bytes_max: REJECTED_BYTES_MAX,
        telemetry,
    }
}

fn start_recording(
    config: &Config,
    journal: &Journal,
    telemetry: Option<Telemetry>,
    opened: watch::Sender<Option<Arc<AnyStore>>>,
) -> Result<Recording, Failure> {
    let setup = recorder_setup(config, telemetry);
    let place = config.place.clone();
    let open = move || {
        let (place, opened) = (place.clone(), opened.clone());
        async move {
            // The one that failed must be let go of first: it holds the folder's lock.
            opened.send_replace(None);
            let store = Arc::new(open_to_write(&place).await?);
            opened.send_replace(Some(Arc::clone(&store)));
            Ok(store)
        }
    };
    Recording::start(journal.clone(), setup, open).map_err(|error| Failure::from_error(Kind::Internal, &error))
}

/// Without what may be in an address: a password.
fn place_name(place: &Place) -> String {
    match place {
        Place::Folder(folder) => folder.display().to_string(),
        Place::Postgres(_) => "PostgreSQL".to_owned(),
    }
}
