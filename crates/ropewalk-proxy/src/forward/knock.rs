//! Whether an upstream is there: one request that asks for nothing, for whoever wants to know before a client does.

use std::io;
use std::time::Duration;

use http::Uri;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::settings::UpstreamSettings;
use super::tls::{self, TlsError};
use super::upstream::host_and_port;

/// The head of an answer is shorter.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// What an upstream said, whatever it was: who answers is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knocked {
    pub status: u16,
    /// Its clock, as its `Date` header has it.
    pub date: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum KnockError {
    #[error("its certificates cannot be checked")]
    Tls(#[from] TlsError),
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("it speaks something else than HTTP")]
    NotHttp,
}

/// Asks for the head of `/`, without a key, over the way that forwarding takes.
pub async fn knock(settings: &UpstreamSettings, patience: Duration) -> Result<Knocked, KnockError> {
    match tokio::time::timeout(patience, knock_now(settings)).await {
        Ok(knocked) => knocked,
        Err(_) => Err(KnockError::Silent(patience)),
    }
}

async fn knock_now(settings: &UpstreamSettings) -> Result<Knocked, KnockError> {
    let url = &settings.url;
    let is_encrypted = url.scheme_str() != Some("http");
    let port = url.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.map_err(KnockError::Connect)?;
    if !is_encrypted {
        return ask(stream, url).await;
    }
    let connector = tls::connector(settings.ca_file.as_deref(), &[b"http/1.1"])?;
    let name = tls::server_name(host).map_err(KnockError::Connect)?;
    let stream = connector.connect(name, stream).await.map_err(KnockError::Connect)?;
    ask(stream, url).await
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, url: &Uri) -> Result<Knocked, KnockError> {
    let host = url.authority().map(host_and_port).unwrap_or_default();
    let request = format!("HEAD / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nUser-Agent: ropewalk\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .map_err(KnockError::Connect)?;
    let mut head = Vec::new();
    let read = stream.take(HEAD_BYTES_MAX).read_to_end(&mut head).await;
    match read {
        // Some close without a word of TLS; what came counts.
        Err(error) if head.is_empty() => return Err(KnockError::Connect(error)),
        _ => {}
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let first = lines.next().filter(|line| line.starts_with("HTTP/1."));
    let status = first.and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("date").then(|| value.trim().to_owned())
    };
    Ok(Knocked {
        status: status.ok_or(KnockError::NotHttp)?,
        date: lines.take_while(|line| !line.is_empty()).find_map(header),
    })
}
