//! A PostgreSQL server of the tests' own: a fresh cluster in a temporary folder, as a user without rights.
//!
//! A small shell waits beside the server for the end of a pipe that this process holds. So the server stops and its folder
//! goes away however this process ends, also by a panic or a kill, and a server may live in a static.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it answers; a loaded machine needs seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const START_POLL: Duration = Duration::from_millis(50);

/// Another process may take the free port before the server does.
const START_TRIES: usize = 3;

/// The server refuses to run as root, so root becomes one of these.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// `sh -c SCRIPT sh BIN FOLDER PORT SETTING...`
const RUN_UNTIL_THE_PIPE_ENDS: &str = r#"
bin=$1 folder=$2 port=$3; shift 3
"$bin/postgres" -D "$folder/data" -k "$folder" -p "$port" -c listen_addresses=127.0.0.1 "$@" </dev/null &
server=$!
cat >/dev/null
kill -QUIT "$server" 2>/dev/null
wait "$server"
rm -rf "$folder"
"#;

#[derive(Debug)]
pub struct PrivatePostgres {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    /// The shell beside the server; its standard input is the pipe.
    shell: Child,
    databases: AtomicU32,
}

impl PrivatePostgres {
    /// The server of this test process, started on first use.
    pub fn shared() -> Result<&'static Self, &'static str> {
        static SHARED: OnceLock<Result<PrivatePostgres, String>> = OnceLock::new();
        // More connections than all tests together use at once.
        let start = || PrivatePostgres::start(&["max_connections=200"]);
        SHARED.get_or_init(start).as_ref().map_err(String::as_str)
    }

    /// Starts a server; `settings` are lines of its configuration. Commits are durable unless they say otherwise.
    pub fn start(settings: &[&str]) -> Result<Self, String> {
        let bin = find_programs().ok_or("PostgreSQL is not installed; run `make setup`, which installs it")?;
        let mut tried = Err("it was never tried".to_owned());
        for _ in 0..START_TRIES {
            tried = Self::try_start(&bin, settings);
            if tried.is_ok() {
                break;
            }
        }
        tried.map_err(|why| format!("a private PostgreSQL could not be started: {why}"))
    }

    fn try_start(bin: &Path, settings: &[&str]) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("ropewalk-postgres-")
            .tempdir()
            .map_err(said)?;
        let user = unprivileged_user(folder.path())?;
        let mut initdb = user.command(&bin.join("initdb"));
        initdb.args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "-D",
        ]);
        succeed(initdb.arg(folder.path().join("data")))?;
        let port = free_port().map_err(said)?;
        let log = fs::File::create(folder.path().join("log")).map_err(said)?;
        let mut shell = user.command(Path::new("sh"));
        shell
            .args(["-c", RUN_UNTIL_THE_PIPE_ENDS, "sh"])
            .arg(bin)
            .arg(folder.path());
        shell.arg(port.to_string());
        for setting in settings {
            shell.args(["-c", setting]);
        }
        let shell = shell
            .stdin(Stdio::piped())
            .stdout(log.try_clone().map_err(said)?)
            .stderr(log)
            .spawn()
            .map_err(said)?;
        let server = PrivatePostgres {
            bin: bin.to_owned(),
            // The shell removes it from here on.
            folder: folder.keep(),
            port,
            shell,
            databases: AtomicU32::new(0),
        };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&self) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if self.run_sql("postgres", "SELECT 1").is_ok() {
                return Ok(());
            }
            std::thread::sleep(START_POLL);
        }
        Err(fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    /// The address of a new, empty database.
    pub fn fresh_database(&self) -> Result<String, String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run_sql("postgres", &format!("CREATE DATABASE {name}"))?;
        let folder = self.folder.to_string_lossy().replace('/', "%2F");
        let port = self.port;
        Ok(format!("postgresql:///{name}?host={folder}&port={port}&user=postgres"))
    }

    /// Runs statements with `psql` and gives what it prints, without decoration.
    pub fn run_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-p"]);
        psql.arg(self.port.to_string()).arg("-h").arg(&self.folder);
        let output = succeed(psql.args(["-d", database, "-c", statements]))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The process id of the server, for tests that look at or stop it.
    pub fn process_id(&self) -> Option<u32> {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It ends by itself; waiting only keeps the folder from outliving a test that looks for it.
        let _ = self.shell.wait();
    }
}

/// The folder with `initdb` and `postgres`: from PATH, else where Debian keeps them, the newest version first.
fn find_programs() -> Option<PathBuf> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&in_path).collect::<Vec<_>>();
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .collect();
    versions.sort_unstable();
    let versions = versions.into_iter().rev().map(|(_, bin)| bin);
    let has_programs = |bin: &PathBuf| {
        ["initdb", "postgres", "psql"]
            .iter()
            .all(|name| bin.join(name).is_file())
    };
    in_path.into_iter().chain(versions).find(has_programs)
}

/// Whom the server runs as.
struct User {
    /// User and group, where they are others than ours.
    ids: Option<(u32, u32)>,
}

impl User {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The current folder may be closed to that user.
        command.current_dir("/");
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Ourselves, or somebody without rights if we are root; the folder then belongs to them.
fn unprivileged_user(folder: &Path) -> Result<User, String> {
    let id = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if id(&["-u"]) != Some(0) {
        return Ok(User { ids: None });
    }
    let found = UNPRIVILEGED
        .iter()
        .find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)));
    let (user, group) = found.ok_or("root needs a user without rights to run the server as")?;
    std::os::unix::fs::chown(folder, Some(user), Some(group)).map_err(said)?;
    Ok(User {
        ids: Some((user, group)),
    })
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn succeed(command: &mut Command) -> Result<Output, String> {
    let output = command.stdin(Stdio::null()).output().map_err(said)?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
