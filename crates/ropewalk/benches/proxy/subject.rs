//! What is measured: nothing in between, nginx, Ropewalk, and other recorders where they are installed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::Process;

/// Folder with the peers that `make bench-proxy` could install.
const PEERS: &str = "ROPEWALK_BENCH_PEERS";

/// Longest wait until everything is in the store.
const STORE_PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Direct,
    Nginx,
    RopewalkOff,
    Ropewalk,
    Mitmdump,
    BetterCcflare,
}

pub(crate) const ALL: [Subject; 6] = [
    Subject::Direct,
    Subject::Nginx,
    Subject::RopewalkOff,
    Subject::Ropewalk,
    Subject::Mitmdump,
    Subject::BetterCcflare,
];

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Direct => "direct",
            Subject::Nginx => "nginx",
            Subject::RopewalkOff => "ropewalk, recording off",
            Subject::Ropewalk => "ropewalk, recording",
            Subject::Mitmdump => "mitmdump",
            Subject::BetterCcflare => "better-ccflare",
        }
    }

    /// Headers that only it understands.
    pub(crate) fn headers(self) -> &'static str {
        match self {
            Subject::RopewalkOff => "x-ropewalk-record: off\r\n",
            _ => "",
        }
    }

    /// Milliseconds of CPU a request, rather than microseconds.
    pub(crate) fn is_slow(self) -> bool {
        matches!(self, Subject::Mitmdump | Subject::BetterCcflare)
    }
}

/// A subject that runs.
pub(crate) struct Running {
    pub(crate) subject: Subject,
    pub(crate) address: SocketAddr,
    pub(crate) process: Option<Process>,
}

/// Starts one, or says why there is none.
pub(crate) fn start(subject: Subject, upstream: SocketAddr, folder: &Path, is_pinned: bool) -> Result<Running, String> {
    let address = free_address();
    let folder = folder.join(format!("{subject:?}"));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let command = match subject {
        Subject::Direct => {
            return Ok(Running {
                subject,
                address: upstream,
                process: None,
            });
        }
        Subject::Nginx => nginx(&folder, address, upstream)?,
        Subject::Ropewalk | Subject::RopewalkOff => ropewalk(&folder, address, upstream),
        Subject::Mitmdump => mitmdump(&folder, address, upstream)?,
        Subject::BetterCcflare => better_ccflare(&folder, address)?,
    };
    let process = Process::start(command, address, is_pinned)?;
    if subject == Subject::BetterCcflare {
        add_account(address, upstream)?;
    }
    Ok(Running {
        subject,
        address,
        process: Some(process),
    })
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn nginx(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> Result<Command, String> {
    let at = folder.display();
    let configuration = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  tcp_nodelay on;\n  keepalive_requests 1000000000;\n  client_max_body_size 64m;\n\
         client_body_temp_path {at}/body;\n  proxy_temp_path {at}/proxy;\n  fastcgi_temp_path {at}/f;\n\
         uwsgi_temp_path {at}/u;\n  scgi_temp_path {at}/s;\n\
         upstream provider {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}\n\
         server {{ listen {address};\n    location / {{ proxy_pass http://provider; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_buffering off; proxy_request_buffering off; }} }}\n}}\n"
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, configuration).map_err(|error| error.to_string())?;
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .ok_or("it is not installed")?;
    let mut command = Command::new(program);
    command.arg("-c").arg(path).arg("-e").arg(folder.join("error.log"));
    Ok(command)
}

fn ropewalk(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> Command {
    let configuration = folder.join("config.toml");
    fs::write(&configuration, "[limits]\nthreads = 1\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
    command
        .arg("--config")
        .arg(configuration)
        .arg("--data")
        .arg(folder.join("data"));
    command.args(["serve", "--listen", &address.to_string()]);
    command.args(["--upstream", &format!("anthropic=http://{upstream}")]);
    command
}

fn mitmdump(folder: &Path, address: SocketAddr, upstream: SocketAddr) -> Result<Command, String> {
    let program = peer("python/bin/mitmdump")?;
    let mut command = Command::new(program);
    command.args([
        "--mode",
        &format!("reverse:http://{upstream}"),
        "-q",
        "--listen-host",
        "127.0.0.1",
    ]);
    command.args(["-p", &address.port().to_string(), "--set", "stream_large_bodies=10m"]);
    command.arg("-w").arg(folder.join("flows"));
    command.arg("--set").arg(format!("confdir={}", folder.display()));
    Ok(command)
}

fn better_ccflare(folder: &Path, address: SocketAddr) -> Result<Command, String> {
    let mut command = Command::new(peer("node/node_modules/.bin/better-ccflare")?);
    command.env("HOME", folder).env("XDG_CONFIG_HOME", folder);
    command.env("BETTER_CCFLARE_DB_PATH", folder.join("better-ccflare.db"));
    command.env("BETTER_CCFLARE_HOST", "127.0.0.1");
    command.args(["--serve", "--port", &address.port().to_string()]);
    command.stderr(Stdio::null());
    Ok(command)
}

/// It takes its upstreams over its API.
fn add_account(address: SocketAddr, upstream: SocketAddr) -> Result<(), String> {
    let body = format!(r#"{{"name":"bench","apiKey":"bench","priority":0,"customEndpoint":"http://{upstream}"}}"#);
    let request = format!(
        "POST /api/accounts/anthropic-compatible HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = ask(address, &request).map_err(|error| error.to_string())?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => Err("it takes no account".to_owned()),
    }
}

fn ask(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.write_all(request.as_bytes())?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    Ok(text)
}

fn peer(path: &str) -> Result<PathBuf, String> {
    let folder = std::env::var_os(PEERS).ok_or("it is not installed: `make bench-proxy` tries to")?;
    let path = PathBuf::from(folder).join(path);
    match path.exists() {
        true => Ok(path),
        false => Err("it could not be installed".to_owned()),
    }
}

/// What Ropewalk counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) linked: f64,
    pub(crate) gaps: f64,
}

impl Running {
    pub(crate) fn counts(&self) -> Counts {
        let metrics = self.metrics().unwrap_or_default();
        let sum = |name: &str| {
            let lines = metrics.lines().filter(|line| line.starts_with(name));
            lines
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum()
        };
        Counts {
            linked: sum("ropewalk_link_total"),
            gaps: sum("ropewalk_journal_gap_total"),
        }
    }

    fn metrics(&self) -> std::io::Result<String> {
        let address = self.address;
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        ask(address, &request)
    }

    /// Until so many more exchanges are linked than `before` says. Gives whether they came.
    pub(crate) fn wait_until_linked(&self, before: Counts, requests: usize) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < STORE_PATIENCE {
            let counts = self.counts();
            if counts.linked + counts.gaps >= before.linked + before.gaps + requests as f64 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }
}
