//! `ropewalk serve` as its users start it: the built binary on a free port, with a data folder that ends with the test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ropewalk_testkit::upstream::Upstream;
use serde_json::Value;

use crate::store::TestStore;

/// For what should have happened at once; a loaded machine takes its time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// What the server says when it listens.
const GREETING: &str = "ropewalk listens on http://";
/// What it says when it stops with a part of the journal left.
const LEFT_IN_JOURNAL: &str = "not everything is in the store yet";

/// A place to serve from: a data folder, a configuration, a provider.
pub(crate) struct Place {
    pub(crate) store: TestStore,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Where the store is if not in the data folder.
    database: Option<String>,
    config: PathBuf,
}

impl Place {
    pub(crate) fn before(upstream: &Upstream) -> Self {
        Place::with(upstream, "")
    }

    /// Recording to its folder, or to that PostgreSQL database.
    pub(crate) fn on(upstream: &Upstream, database: Option<&str>) -> Self {
        let place = Place::before(upstream);
        match database {
            Some(address) => place.recording_to(address),
            None => place,
        }
    }

    /// With this in the configuration file.
    pub(crate) fn with(upstream: &Upstream, config: &str) -> Self {
        let mut place = Place::bare(config);
        for provider in ["anthropic", "openai", "gemini"] {
            place.arguments.push("--upstream".to_owned());
            place.arguments.push(format!("{provider}={}", upstream.url()));
        }
        place
    }

    /// Without a provider on the command line.
    pub(crate) fn bare(config: &str) -> Self {
        let store = TestStore::new();
        let config = store.file("config.toml", config);
        Place {
            store,
            arguments: Vec::new(),
            environment: Vec::new(),
            database: None,
            config,
        }
    }

    /// Recording to that PostgreSQL database.
    pub(crate) fn recording_to(mut self, address: &str) -> Self {
        self.arguments.extend(["--store".to_owned(), address.to_owned()]);
        self.database = Some(address.to_owned());
        self
    }

    /// With a variable in its environment, which has nothing else in it.
    pub(crate) fn knowing(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.store.data()
    }

    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(&self.config, text).unwrap();
    }

    /// Starts a server and waits until it listens.
    pub(crate) fn serve(&self) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ropewalk"))
            .arg("--data")
            .arg(self.data())
            .arg("--config")
            .arg(&self.config)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said: Arc<Mutex<String>> = Arc::default();
        let listening = listen_to(child.stderr.take().unwrap(), Arc::clone(&said));
        let mut server = Server {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            said,
            listening: Some(listening),
        };
        server.address = server.greeted();
        server
    }

    /// Serves and stops until nothing is left in the journal.
    pub(crate) fn record_what_is_left(&self) {
        let deadline = Instant::now() + PATIENCE * 10;
        while !self.serve().stop().is_recorded() {
            assert!(Instant::now() < deadline, "the journal never becomes empty");
        }
    }

    /// The name of the one owner that has data.
    pub(crate) fn only_owner(&self) -> String {
        let owners = self.store.json(&["stats"]);
        assert_eq!(owners.len(), 1, "{owners:?}");
        owners[0]["owner"].as_str().unwrap().to_owned()
    }

    /// Every exchange, as `log --exchanges --json` tells it.
    pub(crate) fn exchanges(&self) -> Vec<Value> {
        self.store.json(&self.over_store(&["log", "--exchanges"]))
    }

    /// Waits until this many exchanges are recorded, and all of them linked.
    pub(crate) fn wait_for_linked(&self, count: usize) {
        wait_until(|| {
            let exchanges = self.exchanges();
            let is_linked = |exchange: &Value| exchange["conversation_id"].is_string();
            (exchanges.len() == count && exchanges.iter().all(is_linked)).then_some(())
        });
    }

    /// Arguments of a command over the same store.
    pub(crate) fn over_store<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let mut all = arguments.to_vec();
        if let Some(database) = &self.database {
            all.extend(["--store", database]);
        }
        all
    }
}

/// A server that runs. Killed if it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<String>>,
    listening: Option<JoinHandle<()>>,
}

/// How a server ended.
pub(crate) struct Stopped {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

impl Stopped {
    /// Whether all that passed is in the store.
    pub(crate) fn is_recorded(&self) -> bool {
        assert!(self.status.success(), "{}: {}", self.status, self.said);
        !self.said.contains(LEFT_IN_JOURNAL)
    }
}

impl Server {
    fn greeted(&mut self) -> SocketAddr {
        wait_until(|| {
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {}", self.said());
            let said = self.said();
            let (_, rest) = said.split_once(GREETING)?;
            rest.split_whitespace().next()?.parse().ok()
        })
    }

    /// Waits until its store is open as well.
    pub(crate) fn wait_until_ready(&self) {
        wait_until(|| {
            let mut socket = TcpStream::connect(self.address).ok()?;
            socket
                .write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                .ok()?;
            let mut answer = String::new();
            socket.read_to_string(&mut answer).ok()?;
            answer.starts_with("HTTP/1.1 200").then_some(())
        });
    }

    /// What it has written to standard error.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// `SIGTERM`, and waits.
    pub(crate) fn stop(self) -> Stopped {
        self.signal("TERM");
        self.ended()
    }

    pub(crate) fn ended(mut self) -> Stopped {
        let status = self.child.wait().unwrap();
        self.listening.take().unwrap().join().unwrap();
        Stopped {
            status,
            said: self.said(),
        }
    }

    /// A figure of `/proc/PID/status` in bytes: `VmRSS` is what it uses now, `VmHWM` the most it ever did.
    pub(crate) fn memory(&self, figure: &str) -> u64 {
        let path = Path::new("/proc").join(self.child.id().to_string()).join("status");
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Until there is something, which a test cannot wait for in a better way.
pub(crate) fn wait_until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "this does not happen");
        std::thread::sleep(POLL);
    }
}

/// Reads all the server says, so that it never waits for a reader.
fn listen_to(stderr: ChildStderr, said: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap();
            said.push_str(&line);
            said.push('\n');
        }
    })
}
