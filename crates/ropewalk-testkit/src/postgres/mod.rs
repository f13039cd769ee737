//! A PostgreSQL server of the tests' own: a fresh cluster in a temporary folder, as a user without rights.
//!
//! A small shell waits beside the server for the end of a pipe that this process holds. So the server stops and its folder
//! goes away however this process ends, also by a panic or a kill, and a server may live in a static. Through the same
//! pipe the server is crashed and started again.

mod setup;
mod user;

use std::fs;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use setup::{Setup, has_compiler};
use user::User;

/// How long a server may take until it answers, or is gone; a loaded machine needs seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// `sh -c SCRIPT sh BIN FOLDER PORT FILE_LIMIT SETTING...`
const RUN_UNTIL_THE_PIPE_ENDS: &str = r#"
bin=$1 folder=$2 port=$3 limit=$4; shift 4
start() {
    (ulimit -f "$limit"
    exec "$bin/postgres" -D "$folder/data" -k "$folder" -p "$port" -c listen_addresses=127.0.0.1 "$@") </dev/null &
    server=$!
}
stop() {
    kill -QUIT "$server" 2>/dev/null
    wait "$server"
}
start "$@"
while read -r order; do
    case $order in
    crash) stop ;;
    start) start "$@" ;;
    unlimited) limit=unlimited ;;
    esac
done
stop
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
        let start = || Setup::default().setting("max_connections=200").start();
        SHARED.get_or_init(start).as_ref().map_err(String::as_str)
    }

    fn try_start(bin: &Path, setup: &Setup) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("ropewalk-postgres-")
            .tempdir()
            .map_err(said)?;
        let user = User::unprivileged()?;
        user.give(folder.path())?;
        setup.prepare(bin, folder.path(), &user)?;
        let port = free_port().map_err(said)?;
        let log = fs::File::create(folder.path().join("log")).map_err(said)?;
        let mut shell = user.command(Path::new("sh"));
        shell
            .args(["-c", RUN_UNTIL_THE_PIPE_ENDS, "sh"])
            .arg(bin)
            .arg(folder.path());
        shell.args([port.to_string(), setup.file_limit()]);
        for line in setup.lines(folder.path()) {
            shell.args(["-c", &line]);
        }
        setup.slow_down(folder.path(), &mut shell)?;
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
        while started.elapsed() < PATIENCE {
            if self.run_sql("postgres", "SELECT 1").is_ok() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    /// Ends the server at once, as `pg_ctl stop -m immediate` does: it has to recover when it starts again.
    pub fn crash(&mut self) -> Result<(), String> {
        let server = self.process()?;
        self.order("crash")?;
        // While it shuts down it still answers, with an error.
        let started = Instant::now();
        while succeed(Command::new("kill").args(["-s", "0", &server])).is_ok() {
            if started.elapsed() >= PATIENCE {
                return Err("the server does not end".to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    pub fn start_again(&mut self) -> Result<(), String> {
        self.order("start")?;
        self.wait_until_it_answers()
    }

    /// Lifts the limit of [`Setup::file_bytes_max`] from the next start on.
    pub fn lift_file_limit(&mut self) -> Result<(), String> {
        self.order("unlimited")
    }

    /// Stops the server where it stands, with everybody who works for it: connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<(), String> {
        self.signal_all("STOP")
    }

    pub fn thaw(&self) -> Result<(), String> {
        self.signal_all("CONT")
    }

    fn signal_all(&self, signal: &str) -> Result<(), String> {
        let server = self.process()?;
        // The server first, so that nobody new comes.
        succeed(Command::new("kill").args(["-s", signal, &server]))?;
        for worker in children_of(&server)? {
            // It may have ended by itself.
            let _ = succeed(Command::new("kill").args(["-s", signal, &worker]));
        }
        Ok(())
    }

    fn process(&self) -> Result<String, String> {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).map_err(said)?;
        let server = file.lines().next().ok_or("the server has no process")?;
        Ok(server.to_owned())
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        let pipe = self.shell.stdin.as_mut().ok_or("the shell has no pipe")?;
        writeln!(pipe, "{order}").map_err(said)
    }

    /// The address of a new, empty database.
    pub fn fresh_database(&self) -> Result<String, String> {
        let name = self.create_database()?;
        let folder = self.folder.to_string_lossy().replace('/', "%2F");
        let port = self.port;
        Ok(format!("postgresql:///{name}?host={folder}&port={port}&user=postgres"))
    }

    /// The same through the network, where passwords and encryption matter: `postgresql://postgres@HOST:PORT/NAME`.
    pub fn fresh_database_at(&self, host: &str) -> Result<String, String> {
        let name = self.create_database()?;
        Ok(format!("postgresql://postgres@{host}:{}/{name}", self.port))
    }

    fn create_database(&self) -> Result<String, String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.run_sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// Runs statements with `psql` and gives what it prints, without decoration.
    pub fn run_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let output = succeed(self.psql(database).args(["-c", statements]))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Runs a file of statements with `psql`, such as `pg_dump` writes.
    pub fn run_file(&self, database: &str, file: &Path) -> Result<(), String> {
        succeed(self.psql(database).arg("-f").arg(file)).map(drop)
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-p"]);
        psql.arg(self.port.to_string()).arg("-h").arg(&self.folder);
        psql.args(["-d", database]);
        psql
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // It ends by itself; waiting only keeps the folder from outliving a test that looks for it.
        let _ = self.shell.wait();
    }
}

/// The name of the database that an address of [`PrivatePostgres`] leads to.
pub fn database_of(address: &str) -> &str {
    let behind_host = address.rsplit('/').next().unwrap_or_default();
    behind_host.split('?').next().unwrap_or_default()
}

/// The processes that a process has started, from the fourth field of `/proc/PID/stat`.
fn children_of(parent: &str) -> Result<Vec<String>, String> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").map_err(said)?.flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The second field is a name in parentheses, which may hold anything.
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        if behind_name.split_whitespace().nth(1) == Some(parent) {
            children.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(children)
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
