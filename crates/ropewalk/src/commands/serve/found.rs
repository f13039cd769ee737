//! How a server is found by commands that use the same data folder.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::failure::{Failure, Kind};

const FILE_NAME: &str = "server.json";

/// Whoever does not answer within it is not there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// What the file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) address: SocketAddr,
    pub(crate) process: u32,
    /// Whose everything is that passes, where all is one owner's.
    #[serde(default)]
    pub(crate) owner: Option<String>,
}

/// What a server says of itself while it runs.
#[derive(Debug)]
pub(crate) struct Announcement {
    path: PathBuf,
}

impl Announcement {
    pub(super) fn make(data_folder: &Path, address: SocketAddr, owner: Option<String>) -> Result<Self, Failure> {
        let path = data_folder.join(FILE_NAME);
        let said = Said {
            address,
            process: std::process::id(),
            owner,
        };
        let text = serde_json::to_string(&said).unwrap_or_default();
        let mut options = OpenOptions::new();
        let opened = options.create(true).truncate(true).write(true).mode(0o600).open(&path);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| Failure::new(Kind::Configuration, format!("cannot write {}: {error}", path.display())))?;
        Ok(Announcement { path })
    }

    /// Nobody is to come any more. A file that stays behind names an address where nobody answers.
    pub(super) fn withdraw(&self) {
        drop(fs::remove_file(&self.path));
    }
}

/// The address of the server of this data folder, if one answers there.
pub(crate) async fn running(data_folder: &Path) -> Option<SocketAddr> {
    let address = announced(data_folder)?.address;
    health(address).await.map(|_| address)
}

/// What a server of this data folder said of itself. It may be dead.
pub(crate) fn announced(data_folder: &Path) -> Option<Said> {
    let text = fs::read_to_string(data_folder.join(FILE_NAME)).ok()?;
    serde_json::from_str(&text).ok()
}

/// How a server says it is. `None` if nobody answers there, or somebody else: another program may have taken the port of one that
/// died.
pub(crate) async fn health(address: SocketAddr) -> Option<Value> {
    let answer = tokio::time::timeout(PATIENCE, ask(address)).await.ok()?.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let health: Value = serde_json::from_str(body).ok()?;
    (head.starts_with("HTTP/1.1 200") && health.get("journal_bytes").is_some()).then_some(health)
}

async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(address).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
